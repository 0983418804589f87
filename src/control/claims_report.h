// The claimed devices in the report of the pods.
#pragma once

#include "alignd/control/v1/control.pb.h"
#include "control/reports.h"

namespace alignd::control {

// Adds to each container of the report the devices that DRA has allocated to it, and to each pod
// those of which the container is not known. May block.
void AddClaimedDevices(const ReportSources& sources, v1::ListPodsResponse& report);

}  // namespace alignd::control
