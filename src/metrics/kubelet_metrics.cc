#include "metrics/kubelet_metrics.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/assignment.h"
#include "alignd/admission/own_policy.h"
#include "alignd/base/cpu_set.h"
#include "alignd/pod/pod.h"

namespace alignd::metrics {
namespace {

using admission::RefusedBy;
using allocation::DecisionReport;

struct BoundaryLabels {
  std::string_view scope;
  std::string_view boundary;
};
constexpr std::array<BoundaryLabels, 4> kBoundaries = {{{"container", "numa_node"},
                                                        {"pod", "numa_node"},
                                                        {"container", "physical_cpu"},
                                                        {"container", "uncore_cache"}}};

// 0.05 ms, doubled 14 times. Source: metrics.go, TopologyManagerAdmissionDuration.
std::vector<double> AdmissionBounds() {
  std::vector<double> bounds;
  for (double bound = 0.05; bounds.size() < 15; bound *= 2) bounds.push_back(bound);
  return bounds;
}

// In seconds. Source: metrics.go, DevicePluginAllocationDuration (the client library's defaults).
std::vector<double> AllocationBounds() {
  return {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
}

// Source: policy.go, IsAlignmentGuaranteed.
bool GuaranteesAlignment(const topologymanager::Policy& topology) {
  return topology.kind() == TopologyManagerPolicy::kSingleNumaNode;
}

bool IsOneUncore(const Machine& machine, const CpuSet& cpus) {
  return std::ranges::any_of(machine.uncores(),
                             [&](const CpuGroup& uncore) { return uncore.cpus.Contains(cpus); });
}

CpuSet ExclusiveCpusIn(const admission::NodeState& state) {
  CpuSet all;
  for (const auto& [pod, containers] : state.cpu.assignments) {
    for (const auto& [container, cpus] : containers) all = all | cpus;
  }
  return all;
}

}  // namespace

KubeletMetrics::KubeletMetrics() : topology_duration_(AdmissionBounds()) {}

void KubeletMetrics::Decided(const DecisionReport& report) {
  if (report.is_repeated) return;
  // No manager has made the error: the disk failed, or the pod was released meanwhile.
  if (report.decision.error) return;
  CountTopology(report);
  CountContainers(report);
}

// Source: topology_manager.go, Admit; scope_container.go, scope_pod.go.
void KubeletMetrics::CountTopology(const DecisionReport& report) {
  const allocation::PodDecision& decision = report.decision;
  topology_requests_.Add();
  topology_duration_.Observe(std::chrono::duration<double, std::milli>(report.whole).count());
  // With policy none, the kubelet asks no scope, and counts no error.
  const topologymanager::Policy& topology = admission::TopologyOf(report.node, report.pod);
  const bool asks_scope = topology.kind() != TopologyManagerPolicy::kNone;
  if (decision.refusal && asks_scope) topology_errors_.Add();
  if (!GuaranteesAlignment(topology)) return;
  const bool not_aligned = decision.refused_at && decision.refused_at->by == RefusedBy::kTopology;
  if (topology.scope() == TopologyManagerScope::kPod) {
    if (not_aligned) alignment_[kPodNuma].failed.Add();
    if (!decision.refusal) alignment_[kPodNuma].succeeded.Add();
    return;
  }
  if (not_aligned) alignment_[kContainerNuma].failed.Add();
  for (const admission::ContainerDecision& container : decision.containers) {
    if (decision.refusal && !decision.refused_at) break;  // a plugin failed
    if (decision.refused_at && container.container == decision.refused_at->container) break;
    const ContainerKey key{report.pod.uid, container.container};
    if (!report.before.affinities.contains(key)) alignment_[kContainerNuma].succeeded.Add();
  }
}

// The managers are asked for one container after another, devices first, then CPUs, then memory.
// Source: cpumanager/policy_static.go, Allocate; memorymanager/policy_static.go, Allocate.
void KubeletMetrics::CountContainers(const DecisionReport& report) {
  const std::optional<admission::RefusalPoint>& refused = report.decision.refused_at;
  if (report.decision.refusal && !refused) return;  // no manager refused it
  if (!IsPinned(report.pod)) return;
  const bool pod_scope = report.node.topology.scope() == TopologyManagerScope::kPod;
  if (refused && refused->by == RefusedBy::kTopology && pod_scope) return;
  if (report.pod.pod_level_managers == PodLevelManagers::kPod) return CountWholePod(report);
  for (const Container& container : report.pod.containers) {
    const bool is_last = refused && refused->container == container.name;
    if (is_last && (refused->by == RefusedBy::kTopology || refused->by == RefusedBy::kDevices)) {
      return;
    }
    const ContainerKey key{report.pod.uid, container.name};
    const bool wants_cpus = report.node.cpu && ExclusiveCpus(report.pod, container) > 0;
    const bool no_cpus = is_last && refused->by == RefusedBy::kCpus;
    if (wants_cpus && report.before.cpu.Find(key) == nullptr) {
      CountCpus(report, container.name, !no_cpus);
    }
    if (no_cpus) return;
    const bool wants_memory = admission::RequestsMemory(report.node, report.pod, container);
    if (wants_memory && report.before.memory.Find(key) == nullptr) {
      memory_requests_.Add();
      if (is_last) memory_errors_.Add();
      resource_managers_.MemoryOfNode(container, !is_last);
    }
    if (is_last) return;
  }
}

// Each manager is asked once for the pod, and counts the containers that get a part of their own.
// In addition, the memory manager counts the pod and all init containers. Source:
// cpumanager/policy_static.go, AllocatePod; memorymanager/policy_static.go, AllocatePod.
void KubeletMetrics::CountWholePod(const DecisionReport& report) {
  const std::optional<admission::RefusalPoint>& refused = report.decision.refused_at;
  if (refused && refused->by == RefusedBy::kDevices) return;
  const bool no_cpus = refused && refused->by == RefusedBy::kCpus;
  const bool has_cpus = report.before.cpu.pods.contains(report.pod.uid);
  if (report.node.cpu && WholePodCpus(report.pod) > 0 && !has_cpus) {
    resource_managers_.CpusOfPod(report.pod, !no_cpus);
    if (no_cpus) cpu_errors_.Add();
    const auto with_own = std::ranges::count_if(report.pod.containers, [&](const Container& one) {
      return ExclusiveCpus(report.pod, one) > 0;
    });
    if (!no_cpus) cpu_requests_.Add(static_cast<uint64_t>(with_own));
  }
  if (no_cpus || !report.node.memory) return;
  if (report.before.memory.pods.contains(report.pod.uid)) return;
  const bool no_memory = refused && refused->by == RefusedBy::kMemory;
  resource_managers_.MemoryOfPod(report.pod, !no_memory);
  memory_requests_.Add();
  if (no_memory) return memory_errors_.Add();
  const auto asking = std::ranges::count_if(report.pod.containers, [&](const Container& one) {
    return one.kind != ContainerKind::kApp || IsEligible(report.pod, one);
  });
  memory_requests_.Add(static_cast<uint64_t>(asking));
}

void KubeletMetrics::CountCpus(const DecisionReport& report, const std::string& container,
                               bool succeeded) {
  cpu_requests_.Add();
  if (!succeeded) cpu_errors_.Add();
  resource_managers_.CpusOfNode(succeeded);
  if (report.node.cpu->options.full_pcpus_only) {
    Alignment& physical = alignment_[kPhysicalCpu];
    (succeeded ? physical.succeeded : physical.failed).Add();
  }
  const auto assigned = report.decision.assignments.find(container);
  if (assigned != report.decision.assignments.end() &&
      IsOneUncore(report.node.machine, assigned->second.exclusive)) {
    alignment_[kUncoreCache].succeeded.Add();
  }
}

void KubeletMetrics::PluginAllocated(const std::string& resource, std::chrono::nanoseconds took) {
  allocations_.Of(resource, [] { return std::make_unique<Histogram>(AllocationBounds()); })
      .Observe(took);
}

void KubeletMetrics::PluginRegistered(const std::string& resource) {
  registrations_.Of(resource, [] { return std::make_unique<Counter>(); }).Add();
}

void KubeletMetrics::Collect(const admission::Node& node, const admission::NodeState& state,
                             Families& families) const {
  CollectAlignment(node, families);
  CollectCpus(node, state, families);
  families.Histograms("kubelet_device_plugin_alloc_duration_seconds",
                      "Time until the device plugin has answered Allocate, by resource.");
  allocations_.ForEach([&](const std::string& resource, const Histogram& histogram) {
    families.Add(histogram.Collect(), {{"resource_name", resource}});
  });
  families.Counters("kubelet_device_plugin_registration_total",
                    "Registrations of device plugins, by resource.");
  registrations_.ForEach([&](const std::string& resource, const Counter& counter) {
    families.Add(counter.value(), {{"resource_name", resource}});
  });
  families.Counters("kubelet_memory_manager_pinning_errors_total",
                    "Containers that the memory manager refused.");
  families.Add(memory_errors_.value());
  families.Counters("kubelet_memory_manager_pinning_requests_total",
                    "Containers of Guaranteed pods that asked the memory manager for memory.");
  families.Add(memory_requests_.value());
  families.Histograms("kubelet_topology_manager_admission_duration_ms",
                      "Time of an admission in milliseconds, with plugins and disk.");
  families.Add(topology_duration_.Collect());
  families.Counters("kubelet_topology_manager_admission_errors_total",
                    "Admissions that the topology manager or a resource manager refused.");
  families.Add(topology_errors_.value());
  families.Counters("kubelet_topology_manager_admission_requests_total",
                    "Admissions that were decided about.");
  families.Add(topology_requests_.value());
  resource_managers_.Collect(node.config, families);
}

// Source: policy_static.go, initializeMetrics; topology_manager.go, initializeMetrics. Both have
// the series from the start, those of the CPU manager only with its static policy.
void KubeletMetrics::CollectAlignment(const admission::Node& node, Families& families) const {
  const auto add = [&](const char* name, const char* help, Counter Alignment::*which, size_t end) {
    families.Counters(name, help);
    for (size_t i = 0; i < (node.cpu ? end : size_t{kPhysicalCpu}); ++i) {
      families.Add((alignment_[i].*which).value(),
                   {{"boundary", std::string(kBoundaries[i].boundary)},
                    {"scope", std::string(kBoundaries[i].scope)}});
    }
  };
  add("kubelet_container_aligned_compute_resources_count",
      "Allocations that are aligned, by scope and boundary.", &Alignment::succeeded,
      kBoundaryCount);
  add("kubelet_container_aligned_compute_resources_failure_count",
      "Allocations that could not be aligned, by scope and boundary.", &Alignment::failed,
      kUncoreCache);
}

// Source: policy_static.go, initializeMetrics, updateMetricsOnAllocate, updateMetricsOnRelease.
// Differs: a NUMA node whose CPUs were all released has 0; the kubelet keeps the last number.
void KubeletMetrics::CollectCpus(const admission::Node& node, const admission::NodeState& state,
                                 Families& families) const {
  const CpuSet exclusive = ExclusiveCpusIn(state);
  families.Gauges("kubelet_cpu_manager_allocation_per_numa",
                  "Exclusively allocated CPUs by NUMA node.");
  for (int i = 0; node.cpu && i < node.machine.numa_count(); ++i) {
    families.Add((exclusive & node.machine.CpusInNuma(i)).Count(),
                 {{"numa_node", std::to_string(node.machine.NumaId(i))}});
  }
  families.Gauges("kubelet_cpu_manager_exclusive_cpu_allocation_count",
                  "Exclusively allocated CPUs.");
  families.Add(exclusive.Count());
  families.Counters("kubelet_cpu_manager_pinning_errors_total",
                    "Containers with exclusive CPUs that the CPU manager refused.");
  families.Add(cpu_errors_.value());
  families.Counters("kubelet_cpu_manager_pinning_requests_total",
                    "Containers that asked the CPU manager for exclusive CPUs.");
  families.Add(cpu_requests_.value());
  families.Gauges("kubelet_cpu_manager_shared_pool_size_millicores",
                  "The shared pool without the reserved CPUs, in thousandths of a CPU.");
  families.Add(node.cpu ? (state.cpu.default_set - node.cpu->reserved).Count() * 1000 : 0);
}

}  // namespace alignd::metrics
