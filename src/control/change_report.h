// Reports what a change of the configuration means for the containers that run.
#pragma once

#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/transition.h"
#include "alignd/base/result.h"
#include "alignd/control/v1/control.pb.h"
#include "control/reports.h"

namespace alignd::control {

// The remedy of a refused change.
inline constexpr char kSeePlan[] =
    "`alignctl plan` shows the whole change, and with --may-move if-needed which containers could "
    "move";

// Why no change can be planned while the state may lack what running containers have.
Error NotAdoptedYet();

// Plans the change on the newest snapshot. `sources.changer` is not null. Containers move only if
// the request allows it.
// Errors: alignd would not start with the configuration; kUnavailable: NotAdoptedYet, or containers
// are being moved.
Result<v1::ChangeResponse> ReportChange(const ReportSources& sources,
                                        const v1::ChangeRequest& request);

// `names`: of pods, as far as they are known.
v1::ChangeResponse ReportTransition(const admission::Node& before, const admission::Node& after,
                                    const admission::Transition& transition, const PodNames& names);

// Why the change is refused, in one line: "default/a app: CPUs 1 become reserved; ...".
std::string WhyRefused(const v1::ChangeResponse& change);

}  // namespace alignd::control
