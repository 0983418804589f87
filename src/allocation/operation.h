// What the allocation manager keeps of a pod that is being admitted.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "allocation/admission_request.h"
#include "allocation/allocation_manager.h"
#include "allocation/decision.h"
#include "allocation/decision_log.h"
#include "allocation/held_requests.h"
#include "allocation/plugin_needs.h"
#include "allocation/wait_queue.h"

namespace alignd::allocation {

// One pod. Lives until it is answered, and in the callbacks of plugins that have not answered yet.
// Decision thread only.
struct AllocationManager::Operation {
  AdmissionRequest request;     // that of the first caller, completed; constant from then on
  std::vector<Caller> waiting;  // for this answer
  std::vector<Caller> behind;   // of the same pod, with more containers: decided afterwards
  bool ended = false;           // the plugins' answers are ignored from here on

  std::optional<PodDecision> decision;         // once it is made
  std::optional<admission::NodeState> before;  // the state that it started from
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  std::chrono::nanoseconds computed{0};
  // Once it is refused: true if no caller waits for the explanation any more.
  std::shared_ptr<std::atomic<bool>> abandoned;
  std::optional<Refusal> refusal;  // without explanation
  std::chrono::steady_clock::time_point refused{};

  // Refused, and being explained: nothing is reserved any more.
  bool IsRefused() const { return abandoned != nullptr; }
  Preferences preferences;
  int consultations = 0;
  size_t awaited = 0;         // answers of plugins
  bool is_committed = false;  // waits for the disk

  bool by_policy = false;                    // of the refusal: as Decision::by_policy
  uint64_t generation = 0;                   // of the WaitQueue, when it was decided
  bool has_joined = false;                   // the WaitQueue, since it was refused
  bool was_waiting = false;                  // waited in the WaitQueue before
  bool keeps_place = false;                  // in the WaitQueue, although it is refused
  WaitEnd wait_end = WaitEnd::kOtherReason;  // if it does not keep it and is not admitted

  bool is_reserved = false;        // in the ledger, perhaps with nothing new
  std::set<std::string> released;  // stopped pods whose assignments it takes
  std::vector<std::pair<PluginAsk, std::string>> responses;
};

}  // namespace alignd::allocation
