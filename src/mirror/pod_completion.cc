#include "mirror/pod_completion.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>

namespace alignd::mirror {
namespace {

using admission::NodeState;
using allocation::AdmissionRequest;
using Filter = std::function<bool(const std::string& resource)>;

bool AnyResource(const std::string& /*resource*/) { return true; }

// The containers of `pod`, except the wanted one, that are to be assigned devices now and have no
// kubelet-allocated ids for some of them.
std::set<std::string> WithoutIds(const NodeState& state, const Pod& pod,
                                 const AdmissionRequest& request, const Filter& filter) {
  std::set<std::string> without;
  for (const Container& container : pod.containers) {
    if (container.name == request.wanted) continue;
    const auto known = request.kubelet_allocated.find(container.name);
    const bool lacks = std::ranges::any_of(container.resources.limits, [&](const auto& limit) {
      const auto& [resource, amount] = limit;
      const bool has_ids =
          known != request.kubelet_allocated.end() && known->second.contains(resource);
      return !amount.IsZero() && state.devices.resources.contains(resource) && !has_ids &&
             filter(resource) && state.devices.Find({pod.uid, container.name}, resource) == nullptr;
    });
    if (lacks) without.insert(container.name);
  }
  return without;
}

// Adds what was learnt about these containers, if the devices are listed. Devices that the kubelet
// did not allocate are dropped from the limits.
// Errors: kInvalidArgument, naming both numbers.
Result<Done> AddLearned(const NodeState& state, const std::set<std::string>& containers,
                        const KubeletAllocatedPod& learned, AdmissionRequest& request) {
  Pod& pod = request.pod;
  for (Container& container : pod.containers) {
    if (!containers.contains(container.name)) continue;
    const auto of_it = learned.find(container.name);
    for (const auto& [resource, inventory] : state.devices.resources) {
      const Quantity* const limit = Find(container.resources.limits, resource);
      const bool is_asked = limit != nullptr && !limit->IsZero() &&
                            state.devices.Find({pod.uid, container.name}, resource) == nullptr;
      if (!is_asked) continue;
      if (of_it == learned.end() || !of_it->second.contains(resource)) {
        container.resources.limits.erase(resource);
        container.resources.requests.erase(resource);
        continue;
      }
      const std::set<std::string>& ids = of_it->second.at(resource);
      if (limit->Value() != static_cast<int64_t>(ids.size())) {
        return Error{ErrorCode::kInvalidArgument,
                     container.name + ": limits." + resource + " is " +
                         std::to_string(limit->Value()) + ", but the kubelet allocated " +
                         std::to_string(ids.size()),
                     "leave devices out of the annotation, or delete the pod"};
      }
      const auto& devices = inventory.devices;
      const bool listed = inventory.registered && std::ranges::all_of(ids, [&](const auto& id) {
                            return devices.contains(id);
                          });
      if (listed) request.kubelet_allocated[container.name][resource] = ids;
    }
  }
  return Done{};
}

Pod Without(const Pod& pod, const std::set<std::string>& containers) {
  if (containers.empty()) return pod;
  Pod rest = pod;
  rest.stated_qos = QosOf(pod);
  std::erase_if(rest.containers,
                [&](const Container& container) { return containers.contains(container.name); });
  return rest;
}

}  // namespace

PodCompletion::PodCompletion(std::optional<BindingModes> modes, TopologyManagerScope scope)
    : modes_(std::move(modes)), scope_(scope) {}

Pod PodCompletion::DecidedTogether(const NodeState& state, const AdmissionRequest& request) const {
  if (scope_ != TopologyManagerScope::kContainer) return request.pod;
  const auto uses_ids = [this](const std::string& resource) {
    return modes_->Of(resource) != BindingMode::kDeferred;
  };
  return Without(request.pod, WithoutIds(state, request.pod, request, uses_ids));
}

bool PodCompletion::MustLearn(const NodeState& state, const AdmissionRequest& request) const {
  if (!modes_ || request.wanted.empty()) return false;
  return !WithoutIds(state, DecidedTogether(state, request), request, AnyResource).empty();
}

Result<Done> PodCompletion::Complete(const NodeState& state,
                                     const std::optional<Result<KubeletAllocatedPod>>& learned,
                                     AdmissionRequest& request) {
  if (!modes_ || request.wanted.empty()) return Done{};
  request.pod = DecidedTogether(state, request);
  const std::set<std::string> without = WithoutIds(state, request.pod, request, AnyResource);
  if (without.empty() || !learned) return Done{};
  const std::string fault = learned->ok() ? "" : learned->error().Text();
  if (!fault.empty() && fault != last_fault_) {
    spdlog::warn("read what the kubelet allocated to the containers of a pod: {}", fault);
  }
  last_fault_ = fault;
  if (learned->ok()) {
    Result<Done> added = AddLearned(state, without, **learned, request);
    if (!added.ok()) return added;
  }
  const auto must_have_ids = [this](const std::string& resource) {
    return modes_->Of(resource) == BindingMode::kStrict;
  };
  const auto unknown = WithoutIds(state, request.pod, request, must_have_ids);
  if (unknown.empty()) return Done{};
  return Error{ErrorCode::kUnavailable,
               "container " + *unknown.begin() +
                   " is decided together with this one and must be assigned the devices that the "
                   "kubelet allocated to it, which are not in the kubelet's checkpoint" +
                   (fault.empty() ? "" : ": " + fault),
               "name the checkpoint's directory with --kubelet-device-plugin-dir, or use "
               "topologyManagerScope container"};
}

}  // namespace alignd::mirror
