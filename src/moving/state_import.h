// A kubelet's state files become alignd's.
#pragma once

#include "alignd/base/result.h"
#include "allocation/checkpoint_store.h"
#include "moving/move_plan.h"

namespace alignd::moving {

struct ImportRequest {
  allocation::StatePaths from;  // the kubelet's
  bool devices = true;          // also kubelet_internal_checkpoint
  // Whether the kubelet's CPU and memory files are removed: with policy none, a kubelet does not
  // start with them.
  bool removes_source = false;
};

// Reads the kubelet's files and checks them as a start of alignd would: checksums, machine,
// policies, reserved CPUs, allocatable memory, no CPU and no device twice. What was of an earlier
// alignd (device_bindings, cpu_originals, cpu_shares, boot_id) is removed. Files of kubelets 1.18
// to 1.37. Problems, naming the pods: a file that cannot be used, CPUs or memory of a pod as a
// whole without the feature gate, placeholders of alignd's mirror in place of devices. Errors: kIo;
// kNotFound: the kubelet has no state file.
Result<MovePlan> PlanImport(const AligndSide& alignd, const ImportRequest& request);

}  // namespace alignd::moving
