// The report of a change of the configuration, as text and as JSON.
#pragma once

#include <iosfwd>
#include <string>

#include "alignd/control/v1/control.pb.h"

namespace alignd::cli {

// Like a diff: lines that begin with - and + are before and after the change, ! what is refused.
void PrintChange(const control::v1::ChangeResponse& change, std::ostream& out);

// One JSON object on one line.
std::string ChangeJson(const control::v1::ChangeResponse& change);

}  // namespace alignd::cli
