// `alignctl config`: the settings of alignd.
#pragma once

#include <iosfwd>
#include <string>

#include "alignd/control/v1/control.pb.h"
#include "cli/program.h"

namespace alignd::cli {

// `output`: as of AddOutputOption.
void PrintSettings(const control::v1::GetConfigResponse& report, const std::string& output,
                   std::ostream& out);

void AddConfigCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
