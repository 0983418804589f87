// What would have to change or end for a pod to fit: admission::FindChanges as a message.
#pragma once

#include <functional>

#include "alignd/base/result.h"
#include "alignd/control/v1/control.pb.h"
#include "control/reports.h"

namespace alignd::control {

// `may_go_on` is asked between decisions. A pod that would fit, but whose last request failed for
// another cause (a plugin's error, a full disk), has the reason `failed` and that error. One that
// would fit, but that the queue would answer, has what that would say
// (AllocationManager::AskQueue). Differs from the daemon: of a manifest's resource that no plugin
// has registered, and that is not in notDevices, it is not known whether the kubelet's own plugin
// serves it. It counts as missing. Errors: kInvalidArgument: a manifest's pod runs here; kNotFound
// if the pod was not refused since the start or as long as refused pods are shown, or was too large
// to be kept; kInvalidArgument if several pods have that name, and as ParseKubernetesPod.
Result<v1::WhyNotResponse> ReportWhyNot(const ReportSources& sources,
                                        const v1::WhyNotRequest& request,
                                        const std::function<bool()>& may_go_on);

}  // namespace alignd::control
