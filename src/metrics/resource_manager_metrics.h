// The metrics that the kubelet has with the feature gate PodLevelResourceManagers: allocations by
// their source, and containers by what they have.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>

#include "alignd/config/kubelet_config.h"
#include "alignd/pod/pod.h"
#include "metrics/families.h"
#include "metrics/instruments.h"

namespace alignd::metrics {

// Thread-safe.
// Source: kubelet pkg/kubelet/metrics/metrics.go, ResourceManagerAllocationsTotal and the two after
// it, and their callers in cm/cpumanager and cm/memorymanager, policy_static.go.
class ResourceManagerMetrics {
 public:
  // A container was allocated exclusive CPUs of the node, or refused them.
  void CpusOfNode(bool succeeded);
  // A container was allocated memory of NUMA nodes, or refused it.
  void MemoryOfNode(const Container& container, bool succeeded);
  // A pod was allocated CPUs or memory as a whole, and its containers parts of it; or it was
  // refused. `pod` as from admission::OnThisNode.
  void CpusOfPod(const Pod& pod, bool succeeded);
  void MemoryOfPod(const Pod& pod, bool succeeded);

  // Adds nothing without the feature gate, and no series that has not been counted.
  void Collect(const KubeletConfig& config, Families& families) const;

 private:
  enum Resource : size_t { kCpu, kMemory, kResourceCount };
  enum Source : size_t { kPod, kNode, kSourceCount };
  enum Assigned : size_t { kNodeExclusive, kPodShared, kPodExclusive, kAssignedCount };
  template <size_t kCount>
  using Table = std::array<std::array<Counter, kCount>, kResourceCount>;

  template <size_t kCount>
  static void Add(const Table<kCount>& table, const char* label,
                  const std::array<const char*, kCount>& values, Families& families);

  Table<kSourceCount> allocations_;
  Table<kSourceCount> errors_;
  Table<kAssignedCount> assignments_;
};

}  // namespace alignd::metrics
