#include "allocation/pod_counts.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "alignd/checkpoint/device_checkpoint.h"
#include "host/file.h"

namespace alignd::allocation {
namespace {

using admission::NodeState;
using Matters = std::function<bool(const std::string& resource)>;

// The containers but `wanted` that are to get devices now and about some of which the kubelet has
// said nothing.
std::set<std::string> Uncounted(const NodeState& state, const Pod& pod, const std::string& wanted,
                                const CountedPod& counted, const Matters& matters) {
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

// Adds what `known` says of these containers, as far as it is as much as they ask for, of devices
// that there are.
void AddCounts(const NodeState& state, const Pod& pod, const std::set<std::string>& containers,
               const CountedPod& known, CountedPod& counted) {
  for (const Container& container : pod.containers) {
    const auto of_it = known.find(container.name);
    if (of_it == known.end() || !containers.contains(container.name)) continue;
    for (const auto& [resource, ids] : of_it->second) {
      const Quantity* limit = Find(container.resources.limits, resource);
      const auto inventory = state.devices.resources.find(resource);
      if (limit == nullptr || limit->Value() != static_cast<int64_t>(ids.size())) continue;
      if (inventory == state.devices.resources.end() || !inventory->second.registered) continue;
      const bool listed = std::ranges::all_of(
          ids, [&](const std::string& id) { return inventory->second.devices.contains(id); });
      if (listed) counted[container.name][resource] = ids;
    }
  }
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

Result<CountedPod> ReadKubeletCounts(const std::filesystem::path& file,
                                     const std::string& pod_uid) {
  const Result<std::string> text = host::ReadFile(file);
  if (!text.ok()) return text.error();
  const Result<checkpoint::DeviceCheckpoint> read = checkpoint::ParseDeviceCheckpoint(*text);
  if (!read.ok()) return Error{read.error().code, file.string() + ": " + read.error().message};
  CountedPod counted;
  for (const auto& [key, resources] : read->allocations) {
    if (key.pod_uid != pod_uid) continue;
    for (const auto& [resource, allocation] : resources) {
      counted[key.container][resource] = allocation.Ids();
    }
  }
  return counted;
}

PodCounts::PodCounts(std::optional<BindingModes> modes, TopologyManagerScope scope,
                     CountsOfPod counts)
    : modes_(std::move(modes)), scope_(scope), counts_(std::move(counts)) {}

std::optional<Error> PodCounts::Complete(const NodeState& state, const std::string& wanted,
                                         Pod& pod, CountedPod& counted) {
  if (!modes_ || wanted.empty()) return std::nullopt;
  const auto in_mode = [&](BindingMode mode) {
    return [this, mode](const std::string& name) { return modes_->Of(name) == mode; };
  };
  if (scope_ == TopologyManagerScope::kContainer) {
    for (const BindingMode own : {BindingMode::kSteered, BindingMode::kCounted}) {
      pod = Without(pod, Uncounted(state, pod, wanted, counted, in_mode(own)));
    }
  }
  const std::set<std::string> uncounted =
      Uncounted(state, pod, wanted, counted, [](const std::string&) { return true; });
  if (uncounted.empty()) return std::nullopt;
  std::string fault = "nobody tells";
  if (counts_) {
    const Result<CountedPod> counts = counts_(pod.uid);
    fault = counts.ok() ? "" : counts.error().Text();
    if (!fault.empty() && fault != last_fault_) {
      spdlog::warn("what the kubelet counted for containers to come cannot be known: {}", fault);
    }
    last_fault_ = fault;
    if (counts.ok()) AddCounts(state, pod, uncounted, *counts, counted);
  }
  const auto unknown = Uncounted(state, pod, wanted, counted, in_mode(BindingMode::kCounted));
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
