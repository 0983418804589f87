#include "core/admission/pod_answers.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "alignd/admission/own_policy.h"
#include "alignd/devicemanager/device_policy.h"
#include "alignd/memorymanager/static_policy.h"
#include "alignd/topologymanager/policy.h"
#include "core/admission/claimed_devices.h"
#include "core/admission/own_status.h"
#include "core/admission/shared_node.h"
#include "core/admission/whole_pod.h"

namespace alignd::admission {
namespace {

using topologymanager::HintsByResource;

constexpr size_t kMemoryAnswer = 2;

void AddIfAny(HintsByResource more, Answers& answers) {
  if (!more.empty()) answers.push_back(std::move(more));
}

// Pods without claimed devices and decisions are asked about as by the kubelet.
void AddPlaces(const Node& node, const Pod& pod, const std::vector<ClaimedDevice>& devices,
               Answers& answers) {
  HintsByResource claimed = ClaimedHints(node.machine, devices, answers);
  HintsByResource decided = DecidedHints(node, pod, answers);
  AddIfAny(std::move(claimed), answers);
  AddIfAny(std::move(decided), answers);
  // best-effort admits memory on other NUMA nodes than the CPUs. Without a common NUMA node, it
  // would align nothing.
  if (TopologyOf(node, pod).kind() == TopologyManagerPolicy::kBestEffort) return;
  if (const std::optional<NumaMask> nodes = DecidedMemoryNodes(node, pod)) {
    for (auto& [type, hints] : answers[kMemoryAnswer]) {
      if (hints) hints = HintsWithin(*hints, *nodes);
    }
  }
}

}  // namespace

Answers ContainerAnswers(const Node& node, const cpumanager::StaticPolicy* cpu,
                         const NodeState& state, const Pod& pod, const Container& container) {
  Answers answers(kMemoryAnswer + 1);
  answers[0] = devicemanager::ContainerHints(node.machine, state.devices, pod, container);
  if (cpu) answers[1] = cpumanager::ContainerHints(node.machine, *cpu, state.cpu, pod, container);
  if (node.memory) {
    answers[kMemoryAnswer] =
        memorymanager::ContainerHints(node.machine, *node.memory, state.memory, pod, container);
  }
  AddIfAny(SharedNodeHints(node, state, pod, container), answers);
  AddPlaces(node, pod, container.claimed_devices, answers);
  return answers;
}

Answers PodAnswers(const Node& node, const cpumanager::StaticPolicy* cpu, const NodeState& state,
                   const Pod& pod) {
  Answers answers(kMemoryAnswer + 1);
  answers[0] = devicemanager::PodHints(node.machine, state.devices, pod);
  if (cpu) answers[1] = cpumanager::PodHints(node.machine, *cpu, state.cpu, pod);
  if (node.memory) {
    answers[kMemoryAnswer] = memorymanager::PodHints(node.machine, *node.memory, state.memory, pod);
  }
  AddIfAny(PodSharedNodeHints(node, state, pod), answers);
  AddPlaces(node, pod, pod.claimed_devices, answers);
  return answers;
}

Answers AnswersForWholePod(const Node& node, const cpumanager::StaticPolicy* cpu,
                           const NodeState& state, const Pod& pod) {
  Answers answers = WholePodAnswers(node, cpu, state, pod);
  AddPlaces(node, pod, pod.claimed_devices, answers);
  return answers;
}

}  // namespace alignd::admission
