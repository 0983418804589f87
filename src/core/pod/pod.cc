#include "alignd/pod/pod.h"

#include <algorithm>
#include <array>
#include <limits>

#include "alignd/base/saturating_sum.h"
#include "core/pod/exclusive_cpu_count.h"

namespace alignd {
namespace {

// The only resources that matter for the QoS class.
constexpr std::array<std::string_view, 2> kQosResources = {"cpu", "memory"};

// Adds the positive amounts of these resources. Returns whether each of them was present.
bool AddAll(const ResourceList& list, ResourceList& sum) {
  bool complete = true;
  for (const std::string_view resource : kQosResources) {
    const Quantity* const amount = Find(list, resource);
    if (amount == nullptr || amount->Sign() <= 0) {
      complete = false;
      continue;
    }
    sum[std::string(resource)] += *amount;
  }
  return complete;
}

// The number of CPUs; 0 if it is not a whole number.
int64_t WholeCpus(const Quantity& cpu) {
  const int64_t count = cpu.Value();  // rounded up
  // A fraction finer than a thousandth makes no difference to a whole number.
  static const Quantity kMilli = Quantity::Parse("1m").value();
  return count > 0 && Quantity(count) - cpu < kMilli ? count : 0;
}

int AsInt(int64_t count) {
  return static_cast<int>(std::min<int64_t>(count, std::numeric_limits<int>::max()));
}

bool IsPodLevelResource(std::string_view name) {
  return name == "cpu" || name == "memory" || name.starts_with("hugepages-");
}

}  // namespace

std::string_view ToString(QosClass qos) {
  switch (qos) {
    case QosClass::kGuaranteed:
      return "Guaranteed";
    case QosClass::kBurstable:
      return "Burstable";
    case QosClass::kBestEffort:
      return "BestEffort";
  }
  return "";
}

QosClass QosOf(const Pod& pod) {
  if (pod.stated_qos) return *pod.stated_qos;
  ResourceList requests;
  ResourceList limits;
  bool limits_complete = true;
  if (pod.pod_level) {
    AddAll(pod.pod_level->requests, requests);
    // Without any limits the comparison with the requests decides below.
    if (!pod.pod_level->limits.empty()) limits_complete = AddAll(pod.pod_level->limits, limits);
  } else {
    for (const Container& container : pod.containers) {
      AddAll(container.resources.requests, requests);
      limits_complete = AddAll(container.resources.limits, limits) && limits_complete;
    }
  }
  if (requests.empty() && limits.empty()) return QosClass::kBestEffort;
  return limits_complete && requests == limits ? QosClass::kGuaranteed : QosClass::kBurstable;
}

bool HasPodLevelResources(const Pod& pod) {
  if (!pod.pod_level) return false;
  const auto counts = [](const auto& entry) { return IsPodLevelResource(entry.first); };
  return std::ranges::any_of(pod.pod_level->requests, counts) ||
         std::ranges::any_of(pod.pod_level->limits, counts);
}

bool IsPinned(const Pod& pod) {
  if (!pod.shared_pool_handler.empty() || QosOf(pod) != QosClass::kGuaranteed) return false;
  return pod.pod_level_managers != PodLevelManagers::kOff || !HasPodLevelResources(pod);
}

bool PinsMemory(const Pod& pod) { return pod.stays_with_memory || IsPinned(pod); }

bool IsEligible(const Pod& pod, const Container& container) {
  if (!HasPodLevelResources(pod)) return true;
  return std::ranges::all_of(kQosResources, [&](const std::string_view resource) {
    const Quantity* const request = Find(container.resources.requests, resource);
    const Quantity* const limit = Find(container.resources.limits, resource);
    return request != nullptr && limit != nullptr && request->Sign() > 0 && *request == *limit;
  });
}

int64_t ExclusiveCpuCount(const Pod& pod, const Container& container) {
  if (container.shares_cpus) return 0;
  const Quantity* const cpu = Find(container.resources.requests, "cpu");
  if (cpu == nullptr || !IsPinned(pod) || !IsEligible(pod, container)) return 0;
  // Without CPUs of its own, the pod has none for its containers.
  const bool from_pod =
      pod.pod_level_managers == PodLevelManagers::kPod && HasPodLevelResources(pod);
  if (from_pod && PodCpuBudget(pod) == 0) return 0;
  return WholeCpus(*cpu);
}

int64_t PodCpuBudget(const Pod& pod) {
  if (pod.pod_level_managers != PodLevelManagers::kPod || !HasPodLevelResources(pod)) return 0;
  const Quantity* const cpu = Find(pod.pod_level->requests, "cpu");
  return cpu == nullptr || !IsPinned(pod) ? 0 : WholeCpus(*cpu);
}

int64_t PodExclusiveCpus(const Pod& pod) {
  uint64_t apps = 0;
  uint64_t sidecars = 0;
  uint64_t init_peak = 0;
  for (const Container& container : pod.containers) {
    const auto cpus = static_cast<uint64_t>(ExclusiveCpuCount(pod, container));
    switch (container.kind) {
      case ContainerKind::kApp:
        apps = SaturatingSum(apps, cpus);
        break;
      case ContainerKind::kSidecar:
        sidecars = SaturatingSum(sidecars, cpus);
        break;
      case ContainerKind::kInit:
        init_peak = std::max(init_peak, SaturatingSum(sidecars, cpus));
        break;
    }
  }
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(std::max(SaturatingSum(apps, sidecars), init_peak), kMax));
}

int ExclusiveCpus(const Pod& pod, const Container& container) {
  return AsInt(ExclusiveCpuCount(pod, container));
}

int WholePodCpus(const Pod& pod) { return AsInt(PodCpuBudget(pod)); }

const Quantity* Find(const ResourceList& list, std::string_view resource) {
  const auto entry = list.find(resource);
  return entry == list.end() ? nullptr : &entry->second;
}

}  // namespace alignd
