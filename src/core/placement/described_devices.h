// Private to the core.
#pragma once

#include <string>

#include "alignd/base/result.h"
#include "alignd/machine/machine.h"
#include "alignd/scenario/scenario.h"

namespace alignd::placement {

// Errors: kInvalidArgument: devices cannot have that name, or one is on a NUMA node that the
// machine does not have.
Result<Done> CheckDevices(const Machine& machine, const std::string& resource,
                          const scenario::DeviceList& devices);

}  // namespace alignd::placement
