// Reads the node form from parsed JSON. Private to the core's readers.
#pragma once

#include "alignd/base/result.h"
#include "alignd/machine/machine.h"
#include "core/json/json_view.h"

namespace alignd {

// As MachineFromNodeJson; errors begin with the path of `node`.
// Errors: kInvalidArgument.
Result<Machine> MachineFromNode(const json::View& node);

}  // namespace alignd
