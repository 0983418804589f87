// `alignsim kubelet --cri SOCKET run|remove|list`: runs and removes pods from manifests.
#pragma once

#include "simulator/command.h"

namespace alignd::simulator {

// `run FILE...` prints a line per container: its id and CPUs, or the message of the refusal; a
// refusal makes it fail. `remove NAME|UID...` removes pods. `list` prints the pods of the runtime.
void AddKubeletCommand(CLI::App& app, Action& action);

}  // namespace alignd::simulator
