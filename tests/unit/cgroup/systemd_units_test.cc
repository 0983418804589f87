// What systemd gets about its units, at a stand-in for it.
#include "cgroup/systemd_units.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cgroup/pod_quota.h"
#include "edge/fake_systemd.h"
#include "edge/fake_tree.h"
#include "host/file.h"

namespace alignd::cgroup {
namespace {

using testing::FakeSystemd;
using testing::FakeTree;

CpuSet Cpus(const char* list) { return *CpuSet::Parse(list); }

TEST(SystemdUnits, UnitsAreScopesSlicesAndServices) {
  EXPECT_EQ(UnitOfCgroup("/kubepods.slice/kubepods-pod1.slice/cri-containerd-ab.scope"),
            "cri-containerd-ab.scope");
  EXPECT_EQ(UnitOfCgroup("/kubepods.slice"), "kubepods.slice");
  EXPECT_EQ(UnitOfCgroup("/system.slice/containerd.service"), "containerd.service");
  // Another program's cgroup below a unit: systemd leaves it alone.
  EXPECT_EQ(UnitOfCgroup("/kubepods.slice/crio-ab.scope/container"), std::nullopt);
  EXPECT_EQ(UnitOfCgroup("/kubepods/pod1/ab"), std::nullopt);
  EXPECT_EQ(UnitOfCgroup("/kubepods/.scope"), std::nullopt);
  EXPECT_EQ(UnitOfCgroup(""), std::nullopt);
}

TEST(SystemdUnits, GetTheCpusAsBits) {
  const FakeTree tree;
  const FakeSystemd systemd(tree.root() / "private");
  const auto results =
      SystemdUnits(tree.root() / "private")
          .SetAllowedCpus(
              {{"a.scope", Cpus("0,3-7")}, {"b.scope", Cpus("8-9,23")}, {"c.scope", Cpus("1")}});
  ASSERT_EQ(results.size(), 3u);
  for (const Result<Done>& result : results) EXPECT_TRUE(result.ok()) << result.error().Text();
  EXPECT_EQ(systemd.calls(),
            (std::vector<std::string>{"a.scope AllowedCPUs=f9", "b.scope AllowedCPUs=000380",
                                      "c.scope AllowedCPUs=02"}));
}

TEST(SystemdUnits, EachUnitHasItsOwnResult) {
  const FakeTree tree;
  const FakeSystemd systemd(tree.root() / "private", FakeSystemd::Manner::kAnswers,
                            {{"gone.scope", "org.freedesktop.systemd1.NoSuchUnit"},
                             {"bad.scope", "org.freedesktop.DBus.Error.AccessDenied"}});
  const auto results = SystemdUnits(tree.root() / "private")
                           .SetAllowedCpus({{"bad.scope", Cpus("0")},
                                            {"gone.scope", Cpus("0")},
                                            {"\xff.scope", Cpus("0")},
                                            {"all.scope", CpuSet()},
                                            {"good.scope", Cpus("0")}});
  ASSERT_EQ(results.size(), 5u);
  ASSERT_FALSE(results[0].ok());
  EXPECT_EQ(results[0].error().code, ErrorCode::kUnavailable);
  EXPECT_NE(results[0].error().message.find("AccessDenied: as the test wants"), std::string::npos)
      << results[0].error().Text();
  EXPECT_TRUE(results[1].ok());  // systemd writes nothing to a cgroup that it does not know
  EXPECT_FALSE(results[2].ok());
  EXPECT_FALSE(results[3].ok());  // for systemd, no CPU means all
  EXPECT_TRUE(results[4].ok());
  EXPECT_EQ(systemd.calls().size(), 3u);
}

TEST(SystemdUnits, AreAskedForTheirCpus) {
  const FakeTree tree;
  FakeSystemd systemd(tree.root() / "private");
  const std::string objects = "/org/freedesktop/systemd1/unit/";
  systemd.SetAllowedCpus(objects + "cri_2dcontainerd_2dab_2escope", {0xf9, 0x00, 0x80});
  systemd.SetAllowedCpus(objects + "_31_2eslice", {});
  std::vector<uint8_t> endless(9000, 0);
  endless.back() = 1;
  systemd.SetAllowedCpus(objects + "endless_2eservice", endless);
  const auto results =
      SystemdUnits(tree.root() / "private")
          .ReadAllowedCpus({"cri-containerd-ab.scope", "gone.scope", "1.slice", "endless.service"});
  ASSERT_EQ(results.size(), 4u);
  ASSERT_TRUE(results[0].ok()) << results[0].error().Text();
  EXPECT_EQ(*results[0], Cpus("0,3-7,23"));
  EXPECT_EQ(*results[1], std::nullopt);
  EXPECT_EQ(*results[2], CpuSet());
  EXPECT_FALSE(results[3].ok());
}

TEST(SystemdUnits, SocketWithoutAServerIsAnError) {
  const FakeTree tree;
  const auto results =
      SystemdUnits(tree.root() / "private").SetAllowedCpus({{"a.scope", Cpus("0")}});
  ASSERT_EQ(results.size(), 1u);
  ASSERT_FALSE(results[0].ok());
  EXPECT_EQ(results[0].error().code, ErrorCode::kUnavailable);
  EXPECT_NE(results[0].error().message.find("private"), std::string::npos);
}

// As while systemd reloads, or executes itself again.
TEST(SystemdUnits, SilenceAndAClosedConnectionAreErrors) {
  for (const auto manner : {FakeSystemd::Manner::kIsSilent, FakeSystemd::Manner::kHangsUp}) {
    const FakeTree tree;
    const FakeSystemd systemd(tree.root() / "private", manner);
    const auto results = SystemdUnits(tree.root() / "private")
                             .SetAllowedCpus({{"a.scope", Cpus("0")}, {"b.scope", Cpus("0")}});
    ASSERT_EQ(results.size(), 2u);
    for (const Result<Done>& result : results) {
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
    }
  }
}

TEST(SystemdUnits, LoseTheQuotaOfAPod) {
  const FakeTree tree({{"cgroup.controllers", "cpuset cpu\n"},
                       {"kubepods.slice/kubepods-pod1.slice/cpu.max", "300000 100000\n"},
                       {"kubepods/pod1/cpu.max", "300000 100000\n"}});
  const FakeSystemd systemd(tree.root() / "private");
  const CgroupTree cgroups(tree.root(), SystemdUnits(tree.root() / "private"));
  const std::string path = "/kubepods.slice/kubepods-pod1.slice";
  EXPECT_EQ(*LiftPodQuota(cgroups, path, "1"), 300'000);
  EXPECT_EQ(*host::ReadFile(tree.root() / "kubepods.slice/kubepods-pod1.slice/cpu.max"), "max");
  EXPECT_EQ(systemd.calls(), std::vector<std::string>{
                                 "kubepods-pod1.slice CPUQuotaPerSecUSec=18446744073709551615"});
  EXPECT_EQ(*LiftPodQuota(cgroups, "/kubepods/pod1", "1"), 300'000);  // not systemd's
  EXPECT_EQ(systemd.calls().size(), 1u);
}

TEST(SystemdUnits, GetTheQuotaOfAPodBack) {
  const FakeTree tree({{"cgroup.controllers", "cpuset cpu\n"},
                       {"kubepods.slice/kubepods-pod1.slice/cpu.max", "max 100000\n"},
                       {"kubepods/pod1/cpu.max", "max 100000\n"}});
  const FakeSystemd systemd(tree.root() / "private");
  const CgroupTree cgroups(tree.root(), SystemdUnits(tree.root() / "private"));
  const std::string path = "/kubepods.slice/kubepods-pod1.slice";
  EXPECT_TRUE(*RestorePodQuota(cgroups, path, 50'000));
  EXPECT_EQ(systemd.calls(),
            std::vector<std::string>{"kubepods-pod1.slice CPUQuotaPerSecUSec=500000"});
  EXPECT_FALSE(*RestorePodQuota(cgroups, path, 60'000)) << "it has one";
  EXPECT_FALSE(*RestorePodQuota(cgroups, "/gone", 60'000));
  EXPECT_TRUE(*RestorePodQuota(cgroups, "/kubepods/pod1", 60'000));
  EXPECT_EQ(systemd.calls().size(), 1u);
}

TEST(SystemdUnits, HaveNoCpusInVersion1) {
  const FakeTree version1;
  EXPECT_EQ(CgroupTree(version1.root()).SystemdUnit("/kubepods.slice/a.scope"), std::nullopt);
  const FakeTree version2({{"cgroup.controllers", "cpuset cpu\n"}});
  EXPECT_EQ(CgroupTree(version2.root()).SystemdUnit("/kubepods.slice/a.scope"), "a.scope");
}

}  // namespace
}  // namespace alignd::cgroup
