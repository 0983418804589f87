// What the allocation manager reports while it works: for metrics.
#pragma once

#include <chrono>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "allocation/decision_log.h"

namespace alignd::allocation {

// A pod was decided about, and its callers are answered now. The references are valid during the
// call.
struct DecisionReport {
  const admission::Node& node;
  const admission::NodeState& before;  // the state that the decision started from
  const Pod& pod;
  const PodDecision& decision;        // with its outcome
  bool is_repeated;                   // the last decision about the pod had the same outcome
  std::chrono::nanoseconds computed;  // the time of the decision alone
  std::chrono::nanoseconds whole;     // with the plugins' answers and the disk
};

// Thread-safe. The methods run on threads that must not wait: they return at once. The base class
// ignores everything.
class AllocationEvents {
 public:
  AllocationEvents() = default;
  AllocationEvents(const AllocationEvents&) = delete;
  AllocationEvents& operator=(const AllocationEvents&) = delete;
  virtual ~AllocationEvents() = default;

  virtual void Decided(const DecisionReport& report) { (void)report; }
  // A plugin has answered Allocate, perhaps with an error.
  virtual void PluginAllocated(const std::string& resource, std::chrono::nanoseconds took) {
    (void)resource, (void)took;
  }
  // A write of the state files begins. One write at a time.
  virtual void WriteBegins() {}
  // The state files were written, or the disk failed.
  virtual void Written(const Result<Done>& result, std::chrono::nanoseconds took) {
    (void)result, (void)took;
  }
};

// Ignores everything.
AllocationEvents& NoAllocationEvents();

}  // namespace alignd::allocation
