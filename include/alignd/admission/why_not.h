// What would have to change or end for a pod to fit now.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"

namespace alignd::admission {

enum class ChangeKind { kRepairDevices, kReduceRequest, kEndPods, kChangePolicy };

// "repair-devices", "reduce-request", "end-pods", "change-policy".
std::string_view ToString(ChangeKind kind);

// One change that alone lets the pod fit. Except kRepairDevices: it is needed before any other
// change helps, and may not be enough by itself.
struct Change {
  ChangeKind kind = ChangeKind::kReduceRequest;
  std::string what;
  uint64_t size = 0;  // CPUs and devices that would be freed; 1 for less memory

  friend bool operator==(const Change&, const Change&) = default;
};

struct WhyNot {
  std::optional<Refusal> refusal;  // nullopt: the pod fits
  std::vector<Change> changes;     // smallest first; a change of the policy last
  bool is_complete = true;         // false: `may_go_on` ended the search
};

// `unknown`: resources of the pod that no device plugin has registered, and without which it is not
// admitted. Admit ignores such resources.
// `name_of`: the name of a pod by its UID. `may_go_on` is asked between decisions; each takes up to
// 1 s per container on the worst machine, and some microseconds on others. Pure otherwise.
WhyNot FindChanges(const Node& node, const NodeState& state, const Pod& pod,
                   const std::set<std::string>& unknown,
                   const std::function<std::string(const std::string& uid)>& name_of,
                   const std::function<bool()>& may_go_on);

}  // namespace alignd::admission
