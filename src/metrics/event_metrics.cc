#include "metrics/event_metrics.h"

#include <algorithm>
#include <vector>

namespace alignd::metrics {
namespace {

// In seconds. A decision has at most 1 s per container.
std::vector<double> DecisionBounds() {
  return {0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10};
}

// In seconds. A write is one fsync or some.
std::vector<double> WriteBounds() {
  return {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100};
}

int64_t Now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

EventMetrics::EventMetrics() : computed_(DecisionBounds()), writes_(WriteBounds()) {}

void EventMetrics::Decided(const allocation::DecisionReport& report) {
  const allocation::PodDecision& decision = report.decision;
  (decision.error ? failed_ : decision.refusal ? refused_ : admitted_).Add();
  computed_.Observe(report.computed);
  kubelet_.Decided(report);
}

void EventMetrics::WriteBegins() { write_began_ = Now(); }

void EventMetrics::Written(const Result<Done>& result, std::chrono::nanoseconds took) {
  write_began_ = 0;
  (result.ok() ? written_ : not_written_).Add();
  writes_.Observe(took);
}

void EventMetrics::Collect(const admission::Node& node, const admission::NodeState& state,
                           Families& families) const {
  kubelet_.Collect(node, state, families);
  calls_.Collect(families);
  families.Histograms("alignd_decision_seconds",
                      "Time to compute a decision, without plugins and disk.");
  families.Add(computed_.Collect());
  families.Counters("alignd_decisions_total",
                    "Decisions about pods, by outcome: docs/conditions.md.");
  families.Add(admitted_.value(), {{"outcome", "admitted"}});
  families.Add(refused_.value(), {{"outcome", "refused"}});
  families.Add(failed_.value(), {{"outcome", "failed"}});
  families.Histograms("alignd_state_write_seconds", "Time of a write of the state files.");
  families.Add(writes_.Collect());
  families.Gauges("alignd_state_write_under_way_seconds",
                  "How long the present write of the state files has lasted; 0: none.");
  const int64_t began = write_began_;
  families.Add(began == 0 ? 0.0 : static_cast<double>(std::max<int64_t>(Now() - began, 0)) / 1e9);
  families.Counters("alignd_topology_writes_total",
                    "Attempts of alignd-events to write the topology object, by outcome.");
  families.Add(topology_conflicts_, {{"outcome", "conflict"}});
  families.Add(topology_failed_, {{"outcome", "failed"}});
  families.Add(topology_written_, {{"outcome", "written"}});
  families.Counters("alignd_state_writes_total", "Writes of the state files, by result.");
  families.Add(not_written_.value(), {{"result", "failed"}});
  families.Add(written_.value(), {{"result", "succeeded"}});
}

}  // namespace alignd::metrics
