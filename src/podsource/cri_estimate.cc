#include "podsource/cri_estimate.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "alignd/pod/resource_name.h"
#include "podsource/cri_sizes.h"

namespace alignd::podsource {
namespace {

using runtime::v1::LinuxContainerResources;

Quantity Millis(int64_t millis) {
  Result<Quantity> quantity = Quantity::Parse(std::to_string(millis) + "m");
  return quantity.ok() ? *quantity : Quantity();
}

// Whether the container's limit is not its request. In a Guaranteed pod, each container's
// limits are its requests, unless the pod has resources of its own. Then a container without limits
// is shown with those of the pod, and another may request less than its limit. A pod without such a
// container cannot be distinguished.
// Source: kubelet pkg/kubelet/kuberuntime/kuberuntime_container_linux.go, getCPULimit.
bool LimitDiffersFromRequest(const LinuxContainerResources& cri) {
  if (cri.cpu_quota() <= 0 || cri.cpu_period() <= 0 || cri.cpu_shares() <= 0) return false;
  const int64_t millis = MillisFromShares(cri.cpu_shares());
  const int64_t next = SharesFromMillis(millis + 1);
  if (millis > 0 && next <= cri.cpu_shares()) return false;  // the maximum, for all larger requests
  return QuotaFromMillis(std::max<int64_t>(millis, 1), cri.cpu_period()) != cri.cpu_quota();
}

// Whether the quota may be the request and CPUs of ResourceClaims: these are added to a limit, and
// each container of a Guaranteed pod without pod-level resources has a request.
bool ClaimsMayExplain(const LinuxContainerResources& cri) {
  const int64_t request = MillisFromShares(cri.cpu_shares());
  return request > 0 && MillisFromQuota(cri) > request;
}

}  // namespace

Resources EstimateResources(const LinuxContainerResources& cri, QosClass qos,
                            bool claims_add_sizes) {
  Resources estimate;
  int64_t limit_millis = MillisFromQuota(cri);
  const bool is_claimed = claims_add_sizes && LimitDiffersFromRequest(cri) && ClaimsMayExplain(cri);
  if (is_claimed && qos == QosClass::kGuaranteed) {
    limit_millis = MillisFromShares(cri.cpu_shares());
  }
  int64_t request_millis = MillisFromShares(cri.cpu_shares());
  // In a Guaranteed pod, request and limit are equal, and the quota is more exact than the shares.
  if (qos == QosClass::kGuaranteed && limit_millis > 0) request_millis = limit_millis;
  if (limit_millis > 0) estimate.limits["cpu"] = Millis(limit_millis);
  if (request_millis > 0) estimate.requests["cpu"] = Millis(request_millis);
  if (cri.memory_limit_in_bytes() > 0) {
    const Quantity memory(cri.memory_limit_in_bytes(), Quantity::Format::kBinarySi);
    estimate.limits["memory"] = memory;
    if (qos == QosClass::kGuaranteed) estimate.requests["memory"] = memory;
  }
  for (const auto& [resource, bytes] : Hugepages(cri)) {
    estimate.limits[resource] = bytes;
    estimate.requests[resource] = bytes;
  }
  return estimate;
}

PodAsk PoolContainer(const runtime::v1::PodSandboxConfig& sandbox,
                     const runtime::v1::ContainerConfig& container, std::string source) {
  PodAsk ask{PodWithoutContainers(sandbox), std::move(source)};
  ask.pod.is_complete = false;
  // Nothing of it is aligned, whatever its namespace has by default.
  ask.pod.defaults.emplace();
  ask.pod.policies = {.unsupported = std::move(ask.pod.policies.unsupported)};
  // Not the class of its pod: without a request, no manager assigns it anything.
  ask.pod.stated_qos = QosClass::kBurstable;
  ask.pod.containers.push_back({container.metadata().name(), ContainerKind::kApp, Resources{}});
  return ask;
}

PodAsk EstimateContainer(const runtime::v1::PodSandboxConfig& sandbox,
                         const runtime::v1::ContainerConfig& container, bool claims_add_sizes) {
  PodAsk ask{PodWithoutContainers(sandbox), std::string(kCriEstimate)};
  ask.is_estimate = true;
  ask.pod.is_complete = false;
  // A container outside of the kubelet's cgroups gets no exclusive CPUs.
  if (!ask.pod.stated_qos) ask.pod.stated_qos = QosClass::kBurstable;
  ask.pod.containers.push_back(
      {container.metadata().name(), ContainerKind::kApp,
       EstimateResources(container.linux().resources(), *ask.pod.stated_qos, claims_add_sizes)});
  ask.pod.lacks_memory_requests = ask.pod.stated_qos == QosClass::kBurstable;
  const Resources& estimate = ask.pod.containers.front().resources;
  if (ask.pod.stated_qos == QosClass::kGuaranteed && estimate.limits.empty() &&
      estimate.requests.empty()) {
    // Each container that a Guaranteed pod is admitted with has limits.
    return PoolContainer(sandbox, container, std::move(ask.source));
  }
  const LinuxContainerResources& cri = container.linux().resources();
  const bool is_claimed = claims_add_sizes && ClaimsMayExplain(cri);
  if (ask.pod.stated_qos == QosClass::kGuaranteed && LimitDiffersFromRequest(cri) && !is_claimed) {
    const Resources& shown = ask.pod.containers.front().resources;
    ask.pod.pod_level = Resources{shown.limits, shown.limits};
    ask.source += " (its pod has resources of its own: quota " + std::to_string(cri.cpu_quota()) +
                  " does not match " + std::to_string(cri.cpu_shares()) + " shares)";
  }
  return ask;
}

std::optional<PodAsk> SizesOfCri(const Pod& stated, const Question& question,
                                 bool claims_add_sizes) {
  const auto listed =
      std::ranges::find(stated.containers, question.container->metadata().name(), &Container::name);
  if (listed == stated.containers.end()) return std::nullopt;
  PodAsk ask{.pod = PodWithoutContainers(*question.sandbox), .source = {}, .is_estimate = true};
  Pod& pod = ask.pod;
  if (pod.name.empty()) {  // an update names the UID only
    pod.name = stated.name;
    pod.name_space = stated.name_space;
  }
  pod.is_complete = false;
  pod.pod_level = stated.pod_level;
  ask.states_pod_level = HasPodLevelResources(stated);
  ask.apps = AppContainers(stated);
  pod.priority = stated.priority;
  if (!pod.stated_qos) pod.stated_qos = QosOf(stated);
  Container& container = pod.containers.emplace_back(*listed);
  // In a pod with resources of its own, CRI may show those for any other container.
  if (!IsEligible(stated, container)) return ask;
  const bool has_equal = HasPodLevelResources(stated);
  Resources sizes =
      EstimateResources(question.container->linux().resources(),
                        has_equal ? QosClass::kGuaranteed : *pod.stated_qos, claims_add_sizes);
  const auto memory = container.resources.requests.find("memory");
  const auto limit = sizes.limits.find("memory");
  if (memory != container.resources.requests.end() && !sizes.requests.contains("memory")) {
    const bool exceeds = limit != sizes.limits.end() && limit->second < memory->second;
    sizes.requests["memory"] = exceeds ? limit->second : memory->second;
  }
  const auto is_size = [](const auto& entry) {
    return entry.first == "cpu" || IsMemoryName(entry.first);
  };
  for (auto* const list : {&container.resources.requests, &container.resources.limits}) {
    std::erase_if(*list, is_size);
  }
  container.resources.requests.merge(sizes.requests);
  container.resources.limits.merge(sizes.limits);
  return ask;
}

void CriEstimate::Ask(const Question& question, Answer answer) {
  if (!question.container) {
    answer(std::optional<PodAsk>());
    return;
  }
  answer(
      std::optional(EstimateContainer(*question.sandbox, *question.container, claims_add_sizes_)));
}

}  // namespace alignd::podsource
