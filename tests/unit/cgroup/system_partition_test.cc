// The kubelet's system partition, by the names and files of cgroups.
#include "cgroup/system_partition.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "edge/fake_tree.h"

namespace alignd::cgroup {
namespace {

TEST(SystemPartition, IsRecognisedByBothDriversNames) {
  struct Case {
    const char* path;
    std::optional<std::string> partition;
  };
  const std::string slices = "/kubepods.slice/kubepods-system.slice";
  const Case cases[] = {
      {"/kubepods/system/podu1", "/kubepods/system"},
      {"/kubepods/system/burstable/podu1/c1", "/kubepods/system"},
      {"/a/kubepods/system/podu1", "/a/kubepods/system"},
      {"/kubepods.slice/kubepods-system.slice/kubepods-system-podu1.slice", slices},
      {"/kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice/x", slices},
      {"/a.slice/a-kubepods.slice/a-kubepods-system.slice/a-kubepods-system-podu1.slice",
       "/a.slice/a-kubepods.slice/a-kubepods-system.slice"},
      {"/kubepods/system", std::nullopt},
      {"/kubepods/podu1", std::nullopt},
      {"/kubepods/systemx/podu1", std::nullopt},
      {"/kubepods/burstable/system/podu1", std::nullopt},
      {"/system/podu1", std::nullopt},
      {"/xkubepods-system.slice/podu1", std::nullopt},
      {"/kubepods.slice/kubepods-podu1.slice", std::nullopt},
      {"/system.slice/kubelet.service", std::nullopt},
      {"/", std::nullopt},
      {"", std::nullopt},
  };
  for (const Case& c : cases) EXPECT_EQ(SystemPartitionOf(c.path), c.partition) << c.path;
}

TEST(SystemPartition, HasCpusIfTheKubeletHasSetThem) {
  const testing::FakeTree tree;
  tree.Write({"cgroup.controllers", "cpuset cpu\n"});
  const std::string pod = "/kubepods/system/podu1";
  const auto read = [&](const std::string& path) {
    return ReadPartitionCpus(CgroupTree(tree.root()), path);
  };
  EXPECT_EQ(*read(pod), std::nullopt);  // it does not exist
  const auto fill = [&](const std::string& cpus, const std::string& effective) {
    tree.Write({"kubepods/system/cpuset.cpus", cpus + "\n"});
    tree.Write({"kubepods/system/cpuset.cpus.effective", effective + "\n"});
    tree.Write({"kubepods/system/cpuset.mems", "\n"});
    tree.Write({"kubepods/system/cpuset.mems.effective", "0\n"});
  };
  fill("", "0-27");
  EXPECT_EQ(*read(pod), std::nullopt);
  fill("0-3", "0-1");
  EXPECT_EQ(*read(pod), std::optional(*CpuSet::Parse("0-1")));
  EXPECT_EQ(*read("/kubepods/podu1"), std::nullopt);
  fill("x", "0-1");
  ASSERT_FALSE(read(pod).ok());
  EXPECT_EQ(read(pod).error().code, ErrorCode::kCorrupt);
}

// The kubelet makes no partition there: it needs memory.max.
TEST(SystemPartition, ThereIsNoneInVersion1) {
  const testing::FakeTree tree;
  tree.Write({"cpuset/kubepods/system/cpuset.cpus", "0-1\n"});
  EXPECT_EQ(*ReadPartitionCpus(CgroupTree(tree.root()), "/kubepods/system/podu1"), std::nullopt);
}

}  // namespace
}  // namespace alignd::cgroup
