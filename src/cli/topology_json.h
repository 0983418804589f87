// The facts of a topology as JSON, for programs.
#pragma once

#include <string>

#include "picture/picture.h"

namespace alignd::cli {

// One JSON object on one line: the `node` of a scenario (MachineToNodeJson), and beside it, as far
// as they are known, `caches`, `pci_devices` and `owners`. Readers of a `node` ignore these.
std::string TopologyJson(const picture::Picture& picture);

}  // namespace alignd::cli
