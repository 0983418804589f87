// `alignctl checkpoint verify`: whether state files are intact, and what to do if they are not.
#pragma once

#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/checkpoint/documents.h"
#include "cli/program.h"

namespace alignd::cli {

// A summary of a file that is intact, checksum and content. Errors: kCorrupt, with what is wrong.
Result<std::string> CheckStateFile(checkpoint::CheckpointKind kind, std::string_view text);

void AddCheckpointCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
