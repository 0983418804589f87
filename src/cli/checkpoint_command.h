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

// What to do about the bad file at `path`. `remedy`: of the core, for a kubelet. It is replaced if
// it says to drain the node: for alignd's own file, and if the reader of the file is not known.
std::string RemedyForReader(const std::string& path, checkpoint::CheckpointKind kind,
                            const std::string& remedy);

void AddCheckpointCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
