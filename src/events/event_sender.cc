#include "events/event_sender.h"

#include <spdlog/spdlog.h>

#include <set>

#include "events/api_text.h"

namespace alignd::events {
namespace {

std::string KeyOf(const PodEvent& event) { return event.pod_namespace + "/" + event.ObjectName(); }

Error WrongCredential(const ApiAnswer& answer) {
  return {ErrorCode::kInvalidArgument,
          std::string("the API server does not ") +
              (answer.status == 401 ? "accept the credential for" : "permit the user to write") +
              " Events: " + Shown(answer),
          answer.status == 401
              ? apiserver::StatusRemedy(answer)
              : "give the user of the kubeconfig the verbs create and patch for events (RBAC), or "
                "choose another with --kubeconfig"};
}

// A namespace that is being deleted accepts no Events, and its pods go with it.
bool IsNamespaceGone(const ApiAnswer& answer) {
  return Has(answer, "NamespaceTerminating") ||
         (answer.status == 404 && Has(answer, "\"kind\":\"namespaces\""));
}

}  // namespace

void EventSender::Know(const std::vector<PodEvent>& events, Clock::time_point now) {
  for (const PodEvent& event : events) {
    if (event.reason != "Assigned") continue;
    sent_.try_emplace(KeyOf(event), Sent{.last_unix_ms = event.last_unix_ms,
                                         .message = event.message,
                                         .times = event.times,
                                         .when = now});
  }
}

uint64_t EventSender::Count(const PodEvent& event, const Sent& sent) {
  return sent.count + event.times - (event.times < sent.times ? 0 : sent.times);
}

Result<EventSender::Outcome> EventSender::Send(const PodEvent& event, const Sent& sent,
                                               const ApiCall& call) const {
  const std::string path = "/api/v1/namespaces/" + event.pod_namespace + "/events";
  bool exists = sent.exists;
  // An object to be created may exist: made before this program was restarted. One that exists may
  // be gone: the API server keeps Events for an hour.
  for (int tries = 0;; ++tries) {
    const Result<ApiAnswer> answer = exists ? call("PATCH", path + "/" + event.ObjectName(),
                                                   event.Repetition(Count(event, sent)))
                                            : call("POST", path, event.Object(node_));
    if (!answer.ok()) return answer.error();
    const int status = answer->status;
    if (status >= 200 && status < 300) return Outcome::kSent;
    if (IsAboutTheCredential(*answer)) return WrongCredential(*answer);
    if (status == 429) {
      return Error{ErrorCode::kUnavailable, Shown(*answer),
                   "Wait: alignd-events repeats the call."};
    }
    if (tries == 0 && status == (exists ? 404 : 409)) {
      exists = !exists;
      continue;
    }
    const bool is_gone = IsNamespaceGone(*answer);
    if (status == 404 && !is_gone) {
      return Error{ErrorCode::kInvalidArgument,
                   "the API server does not have " + path + ": " + Shown(*answer),
                   "see the server, with its path, in the kubeconfig"};
    }
    spdlog::log(is_gone ? spdlog::level::debug : spdlog::level::warn,
                "the API server refuses the Event {} of pod {}/{}: {}", event.reason,
                event.pod_namespace, event.pod_name, Shown(*answer));
    return status >= 500 ? Outcome::kFailed : Outcome::kRefused;
  }
}

bool EventSender::IsDue(const PodEvent& event, const Sent& sent, Clock::time_point now) {
  if (now < sent.not_before) return false;
  if (sent.when == Clock::time_point()) return true;
  if (event.message != sent.message) return now - sent.when >= kBetweenChanges;
  return event.repeated_after && event.last_unix_ms > sent.last_unix_ms &&
         now - sent.when >= *event.repeated_after;
}

Result<Done> EventSender::Round(const std::vector<PodEvent>& events, const ApiCall& call,
                                Clock::time_point now) {
  Forget(events, now);
  size_t tried = 0;
  int failures = 0;
  for (const PodEvent& event : events) {
    Sent& sent = sent_[KeyOf(event)];
    if (!IsDue(event, sent, now)) continue;
    if (++tried > kEventsAtOnce) break;
    const Result<Outcome> outcome = Send(event, sent, call);
    if (!outcome.ok()) return outcome.error();
    if (*outcome != Outcome::kSent) {
      sent.not_before = now + kAfterRefusal;
      if (*outcome == Outcome::kFailed && ++failures == kFailuresInARound) {
        return Error{ErrorCode::kUnavailable, "the API server fails again and again",
                     "see its log"};
      }
      continue;
    }
    sent = {.last_unix_ms = event.last_unix_ms,
            .message = event.message,
            .times = event.times,
            .count = Count(event, sent),
            .exists = true,
            .when = now,
            .not_before = {}};
  }
  return Done{};
}

void EventSender::Forget(const std::vector<PodEvent>& events, Clock::time_point now) {
  std::set<std::string> reported;
  for (const PodEvent& event : events) reported.insert(KeyOf(event));
  std::erase_if(sent_, [&](const auto& entry) {
    return !reported.contains(entry.first) && now - entry.second.when >= kBetweenChanges;
  });
}

}  // namespace alignd::events
