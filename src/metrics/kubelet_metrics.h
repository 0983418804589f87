// The metrics that the kubelet's managers have too, under the kubelet's names. Where alignd
// manages CPUs, memory and devices, the kubelet's own series say nothing about them.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "allocation/allocation_events.h"
#include "metrics/families.h"
#include "metrics/instruments.h"
#include "metrics/resource_manager_metrics.h"

namespace alignd::metrics {

// Thread-safe.
// Source: kubelet pkg/kubelet/metrics/metrics.go, and its callers in cm/cpumanager, memorymanager,
// topologymanager and devicemanager.
// Differs: a pod that is refused again with the same message is not a new request: the kubelet asks
// for its sandbox again and again, and its own managers would have seen the pod once. A container
// that has its assignment is not a new request either.
class KubeletMetrics {
 public:
  KubeletMetrics();

  void Decided(const allocation::DecisionReport& report);
  void PluginAllocated(const std::string& resource, std::chrono::nanoseconds took);
  void PluginRegistered(const std::string& resource);

  // `state` is the published one.
  void Collect(const admission::Node& node, const admission::NodeState& state,
               Families& families) const;

 private:
  // kubelet_container_aligned_compute_resources_*; the order of kBoundaries.
  enum Boundary : size_t { kContainerNuma, kPodNuma, kPhysicalCpu, kUncoreCache, kBoundaryCount };
  struct Alignment {
    Counter succeeded;
    Counter failed;
  };

  void CountTopology(const allocation::DecisionReport& report);
  void CountContainers(const allocation::DecisionReport& report);
  void CountWholePod(const allocation::DecisionReport& report);
  void CountCpus(const allocation::DecisionReport& report, const std::string& container,
                 bool succeeded);
  void CollectCpus(const admission::Node& node, const admission::NodeState& state,
                   Families& families) const;
  void CollectAlignment(const admission::Node& node, Families& families) const;

  Counter cpu_requests_;
  Counter cpu_errors_;
  Counter memory_requests_;
  Counter memory_errors_;
  Counter topology_requests_;
  Counter topology_errors_;
  Histogram topology_duration_;  // ms
  std::array<Alignment, kBoundaryCount> alignment_;
  ResourceManagerMetrics resource_managers_;
  ByName<Counter> registrations_;  // by resource
  ByName<Histogram> allocations_;  // by resource; s
};

}  // namespace alignd::metrics
