// Builds the messages of the control service from the state of the daemon. These messages are the
// only representation of a report: the server sends them, and alignctl prints them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/node.h"
#include "alignd/control/v1/control.pb.h"
#include "allocation/allocation_manager.h"
#include "allocation/decision_log.h"
#include "reconcile/conditions.h"

namespace alignd::control {

// The maximum per resource. `left_out` is the number of further ones.
inline constexpr int kMaxHints = 64;

// Names of pods (namespace/name) by UID.
using PodNames = std::map<std::string, std::string>;

// `names`: of the pods on the node. Other names are taken from `decisions`. `reused`: containers
// that are left out, because others have what they were assigned (reconcile::ReusedContainers).
v1::GetStatusResponse ReportStatus(const std::string& version, const admission::Node& node,
                                   const allocation::Snapshot& snapshot, PodNames names,
                                   const allocation::DecisionLog& decisions,
                                   const checkpoint::Bindings& bindings,
                                   const std::vector<reconcile::Condition>& conditions,
                                   const std::set<ContainerKey>& reused);

// Merges the hints again to find why the other candidates lost; this can take long. `node` is the
// one on which they were merged.
v1::ContainerDecision ExplainContainer(const admission::Node& node,
                                       const admission::ContainerDecision& decision);

// Calls ExplainContainer for each container.
v1::PodDecision ReportDecision(const admission::Node& node,
                               const allocation::PodDecision& decision);

}  // namespace alignd::control
