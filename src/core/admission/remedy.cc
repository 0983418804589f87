#include "core/admission/remedy.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/assignment.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/own_policy.h"
#include "alignd/cpumanager/node_shares.h"
#include "alignd/pod/resource_name.h"
#include "core/admission/claimed_devices.h"
#include "core/admission/own_defaults.h"
#include "core/admission/shortage.h"
#include "core/pod/exclusive_cpu_count.h"

namespace alignd::admission {
namespace {

std::optional<std::vector<std::string>> AnyDevices(const devicemanager::PreferenceQuery&) {
  return std::nullopt;
}

// Healthy devices by the NUMA nodes on which they are; a device without NUMA node is on each.
std::map<std::vector<int64_t>, int64_t> PlacesOf(const devicemanager::Resource& resource) {
  std::map<std::vector<int64_t>, int64_t> places;
  for (const auto& [id, device] : resource.devices) {
    if (device.healthy) ++places[device.numa];
  }
  return places;
}

std::string DescribePlaces(const std::string& name, const devicemanager::Resource& resource) {
  std::string text;
  for (const auto& [numa, count] : PlacesOf(resource)) {
    text += text.empty() ? "" : ", ";
    text += std::to_string(count) + " on ";
    if (numa.empty()) text += "no NUMA node";
    for (size_t i = 0; i < numa.size(); ++i) {
      text += (i == 0 ? "NUMA node " : "+") + std::to_string(numa[i]);
    }
  }
  return name + ": " + text;
}

// The pod with no more of each resource than one CPU or one device for each container.
Pod Smallest(Pod pod) {
  const Quantity one = *Quantity::Parse("1");
  for (Container& container : pod.containers) {
    const bool is_exclusive = ExclusiveCpuCount(pod, container) > 0;
    for (ResourceList* list : {&container.resources.requests, &container.resources.limits}) {
      for (auto& [name, amount] : *list) {
        const bool may_shrink = (name == "cpu" && is_exclusive) || IsExtendedResource(name);
        if (may_shrink && amount.Value() > 1) amount = one;
      }
    }
  }
  return pod;
}

void Append(std::string& text, const std::string& part) {
  text += (text.empty() ? "" : "; ") + part;
}

// The pod without these resources.
Pod Without(Pod pod, const std::set<std::string>& names) {
  for (Container& container : pod.containers) {
    for (ResourceList* list : {&container.resources.requests, &container.resources.limits}) {
      std::erase_if(*list, [&](const auto& entry) { return names.contains(entry.first); });
    }
  }
  return pod;
}

// The pod with next to no memory, and without huge pages.
Pod WithLittleMemory(Pod pod) {
  const auto reduce = [](Resources& resources, const Quantity& little) {
    for (ResourceList* list : {&resources.requests, &resources.limits}) {
      std::erase_if(*list, [](const auto& entry) { return entry.first.starts_with("hugepages-"); });
      const auto memory = list->find("memory");
      if (memory != list->end() && memory->second > little) memory->second = little;
    }
  };
  const Quantity little = *Quantity::Parse("1Mi");
  Quantity whole = little;  // for shared containers, and as much as the others together
  for (Container& container : pod.containers) {
    reduce(container.resources, little);
    whole += little;
  }
  if (pod.pod_level) reduce(*pod.pod_level, whole);
  return pod;
}

Pod WithoutClaimed(Pod pod) {
  pod.claimed_devices.clear();
  for (Container& container : pod.containers) container.claimed_devices.clear();
  return pod;
}

// If the pod would fit on the empty node but for the place of its claimed devices: where they are,
// and what helps. Empty otherwise.
std::string DescribeClaimedDevices(const Node& node, const NodeState& state, const Pod& pod) {
  std::string places = DescribeClaimed(pod.claimed_devices);
  for (const Container& container : pod.containers) {
    const std::string claimed = DescribeClaimed(container.claimed_devices);
    if (!claimed.empty()) Append(places, claimed);
  }
  if (places.empty() || !Fits(node, EmptyState(node, state), WithoutClaimed(pod))) return {};
  return "its claimed devices are where the rest of its request does not fit beside them (" +
         places +
         "): request less, claim devices on one NUMA node (a constraint with matchAttribute in the "
         "ResourceClaim), or use topologyManagerPolicy best-attainable or best-effort";
}

// Of a pod that does not fit on the empty node: that its policy never admits such a pod, and the
// strictest policy that does. Empty: no policy does, so that the alignment is not the cause.
std::string DescribeNeverAdmitted(const Node& node, const NodeState& state, const Pod& pod) {
  for (const TopologyManagerPolicy policy : WeakerPolicies(node)) {
    const std::optional<Node> weaker = WithPolicy(node, policy);
    if (!weaker || !Fits(*weaker, EmptyState(node, state), pod)) continue;
    return "; topologyManagerPolicy " + std::string(ToString(node.topology.kind())) +
           " never admits a pod of this shape on this machine, and " +
           std::string(ToString(policy)) + " admits it on the empty node";
  }
  return {};
}

// Huge pages that the pod requests and no NUMA node has. Empty: none.
std::string HugePagesNotThere(const Node& node, const NodeState& state, const Pod& pod) {
  std::set<std::string> missing;
  for (const Container& container : pod.containers) {
    for (const auto& [name, amount] : container.resources.limits) {
      if (name.starts_with("hugepages-") && !amount.IsZero()) missing.insert(name);
    }
  }
  for (const NumaAvailability& numa : AvailableByNode(node, EmptyState(node, state))) {
    for (const auto& [name, amount] : numa.memory) {
      if (amount.total > 0) missing.erase(name);
    }
  }
  std::string text;
  for (const std::string& name : missing) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Whether a pod that does not fit on the empty node would fit there with all CPUs online.
bool FitsOnline(const Node& node, const NodeState& state, const Pod& pod) {
  if (state.cpu.offline.empty()) return false;
  NodeState online = EmptyState(node, state);
  cpumanager::SetOffline({}, online.cpu);
  return Fits(node, online, pod);
}

// Whether a container of the pod requests a part of a byte, which no memory manager assigns.
bool RequestsPartOfByte(const Node& node, const Pod& pod) {
  return std::ranges::any_of(pod.containers, [&](const Container& container) {
    return RequestsMemory(node, pod, container) &&
           std::ranges::any_of(container.resources.requests, [](const auto& entry) {
             return IsMemoryName(entry.first) && entry.second.Value() < INT64_MAX &&
                    Quantity(entry.second.Value()) != entry.second;
           });
  });
}

// What to request of a container in place of CPUs that are no whole cores, where only whole cores
// are assigned. Empty: that is not why the empty node refuses the pod, or it is not all.
std::string RequestWholeCores(const Node& node, const NodeState& state, const Pod& pod) {
  const NodeState empty = EmptyState(node, state);
  const Admission refused = Admit(node, empty, pod, AnyDevices);
  const bool is_cut = refused.refusal && refused.refusal->message.find(
                                             "not multiple cpus per core") != std::string::npos;
  if (!is_cut) return {};
  const int64_t per_core = node.machine.cpus_per_core();
  for (size_t i = 0; i < pod.containers.size(); ++i) {
    const int64_t rest = ExclusiveCpuCount(pod, pod.containers[i]) % per_core;
    if (rest == 0) continue;
    const int64_t less = ExclusiveCpuCount(pod, pod.containers[i]) - rest;
    std::string counts;
    for (const int64_t count : {less, less + per_core}) {
      Pod whole = pod;
      for (ResourceList* list :
           {&whole.containers[i].resources.requests, &whole.containers[i].resources.limits}) {
        if (list->contains("cpu")) (*list)["cpu"] = Quantity(count);
      }
      if (count == 0 || !Fits(node, empty, whole)) continue;
      counts += (counts.empty() ? "" : " or ") + std::to_string(count);
    }
    if (counts.empty()) return {};
    return "request " + counts + " CPUs for container " + pod.containers[i].name +
           ": only whole cores of " + std::to_string(per_core) + " CPUs are assigned";
  }
  return {};
}

// What helps a pod that does not fit on the empty node.
std::string RequestLess(const Node& node, const NodeState& state, const Pod& pod) {
  const std::string missing =
      AssignsMemory(node, pod) ? HugePagesNotThere(node, state, pod) : std::string();
  if (!missing.empty()) return "the machine has no " + missing + ": reserve some, or request none";
  if (RequestsPartOfByte(node, pod)) return "request a whole number of bytes of memory";
  if (std::string cores = RequestWholeCores(node, state, pod); !cores.empty()) return cores;
  const bool is_memory =
      AssignsMemory(node, pod) && Fits(node, EmptyState(node, state), WithLittleMemory(pod));
  return is_memory ? "request less memory or fewer huge pages" : "reduce its requests";
}

}  // namespace

std::string ProblemOfDevices(const NodeState& state, const Pod& pod) {
  for (const std::string& name : DevicesOf(state, pod)) {
    const uint64_t needed = NeededAtOnce(pod, [&, &name = name](const Container& one) {
      const bool has_them = state.devices.Find({pod.uid, one.name}, name) != nullptr;
      return has_them ? 0 : LimitOf(one, name);
    });
    if (needed == 0) continue;
    const devicemanager::Resource& resource = state.devices.resources.at(name);
    // Also if the state file has enough devices: without their plugin, none is allocated.
    if (!resource.registered)
      return "the device plugin of " + name + " is not registered: check its pod";
    const auto healthy = static_cast<uint64_t>(std::ranges::count_if(
        resource.devices, [](const auto& device) { return device.second.healthy; }));
    if (healthy >= needed) continue;
    if (const uint64_t all = resource.devices.size(); all >= needed) {
      return std::to_string(all - healthy) + " of " + std::to_string(all) + " " + name +
             " are unhealthy or their device plugin is disconnected: check the devices and the "
             "plugin's pod";
    }
  }
  return {};
}

std::string DescribeSpreadDevices(const Node& node, const NodeState& state, const Pod& pod) {
  const std::set<std::string> names = DevicesOf(state, pod);
  if (names.empty()) return {};
  const NodeState empty = EmptyState(node, state);
  const std::optional<Node> relaxed = WithPolicy(node, TopologyManagerPolicy::kBestEffort);
  if (!relaxed || !Fits(*relaxed, empty, pod)) return {};
  // Without its devices it does not fit either: these are not the cause.
  if (!Fits(node, empty, Without(pod, names))) return {};
  // With fewer CPUs and less memory, but as many devices, it would fit: the devices are not spread.
  Pod fewer = WithLittleMemory(Smallest(pod));
  for (size_t i = 0; i < pod.containers.size(); ++i) {
    for (const std::string& name : names) {
      for (auto [from, to] :
           {std::pair(&pod.containers[i].resources.limits, &fewer.containers[i].resources.limits),
            std::pair(&pod.containers[i].resources.requests,
                      &fewer.containers[i].resources.requests)}) {
        if (const auto amount = from->find(name); amount != from->end()) {
          (*to)[name] = amount->second;
        }
      }
    }
  }
  if (Fits(node, empty, fewer)) return {};
  std::string places;
  for (const std::string& name : names) {
    Append(places, DescribePlaces(name, state.devices.resources.at(name)));
  }
  return "its devices are on different NUMA nodes (" + places + "), and topologyManagerPolicy " +
         std::string(ToString(node.config.topology_manager_policy)) +
         (Fits(node, empty, Smallest(pod))
              ? " does not admit so many of them together: request fewer devices, or use "
                "best-attainable or best-effort"
              : " does not admit them together, whatever the pod requests of them: use "
                "best-attainable or best-effort, or devices on one NUMA node");
}

bool MayRefuseAlignment(const Node& node) {
  return node.topology.kind() != TopologyManagerPolicy::kNone &&
         node.topology.kind() != TopologyManagerPolicy::kBestEffort;
}

std::vector<TopologyManagerPolicy> WeakerPolicies(const Node& node) {
  std::vector<TopologyManagerPolicy> weaker;
  switch (node.topology.kind()) {
    case TopologyManagerPolicy::kSingleNumaNode:
      weaker.push_back(TopologyManagerPolicy::kRestricted);
      [[fallthrough]];
    case TopologyManagerPolicy::kRestricted:
      weaker.push_back(TopologyManagerPolicy::kBestAttainable);
      [[fallthrough]];
    case TopologyManagerPolicy::kBestAttainable:
      weaker.push_back(TopologyManagerPolicy::kBestEffort);
      break;
    case TopologyManagerPolicy::kBestEffort:
    case TopologyManagerPolicy::kNone:
      break;
  }
  return weaker;
}

std::optional<Node> WithPolicy(const Node& node, TopologyManagerPolicy policy) {
  Result<Node> relaxed = Node::Make(node.machine, WithTopologyPolicy(node.config, policy));
  if (!relaxed.ok()) return std::nullopt;
  relaxed->allocates_devices_with_pod = node.allocates_devices_with_pod;
  return *std::move(relaxed);
}

NodeState EmptyState(const Node& node, const NodeState& state) {
  NodeState empty = NodeState::Initial(node);
  cpumanager::SetOffline(state.cpu.offline, empty.cpu);
  empty.devices.resources = state.devices.resources;
  return empty;
}

Pod WithoutTopologyPolicy(Pod pod) {
  pod.policies.numa_topology.reset();
  pod.policies.fault.clear();
  if (pod.defaults) pod.defaults->numa_topology.reset();
  return pod;
}

bool Fits(const Node& node, const NodeState& state, const Pod& pod) {
  return Admit(node, state, pod, AnyDevices).admitted();
}

std::string WhatWouldHelp(const Node& node, const NodeState& state, const Pod& pod) {
  if (const std::optional<NumaTopologyPolicy> own = OwnPolicy(node, pod)) {
    // The same pod on a node that has its policy: what follows can then try others.
    const std::optional<Node> as_own = NodeWith(node, *own);
    if (as_own) {
      const bool is_asked =
          pod.policies.numa_topology && MayChoose(node, pod, PodPolicy::kNumaTopologyPolicy);
      return WhatWouldHelp(*as_own, state, WithoutTopologyPolicy(pod)) +
             (is_asked ? "; its policy is its own: " : "; its policy is that of its namespace: ") +
             DescribePodPolicy(node, pod);
    }
  }
  if (std::string problem = ProblemOfDevices(state, pod); !problem.empty()) return problem;
  const bool strict = MayRefuseAlignment(node);
  const bool fits_empty = Fits(node, EmptyState(node, state), pod);
  std::string help = strict && !fits_empty ? DescribeSpreadDevices(node, state, pod) : "";
  if (help.empty() && strict && !fits_empty) help = DescribeClaimedDevices(node, state, pod);
  if (!help.empty()) return help + DescribeNeverAdmitted(node, state, pod);
  if (fits_empty) {
    help = "it fits when other pods end and release their resources";
  } else if (FitsOnline(node, state, pod)) {
    help = "it does not fit even on the empty node while CPUs " + state.cpu.offline.ToString() +
           " are offline: set them online, or reduce its requests";
  } else {
    help = "it does not fit even on the empty node: " + RequestLess(node, state, pod) +
           DescribeNeverAdmitted(node, state, pod);
  }
  const std::optional<Node> relaxed =
      strict ? WithPolicy(node, TopologyManagerPolicy::kBestEffort) : std::nullopt;
  if (relaxed && Fits(*relaxed, state, pod)) {
    help += "; topologyManagerPolicy best-effort" + WithoutDefaultTopology(node.config) +
            " would admit it now, without this alignment";
  }
  Pod unbound =
      WithDefaults(node, pod, [](PlacementPolicies& defaults) { defaults.required_bind.reset(); });
  unbound.policies.required_bind.reset();
  if (ChosenPolicies(node, pod).required_bind && Fits(node, state, unbound)) {
    help += "; it would be admitted now without its requiredCPUBindPolicy";
  }
  return help;
}

}  // namespace alignd::admission
