#include "allocation/held.h"

#include <algorithm>
#include <string_view>

namespace alignd::allocation {
namespace {

bool IsMemory(std::string_view resource) {
  return resource == "memory" || resource.starts_with("hugepages-");
}

bool AsksForMemory(const Pod& pod, const Container& container) {
  if (QosOf(pod) != QosClass::kGuaranteed || HasPodLevelResources(pod)) return false;
  return std::ranges::any_of(container.resources.requests,
                             [](const auto& entry) { return IsMemory(entry.first); });
}

}  // namespace

bool HasAllItRequests(const admission::Node& node, const admission::NodeState& state,
                      const Pod& pod, const Container& container) {
  const ContainerKey key{pod.uid, container.name};
  if (LacksItsCpus(node, state, pod, container)) return false;
  if (node.memory && AsksForMemory(pod, container) && !state.memory.Find(key)) return false;
  for (const auto& [resource, amount] : container.resources.limits) {
    if (amount.IsZero() || !state.devices.resources.contains(resource)) continue;
    const devicemanager::DeviceAllocation* held = state.devices.Find(key, resource);
    if (held == nullptr || held->response.empty()) return false;
  }
  return true;
}

bool LacksItsCpus(const admission::Node& node, const admission::NodeState& state, const Pod& pod,
                  const Container& container) {
  return node.cpu && ExclusiveCpus(pod, container) > 0 &&
         state.cpu.Find({pod.uid, container.name}) == nullptr;
}

Refusal ResizeRefusal(const ContainerKey& key, const CpuSet& exclusive, const std::string& asked) {
  const std::string count = std::to_string(exclusive.Count());
  return {"ResizeRefused",
          "container " + key.container + " of pod " + key.pod_uid + " has " + count +
              (exclusive.Count() == 1 ? " exclusive CPU (" : " exclusive CPUs (") +
              exclusive.ToString() +
              "), and their number cannot change while its pod lives: asked for " + asked +
              ". Nothing was changed. Delete the pod and create it with the CPUs that it needs, or "
              "let the container ask for " +
              count + " again; its memory can be resized"};
}

std::optional<Refusal> RefuseResize(const admission::NodeState& state, const Pod& pod,
                                    const std::string& wanted) {
  const bool one =
      std::ranges::find(pod.containers, wanted, &Container::name) != pod.containers.end();
  for (const Container& container : pod.containers) {
    if (one && container.name != wanted) continue;
    const ContainerKey key{pod.uid, container.name};
    const CpuSet* const held = state.cpu.Find(key);
    const int asked = ExclusiveCpus(pod, container);
    // Who asks for none any more keeps what he has.
    if (held == nullptr || asked == 0 || held->Count() == asked) continue;
    return ResizeRefusal(key, *held, std::to_string(asked) + (asked == 1 ? " CPU" : " CPUs"));
  }
  return std::nullopt;
}

}  // namespace alignd::allocation
