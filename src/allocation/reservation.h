// What is reserved for a pod while its plugins are asked and its files are written. No other pod
// gets it. If a plugin or the disk fails, exactly this is released.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::allocation {

using ReusableCpus = decltype(cpumanager::CpuState::reusable);

// Another number of exclusive CPUs for a container. Until it is on the disk, the container has the
// CPUs of before and of after: none of them goes to another pod. A value.
struct ResizedCpus {
  ContainerKey key;
  CpuSet before;                          // empty: it is in the shared pool
  CpuSet after;                           // likewise; not both are empty
  std::optional<CpuSet> original_before;  // CpuState::originals; nullopt: no entry
  std::optional<CpuSet> original_after;
  std::optional<topologymanager::TopologyHint> affinity_after;
};

// Other requests of a container that stays on one NUMA node. Until they are on the disk, the larger
// one of before and of after is accounted there: neither goes to another pod. A value.
struct RenewedRequests {
  // The memory of the containers of the pod that have other blocks afterwards, by name: also of
  // init containers whose memory it takes over. nullopt: no entry. All are on its NUMA node.
  using Memory = std::map<std::string, std::optional<std::vector<memorymanager::Block>>>;

  ContainerKey key;
  cpumanager::NodeShare share_before;
  cpumanager::NodeShare share_after;
  Memory memory_before = {};  // of the same containers
  Memory memory_after = {};
};

// The difference that one admission, resize or renewal made for one pod. A value.
struct Reservation {
  std::string pod_uid;
  std::set<ContainerKey> cpu;                              // with new exclusive CPUs
  std::set<ContainerKey> memory;                           // with new memory blocks
  std::set<ContainerKey> shares;                           // with a new share of a NUMA node
  std::set<std::pair<ContainerKey, std::string>> devices;  // container and resource
  // The pod's affinities before; nullopt: it had none.
  std::map<ContainerKey, std::optional<topologymanager::TopologyHint>> affinities;
  // NodeState::chosen_policies of the pod before, if this is an admission.
  std::optional<PodPolicies> policy_before = {};
  // CPUs of init containers that can be reused: this pod's before, and all of them afterwards.
  ReusableCpus reusable_before = {};
  ReusableCpus reusable_after = {};
  // Of a container that has something already; nothing else is reserved by it.
  std::optional<ResizedCpus> resized = {};
  std::optional<RenewedRequests> renewed = {};

  bool IsInPlace() const { return resized || renewed; }

  // Whether no resource is reserved.
  bool IsEmpty() const {
    return cpu.empty() && memory.empty() && shares.empty() && devices.empty();
  }
};

// What the containers of `pod` are assigned in `after` and not in `before`.
Reservation Difference(const Pod& pod, const admission::NodeState& before,
                       const admission::NodeState& after);

// What a resize of the container changes: `before` and `after` are the states of its decision. The
// container has exclusive CPUs in one of them, or in both.
Reservation ResizeOf(const ContainerKey& key, const admission::NodeState& before,
                     const admission::NodeState& after);

// What admission::RenewShare changes for the container: `before` and `after` are the states of its
// decision.
Reservation RenewalOf(const ContainerKey& key, const admission::NodeState& before,
                      const admission::NodeState& after);

// Reserves a change in place in the state (IsInPlace): the container has what it has before and
// after.
void ReserveInPlace(const Reservation& reservation, admission::NodeState& state);

// The reservation is on the disk, or about to be: the state has what it leads to. An admission
// leads to what is reserved.
void Complete(const Reservation& reservation, admission::NodeState& state);

// Removes it from a state that contains it. Earlier assignments of the pod stay, and so do those of
// other pods since. If memory of an init container was lent to a new container, the init container
// keeps only the rest, and the lent part is free.
void GiveBack(const Reservation& reservation, admission::NodeState& state);

}  // namespace alignd::allocation
