#include "metrics/resource_manager_metrics.h"

#include <algorithm>
#include <string_view>

namespace alignd::metrics {
namespace {

constexpr std::array<const char*, 2> kResources = {"cpu", "memory"};
constexpr std::array<const char*, 2> kSources = {"pod", "node"};
constexpr std::array<const char*, 3> kAssigned = {"node_exclusive", "pod_shared", "pod_exclusive"};

bool IsMemory(std::string_view resource) {
  return resource == "memory" || resource.starts_with("hugepages-");
}

}  // namespace

void ResourceManagerMetrics::CpusOfNode(bool succeeded) {
  if (!succeeded) return errors_[kCpu][kNode].Add();
  allocations_[kCpu][kNode].Add();
  assignments_[kCpu][kNodeExclusive].Add();
}

// The kubelet counts an allocation for each type of memory.
void ResourceManagerMetrics::MemoryOfNode(const Container& container, bool succeeded) {
  if (!succeeded) return errors_[kMemory][kNode].Add();
  const auto types = std::ranges::count_if(
      container.resources.requests, [](const auto& request) { return IsMemory(request.first); });
  allocations_[kMemory][kNode].Add(static_cast<uint64_t>(types));
  assignments_[kMemory][kNodeExclusive].Add();
}

void ResourceManagerMetrics::CpusOfPod(const Pod& pod, bool succeeded) {
  if (!succeeded) return errors_[kCpu][kPod].Add();
  for (const Container& container : pod.containers) {
    allocations_[kCpu][kPod].Add();
    assignments_[kCpu][ExclusiveCpus(pod, container) > 0 ? kPodExclusive : kPodShared].Add();
  }
}

void ResourceManagerMetrics::MemoryOfPod(const Pod& pod, bool succeeded) {
  if (!succeeded) return errors_[kMemory][kPod].Add();
  for (const Container& container : pod.containers) {
    allocations_[kMemory][kPod].Add();
    assignments_[kMemory][IsEligible(pod, container) ? kPodExclusive : kPodShared].Add();
  }
}

template <size_t kCount>
void ResourceManagerMetrics::Add(const Table<kCount>& table, const char* label,
                                 const std::array<const char*, kCount>& values,
                                 Families& families) {
  for (size_t resource = 0; resource < kResourceCount; ++resource) {
    for (size_t i = 0; i < kCount; ++i) {
      const uint64_t count = table[resource][i].value();
      if (count == 0) continue;  // as a Prometheus vector whose label values were never used
      Labels labels = {{label, values[i]}, {"resource_name", kResources[resource]}};
      std::ranges::sort(labels, {}, &prometheus::ClientMetric::Label::name);
      families.Add(count, std::move(labels));
    }
  }
}

void ResourceManagerMetrics::Collect(const KubeletConfig& config, Families& families) const {
  if (!PodLevelResourceManagersOn(config)) return;
  // Kubelet 1.36 has these names without its own.
  const std::string prefix = config.compatibility == Compatibility::k1_36
                                 ? "resource_manager_"
                                 : "kubelet_resource_manager_";
  families.Counters(prefix + "allocation_errors_total",
                    "Refused allocations of exclusive resources, by resource and source.");
  Add(errors_, "source", kSources, families);
  families.Counters(prefix + "allocations_total",
                    "Allocations of exclusive resources, by resource and source.");
  Add(allocations_, "source", kSources, families);
  families.Counters(
      prefix + "container_assignments",
      "Containers that were assigned a resource, by resource and type of assignment.");
  Add(assignments_, "assignment_type", kAssigned, families);
}

}  // namespace alignd::metrics
