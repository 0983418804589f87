#include "metrics/metrics_page.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <utility>

#include "metrics/families.h"
#include "metrics/node_metrics.h"

namespace alignd::metrics {
namespace {

void CollectWaits(const allocation::HeldRequests::Waits& waits, Families& families) {
  using Clock = allocation::HeldRequests::Clock;
  families.Gauges("alignd_waiting_requests",
                  "Requests for containers that wait for a device plugin.");
  families.Add(static_cast<uint64_t>(waits.requests));
  families.Gauges("alignd_oldest_waiting_request_seconds",
                  "How long the oldest of these requests has waited; 0: none waits.");
  const bool any = waits.requests > 0;
  families.Add(any ? std::chrono::duration<double>(Clock::now() - waits.oldest).count() : 0.0);
}

// `waiting`: null with --on-refusal=refuse.
void CollectQueue(const allocation::WaitQueue* waiting, Families& families) {
  using allocation::WaitEnd;
  using Clock = std::chrono::steady_clock;
  families.Gauges("alignd_waiting_pods",
                  "Pods that wait in the queue for resources of other pods.");
  families.Add(static_cast<uint64_t>(waiting == nullptr ? 0 : waiting->size()));
  Clock::time_point oldest = Clock::now();
  const Clock::time_point now = oldest;
  if (waiting != nullptr) {
    for (const auto& place : waiting->Places()) oldest = std::min(oldest, place->since);
  }
  families.Gauges("alignd_oldest_waiting_pod_seconds",
                  "How long the oldest of these pods has waited; 0: none waits.");
  families.Add(std::chrono::duration<double>(now - oldest).count());
  families.Counters("alignd_waits_total",
                    "Pods that wait no longer in the queue, by outcome: docs/waiting.md.");
  for (size_t i = 0; i < allocation::kWaitEnds; ++i) {
    const auto end = static_cast<WaitEnd>(i);
    families.Add(waiting == nullptr ? 0 : waiting->Ended(end),
                 {{"outcome", std::string(ToString(end))}});
  }
}

}  // namespace

MetricsPage::MetricsPage(PageSources sources) : sources_(std::move(sources)) {}

std::shared_ptr<const std::string> MetricsPage::Text() {
  const MutexLock lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (text_ && now - computed_ < kReuse) return text_;
  text_ = std::make_shared<const std::string>(Compute());
  computed_ = now;
  return text_;
}

std::string MetricsPage::Compute() const {
  Families families;
  const std::shared_ptr<const allocation::Snapshot> snapshot = sources_.snapshot();
  sources_.events.Collect(sources_.node, snapshot->state, families);
  CollectNode(sources_.node, snapshot->state, families);
  CollectPlugins(snapshot->state,
                 sources_.disconnected ? sources_.disconnected() : std::set<std::string>(),
                 families);
  CollectConditions(sources_.conditions(), families);
  CollectWaits(sources_.waits(), families);
  CollectQueue(sources_.waiting_pods().get(), families);
  families.Counters("alignd_cpuset_repairs_total",
                    "Cpusets of containers that another program changed and alignd restored.");
  families.Add(sources_.repairs());
  families.Gauges("alignd_queue_length", "Tasks that wait for a thread of alignd, by queue.");
  for (const auto& [queue, length] : sources_.queues()) {
    families.Add(static_cast<uint64_t>(length), {{"queue", queue}});
  }
  families.Gauges("alignd_runtime_listed",
                  "1 if the runtime has been listed since alignd started, else 0.");
  families.Add(sources_.runtime_listed() ? 1 : 0);
  families.Gauges("alignd_build_info", "Always 1; the label has the version of alignd.");
  families.Add(1, {{"version", sources_.version}});
  families.Gauges("alignd_start_time_seconds", "When alignd started, in seconds since 1970.");
  families.Add(std::chrono::duration<double>(sources_.started.time_since_epoch()).count());
  std::vector<prometheus::MetricFamily> all = families.all();
  std::ranges::sort(all, {}, &prometheus::MetricFamily::name);
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace alignd::metrics
