// A pod as the kubelet's Pods API shows it, beside what CRI says of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "podsource/resource_source.h"

namespace alignd::podsource {

inline constexpr std::string_view kPodsApi = "kubelet's Pods API";

// An answer of the API.
struct ApiPod {
  Pod pod;
  std::vector<std::string> ephemeral;  // containers that are not in `pod`
  bool shows_extended_claim = false;   // ShowsExtendedClaim
  // HasLaterGeneration, and not HasRequestsSinceCreation
  bool may_be_resized = true;
};

// The pod as the API describes it; nullopt if it lacks the container of the question.
// Errors: kInvalidArgument if it contradicts CRI, naming both sides.
Result<std::optional<PodAsk>> CompareWithCri(const ApiPod& known, const Question& question,
                                             bool claims_add_sizes);

// The API shows the sizes that the pod is to have; CRI has those that the kubelet has allocated.
// They differ while the kubelet does not allow a resize, perhaps for days. The container then has
// its sizes from CRI. Before its containers, nothing is known of such a pod: another source would
// lack what the API says besides. `why`: the sizes of the API are not used. nullopt if the API
// lacks the container. Errors: `why`, without a container in the question.
// Source: kubelet pkg/kubelet/kubelet.go, HandlePodUpdates; pod_workers.go, podSyncLoop
// (UpdatePodFromAllocation); pkg/kubelet/apis/pods/server.go, GetPod.
Result<std::optional<PodAsk>> WithSizesOfCri(const ApiPod& known, const Question& question,
                                             bool claims_add_sizes, const Error& why);

// The container is not in the spec that the API has just shown.
PodAsk Unlisted(const ApiPod& known, const Question& question);

}  // namespace alignd::podsource
