#include "podsource/cri_estimate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "alignd/pod/cri_sizes.h"
#include "alignd/pod/resource_name.h"
#include "podsource/cri_sizes.h"

namespace alignd::podsource {
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
  const CriSizes cri = SizesIn(container.linux().resources());
  ask.pod.containers.push_back({container.metadata().name(), ContainerKind::kApp,
                                EstimateResources(cri, *ask.pod.stated_qos, claims_add_sizes)});
  ask.pod.lacks_memory_requests = ask.pod.stated_qos == QosClass::kBurstable;
  const Resources& estimate = ask.pod.containers.front().resources;
  if (ask.pod.stated_qos == QosClass::kGuaranteed && estimate.limits.empty() &&
      estimate.requests.empty()) {
    // Each container that a Guaranteed pod is admitted with has limits.
    return PoolContainer(sandbox, container, std::move(ask.source));
  }
  const bool is_claimed = claims_add_sizes && ClaimsMayExplain(cri);
  if (ask.pod.stated_qos == QosClass::kGuaranteed && LimitDiffersFromRequest(cri) && !is_claimed) {
    const Resources& shown = ask.pod.containers.front().resources;
    ask.pod.pod_level = Resources{shown.limits, shown.limits};
    ask.source += " (its pod has resources of its own: quota " + std::to_string(cri.cpu_quota) +
                  " does not match " + std::to_string(cri.cpu_shares) + " shares)";
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
      EstimateResources(SizesIn(question.container->linux().resources()),
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
