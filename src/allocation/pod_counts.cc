#include "allocation/pod_counts.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>

namespace alignd::allocation {
namespace {

using admission::NodeState;
using Matters = std::function<bool(const std::string& resource)>;

bool AnyResource(const std::string& /*resource*/) { return true; }

// The containers but `wanted` that are to get devices now and about some of which the kubelet has
// said nothing.
std::set<std::string> Uncounted(const NodeState& state, const Pod& pod, const std::string& wanted,
                                const KubeletAllocatedPod& counted, const Matters& matters) {
  std::set<std::string> uncounted;
  for (const Container& container : pod.containers) {
    if (container.name == wanted) continue;
    const auto of_it = counted.find(container.name);
    const bool is_one = std::ranges::any_of(container.resources.limits, [&](const auto& limit) {
      const bool is_counted = of_it != counted.end() && of_it->second.contains(limit.first);
      return !limit.second.IsZero() && state.devices.resources.contains(limit.first) &&
             !is_counted && matters(limit.first) &&
             state.devices.Find({pod.uid, container.name}, limit.first) == nullptr;
    });
    if (is_one) uncounted.insert(container.name);
  }
  return uncounted;
}

// Adds what the kubelet has `told` of these containers, as far as these devices are there. What it
// counted none of is not theirs to ask for.
// Errors: kInvalidArgument, naming both numbers, if it counted another one.
Result<Done> AddCounts(const NodeState& state, Pod& pod, const std::set<std::string>& containers,
                       const KubeletAllocatedPod& told, KubeletAllocatedPod& counted) {
  for (Container& container : pod.containers) {
    if (!containers.contains(container.name)) continue;
    const auto of_it = told.find(container.name);
    for (const auto& [resource, inventory] : state.devices.resources) {
      const Quantity* const limit = Find(container.resources.limits, resource);
      const bool is_asked = limit != nullptr && !limit->IsZero() &&
                            state.devices.Find({pod.uid, container.name}, resource) == nullptr;
      if (!is_asked) continue;
      if (of_it == told.end() || !of_it->second.contains(resource)) {
        container.resources.limits.erase(resource);
        container.resources.requests.erase(resource);
        continue;
      }
      const std::set<std::string>& ids = of_it->second.at(resource);
      if (limit->Value() != static_cast<int64_t>(ids.size())) {
        return Error{ErrorCode::kInvalidArgument,
                     container.name + ": limits." + resource + " is " +
                         std::to_string(limit->Value()) + ", but the kubelet counted " +
                         std::to_string(ids.size()),
                     "leave devices out of the annotation, or delete the pod"};
      }
      const auto& devices = inventory.devices;
      const bool listed = inventory.registered && std::ranges::all_of(ids, [&](const auto& id) {
                            return devices.contains(id);
                          });
      if (listed) counted[container.name][resource] = ids;
    }
  }
  return Done{};
}

Pod Without(const Pod& pod, const std::set<std::string>& containers) {
  if (containers.empty()) return pod;
  Pod known = pod;
  known.stated_qos = QosOf(pod);
  std::erase_if(known.containers,
                [&](const Container& container) { return containers.contains(container.name); });
  return known;
}

}  // namespace

PodCounts::PodCounts(std::optional<BindingModes> modes, TopologyManagerScope scope)
    : modes_(std::move(modes)), scope_(scope) {}

Pod PodCounts::Together(const NodeState& state, const std::string& wanted, Pod pod,
                        const KubeletAllocatedPod& counted) const {
  if (scope_ != TopologyManagerScope::kContainer) return pod;
  const auto is_chosen_by_count = [this](const std::string& name) {
    return modes_->Of(name) != BindingMode::kDeferred;
  };
  return Without(pod, Uncounted(state, pod, wanted, counted, is_chosen_by_count));
}

bool PodCounts::Lacks(const NodeState& state, const std::string& wanted, const Pod& pod,
                      const KubeletAllocatedPod& counted) const {
  if (!modes_ || wanted.empty()) return false;
  return !Uncounted(state, Together(state, wanted, pod, counted), wanted, counted, AnyResource)
              .empty();
}

std::optional<Error> PodCounts::Complete(const NodeState& state, const std::string& wanted,
                                         const std::optional<Result<KubeletAllocatedPod>>& told,
                                         Pod& pod, KubeletAllocatedPod& counted) {
  if (!modes_ || wanted.empty()) return std::nullopt;
  pod = Together(state, wanted, std::move(pod), counted);
  const std::set<std::string> uncounted = Uncounted(state, pod, wanted, counted, AnyResource);
  if (uncounted.empty()) return std::nullopt;
  std::string fault = "nobody tells";
  if (told) {
    fault = told->ok() ? "" : told->error().Text();
    if (!fault.empty() && fault != last_fault_) {
      spdlog::warn("what the kubelet counted for containers to come cannot be known: {}", fault);
    }
    last_fault_ = fault;
    if (told->ok()) {
      const Result<Done> added = AddCounts(state, pod, uncounted, **told, counted);
      if (!added.ok()) return added.error();
    }
  }
  const auto must_be_counted = [this](const std::string& name) {
    return modes_->Of(name) == BindingMode::kStrict;
  };
  const auto unknown = Uncounted(state, pod, wanted, counted, must_be_counted);
  if (unknown.empty()) return std::nullopt;
  return Error{ErrorCode::kUnavailable,
               "container " + *unknown.begin() +
                   ", which is decided about together with this one, is to have the devices that "
                   "the kubelet counted for it, and the kubelet's checkpoint does not tell which" +
                   (fault.empty() ? "" : ": " + fault),
               "give its place with --kubelet-device-plugin-dir, or use topologyManagerScope "
               "container"};
}

}  // namespace alignd::allocation
