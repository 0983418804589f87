#include "allocation/decision.h"

#include <utility>

#include "alignd/admission/init_containers.h"
#include "allocation/current_assignment.h"
#include "allocation/requested_resize.h"

namespace alignd::allocation {

using admission::Admission;
using admission::NodeState;
using devicemanager::PreferenceQuery;

namespace {

// Running containers never move to other CPUs. What the kubelet's file says can contradict the pod:
// parts of containers that it does not have, or that of a later container alone.
Refusal PartsDoNotFit(const Pod& pod) {
  return UnexpectedAdmissionError(
      "the CPUs or memory that the pod has as a whole, and the parts of its containers in the "
      "state "
      "files, do not fit its containers: delete pod " +
      NameOrUid(pod) + " and create it again");
}

}  // namespace

Decision Decide(const admission::Node& node, const NodeState& state,
                const AdmissionRequest& request, const KubeletAllocation& kubelet,
                const Preferences& known, bool may_ask,
                const std::function<std::set<std::string>()>& releasable) {
  const Pod& pod = request.pod;
  Decision decision;
  const auto preferred =
      [&](const PreferenceQuery& query) -> std::optional<std::vector<std::string>> {
    const auto answer = known.find(query);
    if (answer != known.end()) return answer->second;
    if (may_ask) decision.unanswered.insert(query);
    return std::nullopt;
  };
  const auto admit = [&](const std::set<std::string>& released) {
    NodeState from = state;
    for (const std::string& uid : released) admission::ReleasePod(uid, from);
    std::optional<Refusal> refusal = kubelet.Refuse(from, pod, request.kubelet_allocated);
    if (refusal) return Admission{std::move(refusal), std::nullopt, {}, std::move(from), {}};
    admission::LendToInitContainers(node, pod, from);
    Admission admission = kubelet.Admit(node, from, pod, request.kubelet_allocated, preferred);
    if (!admission.admitted() || KeepsItsParts(from, admission.next, pod.uid)) return admission;
    decision.parts_do_not_fit = true;
    return Admission{PartsDoNotFit(pod), std::nullopt, {}, std::move(from), {}};
  };
  decision.admission = admit({});
  if (decision.admission.refusal && decision.unanswered.empty()) decision.released = releasable();
  if (!decision.released.empty()) {
    Admission without_stopped = admit(decision.released);
    if (without_stopped.admitted()) {
      decision.admission = std::move(without_stopped);
    } else {
      decision.released.clear();  // they may start again and find what they had
    }
  }
  if (!decision.unanswered.empty()) return decision;
  decision.by_policy = decision.admission.refusal && !decision.parts_do_not_fit &&
                       !kubelet.Refuse(state, pod, request.kubelet_allocated);
  return decision;
}

}  // namespace alignd::allocation
