// The facts of a topology as JSON, for programs.
#pragma once

#include <map>
#include <string>

#include "alignd/scenario/scenario.h"
#include "picture/picture.h"

namespace alignd::cli {

// One JSON object on one line: the `node` of a scenario (MachineToNodeJson), and beside it, as far
// as they are known, `caches`, `pci_devices` and `owners`. Readers of a `node` ignore these.
// `devices`: those of a description, which become its `devices` again.
std::string TopologyJson(const picture::Picture& picture,
                         const std::map<std::string, scenario::DeviceList>& devices = {});

}  // namespace alignd::cli
