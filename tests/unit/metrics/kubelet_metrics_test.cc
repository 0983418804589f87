// The kubelet's metrics after a script of decisions, compared with the values that the kubelet's
// own metric tests expect (kubernetes test/e2e_node/*_metrics_test.go).
#include "metrics/kubelet_metrics.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "edge/allocation_node.h"
#include "metrics/families.h"

namespace alignd::metrics {
namespace {

using std::chrono::milliseconds;
using testing::AppPod;

KubeletConfig SingleNumaNode(TopologyManagerScope scope) {
  KubeletConfig config = testing::StaticConfig();
  config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  config.topology_manager_scope = scope;
  return config;
}

// Decides as the allocation manager does, without plugins and files.
class Script {
 public:
  explicit Script(const KubeletConfig& config)
      : node_(testing::MakeNode(config)), state_(admission::NodeState::Initial(node_)) {}

  // Whether the pod was admitted.
  bool Decide(const Pod& pod, std::optional<Error> error = std::nullopt, bool is_repeated = false) {
    admission::Admission made =
        admission::Admit(node_, state_, pod, [](const auto&) { return std::nullopt; });
    allocation::PodDecision decision;
    decision.containers = made.decisions;
    decision.refusal = made.refusal;
    decision.refused_at = made.refused_at;
    decision.assignments = made.assignments;
    decision.error = std::move(error);
    metrics_.Decided({.node = node_,
                      .before = state_,
                      .pod = pod,
                      .decision = decision,
                      .is_repeated = is_repeated,
                      .computed = milliseconds(1),
                      .whole = milliseconds(2)});
    if (made.admitted()) state_ = made.next;
    return made.admitted();
  }

  // The value of a series; nullopt: there is none.
  std::optional<double> Value(const std::string& series) const {
    const std::string text = "\n" + Text();
    const size_t at = text.find("\n" + series + " ");
    if (at == std::string::npos) return std::nullopt;
    return std::stod(text.substr(at + series.size() + 2));
  }

  std::string Text() const {
    Families families;
    metrics_.Collect(node_, state_, families);
    return prometheus::TextSerializer().Serialize(families.all());
  }

  KubeletMetrics& metrics() { return metrics_; }
  admission::NodeState& state() { return state_; }

 private:
  const admission::Node node_;
  admission::NodeState state_;
  KubeletMetrics metrics_;
};

std::string Aligned(const std::string& which, const std::string& scope,
                    const std::string& boundary) {
  return "kubelet_container_aligned_compute_resources_" + which + "{boundary=\"" + boundary +
         "\",scope=\"" + scope + "\"}";
}

TEST(KubeletMetrics, TextAfterTwoPods) {
  Script script(SingleNumaNode(TopologyManagerScope::kContainer));
  EXPECT_TRUE(script.Decide(AppPod("a", 2)));
  EXPECT_FALSE(script.Decide(AppPod("b", 9)));  // a NUMA node has 8 CPUs
  script.metrics().PluginRegistered("example.com/gpu");
  script.metrics().PluginAllocated("example.com/gpu", milliseconds(30));
  std::string lines;  // without the comments
  std::istringstream all(script.Text());
  for (std::string line; std::getline(all, line);) {
    if (!line.starts_with('#')) lines += line + "\n";
  }
  EXPECT_EQ(
      lines,
      R"(kubelet_container_aligned_compute_resources_count{boundary="numa_node",scope="container"} 1
kubelet_container_aligned_compute_resources_count{boundary="numa_node",scope="pod"} 0
kubelet_container_aligned_compute_resources_count{boundary="physical_cpu",scope="container"} 0
kubelet_container_aligned_compute_resources_count{boundary="uncore_cache",scope="container"} 1
kubelet_container_aligned_compute_resources_failure_count{boundary="numa_node",scope="container"} 1
kubelet_container_aligned_compute_resources_failure_count{boundary="numa_node",scope="pod"} 0
kubelet_container_aligned_compute_resources_failure_count{boundary="physical_cpu",scope="container"} 0
kubelet_cpu_manager_allocation_per_numa{numa_node="0"} 2
kubelet_cpu_manager_allocation_per_numa{numa_node="1"} 0
kubelet_cpu_manager_exclusive_cpu_allocation_count 2
kubelet_cpu_manager_pinning_errors_total 0
kubelet_cpu_manager_pinning_requests_total 1
kubelet_cpu_manager_shared_pool_size_millicores 13000
kubelet_device_plugin_alloc_duration_seconds_count{resource_name="example.com/gpu"} 1
kubelet_device_plugin_alloc_duration_seconds_sum{resource_name="example.com/gpu"} 0.03
kubelet_device_plugin_alloc_duration_seconds_bucket{resource_name="example.com/gpu",le="0.005"} 0
kubelet_device_plugin_alloc_duration_seconds_bucket{resource_name="example.com/gpu",le="0.01"} 0
kubelet_device_plugin_alloc_duration_seconds_bucket{resource_name="example.com/gpu",le="0.025"} 0
kubelet_device_plugin_alloc_duration_seconds_bucket{resource_name="example.com/gpu",le="0.05"} 1
kubelet_device_plugin_alloc_duration_seconds_bucket{resource_name="example.com/gpu",le="0.1"} 1
kubelet_device_plugin_alloc_duration_seconds_bucket{resource_name="example.com/gpu",le="0.25"} 1
kubelet_device_plugin_alloc_duration_seconds_bucket{resource_name="example.com/gpu",le="0.5"} 1
kubelet_device_plugin_alloc_duration_seconds_bucket{resource_name="example.com/gpu",le="1"} 1
kubelet_device_plugin_alloc_duration_seconds_bucket{resource_name="example.com/gpu",le="2.5"} 1
kubelet_device_plugin_alloc_duration_seconds_bucket{resource_name="example.com/gpu",le="5"} 1
kubelet_device_plugin_alloc_duration_seconds_bucket{resource_name="example.com/gpu",le="10"} 1
kubelet_device_plugin_alloc_duration_seconds_bucket{resource_name="example.com/gpu",le="+Inf"} 1
kubelet_device_plugin_registration_total{resource_name="example.com/gpu"} 1
kubelet_memory_manager_pinning_errors_total 0
kubelet_memory_manager_pinning_requests_total 1
kubelet_topology_manager_admission_duration_ms_count 2
kubelet_topology_manager_admission_duration_ms_sum 4
kubelet_topology_manager_admission_duration_ms_bucket{le="0.05"} 0
kubelet_topology_manager_admission_duration_ms_bucket{le="0.1"} 0
kubelet_topology_manager_admission_duration_ms_bucket{le="0.2"} 0
kubelet_topology_manager_admission_duration_ms_bucket{le="0.4"} 0
kubelet_topology_manager_admission_duration_ms_bucket{le="0.8"} 0
kubelet_topology_manager_admission_duration_ms_bucket{le="1.6"} 0
kubelet_topology_manager_admission_duration_ms_bucket{le="3.2"} 2
kubelet_topology_manager_admission_duration_ms_bucket{le="6.4"} 2
kubelet_topology_manager_admission_duration_ms_bucket{le="12.8"} 2
kubelet_topology_manager_admission_duration_ms_bucket{le="25.6"} 2
kubelet_topology_manager_admission_duration_ms_bucket{le="51.2"} 2
kubelet_topology_manager_admission_duration_ms_bucket{le="102.4"} 2
kubelet_topology_manager_admission_duration_ms_bucket{le="204.8"} 2
kubelet_topology_manager_admission_duration_ms_bucket{le="409.6"} 2
kubelet_topology_manager_admission_duration_ms_bucket{le="819.2"} 2
kubelet_topology_manager_admission_duration_ms_bucket{le="+Inf"} 2
kubelet_topology_manager_admission_errors_total 1
kubelet_topology_manager_admission_requests_total 2
)");
}

// As cpu_manager_metrics_test.go: a pod with fewer CPUs than a core has, with full-pcpus-only.
TEST(KubeletMetrics, PhysicalCpusAreCountedOnlyWhenTheyAreGuaranteed) {
  KubeletConfig config = testing::StaticConfig();
  config.topology_manager_policy = TopologyManagerPolicy::kNone;
  config.cpu_manager_policy_options = {{"full-pcpus-only", "true"}};
  Script script(config);
  EXPECT_EQ(script.Value(Aligned("count", "container", "physical_cpu")), 0);
  EXPECT_FALSE(script.Decide(AppPod("odd", 1)));
  EXPECT_EQ(script.Value("kubelet_cpu_manager_pinning_requests_total"), 1);
  EXPECT_EQ(script.Value("kubelet_cpu_manager_pinning_errors_total"), 1);
  EXPECT_EQ(script.Value(Aligned("failure_count", "container", "physical_cpu")), 1);
  EXPECT_EQ(script.Value("kubelet_memory_manager_pinning_requests_total"), 0);
  EXPECT_TRUE(script.Decide(AppPod("even", 2)));
  EXPECT_EQ(script.Value(Aligned("count", "container", "physical_cpu")), 1);
  EXPECT_EQ(script.Value("kubelet_cpu_manager_pinning_requests_total"), 2);
  EXPECT_EQ(script.Value("kubelet_cpu_manager_exclusive_cpu_allocation_count"), 2);
  // Policy none guarantees no alignment.
  EXPECT_EQ(script.Value(Aligned("count", "container", "numa_node")), 0);
}

// As topology_manager_metrics_test.go.
TEST(KubeletMetrics, PodScopeCountsPods) {
  Script script(SingleNumaNode(TopologyManagerScope::kPod));
  const std::string failed = Aligned("failure_count", "pod", "numa_node");
  EXPECT_EQ(script.Value(failed), 0);
  EXPECT_FALSE(script.Decide(AppPod("b", 9)));
  EXPECT_EQ(script.Value("kubelet_topology_manager_admission_requests_total"), 1);
  EXPECT_EQ(script.Value("kubelet_topology_manager_admission_errors_total"), 1);
  EXPECT_EQ(script.Value(failed), 1);
  EXPECT_EQ(script.Value("kubelet_cpu_manager_pinning_requests_total"), 0);
  const std::map<std::string, std::string> two = {{"cpu", "2"}, {"memory", "1Gi"}};
  EXPECT_TRUE(script.Decide(MakePod("c", {App("one", two), App("two", two)})));
  EXPECT_EQ(script.Value(Aligned("count", "pod", "numa_node")), 1);
  EXPECT_EQ(script.Value(Aligned("count", "container", "numa_node")), 0);
  EXPECT_EQ(script.Value("kubelet_cpu_manager_pinning_requests_total"), 2);
  EXPECT_EQ(script.Value("kubelet_memory_manager_pinning_requests_total"), 2);
}

TEST(KubeletMetrics, MemoryThatDoesNotFitIsAnErrorOfTheMemoryManager) {
  KubeletConfig config = testing::StaticConfig();
  config.topology_manager_policy = TopologyManagerPolicy::kNone;
  Script script(config);
  const std::map<std::string, std::string> huge = {{"cpu", "2"}, {"memory", "900Ti"}};
  EXPECT_FALSE(script.Decide(MakePod("m", {App("app", huge)})));
  EXPECT_EQ(script.Value("kubelet_memory_manager_pinning_requests_total"), 1);
  EXPECT_EQ(script.Value("kubelet_memory_manager_pinning_errors_total"), 1);
  EXPECT_EQ(script.Value("kubelet_cpu_manager_pinning_requests_total"), 1);
  EXPECT_EQ(script.Value("kubelet_cpu_manager_pinning_errors_total"), 0);
}

TEST(KubeletMetrics, RepeatedAnswersAndFailedWritesAreNoRequests) {
  Script script(SingleNumaNode(TopologyManagerScope::kContainer));
  EXPECT_FALSE(script.Decide(AppPod("b", 9)));
  EXPECT_FALSE(script.Decide(AppPod("b", 9), std::nullopt, /*is_repeated=*/true));
  EXPECT_TRUE(script.Decide(AppPod("c", 2), Error{ErrorCode::kIo, "the disk is full"}));
  EXPECT_EQ(script.Value("kubelet_topology_manager_admission_requests_total"), 1);
  EXPECT_EQ(script.Value("kubelet_topology_manager_admission_errors_total"), 1);
  EXPECT_EQ(script.Value("kubelet_cpu_manager_pinning_requests_total"), 0);
}

// A source that knows one container at a time: the pod is decided about again, with what its first
// container is assigned.
TEST(KubeletMetrics, AContainerThatHasItsAssignmentIsNotCountedAgain) {
  Script script(SingleNumaNode(TopologyManagerScope::kContainer));
  const std::map<std::string, std::string> two = {{"cpu", "2"}, {"memory", "1Gi"}};
  EXPECT_TRUE(script.Decide(MakePod("c", {App("one", two)})));
  EXPECT_TRUE(script.Decide(MakePod("c", {App("one", two), App("two", two)})));
  EXPECT_EQ(script.Value("kubelet_cpu_manager_pinning_requests_total"), 2);
  EXPECT_EQ(script.Value("kubelet_memory_manager_pinning_requests_total"), 2);
  EXPECT_EQ(script.Value(Aligned("count", "container", "numa_node")), 2);
}

TEST(KubeletMetrics, ReleasedCpusAreNotCounted) {
  Script script(SingleNumaNode(TopologyManagerScope::kContainer));
  EXPECT_TRUE(script.Decide(AppPod("a", 4)));
  EXPECT_EQ(script.Value("kubelet_cpu_manager_allocation_per_numa{numa_node=\"0\"}"), 4);
  admission::ReleasePod("a", script.state());
  EXPECT_EQ(script.Value("kubelet_cpu_manager_allocation_per_numa{numa_node=\"0\"}"), 0);
  EXPECT_EQ(script.Value("kubelet_cpu_manager_shared_pool_size_millicores"), 15000);
}

constexpr char kAllocations[] = "kubelet_resource_manager_allocations_total";
constexpr char kErrors[] = "kubelet_resource_manager_allocation_errors_total";

KubeletConfig WithGate(TopologyManagerScope scope) {
  KubeletConfig config = SingleNumaNode(scope);
  config.feature_gates["PodLevelResourceManagers"] = true;
  return config;
}

std::string Of(const std::string& name, const std::string& resource, const std::string& source) {
  return name + "{resource_name=\"" + resource + "\",source=\"" + source + "\"}";
}

std::string Assigned(const std::string& resource, const std::string& type) {
  return "kubelet_resource_manager_container_assignments{assignment_type=\"" + type +
         "\",resource_name=\"" + resource + "\"}";
}

// An init container and an app container with CPUs of their own, and one that shares the rest.
Pod WholePod(const std::string& uid, const std::string& cpus) {
  const std::map<std::string, std::string> own = {{"cpu", "2"}, {"memory", "1Gi"}};
  Pod pod = MakePod(uid, {App("init", own), App("own", own), App("shared", {})});
  pod.containers[0].kind = ContainerKind::kInit;
  const ResourceList all = {{"cpu", *Quantity::Parse(cpus)}, {"memory", *Quantity::Parse("2Gi")}};
  pod.pod_level = Resources{all, all};
  pod.stated_qos = QosClass::kGuaranteed;
  pod.pod_level_managers = PodLevelManagers::kPod;  // as OnThisNode has it
  return pod;
}

// The numbers are those of the kubelet's AllocatePod of the CPU manager and the memory manager.
TEST(KubeletMetrics, PodWithResourcesAsAWholeIsCountedByItsContainers) {
  Script script(WithGate(TopologyManagerScope::kPod));
  EXPECT_EQ(script.Text().find("kubelet_resource_manager_allocations_total{"), std::string::npos);
  EXPECT_TRUE(script.Decide(WholePod("a", "4")));
  for (const char* const resource : {"cpu", "memory"}) {
    EXPECT_EQ(script.Value(Of(kAllocations, resource, "pod")), 3) << resource;
    EXPECT_EQ(script.Value(Assigned(resource, "pod_exclusive")), 2) << resource;
    EXPECT_EQ(script.Value(Assigned(resource, "pod_shared")), 1) << resource;
    EXPECT_EQ(script.Value(Of(kAllocations, resource, "node")), std::nullopt) << resource;
    EXPECT_EQ(script.Value(Of(kErrors, resource, "pod")), std::nullopt) << resource;
  }
  EXPECT_EQ(script.Value("kubelet_cpu_manager_pinning_requests_total"), 2);
  EXPECT_EQ(script.Value("kubelet_memory_manager_pinning_requests_total"), 3);
  // Admitted again, it has all of it.
  EXPECT_TRUE(script.Decide(WholePod("a", "4")));
  EXPECT_EQ(script.Value(Of(kAllocations, "cpu", "pod")), 3);
}

TEST(KubeletMetrics, RefusedPodWithResourcesAsAWholeIsAnErrorOfThePod) {
  KubeletConfig config = WithGate(TopologyManagerScope::kPod);
  config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
  Script script(config);
  EXPECT_FALSE(script.Decide(WholePod("a", "99")));
  EXPECT_EQ(script.Value(Of(kErrors, "cpu", "pod")), 1);
  EXPECT_EQ(script.Value(Of(kErrors, "memory", "pod")), std::nullopt);
  EXPECT_EQ(script.Value("kubelet_cpu_manager_pinning_errors_total"), 1);
  EXPECT_EQ(script.Value("kubelet_cpu_manager_pinning_requests_total"), 0);
}

TEST(KubeletMetrics, OtherPodsAreCountedAsOfTheNode) {
  Script script(WithGate(TopologyManagerScope::kContainer));
  const std::map<std::string, std::string> two = {{"cpu", "2"}, {"memory", "1Gi"}};
  EXPECT_TRUE(script.Decide(MakePod("c", {App("one", two), App("two", two)})));
  for (const char* const resource : {"cpu", "memory"}) {
    EXPECT_EQ(script.Value(Of(kAllocations, resource, "node")), 2) << resource;
    EXPECT_EQ(script.Value(Assigned(resource, "node_exclusive")), 2) << resource;
    EXPECT_EQ(script.Value(Of(kAllocations, resource, "pod")), std::nullopt) << resource;
  }
}

TEST(KubeletMetrics, RefusedContainerIsAnErrorOfTheNode) {
  KubeletConfig config = WithGate(TopologyManagerScope::kContainer);
  config.topology_manager_policy = TopologyManagerPolicy::kNone;
  Script script(config);
  EXPECT_FALSE(script.Decide(AppPod("b", 99)));
  EXPECT_EQ(script.Value(Of(kErrors, "cpu", "node")), 1);
  const std::map<std::string, std::string> huge = {{"cpu", "2"}, {"memory", "900Ti"}};
  EXPECT_FALSE(script.Decide(MakePod("m", {App("app", huge)})));
  EXPECT_EQ(script.Value(Of(kErrors, "memory", "node")), 1);
  EXPECT_EQ(script.Value(Of(kAllocations, "cpu", "node")), 1);
}

TEST(KubeletMetrics, OfTheResourceManagersFollowTheGateAndTheRelease) {
  KubeletConfig config = SingleNumaNode(TopologyManagerScope::kPod);
  Script without(config);
  EXPECT_TRUE(without.Decide(AppPod("a", 2)));
  EXPECT_EQ(without.Text().find("resource_manager_"), std::string::npos);
  config = WithGate(TopologyManagerScope::kPod);
  config.compatibility = Compatibility::k1_36;
  Script older(config);
  EXPECT_TRUE(older.Decide(AppPod("a", 2)));
  EXPECT_EQ(
      older.Value("resource_manager_allocations_total{resource_name=\"cpu\",source=\"node\"}"), 1);
  EXPECT_EQ(older.Text().find("kubelet_resource_manager_"), std::string::npos);
}

TEST(KubeletMetrics, WithoutStaticPoliciesThereIsNothingOfTheCpuManager) {
  Script script{KubeletConfig()};
  EXPECT_EQ(script.Value("kubelet_cpu_manager_shared_pool_size_millicores"), 0);
  EXPECT_EQ(script.Value("kubelet_cpu_manager_allocation_per_numa{numa_node=\"0\"}"), std::nullopt);
  EXPECT_EQ(script.Value(Aligned("count", "container", "numa_node")), 0);
  EXPECT_EQ(script.Value(Aligned("count", "container", "physical_cpu")), std::nullopt);
  EXPECT_TRUE(script.Decide(AppPod("a", 4)));
  EXPECT_EQ(script.Value("kubelet_cpu_manager_pinning_requests_total"), 0);
}

}  // namespace
}  // namespace alignd::metrics
