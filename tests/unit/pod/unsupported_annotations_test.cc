#include "alignd/pod/unsupported_annotations.h"

#include <gtest/gtest.h>

#include "alignd/pod/kubernetes_pod.h"
#include "alignd/pod/pod_policies.h"

namespace alignd {
namespace {

// Scopes are `/pod`, `/container.NAME`, or none, which is that of the pod.
TEST(UnsupportedAnnotations, HaveTheNamesOfBothResourceManagers) {
  for (const std::string domain : {"resource-policy.nri.io", "cri-resource-manager.intel.com"}) {
    for (const std::string key :
         {"require-isolated-cpus", "hide-hyperthreads", "memory-type", "topologyhints",
          "pick-resources-by-hints", "test.topologyhints", "cold-start"}) {
      const std::string name = key + "." + domain;
      EXPECT_EQ(UnsupportedName(name), name);
      EXPECT_EQ(UnsupportedName(name + "/pod"), name);
      EXPECT_EQ(UnsupportedName(name + "/container.app"), name);
      EXPECT_EQ(UnsupportedName(domain + "/" + key), domain + "/" + key) << "the older form";
    }
    EXPECT_EQ(UnsupportedName(domain), "");
    EXPECT_EQ(UnsupportedName("." + domain + "/pod"), "");
    EXPECT_EQ(UnsupportedName("x" + domain + "/pod"), "");
    EXPECT_EQ(UnsupportedName("memory-type." + domain + ".example.com/pod"), "");
  }
  // alignd reads it.
  EXPECT_EQ(UnsupportedName("intel.com/resources"), "");
  EXPECT_EQ(UnsupportedName("scheduling.koordinator.sh/numa-topology-spec"), "");
  const std::string devices = "scheduling.koordinator.sh/device-allocated";
  EXPECT_EQ(UnsupportedName(devices), devices);
  EXPECT_EQ(UnsupportedName(devices + "/pod"), "");
}

// Such a pod would otherwise run without what it asks for, and nothing would say so.
TEST(UnsupportedAnnotations, MisspeltNamesAreAmongThem) {
  for (const std::string name :
       {"alignd.io/resources", "alignd.io/shared-cpus", "scheduling.koordinator.sh/resource-spec",
        "scheduling.koordinator.sh/resource-status", "alignd.io", "scheduling.koordinator.sh/other",
        "example.com/shared-cpus"}) {
    EXPECT_EQ(UnsupportedName(name), "") << name;
  }
  for (const std::string name :
       {"alignd.io/shared-cpu", "alignd.io/shared-cpus/pod", "alignd.io/numa",
        "align.io/shared-cpus", "scheduling.koordinator.sh/numa-topology-specs",
        "schedulng.koordinator.sh/resource-spec", "scheduling.koordinator.sh/Resource-Status"}) {
    EXPECT_EQ(UnsupportedName(name), name);
  }
}

TEST(UnsupportedAnnotations, AreKeptOncePerNameAndOnlySome) {
  std::set<std::string> names;
  NoteUnsupported("memory-type.resource-policy.nri.io/container.a", names);
  NoteUnsupported("memory-type.resource-policy.nri.io/container.b", names);
  NoteUnsupported("memory-type.resource-policy.nri.io/pod", names);
  EXPECT_EQ(names, std::set<std::string>{"memory-type.resource-policy.nri.io"});
  EXPECT_EQ(DescribeUnsupported(names),
            "annotation memory-type.resource-policy.nri.io is not supported");
  for (int i = 0; i < 100; ++i) {
    NoteUnsupported("k" + std::to_string(100 + i) + ".resource-policy.nri.io", names);
  }
  EXPECT_EQ(names.size(), kMaxUnsupported);
  EXPECT_EQ(*names.begin(), "k100.resource-policy.nri.io");
  std::set<std::string> none;
  NoteUnsupported(std::string(400, 'a') + ".resource-policy.nri.io", none);
  EXPECT_TRUE(none.empty()) << "Kubernetes has no such names";
  EXPECT_EQ(DescribeUnsupported(none), "");
}

TEST(UnsupportedAnnotations, AreReadFromAKubernetesPod) {
  const Result<Pod> pod = ParseKubernetesPod(
      R"({"metadata":{"name":"p","annotations":{"require-isolated-cpus.resource-policy.nri.io/pod":)"
      R"("true","hide-hyperthreads.resource-policy.nri.io":"true"}},)"
      R"("spec":{"containers":[{"name":"a"}]}})");
  ASSERT_TRUE(pod.ok()) << pod.error().Text();
  EXPECT_EQ(DescribeUnsupported(pod->policies.unsupported),
            "annotations hide-hyperthreads.resource-policy.nri.io, "
            "require-isolated-cpus.resource-policy.nri.io are not supported");
}

}  // namespace
}  // namespace alignd
