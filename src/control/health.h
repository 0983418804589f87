// Whether a node is healthy, for the exit status of `alignctl status`.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "alignd/control/v1/control.pb.h"

namespace alignd::control {

// An event, such as CpusetRepaired, is a problem for this time.
inline constexpr std::chrono::minutes kEventLasts{10};

// What makes the node degraded, a few words each; empty: it is healthy. Problems are: each type of
// condition but UnsupportedAnnotation and UnknownFeatureGate; containers that are refused, that
// fail, or that wait again after they failed; device plugins that are not registered; assigned
// devices that do not work.
std::vector<std::string> ProblemsOf(const v1::GetStatusResponse& status);

}  // namespace alignd::control
