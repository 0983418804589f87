#include "allocation/decision.h"

#include <utility>

#include "alignd/admission/init_containers.h"

namespace alignd::allocation {

using admission::Admission;
using admission::NodeState;
using devicemanager::PreferenceQuery;

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
    return kubelet.Admit(node, from, pod, request.kubelet_allocated, preferred);
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
  decision.by_policy =
      decision.admission.refusal && !kubelet.Refuse(state, pod, request.kubelet_allocated);
  return decision;
}

}  // namespace alignd::allocation
