// The node form out of JSON that is parsed already. Private to the core's readers.
#pragma once

#include "alignd/base/result.h"
#include "alignd/machine/machine.h"
#include "core/json/json_view.h"

namespace alignd {

// What MachineFromNodeJson does, with errors that begin with the path of `node`.
// Errors: kInvalidArgument.
Result<Machine> MachineFromNode(const json::View& node);

}  // namespace alignd
