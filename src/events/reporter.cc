#include "events/reporter.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace alignd::events {

Reporter::Reporter(std::string node, GetReport get_report, Connect connect)
    : get_report_(std::move(get_report)), connect_(std::move(connect)), sender_(std::move(node)) {}

Result<Done> Reporter::Send(const std::vector<PodEvent>& events, Clock::time_point now) {
  // Most looks have nothing to send, and need no connection.
  std::optional<ApiCall> connected;
  return sender_.Round(
      events,
      [&](const std::string& method, const std::string& path,
          const std::string& body) -> Result<ApiAnswer> {
        if (!connected) {
          Result<ApiCall> call = connect_();
          if (!call.ok()) return call.error();
          connected = *std::move(call);
        }
        return (*connected)(method, path, body);
      },
      now);
}

void Reporter::Look(Clock::time_point now) {
  if (not_before_ && now < *not_before_) return;
  const auto report = get_report_();
  if (!report.ok()) return Note(report.error(), now);
  const std::vector<PodEvent> events = EventsOf(*report);
  const int64_t age_ms = report->time_unix_ms() - report->started_unix_ms();
  if (!std::exchange(has_looked_, true) || age_ms < std::chrono::milliseconds(kRestored).count()) {
    sender_.Know(events, now);
  }
  Note(Send(events, now), now);
}

void Reporter::Note(const Result<Done>& outcome, Clock::time_point now) {
  if (outcome.ok()) {
    if (!failure_.empty()) spdlog::info("Events are reported again");
    failure_.clear();
    wait_ = kFirstWait;
    not_before_.reset();
    return;
  }
  const std::string text = outcome.error().Text();
  if (text != failure_) spdlog::warn("no Events are reported: {}", text);
  failure_ = text;
  not_before_ = now + wait_;
  wait_ = std::min(2 * wait_, kLastWait);
}

}  // namespace alignd::events
