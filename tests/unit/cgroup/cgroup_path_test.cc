#include "cgroup/cgroup_path.h"

#include <gtest/gtest.h>

namespace alignd::cgroup {
namespace {

std::string OfContainer(const std::string& text) {
  const Result<std::string> path = PathOfContainer(text);
  return path.ok() ? *path : "refused";
}

TEST(CgroupPath, CgroupfsDriverNamesThePathItself) {
  EXPECT_EQ(OfContainer("/kubepods/burstable/pod1/abc"), "/kubepods/burstable/pod1/abc");
  EXPECT_EQ(OfContainer("/k8s.io/abc"), "/k8s.io/abc");
}

TEST(CgroupPath, SystemdDriverNamesSliceAndUnit) {
  EXPECT_EQ(OfContainer("kubepods-burstable-podab_cd.slice:cri-containerd:0123"),
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podab_cd.slice/"
            "cri-containerd-0123.scope");
  EXPECT_EQ(OfContainer("kubepods.slice:crio:0123"), "/kubepods.slice/crio-0123.scope");
  EXPECT_EQ(OfContainer("::0123"), "/system.slice/0123.scope");
}

TEST(CgroupPath, PathOutsideTheMountPointIsRefused) {
  for (const char* text : {"", "/", "relative/path", "/kubepods/../../etc", "/a//b", "/a/.", "a:b",
                           "a.slice:b:", "../x:b:c", "a.slice:b:../../c"}) {
    EXPECT_EQ(OfContainer(text), "refused") << text;
  }
}

TEST(CgroupPath, ParentIsAPathOrABareSlice) {
  EXPECT_EQ(*PathOfParent("/kubepods/pod1"), "/kubepods/pod1");
  EXPECT_EQ(*PathOfParent("/kubepods.slice/kubepods-pod1.slice"),
            "/kubepods.slice/kubepods-pod1.slice");
  EXPECT_EQ(*PathOfParent("kubepods-pod1.slice"), "/kubepods.slice/kubepods-pod1.slice");
  EXPECT_EQ(*PathOfParent("kubepods-system-burstable-pod1.slice"),
            "/kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice/"
            "kubepods-system-burstable-pod1.slice");
  EXPECT_FALSE(PathOfParent("").ok());
  EXPECT_FALSE(PathOfParent("kubepods").ok());
}

TEST(CgroupPath, CgroupOfAProcessIsThatOfTheCpusetController) {
  const std::string version1 =
      "12:cpu,cpuacct:/a\n11:cpuset:/kubepods/pod1/b\n10:cpusets:/c\n0::/d\n";
  EXPECT_EQ(CpusetPathOfProcess(version1, /*version2=*/false), "/kubepods/pod1/b");
  EXPECT_EQ(CpusetPathOfProcess(version1, /*version2=*/true), "/d");
  EXPECT_EQ(CpusetPathOfProcess("4:memory,cpuset:/with:colon", false), "/with:colon");
  EXPECT_EQ(CpusetPathOfProcess("4:memory:/a\n", false), std::nullopt);
  EXPECT_EQ(CpusetPathOfProcess("no cgroup\n\n1:\n", true), std::nullopt);
  EXPECT_EQ(CpusetPathOfProcess("", true), std::nullopt);
}

TEST(CgroupPath, PodsOwnCgroupHasItsUidAsTheLastPart) {
  EXPECT_TRUE(IsOfPod("/kubepods/pod12-34", "12-34"));
  EXPECT_TRUE(IsOfPod("/kubepods.slice/kubepods-pod12_34.slice", "12-34"));
  EXPECT_TRUE(IsOfPod("/kubepods/system/burstable/pod12-34", "12-34"));
  EXPECT_TRUE(
      IsOfPod("/kubepods.slice/kubepods-system.slice/kubepods-system-pod12_34.slice", "12-34"));
  EXPECT_FALSE(IsOfPod("/kubepods/burstable", "12-34"));
  EXPECT_FALSE(IsOfPod("/kubepods/pod12-34/abc", "12-34"));
  EXPECT_FALSE(IsOfPod("/kubepods/pod112-34", "12-34"));
  EXPECT_FALSE(IsOfPod("/kubepods/pod", ""));
}

}  // namespace
}  // namespace alignd::cgroup
