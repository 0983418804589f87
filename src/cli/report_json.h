// Reports of the control service as JSON, for programs.
#pragma once

#include <string>

#include "alignd/control/v1/control.pb.h"

namespace alignd::cli {

// One JSON object on one line. Field names are those of control.proto. Exceptions: what has a name
// is keyed by it (devices by resource, hints by resource); `numa` is null for "any NUMA node";
// `hints` is null for a resource without an opinion.
std::string StatusJson(const control::v1::GetStatusResponse& status);

// A JSON array on one line, newest decision first.
std::string DecisionsJson(const control::v1::ExplainResponse& explained);

}  // namespace alignd::cli
