// alignd's state files become a kubelet's.
#pragma once

#include <optional>

#include "alignd/base/result.h"
#include "alignd/checkpoint/convert.h"
#include "alignd/config/kubelet_config.h"
#include "allocation/checkpoint_store.h"
#include "moving/move_plan.h"

namespace alignd::moving {

struct ExportRequest {
  allocation::StatePaths to;  // the kubelet's
  checkpoint::KubeletRelease release = checkpoint::KubeletRelease::k1_37;
  // The configuration that the kubelet will have; nullopt: not known, then alignd's counts.
  std::optional<KubeletConfig> kubelet;
  bool removes_source = false;  // alignd's own files, which are out of date from then on
};

// Reads alignd's files and checks them as a start of alignd does. The kubelet admits all pods again
// when it starts: the change to its configuration is planned as `alignctl plan` does it, and each
// container that the kubelet would refuse or move is a problem. So is what the release cannot keep,
// and a device that two pods have.
// Errors: kIo; kNotFound: alignd has no state file.
Result<MovePlan> PlanExport(const AligndSide& alignd, const ExportRequest& request);

}  // namespace alignd::moving
