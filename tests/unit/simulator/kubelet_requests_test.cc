// What the stand-in sends, against what a kubelet 1.36.2 was seen to send for the same pods.
#include "simulator/kubelet_requests.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "alignd/pod/annotated_resources.h"

namespace alignd::simulator {
namespace {

constexpr int64_t kMachineMemory = int64_t{24} * 1024 * 1024 * 1024;

PodManifest Manifest(const std::string& containers, const std::string& more = "") {
  const auto manifest = ParsePodManifest(
      "apiVersion: v1\nkind: Pod\nmetadata: {name: p, uid: u1, labels: {app: x}}\nspec: {" + more +
      "containers: [" + containers + "]}\n");
  EXPECT_TRUE(manifest.ok()) << manifest.error().Text();
  return manifest.ok() ? *manifest : PodManifest();
}

std::string One(const std::string& resources) {
  return "{name: main, image: i, resources: {" + resources + "}}";
}

struct Case {
  const char* name;
  std::string containers;
  std::string more;
  const char* cgroup_parent;
  int64_t shares, quota, memory, oom_score;  // of the last container
};

TEST(KubeletRequests, SizesContainersAsTheKubeletDoes) {
  const std::vector<Case> cases = {
      {"guaranteed, one CPU", One("limits: {cpu: 1, memory: 64Mi}"), "", "/kubepods/podu1", 1024,
       100000, 67108864, -997},
      {"guaranteed, half a CPU", One("limits: {cpu: 500m, memory: 32Mi}"), "", "/kubepods/podu1",
       512, 50000, 33554432, -997},
      {"burstable", One("requests: {cpu: 100m, memory: 16Mi}, limits: {cpu: 250m, memory: 128Mi}"),
       "", "/kubepods/burstable/podu1", 102, 25000, 134217728, 999},
      {"burstable, no limit", One("requests: {cpu: 10m}"), "", "/kubepods/burstable/podu1", 10, 0,
       0, 999},
      {"limit without request", One("limits: {cpu: 200m}"), "", "/kubepods/burstable/podu1", 204,
       20000, 0, 999},
      {"best effort", One(""), "", "/kubepods/besteffort/podu1", 2, 0, 0, 1000},
      {"nothing of its own, but the pod's", One(""),
       "resources: {limits: {cpu: 1, memory: 100Mi}}, ", "/kubepods/podu1", 1024, 100000, 104857600,
       -997},
  };
  for (const Case& c : cases) {
    const PodManifest manifest = Manifest(c.containers, c.more);
    EXPECT_EQ(CgroupParent(manifest.pod, {}), c.cgroup_parent) << c.name;
    const auto config = MakeContainerConfig(manifest, manifest.pod.containers.back(), "sha256:i",
                                            {kMachineMemory, {}, true});
    const auto& resources = config.linux().resources();
    EXPECT_EQ(resources.cpu_period(), 100000) << c.name;
    EXPECT_EQ(resources.cpu_shares(), c.shares) << c.name;
    EXPECT_EQ(resources.cpu_quota(), c.quota) << c.name;
    EXPECT_EQ(resources.memory_limit_in_bytes(), c.memory) << c.name;
    EXPECT_EQ(resources.memory_swap_limit_in_bytes(), c.memory) << c.name;
    EXPECT_EQ(resources.oom_score_adj(), c.oom_score) << c.name;
    EXPECT_EQ(resources.cpuset_cpus(), "") << c.name;
  }
}

TEST(KubeletRequests, NameSlicesWithTheSystemdDriver) {
  KubeletSettings settings;
  settings.systemd_cgroups = true;
  PodManifest manifest = Manifest(One("limits: {cpu: 1, memory: 64Mi}"));
  manifest.pod.uid = "a-b";
  EXPECT_EQ(CgroupParent(manifest.pod, settings), "/kubepods.slice/kubepods-poda_b.slice");
  EXPECT_EQ(CgroupParent(Manifest(One("")).pod, settings),
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podu1.slice");
}

TEST(KubeletRequests, SumsTheSandboxesResources) {
  struct Sum {
    const char* name;
    std::string containers, more;
    int64_t shares, quota, memory;
  };
  const std::string limited =
      "{name: a, image: i, resources: {requests: {cpu: 100m, memory: 16Mi}, limits: {cpu: 250m, "
      "memory: 128Mi}}}";
  const std::vector<Sum> cases = {
      {"only one is limited",
       limited + ", {name: b, image: i, resources: {requests: {cpu: 50m, memory: 16Mi}}}", "", 153,
       25000, 134217728},
      {"an init container needs more", "{name: a, image: i, resources: {limits: {cpu: 200m}}}",
       "initContainers: [{name: i, image: i, resources: {limits: {cpu: 1}}}], ", 1024, 100000, 0},
      {"a sidecar adds", "{name: a, image: i, resources: {limits: {cpu: 200m}}}",
       "initContainers: [{name: i, image: i, restartPolicy: Always, resources: {limits: {cpu: "
       "100m}}}], ",
       307, 30000, 0},
  };
  for (const Sum& c : cases) {
    const auto config = MakeSandboxConfig(Manifest(c.containers, c.more), {});
    EXPECT_EQ(config.linux().resources().cpu_shares(), c.shares) << c.name;
    EXPECT_EQ(config.linux().resources().cpu_quota(), c.quota) << c.name;
    EXPECT_EQ(config.linux().resources().memory_limit_in_bytes(), c.memory) << c.name;
    EXPECT_TRUE(config.linux().has_overhead()) << c.name;
  }
}

TEST(KubeletRequests, NameThePod) {
  PodManifest manifest =
      Manifest("{name: main, image: i, command: [sleep, '9'], env: [{name: A, value: b}]}",
               "hostNetwork: true, ");
  const auto sandbox = MakeSandboxConfig(manifest, {"/trial", "/logs", true});
  EXPECT_EQ(sandbox.metadata().uid(), "u1");
  EXPECT_EQ(sandbox.labels().at("io.kubernetes.pod.uid"), "u1");
  EXPECT_EQ(sandbox.labels().at("app"), "x");
  EXPECT_EQ(sandbox.log_directory(), "/logs/default_p_u1");
  EXPECT_EQ(sandbox.linux().cgroup_parent(), "/trial/kubepods/besteffort/podu1");
  EXPECT_EQ(sandbox.linux().security_context().namespace_options().network(),
            runtime::v1::NamespaceMode::NODE);
  EXPECT_EQ(sandbox.annotations().at(std::string(kResourcesAnnotation)), R"({"main":{}})");

  const auto container = MakeContainerConfig(manifest, manifest.pod.containers[0], "sha256:i", {});
  EXPECT_EQ(container.image().image(), "sha256:i");
  EXPECT_EQ(container.image().user_specified_image(), "i");
  EXPECT_EQ(container.labels().at("io.kubernetes.container.name"), "main");
  EXPECT_EQ(container.labels().count("app"), 0U);
  EXPECT_EQ(container.command().size(), 2);
  EXPECT_EQ(container.envs(0).value(), "b");

  manifest.annotations[std::string(kResourcesAnnotation)] = "{}";
  EXPECT_EQ(MakeSandboxConfig(manifest, {}).annotations().at(std::string(kResourcesAnnotation)),
            "{}")
      << "the pod's own annotation stands";
  manifest.annotations.clear();
  EXPECT_TRUE(MakeSandboxConfig(manifest, {"", "", false}).annotations().empty());
}

TEST(KubeletRequests, LimitsEverySizeOfHugePages) {
  const PodManifest manifest = Manifest(One("limits: {cpu: 1, memory: 64Mi, hugepages-2Mi: 8Mi}"));
  const auto config = MakeContainerConfig(manifest, manifest.pod.containers[0], "i",
                                          {kMachineMemory, {64, 2048, 1048576}, false});
  const auto& limits = config.linux().resources().hugepage_limits();
  ASSERT_EQ(limits.size(), 3);
  EXPECT_EQ(limits[0].page_size(), "64KB");
  EXPECT_EQ(limits[1].page_size(), "2MB");
  EXPECT_EQ(limits[1].limit(), 8388608U);
  EXPECT_EQ(limits[2].page_size(), "1GB");
  EXPECT_EQ(limits[2].limit(), 0U);
}

TEST(PodManifest, WritesTheAnnotationThatItsReaderReads) {
  const PodManifest manifest = Manifest(
      "{name: z, image: i, resources: {limits: {cpu: 1500m, example.com/gpu: 2}}}, {name: a, "
      "image: i}",
      "initContainers: [{name: i, image: i}, {name: s, image: i, restartPolicy: Always, resources: "
      "{requests: {memory: 1Gi}}}], ");
  const auto read = ParseAnnotatedResources(ResourcesAnnotation(manifest.pod));
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(*read, manifest.pod.containers);
}

TEST(PodManifest, GivesTheSameTextTheSameUid) {
  const std::string text = "metadata: {name: p}\nspec: {containers: [{name: a, image: i}]}\n";
  const auto first = ParsePodManifest(text);
  const auto again = ParsePodManifest(text);
  const auto other = ParsePodManifest(text + "# other\n");
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(first->pod.uid.size(), 32U);
  EXPECT_EQ(first->pod.uid, again->pod.uid);
  EXPECT_NE(first->pod.uid, other->pod.uid);
}

TEST(PodManifest, RefusesAContainerWithoutImage) {
  const auto manifest = ParsePodManifest("metadata: {name: p}\nspec: {containers: [{name: a}]}\n");
  ASSERT_FALSE(manifest.ok());
  EXPECT_EQ(manifest.error().message, "container a has no image");
}

}  // namespace
}  // namespace alignd::simulator
