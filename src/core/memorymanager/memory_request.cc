#include "core/memorymanager/memory_request.h"

#include <algorithm>

#include "alignd/base/saturating_sum.h"

namespace alignd::memorymanager {

bool IsMemoryType(std::string_view resource) {
  return resource == "memory" || resource.starts_with("hugepages-");
}

std::optional<uint64_t> WholeBytes(const Quantity& amount) {
  constexpr int64_t kLimit = 1'000'000'000'000'000'000;
  if (amount.Sign() < 0 || amount >= Quantity(kLimit)) return std::nullopt;
  if (Quantity(amount.Value()) != amount) return std::nullopt;
  return static_cast<uint64_t>(amount.Value());
}

namespace {

Result<MemoryRequest> MemoryIn(const ResourceList& requests) {
  MemoryRequest request;
  for (const auto& [resource, amount] : requests) {
    if (!IsMemoryType(resource)) continue;
    const std::optional<uint64_t> bytes = WholeBytes(amount);
    if (!bytes) {
      return Error{ErrorCode::kInvalidArgument,
                   "[memorymanager] failed to represent quantity as int64"};
    }
    request[resource] = *bytes;
  }
  return request;
}

}  // namespace

Result<MemoryRequest> RequestOf(const Pod& pod, const Container& container) {
  if (!IsEligible(pod, container)) return MemoryRequest();
  Result<MemoryRequest> request = MemoryIn(container.resources.requests);
  // The memory of a container of a Guaranteed pod is positive.
  if (request.ok() && !IsPinned(pod)) {
    std::erase_if(*request, [](const auto& entry) { return entry.second == 0; });
  }
  return request;
}

Result<MemoryRequest> PodMemoryBudget(const Pod& pod) {
  const bool is_whole =
      pod.pod_level_managers == PodLevelManagers::kPod && HasPodLevelResources(pod);
  if (!is_whole || !IsPinned(pod)) return MemoryRequest();
  Result<MemoryRequest> budget = MemoryIn(pod.pod_level->requests);
  if (budget.ok()) std::erase_if(*budget, [](const auto& entry) { return entry.second == 0; });
  return budget;
}

// A sum above 2^64 - 1 bytes saturates: both are impossible. The kubelet's sum wraps around.
Result<MemoryRequest> RequestOf(const Pod& pod) {
  MemoryRequest apps;
  MemoryRequest sidecars;
  MemoryRequest starting;  // the largest need of an init container with the sidecars before it
  for (const Container& container : pod.containers) {
    const Result<MemoryRequest> request = RequestOf(pod, container);
    if (!request.ok()) return request.error();
    for (const auto& [type, bytes] : *request) {
      if (container.kind == ContainerKind::kInit) {
        starting[type] = std::max(starting[type], SaturatingSum(sidecars[type], bytes));
      } else {
        uint64_t& sum = container.kind == ContainerKind::kApp ? apps[type] : sidecars[type];
        sum = SaturatingSum(sum, bytes);
      }
    }
  }
  // Otherwise, the app containers have each type that the others have: the pod is Guaranteed.
  if (pod.stays_with_memory) {
    for (const auto& entry : sidecars) apps.try_emplace(entry.first);
    for (const auto& entry : starting) apps.try_emplace(entry.first);
  }
  for (auto& [type, bytes] : apps) {
    bytes = std::max(SaturatingSum(bytes, sidecars[type]), starting[type]);
  }
  return apps;
}

}  // namespace alignd::memorymanager
