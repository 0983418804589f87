// The explanation of a refusal: its cause, the request, what each NUMA node has free, and what
// would help.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"

namespace alignd::admission {

struct Availability {
  uint64_t free = 0;
  uint64_t total = 0;
  uint64_t unhealthy = 0;  // devices that are not in `total`

  friend bool operator==(const Availability&, const Availability&) = default;
};

// The free resources of one NUMA node.
struct NumaAvailability {
  int numa_id = 0;
  CpuSet free_cpus;  // in the shared pool, not reserved, and not needed there (HeldBack)
  int cpus = 0;      // all CPUs of the node
  // Bytes by memory type; empty with memoryManagerPolicy None.
  std::map<std::string, Availability> memory;
  std::map<std::string, Availability> devices;  // healthy devices by resource
  // Thousandths of a CPU for containers of the shared pool that stay on the node. nullopt: pods
  // cannot ask for that, and no container has.
  std::optional<Availability> shared_millis = {};

  friend bool operator==(const NumaAvailability&, const NumaAvailability&) = default;
};

// "64Mi"; bytes that are no whole number of MiB: "1000".
std::string MemoryAmount(uint64_t bytes);

// One entry per NUMA node, ascending by id. A device on two nodes is listed for both. A resource
// all of whose devices on the node are unhealthy is listed too.
std::vector<NumaAvailability> AvailableByNode(const Node& node, const NodeState& state);

// The same, also with the types of memory that the pod requests and no node has.
std::vector<NumaAvailability> AvailableFor(const Node& node, const NodeState& state,
                                           const Pod& pod);

// "app: 3 exclusive CPUs, 1 nvidia.com/gpu; log: shared CPUs (500m CPUs are not a whole number)".
// Before it, what the pod is assigned as a whole: "pod as a whole: 4 CPUs, 1Gi memory; ". After it,
// what becomes of the policy that the pod asks for (DescribePodPolicy).
std::string DescribeRequest(const Node& node, const NodeState& state, const Pod& pod);

// "NUMA node 0: 10 of 14 CPUs (4-13), 1 of 1 nvidia.com/gpu; NUMA node 1: ...". Unhealthy devices
// are not free.
std::string DescribeAvailable(const std::vector<NumaAvailability>& nodes);

// Whether the pod would be admitted if all other pods released what they have. It keeps its own.
bool FitsWithoutOthers(const Node& node, const NodeState& state, const Pod& pod);

// Which resources of the pod other pods have: "cpu", types of memory, resources of devices. As long
// as other pods keep one of these, the pod does not fit, even if they release everything else. If
// there is no such resource (CPUs are free on one NUMA node and devices on another one), these are
// all that the pod requests and is not assigned. Only for a pod that does not fit and for which
// FitsWithoutOthers is true.
std::set<std::string> LackingResources(const Node& node, const NodeState& state, const Pod& pod);

// The refusal with these texts after the kubelet's own text, and with what would help: found by the
// decisions of another policy and of the empty node. If the whole node has too little, or the NUMA
// nodes have too little memory, the cause follows the kubelet's text, which does not say so. A
// refusal of RefuseOwnPolicy is returned as it is.
inline constexpr std::string_view kWhatWouldHelp = ". What would help: ";
Refusal Explain(const Node& node, const NodeState& state, const Pod& pod, const Refusal& refusal);

}  // namespace alignd::admission
