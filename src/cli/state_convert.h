// `alignctl state convert`: state files in the form of another kubelet release.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

// Adds it below `alignctl state`.
void AddStateConvert(CLI::App& state, Action& action);

}  // namespace alignd::cli
