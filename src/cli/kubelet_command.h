// `alignctl kubelet status|attach|detach`: whether the kubelet of this node uses alignd.
#pragma once

#include <CLI/App.hpp>

#include "cli/program.h"

namespace alignd::cli {

void AddKubeletCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
