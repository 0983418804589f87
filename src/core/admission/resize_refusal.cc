#include "core/admission/resize_refusal.h"

#include <cctype>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/admission/explanation.h"
#include "alignd/admission/own_policy.h"
#include "alignd/base/counted.h"
#include "alignd/topologymanager/policy.h"
#include "core/admission/claimed_devices.h"
#include "core/admission/own_defaults.h"

namespace alignd::admission {
namespace {

constexpr std::string_view kNewPod = "delete the pod and create it with the CPUs that it needs";

std::string AskFor(int64_t count) {
  return "let the container ask for " + Counted(count, "exclusive CPU");
}

// "has 4 exclusive CPUs (1-4; 1-2 since it was created)"
std::string DescribeOwn(const ResizeQuestion& asked) {
  const CpuSet* const own = asked.state.cpu.Find(asked.key);
  if (own == nullptr) return "runs in the shared pool";
  const CpuSet& original = asked.state.cpu.OriginalOf(asked.key);
  const bool has_others = original == *own || original.empty();
  return "has " + Counted(own->Count(), "exclusive CPU") + " (" + own->ToString() +
         (has_others ? "" : "; " + original.ToString() + " since it was created") + ")";
}

std::string DescribeFreeCpus(const ResizeQuestion& asked) {
  std::vector<NumaAvailability> nodes = AvailableByNode(asked.node, asked.state);
  for (NumaAvailability& numa : nodes) numa.memory = numa.devices = {};
  return ". Free: " + DescribeAvailable(nodes);
}

std::string DescribeNodes(const Machine& machine, NumaMask nodes) {
  std::string text = nodes.Count() == 1 ? " on NUMA node " : " on NUMA nodes ";
  bool is_first = true;
  for (const int id : machine.NumaIds(nodes)) {
    text += (is_first ? "" : ",") + std::to_string(id);
    is_first = false;
  }
  return text;
}

// Where the container, or with topology scope pod its pod, has its resources: "CPUs on NUMA node 0,
// memory on NUMA nodes 0,1".
std::string DescribeAssignedNodes(const ResizeQuestion& asked) {
  const Machine& machine = asked.node.machine;
  const bool is_for_pod = asked.node.topology.scope() == TopologyManagerScope::kPod;
  const std::string& uid = asked.key.pod_uid;
  std::map<std::string, NumaMask> places;
  const auto add = [&](const std::string& what, NumaMask nodes) {
    places[what] = places[what] | nodes;
  };
  const auto add_blocks = [&](const std::vector<memorymanager::Block>& blocks) {
    for (const memorymanager::Block& block : blocks) {
      add(block.type, machine.MaskOfIds({block.numa_affinity.begin(), block.numa_affinity.end()}));
    }
  };
  if (is_for_pod) {
    add_blocks(asked.state.memory.BookedFor(uid));
  } else if (const auto* blocks = asked.state.memory.Find(asked.key)) {
    add_blocks(*blocks);
  }
  for (const auto& [key, resources] : asked.state.devices.allocations) {
    if (is_for_pod ? key.pod_uid != uid : key != asked.key) continue;
    for (const auto& [resource, allocation] : resources) {
      for (const auto& [numa_id, ids] : allocation.devices)
        add(resource, machine.MaskOfIds({numa_id}));
    }
  }
  const CpuSet* const own = asked.state.cpu.Find(asked.key);
  const CpuSet cpus = is_for_pod ? asked.state.cpu.HeldBy(uid) : own == nullptr ? CpuSet() : *own;
  add("CPUs", machine.NumaOf(cpus));
  std::string text;
  for (const auto& [what, nodes] : places) {
    if (nodes.empty()) continue;
    text += (text.empty() ? (is_for_pod ? ". The pod has " : ". It has ") : ", ") + what +
            DescribeNodes(machine, nodes);
  }
  const std::string claimed = DescribeClaimed(asked.claimed.devices);
  const bool is_own = !is_for_pod && asked.claimed.are_its_own;
  if (!claimed.empty()) {
    text += std::string(". Claimed devices of the ") + (is_own ? "container: " : "pod: ") + claimed;
  }
  return text;
}

// Where a policy of the pod that is applied comes from: "annotation NAME", or the defaults of its
// namespace. If it may choose and has a default as well, either: only the policy itself is kept.
std::string SourceOf(const ResizeQuestion& asked, PodPolicy policy, std::string_view annotation) {
  const auto chosen = asked.state.chosen_policies.find(asked.key.pod_uid);
  Pod pod;
  if (chosen != asked.state.chosen_policies.end()) pod.name_space = chosen->second.name_space;
  if (!MayChoose(asked.node, pod, policy)) return DefaultsText(pod);
  const PlacementPolicies& defaults = DefaultsOf(asked.node, pod);
  const bool has_default = policy == PodPolicy::kNumaTopologyPolicy
                               ? defaults.numa_topology.has_value()
                               : defaults.required_bind.has_value();
  return "annotation " + std::string(annotation) +
         (has_default ? " or " + DefaultsText(pod) : std::string());
}

// Whether the pod has the policy that is applied as one of its own.
bool HasOwnTopology(const ResizeQuestion& asked) {
  const auto chosen = asked.state.chosen_policies.find(asked.key.pod_uid);
  return chosen != asked.state.chosen_policies.end() && chosen->second.numa_topology &&
         ManagerPolicyOf(*chosen->second.numa_topology) == asked.node.topology.kind();
}

std::string Capitalized(std::string text) {
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

// `has`: what the container has, and why that cannot change.
Refusal Refuse(const ResizeQuestion& asked, const std::string& has, const std::string& facts,
               std::string remedy) {
  std::string fault = has + ": asked for " + Counted(asked.count, "exclusive CPU") + facts;
  std::string message = "container " + asked.key.container + " of pod " + asked.key.pod_uid + " " +
                        fault + ". Nothing was changed. " + Capitalized(remedy);
  // The reason is that of allocation::kResizeRefused.
  return {"ResizeRefused", std::move(message), std::move(fault), std::move(remedy)};
}

std::string MultipleOfCores(const ResizeQuestion& asked) {
  return "let the container ask for a multiple of " +
         Counted(asked.node.machine.cpus_per_core(), "exclusive CPU");
}

std::string RequiredByPod(const ResizeQuestion& asked, CpuBindPolicy policy) {
  return "requiredCPUBindPolicy " + std::string(ToString(policy)) + " of " +
         SourceOf(asked, PodPolicy::kCpuBindPolicy, kResourceSpecAnnotation);
}

// The node's option, or what the pod requires.
std::string AllowsWholeCores(const ResizeQuestion& asked) {
  const bool is_own = !asked.is_whole_by_option;
  return (is_own ? RequiredByPod(asked, CpuBindPolicy::kFullPcpus)
                 : std::string("full-pcpus-only")) +
         " allows only whole cores";
}

bool IsMultipleOfCores(const ResizeQuestion& asked) {
  return asked.count % asked.node.machine.cpus_per_core() == 0;
}

std::string WhatHelps(const ResizeQuestion& asked, const ResizeRemedies& remedies) {
  std::string text;
  if (remedies.smaller_count) text += AskFor(*remedies.smaller_count) + ", ";
  const cpumanager::StaticPolicy& policy = *asked.node.cpu;
  const int most = (policy.Managed(asked.node.machine) - policy.reserved).Count();
  if (asked.count > most) {
    return text + (text.empty() ? "" : "or ") + "use a larger node: this one has " +
           Counted(most, "exclusive CPU") + " in all";
  }
  if (remedies.without_others) text += "end other pods with exclusive CPUs, ";
  return text + (text.empty() ? "" : "or ") + "delete the pod and create it with " +
         Counted(asked.count, "exclusive CPU");
}

}  // namespace

Refusal RefuseWithoutPolicy(const ResizeQuestion& asked) {
  return Refuse(asked, "has no exclusive CPUs, because cpuManagerPolicy is none", "",
                "set cpuManagerPolicy to static, and then " + std::string(kNewPod));
}

Refusal RefuseOnOneNode(const ResizeQuestion& asked) {
  return Refuse(asked,
                "stays on NUMA node " +
                    std::to_string(asked.state.cpu.shares.at(asked.key).numa_id) +
                    " with shared CPUs, and has no others while its pod lives",
                "", std::string(kNewPod));
}

Refusal RefusePartOfPod(const ResizeQuestion& asked) {
  return Refuse(asked,
                "has CPUs of its pod, which is assigned CPUs " +
                    asked.state.cpu.pods.at(asked.key.pod_uid).ToString() + " as a whole",
                "", std::string(kNewPod));
}

Refusal RefuseBelowOriginal(const ResizeQuestion& asked) {
  const CpuSet& original = asked.state.cpu.OriginalOf(asked.key);
  return Refuse(
      asked, DescribeOwn(asked) + ", and keeps while its pod lives those that it was created with",
      "",
      AskFor(original.Count()) + " or more, or delete the pod and create it with " +
          Counted(asked.count, "exclusive CPU"));
}

Refusal RefuseSplitCores(const ResizeQuestion& asked, const std::string& error) {
  return Refuse(asked, DescribeOwn(asked) + ", and " + AllowsWholeCores(asked) + " (" + error + ")",
                "", IsMultipleOfCores(asked) ? std::string(kNewPod) : MultipleOfCores(asked));
}

Refusal RefuseForCpus(const ResizeQuestion& asked, const std::string& error,
                      const ResizeRemedies& remedies) {
  const bool whole_cores = asked.node.cpu->options.full_pcpus_only;
  const bool one_of_each = asked.node.cpu->cores == cpumanager::CoreUse::kOneOfEach;
  std::string why = ", and too few other CPUs are free";
  if (whole_cores) why = ", and " + AllowsWholeCores(asked);
  if (one_of_each) {
    why = ", and " + RequiredByPod(asked, CpuBindPolicy::kSpreadByPcpus) +
          " allows one CPU of each core";
  }
  return Refuse(asked, DescribeOwn(asked) + why + " (" + error + ")", DescribeFreeCpus(asked),
                whole_cores && !IsMultipleOfCores(asked) ? MultipleOfCores(asked)
                                                         : WhatHelps(asked, remedies));
}

Refusal RefuseForTopology(const ResizeQuestion& asked, const ResizeRemedies& remedies) {
  const std::string policy(ToString(asked.node.topology.kind()));
  return Refuse(asked,
                DescribeOwn(asked) + ", and topologyManagerPolicy " + policy +
                    " does not allow the resulting NUMA nodes (" +
                    topologymanager::TopologyAffinityError().message + ")",
                DescribeAssignedNodes(asked) + DescribeFreeCpus(asked),
                WhatHelps(asked, remedies) +
                    "; with topologyManagerPolicy best-effort, the resize is done now, without "
                    "this alignment" +
                    (HasOwnTopology(asked) ? "; the pod has its policy by " +
                                                 SourceOf(asked, PodPolicy::kNumaTopologyPolicy,
                                                          kNumaTopologyAnnotation)
                                           : std::string()));
}

}  // namespace alignd::admission
