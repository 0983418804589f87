// Which Events are created and changed in the cluster, and when.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "apiserver/api_client.h"
#include "events/pod_event.h"

namespace alignd::events {

using apiserver::ApiAnswer;
using apiserver::ApiCall;

// One thread at a time.
//
// Nothing waits for it, and nothing is kept for an API server that does not answer: what is still
// in alignd's report afterwards is sent then.
class EventSender {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::seconds kBetweenChanges{60};  // of one Event
  static constexpr std::chrono::minutes kAfterRefusal{10};    // of one Event by the API server
  static constexpr size_t kEventsAtOnce = 25;                 // in one round
  // If the API server fails with so many of a round's Events, it is not only with one namespace.
  static constexpr int kFailuresInARound = 3;

  // `node`: the Node that reports.
  explicit EventSender(std::string node) : node_(std::move(node)) {}
  EventSender(const EventSender&) = delete;
  EventSender& operator=(const EventSender&) = delete;

  // What `events` has of assignments is not sent, unless it changes: they were made before, and an
  // Event would say that they are new.
  void Know(const std::vector<PodEvent>& events, Clock::time_point now);

  // Sends what has not been sent yet, in order. An Event that the API server refuses for what it
  // is, or for its namespace, is tried again after kAfterRefusal: the log has the reason. Errors:
  // of `call`; kUnavailable if the API server answers 429, or 5xx several times;
  // kInvalidArgument if it does not accept the credential, or does not know the path: the rest of
  // the round is dropped.
  Result<Done> Round(const std::vector<PodEvent>& events, const ApiCall& call,
                     Clock::time_point now);

 private:
  struct Sent {
    int64_t last_unix_ms = 0;
    std::string message = {};
    uint64_t times = 0;           // of the report
    uint64_t count = 0;           // of the object: `times` begins anew when alignd does
    bool exists = false;          // the object
    Clock::time_point when = {};  // of the last call; none: not sent yet
    Clock::time_point not_before = {};
  };
  // What a call came to.
  enum class Outcome { kSent, kRefused, kFailed };

  static bool IsDue(const PodEvent& event, const Sent& sent, Clock::time_point now);
  // How often it happened in all, with what is new in `event`.
  static uint64_t Count(const PodEvent& event, const Sent& sent);
  Result<Outcome> Send(const PodEvent& event, const Sent& sent, const ApiCall& call) const;
  // Drops what is no longer in the report.
  void Forget(const std::vector<PodEvent>& events, Clock::time_point now);

  const std::string node_;
  std::map<std::string, Sent> sent_;  // by namespace/name of the object
};

}  // namespace alignd::events
