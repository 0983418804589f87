// Reports as messages of control.proto, and back.
#pragma once

#include "alignd/base/result.h"
#include "alignd/control/v1/control.pb.h"
#include "control/reports.h"

namespace alignd::control {

v1::GetStatusResponse ToWire(const StatusReport& report);
v1::PodDecision ToWire(const DecisionReport& report);

// Errors: kCorrupt if a CPU list cannot be read.
Result<StatusReport> FromWire(const v1::GetStatusResponse& message);
Result<DecisionReport> FromWire(const v1::PodDecision& message);

}  // namespace alignd::control
