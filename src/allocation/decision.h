// One attempt to decide about a pod.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/devicemanager/device_policy.h"
#include "alignd/pod/pod.h"
#include "allocation/admission_request.h"
#include "allocation/kubelet_allocation.h"

namespace alignd::allocation {

// What plugins answered to GetPreferredAllocation; nullopt: no preference.
using Preferences =
    std::map<devicemanager::PreferenceQuery, std::optional<std::vector<std::string>>>;

struct Decision {
  // If not empty, these plugins are to be asked first. The rest is void then.
  std::set<devicemanager::PreferenceQuery> unanswered;
  // The message of a refusal is the kubelet's, without an explanation.
  admission::Admission admission;
  // Refused by admission::Admit, not because of what the kubelet allocated.
  bool by_policy = false;
  // Refused because what the pod has as a whole would be allocated anew (KeepsItsParts).
  bool parts_do_not_fit = false;
  // Stopped pods that the admission has released.
  std::set<std::string> released;
};

// Decides as KubeletAllocation::Admit does. If the pod does not fit, decides again without the pods
// that `releasable` returns; these stay untouched if that does not help. `may_ask`: whether a
// preference that `known` lacks is to be asked for; otherwise the plugin has none.
Decision Decide(const admission::Node& node, const admission::NodeState& state,
                const AdmissionRequest& request, const KubeletAllocation& kubelet,
                const Preferences& known, bool may_ask,
                const std::function<std::set<std::string>()>& releasable);

}  // namespace alignd::allocation
