// Reports of the control service as JSON, for programs.
#pragma once

#include <string>
#include <vector>

#include "control/reports.h"

namespace alignd::cli {

// One JSON object on one line. Where there is no NUMA affinity ("any"), `numa` is null; where a
// resource has no opinion, its `hints` are null.
std::string StatusJson(const control::StatusReport& report);

// A JSON array on one line, newest decision first.
std::string DecisionsJson(const std::vector<control::DecisionReport>& decisions);

}  // namespace alignd::cli
