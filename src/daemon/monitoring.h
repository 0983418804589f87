// Serves metrics and health over HTTP.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/control/v1/control.pb.h"
#include "allocation/allocation_manager.h"
#include "daemon/watchdog.h"
#include "metrics/event_metrics.h"
#include "metrics/http_server.h"
#include "reconcile/conditions.h"
#include "reconcile/reconciler.h"
#include "sync/task_queue.h"

namespace alignd::daemon {

// What is shown. All of it outlives the server.
struct MonitoredParts {
  const admission::Node& node;
  const allocation::AllocationManager& allocation;
  reconcile::Conditions& conditions;
  const reconcile::Reconciler& reconciler;
  const metrics::EventMetrics& events;
  const TaskQueue& background;
  const TaskQueue& io;
  const std::atomic<bool>& is_stopping;
  // The report for the live page, with the devices. On any thread; waits for no decision.
  std::function<control::v1::GetStatusResponse()> status;
  // The resources whose plugin is disconnected (PluginRegistry::Disconnected).
  std::function<std::set<std::string>()> disconnected;
  std::filesystem::path root;  // has the sys/ of the machine; empty: the machine is a simulated one
};

// The live page and /metrics, /livez, /healthz and /readyz on `address`, as --metrics-address has
// it; null for `off`. `threads`: those that must answer for /livez. An address that cannot be used
// ends nothing: it is the condition MetricsUnavailable, and is tried again.
std::unique_ptr<metrics::HttpServer> StartMonitoring(const std::string& address,
                                                     const MonitoredParts& parts,
                                                     std::map<std::string, Watchdog::Post> threads);

}  // namespace alignd::daemon
