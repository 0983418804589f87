// The page /metrics.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "allocation/held_requests.h"
#include "allocation/ledger.h"
#include "allocation/wait_queue.h"
#include "metrics/event_metrics.h"
#include "reconcile/conditions.h"
#include "sync/mutex.h"

namespace alignd::metrics {

// Where the numbers come from. The functions are thread-safe and wait for no decision; the
// references outlive the page.
struct PageSources {
  std::string version;
  const admission::Node& node;
  const EventMetrics& events;
  std::function<std::shared_ptr<const allocation::Snapshot>()> snapshot;
  std::function<std::vector<reconcile::Condition>()> conditions;
  std::function<uint64_t()> repairs;  // of cpusets, since the start
  std::function<allocation::HeldRequests::Waits()> waits;
  std::function<std::shared_ptr<const allocation::WaitQueue>()> waiting_pods;
  std::function<std::map<std::string, size_t>()> queues;  // tasks that wait, by queue
  std::function<bool()> runtime_listed;                   // since the start
  // The resources whose plugin was registered and is disconnected. Empty: there is none.
  std::function<std::set<std::string>()> disconnected = {};
  std::chrono::system_clock::time_point started = std::chrono::system_clock::now();
};

// Thread-safe. One scrape computes at a time. Callers that come within kReuse get the same text, so
// that a flood of scrapes costs no more than four a second.
class MetricsPage {
 public:
  static constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";
  static constexpr std::chrono::milliseconds kReuse{250};

  explicit MetricsPage(PageSources sources);
  MetricsPage(const MetricsPage&) = delete;
  MetricsPage& operator=(const MetricsPage&) = delete;

  // In Prometheus' text format, sorted by name.
  std::shared_ptr<const std::string> Text();

 private:
  using Clock = std::chrono::steady_clock;

  std::string Compute() const;

  const PageSources sources_;
  Mutex mutex_;
  std::shared_ptr<const std::string> text_ GUARDED_BY(mutex_);
  Clock::time_point computed_ GUARDED_BY(mutex_);
};

}  // namespace alignd::metrics
