// The pods that do not start now, for the status.
#pragma once

#include <map>
#include <vector>

#include "alignd/control/v1/control.pb.h"
#include "alignd/pod/pod.h"
#include "allocation/wait_queue.h"
#include "control/decision_history.h"
#include "control/reports.h"

namespace alignd::control {

// Those that wait, and those whose last request was not admitted, also before alignd's last start.
// A container that failed and waits again is one entry. The oldest come first.
std::vector<v1::PendingPod> ReportPending(const ReportSources& sources);

// Adds those with a place in the queue. Of a pod whose containers are refused one by one, each
// entry is kept.
void AddWaiting(const allocation::WaitQueue& waiting,
                std::map<ContainerKey, v1::PendingPod>& entries);

// The decisions of earlier processes; empty: none are saved.
const KeptDecisions& DecisionsBefore(const ReportSources& sources);

}  // namespace alignd::control
