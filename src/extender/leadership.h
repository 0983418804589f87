// Which of several replicas answers kube-scheduler, and from when on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "alignd/base/result.h"
#include "extender/leader_elector.h"

namespace alignd::extender {

// A thread of its own takes part in the election. Thread-safe.
//
// Each replica keeps the places of its own answers only. So a new leader decides
// - at once, with nodes and pods that were listed after it became the leader, if the former leader
//   has released the Lease: it does that when all pods that it let through are shown;
// - else with nodes and pods that were listed `wait` later: by then, each pod that the former
//   leader let through is bound, or its place is void.
class Leadership {
 public:
  // What this replica knows of the cluster. Its functions are thread-safe.
  struct View {
    // What calls are answered with is what the API server had then, or newer.
    std::function<std::chrono::steady_clock::time_point()> as_of;
    std::function<void()> list_again;
    std::function<size_t()> pods_on_their_way;
  };
  struct Settings {
    LeaderElector::Settings election = {};
    std::chrono::milliseconds wait{60'000};
    // Called after each renewal, with an own connection; empty: nothing is announced.
    std::function<Result<Done>()> announce = {};
  };

  // Begins. `view` outlives it.
  Leadership(Settings settings, LeaderElector::Connect connect, View view);
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;
  // Ends the thread, at the latest when a call of the API server is over.
  ~Leadership();

  // Whether a call is answered now, with the number of the term: an answer of another term must not
  // be sent. Errors: kUnavailable: NotLeader, NewLeader.
  Result<uint64_t> Permits() const;

  // From now on, nothing is answered. Releases the Lease when all pods that were let through are
  // shown; if they are not within `patience`, the Lease is left to expire. Once.
  void HandOver(std::chrono::milliseconds patience);

  // For /metrics.
  std::string MetricsPage() const;

 private:
  class State;
  const std::unique_ptr<State> state_;
};

}  // namespace alignd::extender
