// What a NodeResourceTopology object says of a node, and what it does not say: it has amounts by
// NUMA node, and the kubelet's decision is about CPUs and devices. As long as only the amounts
// matter, the decision is exact. Where it depends on more, it is left undecided here.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/pod/pod.h"

namespace alignd::placement {

// A value. The description beside it is made up so that it has the amounts of the object: its CPUs
// and the ids of its devices are not those of the node.
struct ObjectView {
  // What the containers of the node have been assigned, of the description.
  CpuSet assigned_cpus;
  std::map<std::string, std::set<std::string>> assigned_devices;  // ids, by resource
  // NUMA node id -> memory type -> bytes that are available.
  std::map<int, std::map<std::string, uint64_t>> available_memory;
  // NUMA node id -> ids of its memory group. Without an entry: in no group.
  std::map<int, std::vector<int>> memory_groups;
  // NUMA node id -> thousandths of a CPU that containers of the shared pool request that stay
  // there. Without an entry: there are none.
  std::map<int, int64_t> shared_millis = {};

  // Why nothing can be decided; why no exclusive CPUs, no shared CPUs of one NUMA node, and no
  // pinned memory. Empty: it can.
  std::string unknown;
  std::string unknown_cpus;
  std::string unknown_shares = {};
  std::string unknown_memory;
  // Devices of which only the sum by NUMA node is known: one device may be in several sums.
  std::set<std::string> summed_devices;

  friend bool operator==(const ObjectView&, const ObjectView&) = default;
};

// Puts what containers have been assigned into the state of the empty node.
void Apply(const ObjectView& view, const admission::Node& node, admission::NodeState& state);

// Why it is no longer known what is free of a resource on each NUMA node.
struct Blurred {
  std::string why;
  bool only_places = false;  // how much is free in all is known: enough for pods that do not align

  friend bool operator==(const Blurred&, const Blurred&) = default;
};

// By `cpu`, and the names of devices.
using BlurredResources = std::map<std::string, Blurred>;

// Why the node cannot decide about the pod, whatever is free; empty: it can. `pod` as from
// admission::OnThisNode.
std::string UndecidedBy(const ObjectView& view, const admission::Node& node,
                        const admission::NodeState& state, const Pod& pod);

// What a decision that was made with made-up CPUs and devices means for the node.
struct ObjectDecision {
  // Why the node can decide otherwise. Empty: the decision is that of the node.
  std::string undecided;
  BlurredResources blurred;  // if the pod is admitted: before and by it
};

// `pod` as from admission::OnThisNode, `state` as before the decision.
ObjectDecision Interpret(const ObjectView& view, const admission::Node& node,
                         const admission::NodeState& state, const BlurredResources& blurred,
                         const Pod& pod, const admission::Admission& decided);

}  // namespace alignd::placement
