// One look after the other at alignd's status, and what it means for the cluster.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "alignd/base/result.h"
#include "alignd/control/v1/control.pb.h"
#include "events/event_sender.h"

namespace alignd::events {

// One thread at a time. Both functions are called by Look: the first for alignd's report, the
// second, only if there is something to send, for a connection with the credential of now.
class Reporter {
 public:
  using GetReport = std::function<Result<control::v1::GetStatusResponse>()>;
  using Connect = std::function<Result<ApiCall>()>;
  using Clock = EventSender::Clock;

  // After a failure of the API server: the wait doubles from the first to the last.
  static constexpr std::chrono::seconds kFirstWait{2};
  static constexpr std::chrono::seconds kLastWait{60};
  // For so long after alignd's start, assignments that appear are those of before: alignd knows the
  // names of their pods only when the runtime has answered.
  static constexpr std::chrono::seconds kRestored{30};

  Reporter(std::string node, GetReport get_report, Connect connect);
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // Logs a failure when it begins, when it changes and when it ends.
  void Look(Clock::time_point now);

 private:
  Result<Done> Send(const std::vector<PodEvent>& events, Clock::time_point now);
  void Note(const Result<Done>& outcome, Clock::time_point now);

  const GetReport get_report_;
  const Connect connect_;
  EventSender sender_;
  bool has_looked_ = false;
  std::string failure_;  // the last one, which is not over; empty: none
  std::chrono::seconds wait_ = kFirstWait;
  std::optional<Clock::time_point> not_before_;
};

}  // namespace alignd::events
