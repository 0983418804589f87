// An emergency switch: while it is on, alignd relays all calls as they come.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "alignd/base/result.h"
#include "reconcile/conditions.h"
#include "sync/mutex.h"

namespace alignd::reconcile {

// The switch is a file in the state directory: a restart must not turn the bypass off.
// Thread-safe.
class Bypass {
 public:
  using Time = std::chrono::system_clock::time_point;

  // kEnding: the runtime is listed for the last time. A decision that is made now could miss a
  // container of the bypass, so calls that need one are refused.
  enum class State { kOff, kEnding, kOn };

  static constexpr char kFileName[] = "bypass";
  // How long TurnOff waits for the relayed calls that are under way.
  static constexpr std::chrono::seconds kCallsEnd{5};

  // `file`: of the switch. Errors: those of host::ReadFile, except that a missing file means off.
  static Result<std::unique_ptr<Bypass>> Load(std::filesystem::path file,
                                              std::chrono::milliseconds calls_end = kCallsEnd);

  // Reports the condition Bypass there. To be called before the other methods.
  void ReportTo(Conditions& conditions) {
    conditions_ = &conditions;
    Remind();
  }

  // How calls that begin now are treated. For a call that gives a pod a sandbox or a container, ask
  // after BeginCall.
  State state() const { return state_; }
  // Since when; nullopt: it is off.
  std::optional<Time> since() const EXCLUDES(mutex_);

  // Whether it is on, and TurnOn could not save the switch.
  bool EndsAtRestart() const { return state_ != State::kOff && !is_saved_; }

  // A relayed call that gives a pod a sandbox or a container. Keep the result until the runtime
  // cannot execute it any more.
  std::shared_ptr<const void> BeginCall() const;

  // Errors: those of host::ReplaceFile, also in the log. Then it is on, but only until alignd
  // restarts; call it again to repeat the write.
  Result<Done> TurnOn() EXCLUDES(switching_, mutex_);
  // Lists the runtime before and after, so that the containers that were created meanwhile are
  // known before others get exclusive CPUs. Takes 15 s at most.
  // Errors, also in the log: kUnavailable if the runtime is not listed or calls do not end;
  // kIo for the file. Then it stays on.
  Result<Done> TurnOff() EXCLUDES(switching_, mutex_);

  // Answers whether a listing of the runtime that began after the call has succeeded; after 5 s at
  // most. To be set before the first call of TurnOff.
  void OnList(std::function<bool()> list) { list_ = std::move(list); }

  // To be called regularly while it is on: the condition is logged again each hour.
  void Remind();

 private:
  Bypass(std::filesystem::path file, std::chrono::milliseconds calls_end)
      : file_(std::move(file)), calls_end_(calls_end) {}

  // From kOn to kOff, or back to kOn with an error.
  Result<Done> End() REQUIRES(switching_) EXCLUDES(mutex_);
  Result<Done> List() const;
  // Waits until no call of BeginCall is under way.
  Result<Done> AwaitCalls() const;
  Result<Done> RemoveSwitch() const;

  const std::filesystem::path file_;
  const std::chrono::milliseconds calls_end_;
  Conditions* conditions_ = nullptr;
  std::function<bool()> list_;
  std::atomic<State> state_ = State::kOff;
  // Shared: a handler may outlive the daemon's other parts.
  const std::shared_ptr<std::atomic<size_t>> under_way_ = std::make_shared<std::atomic<size_t>>(0);
  Mutex switching_;                     // one TurnOn or TurnOff at a time
  std::atomic<bool> is_saved_ = false;  // changed under switching_
  mutable Mutex mutex_;
  std::optional<Time> since_ GUARDED_BY(mutex_);
};

}  // namespace alignd::reconcile
