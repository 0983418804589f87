// Pods whose init containers have CPUs or memory that their other containers do not reuse. These
// are free again once an app container starts, which can be before the next pod comes, or after it.
#include "core/placement/ended_inits.h"

#include <algorithm>
#include <utility>

#include "alignd/admission/init_containers.h"
#include "alignd/cpumanager/node_shares.h"
#include "alignd/placement/planned_node.h"
#include "core/placement/running_pod.h"

namespace alignd::placement {
namespace {

bool HasInitContainer(const Pod& pod) {
  return std::ranges::any_of(pod.containers,
                             [](const Container& one) { return one.kind == ContainerKind::kInit; });
}

// How many containers have memory of the NUMA node does not matter to later ones.
bool IsFreer(const memorymanager::NumaMemory& before, const memorymanager::NumaMemory& after) {
  return after.tables != before.tables || after.cells != before.cells;
}

}  // namespace

admission::NodeState WithoutInitContainers(const admission::Node& node, const Pod& pod,
                                           admission::NodeState state) {
  for (const Container& container : pod.containers) {
    admission::ContainerStarts(node, pod, container.name, state);
  }
  return state;
}

bool FreesCpus(const Machine& machine, const admission::NodeState& before,
               const admission::NodeState& after) {
  return after.cpu.default_set != before.cpu.default_set ||
         std::ranges::any_of(machine.numa_groups(), [&](const CpuGroup& numa) {
           return cpumanager::SharesOn(after.cpu, numa.id) !=
                  cpumanager::SharesOn(before.cpu, numa.id);
         });
}

bool FreesMemory(const admission::NodeState& before, const admission::NodeState& after) {
  return std::ranges::any_of(after.memory.machine, [&before](const auto& numa) {
    return IsFreer(before.memory.machine.at(numa.first), numa.second);
  });
}

std::optional<PlannedNode> PlannedNode::EndInitContainers(const PlannedPod& planned) {
  // Of a node that is known from an object, blurred_ has it (Interpret).
  if (!HasInitContainer(planned.pod) || input_->object_view || !IsInState(planned)) {
    return std::nullopt;
  }
  admission::NodeState started = WithoutInitContainers(node(), Managed(planned), state());
  if (!FreesCpus(node().machine, state(), started) && !FreesMemory(state(), started)) {
    return std::nullopt;
  }
  PlannedNode before = *this;
  simulation_.SetState(std::move(started));
  return before;
}

void PlannedNode::MayEndInitContainers(const PlannedPod& pod) {
  if (!HasInitContainer(pod.pod)) return;
  std::vector<PlannedNode> others = std::exchange(others_, {});
  const bool are_too_many = 2 * (1 + others.size()) > kMaxReadings;
  std::vector<PlannedNode> more;
  const auto end = [&](PlannedNode& node) {
    std::optional<PlannedNode> before = node.EndInitContainers(pod);
    if (!before) return;
    if (!are_too_many) return more.push_back(*std::move(before));
    if (node.guessed_.empty()) node.by_many_inits_ = NameOf(pod.pod);
    node.Guesses().AddEnded(node.node(), node.Managed(pod), before->state(), node.state());
  };
  end(*this);
  for (PlannedNode& other : others) end(other);
  if (AddOthers(std::move(others), std::move(more)) == true) NoteInitContainers(pod.pod);
}

void PlannedNode::NoteInitContainers(const Pod& pod) {
  with_inits_.push_back(NameOf(pod));
  if (with_inits_.size() > 1) return;
  notes_.push_back(
      "pod " + NameOf(pod) +
      " has init containers with more CPUs or memory than its other containers reuse: "
      "what pods after it are assigned, and what is free, is shown as it is once these "
      "have ended");
}

}  // namespace alignd::placement
