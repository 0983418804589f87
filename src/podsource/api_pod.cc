#include "podsource/api_pod.h"

#include <algorithm>
#include <utility>

#include "alignd/pod/cri_agreement.h"
#include "podsource/cri_estimate.h"
#include "podsource/cri_sizes.h"

namespace alignd::podsource {
namespace {

// A resize adds no request to a pod whose containers all have cpu and memory requests: those of a
// Guaranteed pod, if it is not that by resources of its own. A BestEffort pod stays without any.
bool MayHaveAdded(const ApiPod& known) {
  return known.may_be_resized &&
         (QosOf(known.pod) == QosClass::kBurstable || HasPodLevelResources(known.pod));
}

void AddSpec(const ApiPod& known, PodAsk& ask) {
  ask.knows_dra = known.shows_extended_claim;
  if (ask.knows_dra) return;
  ask.spec = known.pod.containers;
  ask.may_have_added = MayHaveAdded(known);
}

}  // namespace

Result<std::optional<PodAsk>> CompareWithCri(const ApiPod& known, const Question& question,
                                             bool claims_add_sizes) {
  Pod pod = known.pod;
  const std::string author(kPodsApi);
  const Pod cri = PodWithoutContainers(*question.sandbox);
  if (cri.stated_qos) pod.stated_qos = cri.stated_qos;
  if (!cri.name.empty()) {  // an update names the UID only
    pod.name = cri.name;
    pod.name_space = cri.name_space;
    pod.policies = cri.policies;
  }
  if (cri.stated_qos) {
    const Result<Done> fits =
        RequireKubeletAllocated(pod, SizesIn(question.sandbox->linux().resources()), author);
    if (!fits.ok()) return fits.error();
  }
  // Nothing shows which container has more than the API says: a container that agrees is known
  // alone. What claims add is no resize.
  if (cri.stated_qos && !claims_add_sizes) {
    const Result<Done> same =
        RequireNoMoreAllocated(pod, SizesIn(question.sandbox->linux().resources()), author);
    if (!same.ok()) return same.error();
  }
  if (question.container) {
    const auto container =
        std::ranges::find(pod.containers, question.container->metadata().name(), &Container::name);
    if (container == pod.containers.end()) return std::optional<PodAsk>();
    // If the pod has resources of its own, CRI shows them for containers without resources. Only
    // eligible containers have something of their own.
    if (cri.stated_qos && IsEligible(pod, *container)) {
      // The kubelet's word about the limit is exact if the shares agree with it. A memory limit
      // may also be larger because the answer is older than a resize.
      const Result<Done> same = RequireAgreement(
          *container, *cri.stated_qos, SizesIn(question.container->linux().resources()), author,
          {.to_quota = true, .to_memory = claims_add_sizes});
      if (!same.ok()) return same.error();
    }
  }
  PodAsk ask{.pod = std::move(pod), .source = author};
  AddSpec(known, ask);
  return std::optional(std::move(ask));
}

Result<std::optional<PodAsk>> WithSizesOfCri(const ApiPod& known, const Question& question,
                                             bool claims_add_sizes, const Error& why) {
  if (!question.container) return why;
  std::optional<PodAsk> ask = SizesOfCri(known.pod, question, claims_add_sizes);
  if (!ask) return ask;
  ask->source = std::string(kPodsApi) + ", cpu and memory from CRI (" + why.message + ")";
  AddSpec(known, *ask);
  return ask;
}

PodAsk Unlisted(const ApiPod& known, const Question& question) {
  const std::string& name = question.container->metadata().name();
  const bool is_ephemeral = std::ranges::find(known.ephemeral, name) != known.ephemeral.end();
  return PoolContainer(
      *question.sandbox, *question.container,
      std::string(kPodsApi) +
          (is_ephemeral ? ", ephemeral container" : ", which does not list the container"));
}

}  // namespace alignd::podsource
