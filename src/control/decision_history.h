// The decisions that `alignctl explain` shows, on the disk: a restart of alignd does not lose them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "alignd/control/v1/control.pb.h"
#include "allocation/allocation_manager.h"
#include "allocation/decision_log.h"
#include "host/durable_file.h"
#include "sync/mutex.h"
#include "sync/task_queue.h"

namespace alignd::control {

using KeptDecisions = std::vector<std::shared_ptr<const v1::PodDecision>>;  // newest first

// The limit of the file.
inline constexpr size_t kMaxHistoryBytes = size_t{2} * 1024 * 1024;

// The text of the file: a line with format, checksum and size, then a v1::ExplainResponse. Too many
// decisions for the limits are left out: first the oldest of pods that asked for nothing exclusive,
// then the oldest.
std::string FormatDecisions(KeptDecisions decisions, size_t max_bytes = kMaxHistoryBytes);

// Errors: kCorrupt, naming what is wrong.
Result<KeptDecisions> ParseDecisions(std::string_view text);

// Saved is what is shown, and not how it was computed: after a restart, the machine or the policies
// may be others, and would give another explanation.
//
// A thread of its own explains and writes. No decision and no state file waits for it; a crash
// loses the decisions of the last second or so.
class DecisionHistory {
 public:
  using Milliseconds = std::chrono::milliseconds;

  static constexpr char kFileName[] = "decisions";

  struct Settings {
    Milliseconds delay{1000};   // from a decision to the write, which then has those that followed
    Milliseconds retry{10000};  // after a write that failed
    // After a write, if pods only got the same answers again since: the kubelet repeats pods that
    // are refused.
    Milliseconds repeats{60000};
    Milliseconds last{2000};  // Stop explains no further decision after this time
    size_t max_bytes = kMaxHistoryBytes;
  };

  // Reads the file. One that is damaged or cannot be read is logged and renamed to `*.damaged`; it
  // ends no start. The references outlive this object.
  DecisionHistory(std::filesystem::path file, const admission::Node& node, const Settings& settings,
                  host::FileCalls& calls = host::FileCalls::System());
  DecisionHistory(const DecisionHistory&) = delete;
  DecisionHistory& operator=(const DecisionHistory&) = delete;
  ~DecisionHistory() { Stop(); }

  // Saves these decisions from now on. `allocation` outlives the next Stop. Call it once.
  void Follow(allocation::AllocationManager& allocation);

  // Saves what is not saved yet, and ends. A write that is under way is made shorter, too.
  void Stop();

  // Those of earlier processes. Thread-safe: they do not change.
  const KeptDecisions& before() const { return before_; }
  // "namespace/name" of a pod that they have; empty: they do not have it. Thread-safe.
  std::string NameBefore(const std::string& pod_uid) const;

  // Why the last write failed; empty: it did not. Thread-safe.
  std::string WhyNotSaved() const EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;
  using Decision = std::shared_ptr<const allocation::PodDecision>;
  // Null: it cannot be saved.
  using Explained = std::map<Decision, std::shared_ptr<const v1::PodDecision>>;

  KeptDecisions Load() const;
  void Changed();
  void Write();
  Result<Done> Save(const std::string& text) const;
  // Whether only repetitions are not saved, and not yet for long enough. Then a write is posted.
  bool MayWait(const std::vector<Decision>& decisions);
  // The decision, or an earlier one with the same answer and explanation.
  Explained::const_iterator Find(const Decision& decision) const;
  // What is to be saved. Explains the decisions that are new, until `until_`.
  KeptDecisions Explain(const std::vector<Decision>& decisions);

  const std::filesystem::path file_;
  const admission::Node& node_;
  const Settings settings_;
  host::FileCalls& calls_;
  const KeptDecisions before_;
  const allocation::DecisionLog* log_ = nullptr;  // set before the first task
  std::atomic<bool> is_due_ = false;              // a write is posted, or has failed
  std::atomic<Milliseconds> pause_;               // until the next write
  // Nothing is explained after it. Stop sets it.
  std::atomic<Clock::time_point> until_ = Clock::time_point::max();
  // Used by the thread that writes.
  Explained explained_;
  std::optional<Clock::time_point> written_;
  bool has_repeats_ = false;  // that are not saved; a write is posted
  bool has_failed_ = false;
  mutable Mutex mutex_;
  std::string why_not_saved_ GUARDED_BY(mutex_);
  TaskQueue queue_{"history", TaskQueue::kLinger};
};

}  // namespace alignd::control
