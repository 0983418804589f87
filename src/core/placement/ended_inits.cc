// Pods whose init containers have CPUs or memory that their other containers do not reuse. These
// are free again once an app container starts, which can be before the next pod comes, or after it.
#include <algorithm>
#include <utility>

#include "alignd/admission/init_containers.h"
#include "alignd/placement/planned_node.h"
#include "core/placement/running_pod.h"

namespace alignd::placement {
namespace {

// As many as three pods have.
constexpr size_t kMaxNodes = 8;

bool HasInitContainer(const Pod& pod) {
  return std::ranges::any_of(pod.containers,
                             [](const Container& one) { return one.kind == ContainerKind::kInit; });
}

}  // namespace

std::optional<PlannedNode> PlannedNode::EndInitContainers(const PlannedPod& planned) {
  // Of a node that is known from an object, blurred_ has it.
  if (!HasInitContainer(planned.pod) || input_->object_view || !IsInState(planned)) {
    return std::nullopt;
  }
  const Pod pod = Managed(planned);
  admission::NodeState started = state();
  for (const Container& container : pod.containers) {
    admission::ContainerStarts(node(), pod, container.name, started);
  }
  if (started.cpu.default_set == state().cpu.default_set &&
      started.memory.machine == state().memory.machine) {
    return std::nullopt;
  }
  PlannedNode before = *this;
  simulation_.SetState(std::move(started));
  return before;
}

void PlannedNode::MayEndInitContainers(const PlannedPod& pod) {
  if (!HasInitContainer(pod.pod)) return;
  std::vector<PlannedNode> others = std::exchange(others_, {});
  const bool are_too_many = 2 * (1 + others.size()) > kMaxNodes;
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
  AddOthers(std::move(others), std::move(more), pod);
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
