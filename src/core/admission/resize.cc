#include "alignd/admission/resize.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/own_policy.h"
#include "alignd/cpumanager/node_shares.h"
#include "alignd/cpumanager/resize.h"
#include "alignd/devicemanager/device_policy.h"
#include "core/admission/claimed_devices.h"
#include "core/admission/own_cpus.h"
#include "core/admission/resize_refusal.h"

namespace alignd::admission {
namespace {

using topologymanager::HintList;
using topologymanager::HintsByResource;
using topologymanager::MergedHint;
using topologymanager::TopologyHint;

// The result of a resize up, or what is in its way.
struct Attempt {
  enum class Problem { kNone, kCpus, kTopology };
  Problem problem = Problem::kNone;
  std::string error = {};  // the CPU manager's, with kCpus
  CpuSet cpus = {};
  std::optional<TopologyHint> affinity = {};  // nullopt with topology policy none
};

NodeState WithoutOtherPods(NodeState state, const std::string& pod_uid) {
  for (const std::string& uid : PodsIn(state)) {
    if (uid != pod_uid) ReleasePod(uid, state);
  }
  return state;
}

CpuSet OwnCpus(const NodeState& state, const ContainerKey& key) {
  const CpuSet* const own = state.cpu.Find(key);
  return own == nullptr ? CpuSet() : *own;
}

// The NUMA nodes of the container's memory and devices, which stay where they are.
NumaMask FixedNodes(const Machine& machine, const NodeState& state, const ContainerKey& key) {
  std::vector<int> ids;
  if (const auto* const blocks = state.memory.Find(key)) {
    for (const memorymanager::Block& block : *blocks) {
      ids.insert(ids.end(), block.numa_affinity.begin(), block.numa_affinity.end());
    }
  }
  if (const auto devices = state.devices.allocations.find(key);
      devices != state.devices.allocations.end()) {
    for (const auto& [resource, allocation] : devices->second) {
      for (const auto& [numa_id, of_node] : allocation.devices)
        ids.push_back(static_cast<int>(numa_id));
    }
  }
  return machine.MaskOfIds({ids.begin(), ids.end()});
}

// The resize up of one container, also from the shared pool.
class Growth {
 public:
  Growth(const ResizeQuestion& asked, const NodeState& state)
      : asked_(asked),
        node_(asked.node),
        state_(state),
        key_(asked.key),
        own_(OwnCpus(state, key_)),
        cpu_(cpumanager::WithHeldBack(node_.machine, *node_.cpu, state.cpu)) {}

  Attempt To(int64_t count) const {
    // Without regard to nodes: can it have so many CPUs at all?
    const Result<CpuSet> anywhere = Choose(count, {});
    if (!anywhere.ok())
      return {.problem = Attempt::Problem::kCpus, .error = anywhere.error().message};
    if (node_.topology.kind() == TopologyManagerPolicy::kNone) return {.cpus = *anywhere};
    if (node_.topology.kind() != TopologyManagerPolicy::kBestEffort && IsClaimUnclear()) {
      return {.problem = Attempt::Problem::kTopology};
    }

    const CpuSet held = Unit();
    const MergedHint merged = node_.topology.Merge(Answers(held, count - own_.Count()));
    if (!merged.admit && !IsAttainable(merged.hint, held, count)) {
      return {.problem = Attempt::Problem::kTopology};
    }
    const NumaMask unit = node_.machine.NumaOf(held);
    const NumaMask all = node_.machine.all_numa();
    const NumaMask aligned = merged.hint.affinity.value_or(all) | unit;
    const Result<CpuSet> cpus = Choose(count, aligned);
    if (!cpus.ok()) return {.problem = Attempt::Problem::kCpus, .error = cpus.error().message};
    const NumaMask nodes = node_.machine.NumaOf(*cpus);
    const bool may_leave =
        node_.topology.kind() == TopologyManagerPolicy::kBestEffort || !merged.admit;
    if (!may_leave && !aligned.Contains(nodes)) return {.problem = Attempt::Problem::kTopology};
    TopologyHint affinity = merged.hint;
    if (affinity.affinity && !affinity.affinity->Contains(nodes)) {
      affinity = {*affinity.affinity | nodes, false};
    }
    return {.cpus = *cpus, .affinity = affinity};
  }

  // A number of CPUs below `count` to which the container can be resized up.
  std::optional<int64_t> SmallerThan(int64_t count) const {
    const CpuSet addable = Addable();
    const CpuSet here = node_.machine.CpusInNuma(node_.machine.NumaOf(own_));
    const int64_t group = cpu_.options.full_pcpus_only ? node_.machine.cpus_per_core() : 1;
    for (const int more : {addable.Count(), addable.CountCommon(here)}) {
      int64_t smaller = std::min<int64_t>(own_.Count() + more, count - 1);
      smaller -= smaller % group;
      if (smaller > own_.Count() && To(smaller).problem == Attempt::Problem::kNone) return smaller;
    }
    return std::nullopt;
  }

 private:
  // With best-attainable: whether it would be aligned no better if no other pod had anything. What
  // it has stays, so that this is all that an empty node could offer to it.
  bool IsAttainable(const TopologyHint& hint, const CpuSet& held, int64_t count) const {
    if (node_.topology.kind() != TopologyManagerPolicy::kBestAttainable) return false;
    const NodeState alone = WithoutOtherPods(state_, key_.pod_uid);
    const Growth growth(asked_, alone);
    const TopologyHint best = node_.topology.Merge(growth.Answers(held, count - own_.Count())).hint;
    return !topologymanager::AlignsBetter(best, hint);
  }

  bool IsForPod() const { return node_.topology.scope() == TopologyManagerScope::kPod; }

  // The CPUs that are aligned together.
  CpuSet Unit() const { return IsForPod() ? state_.cpu.HeldBy(key_.pod_uid) : own_; }

  CpuSet Addable() const { return cpumanager::Addable(node_.machine, cpu_, state_.cpu, own_); }

  Result<CpuSet> Choose(int64_t count, NumaMask nodes) const {
    return cpumanager::Grown(node_.machine, cpu_, state_.cpu, key_, count, nodes);
  }

  // In the kubelet's order: devices, CPUs, memory. Devices and memory stay as they are.
  std::vector<HintsByResource> Answers(const CpuSet& held, int64_t added) const {
    std::vector<HintsByResource> answers = {
        DeviceHints(), cpumanager::ResizeHints(node_.machine, cpu_, held, Addable(), added),
        MemoryHints()};
    HintsByResource claimed = ClaimedHints(node_.machine, ClaimedBeside(), answers);
    if (!claimed.empty()) answers.push_back(std::move(claimed));
    return answers;
  }

  std::set<int> NodesOfClaims() const {
    std::set<int> nodes;
    for (const ClaimedDevice& device : asked_.claimed.devices) {
      nodes.insert(device.numa.begin(), device.numa.end());
    }
    return nodes;
  }

  // Whether the claimed devices may be of other containers.
  bool MayBeOfOthers() const { return !IsForPod() && !asked_.claimed.are_its_own; }

  // A container of the shared pool can be anywhere. If the devices are all on one NUMA node, this
  // is right whichever ones it has.
  bool IsClaimUnclear() const {
    return MayBeOfOthers() && own_.empty() && NodesOfClaims().size() > 1;
  }

  // The claimed devices beside which CPUs are added. Those of this container were on exactly the
  // NUMA nodes on which it was admitted, unless the policy is best-effort: these nodes are right
  // whichever devices it has.
  std::vector<ClaimedDevice> ClaimedBeside() const {
    if (!MayBeOfOthers() || own_.empty() || NodesOfClaims().empty()) return asked_.claimed.devices;
    const auto own = node_.machine.NumaIds(node_.machine.NumaOf(own_));
    return {ClaimedDevice{.name = "", .numa = {own.begin(), own.end()}}};
  }

  // The hints of a container, or of a pod, that requests the devices that it is allocated.
  HintsByResource DeviceHints() const {
    Container holder;
    holder.name = key_.container;
    const devicemanager::DeviceState& devices = state_.devices;
    for (auto entry = devices.allocations.lower_bound({key_.pod_uid, ""});
         entry != devices.allocations.end() && entry->first.pod_uid == key_.pod_uid; ++entry) {
      if (!IsForPod() && entry->first != key_) continue;
      for (const auto& [resource, allocation] : entry->second) {
        const size_t count =
            IsForPod() ? devices.PodIds(key_.pod_uid, resource).size() : allocation.Ids().size();
        holder.resources.limits[resource] = *Quantity::Parse(std::to_string(count));
      }
    }
    Pod pod;
    pod.uid = key_.pod_uid;
    pod.containers.push_back(holder);
    return IsForPod() ? devicemanager::PodHints(node_.machine, devices, pod)
                      : devicemanager::ContainerHints(node_.machine, devices, pod, holder);
  }

  HintsByResource MemoryHints() const {
    std::map<std::string, NumaMask> nodes;  // by type
    const auto add = [&](const std::vector<memorymanager::Block>& blocks) {
      for (const memorymanager::Block& block : blocks) {
        NumaMask& of_type = nodes[block.type];
        of_type = of_type |
                  node_.machine.MaskOfIds({block.numa_affinity.begin(), block.numa_affinity.end()});
      }
    };
    if (IsForPod()) {
      add(state_.memory.BookedFor(key_.pod_uid));
    } else if (const auto* blocks = state_.memory.Find(key_)) {
      add(*blocks);
    }
    HintsByResource hints;
    for (const auto& [type, mask] : nodes) hints[type] = HintList{{mask, true}};
    return hints;
  }

  const ResizeQuestion& asked_;
  const Node& node_;
  const NodeState& state_;
  const ContainerKey& key_;
  const CpuSet own_;                    // empty: it is in the shared pool
  const cpumanager::StaticPolicy cpu_;  // leaves the CPUs that are requested in `state_`
};

ResizeRemedies Remedies(const ResizeQuestion& asked) {
  const Growth growth(asked, asked.state);
  const NodeState alone = WithoutOtherPods(asked.state, asked.key.pod_uid);
  const Attempt without_others = Growth(asked, alone).To(asked.count);
  return {.smaller_count = growth.SmallerThan(asked.count),
          .without_others = without_others.problem == Attempt::Problem::kNone};
}

std::optional<Refusal> Grow(const ResizeQuestion& asked, CpuSet& after, NodeState& next) {
  Attempt attempt = Growth(asked, asked.state).To(asked.count);
  switch (attempt.problem) {
    case Attempt::Problem::kCpus:
      return RefuseForCpus(asked, attempt.error, Remedies(asked));
    case Attempt::Problem::kTopology:
      return RefuseForTopology(asked, Remedies(asked));
    case Attempt::Problem::kNone:
      break;
  }
  after = std::move(attempt.cpus);
  cpumanager::ApplyResize(asked.key, after, next.cpu);
  if (!attempt.affinity) return std::nullopt;
  const auto stored = next.affinities.find(asked.key);
  const NumaMask nodes = asked.node.machine.NumaOf(after);
  const bool is_true =
      stored != next.affinities.end() && stored->second.affinity.value_or(nodes).Contains(nodes);
  if (!is_true) next.affinities[asked.key] = *attempt.affinity;
  return std::nullopt;
}

std::optional<Refusal> Shrink(const ResizeQuestion& asked, CpuSet& after, NodeState& next) {
  if (asked.count < asked.state.cpu.OriginalOf(asked.key).Count()) {
    return RefuseBelowOriginal(asked);
  }
  Result<CpuSet> cpus =
      cpumanager::Shrunk(asked.node.machine, *asked.node.cpu, asked.state.cpu, asked.key,
                         asked.count, FixedNodes(asked.node.machine, asked.state, asked.key));
  if (!cpus.ok()) return RefuseSplitCores(asked, cpus.error().message);
  after = *std::move(cpus);
  cpumanager::ApplyResize(asked.key, after, next.cpu);
  return std::nullopt;
}

ResizeDecision Decide(const ResizeQuestion& asked) {
  const auto& [node, state, key, count, is_whole_by_option, claimed] = asked;
  ResizeDecision decision{.refusal = std::nullopt, .before = {}, .after = {}, .next = state};
  if (!node.cpu) {
    decision.refusal = RefuseWithoutPolicy(asked);
    return decision;
  }
  decision.before = decision.after = OwnCpus(state, key);
  if (count == decision.before.Count()) return decision;
  if (state.cpu.shares.contains(key)) {
    decision.refusal = RefuseOnOneNode(asked);
  } else if (state.cpu.pods.contains(key.pod_uid)) {
    decision.refusal = RefusePartOfPod(asked);
  } else if (count > decision.before.Count()) {
    decision.refusal = Grow(asked, decision.after, decision.next);
  } else if (count > 0) {
    decision.refusal = Shrink(asked, decision.after, decision.next);
  } else {
    decision.after = {};
    cpumanager::ApplyResize(key, {}, decision.next.cpu);
  }
  return decision;
}

}  // namespace

ResizeClaims ClaimsOf(const Pod& pod, const std::string& container) {
  const auto own = std::ranges::find(pod.containers, container, &Container::name);
  if (own == pod.containers.end()) return {.devices = pod.claimed_devices};
  return {.devices = own->claimed_devices, .are_its_own = true};
}

ResizeDecision Resize(const Node& node, const NodeState& state, const ContainerKey& key,
                      int64_t count, const ResizeClaims& claimed) {
  const bool is_whole_by_option = node.cpu && node.cpu->options.full_pcpus_only;
  if (!state.chosen_policies.contains(key.pod_uid)) {
    return Decide({node, state, key, count, is_whole_by_option, claimed});
  }
  // The node as it is for this pod.
  std::optional<Node> as_own;
  if (const auto policy = OwnPolicy(node, state, key.pod_uid)) as_own = NodeWith(node, *policy);
  if (!as_own) as_own = node;
  if (node.cpu) as_own->cpu = CpuPolicyOfResize(node, state, key);
  return Decide({*as_own, state, key, count, is_whole_by_option, claimed});
}

}  // namespace alignd::admission
