// `alignsim kubelet --cri SOCKET run|remove|list`: pods from manifests, run and removed by hand.
#pragma once

#include "simulator/command.h"

namespace alignd::simulator {

// `run FILE...` prints a line per container: its id and CPUs, or the message of the refusal, which
// also makes it fail; `remove NAME|UID...` takes pods away; `list` prints what the runtime has.
void AddKubeletCommand(CLI::App& app, Action& action);

}  // namespace alignd::simulator
