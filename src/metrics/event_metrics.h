// What the parts of alignd report while they work, as metrics.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "allocation/allocation_events.h"
#include "metrics/call_metrics.h"
#include "metrics/families.h"
#include "metrics/instruments.h"
#include "metrics/kubelet_metrics.h"

namespace alignd::metrics {

// Thread-safe. The events wait for no scrape: they add to atomic numbers. The two by resource look
// up the resource under a lock that a scrape has only while it copies pointers.
class EventMetrics final : public allocation::AllocationEvents {
 public:
  EventMetrics();

  void Decided(const allocation::DecisionReport& report) override;
  void PluginAllocated(const std::string& resource, std::chrono::nanoseconds took) override {
    kubelet_.PluginAllocated(resource, took);
  }
  void WriteBegins() override;
  void Written(const Result<Done>& result, std::chrono::nanoseconds took) override;
  void PluginRegistered(const std::string& resource) { kubelet_.PluginRegistered(resource); }
  // Of alignd-events, since it has started: objects written, attempts that failed, and conflicts.
  void TopologyWrites(uint64_t written, uint64_t failed, uint64_t conflicts) {
    topology_written_ = written;
    topology_failed_ = failed;
    topology_conflicts_ = conflicts;
  }
  proxy::CallEvents& calls() { return calls_; }

  // `state` is the published one.
  void Collect(const admission::Node& node, const admission::NodeState& state,
               Families& families) const;

 private:
  CallMetrics calls_;
  KubeletMetrics kubelet_;
  Counter admitted_;
  Counter refused_;
  Counter failed_;
  Histogram computed_;
  Counter written_;
  Counter not_written_;
  Histogram writes_;
  std::atomic<uint64_t> topology_written_ = 0;
  std::atomic<uint64_t> topology_failed_ = 0;
  std::atomic<uint64_t> topology_conflicts_ = 0;
  std::atomic<int64_t> write_began_ = 0;  // the steady clock's nanoseconds; 0: none is under way
};

}  // namespace alignd::metrics
