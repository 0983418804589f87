// Conditions of what the runtime does not answer or do: RuntimeUnavailable, CpusetUpdateFailed.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "reconcile/condition_log.h"
#include "reconcile/conditions.h"

namespace alignd::reconcile {
namespace {

using std::chrono::system_clock;

// As which a runtime is logged that does not answer, for however long.
constexpr char kSilent[] = "silent";

std::string NoAnswer(Condition::Time since, Condition::Time now) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - since);
  return "the runtime has not answered for " + std::to_string(seconds.count()) + " s";
}

// Errors of the runtime begin with "runtime: METHOD: ". Which call has failed is no news.
std::string WithoutMethod(const std::string& message) {
  const size_t method = message.find(": ");
  const size_t end = method == std::string::npos ? method : message.find(": ", method + 1);
  return end == std::string::npos ? message : message.substr(end);
}

std::string DescribeUpdate(const std::string& should, const std::string& cause) {
  return "not moved to " + should + ": " + cause;
}

Condition UpdateCondition(const Subject& container, const std::string& should,
                          const std::string& cause, Condition::Time first) {
  return {.type = ConditionType::kCpusetUpdateFailed,
          .subject = container,
          .first = first,
          .message = DescribeUpdate(should, cause),
          .remedy =
              "if ConflictingCPUManager names a cgroup above the container, widen that cgroup, or "
              "set its CPUs online; otherwise see in the runtime's log why it does not apply the "
              "update; alignd retries, and containers that need these CPUs exclusively wait"};
}

Condition Outage(const std::string& error, bool ever_answered, Condition::Time first) {
  return {.type = ConditionType::kRuntimeUnavailable,
          .first = first,
          .message = error + (ever_answered
                                  ? ". The assignments are as of its last answer: containers that "
                                    "have ended since may be among them"
                                  : ". It has not answered since alignd started: the assignments "
                                    "are those of the state files and may be out of date; new pods "
                                    "and containers wait"),
          .remedy = "start the runtime, or see in its log why it does not answer; alignd retries"};
}

}  // namespace

void Conditions::UpdateBegun(const Subject& container, const std::string& should) {
  const MutexLock lock(mutex_);
  begun_[container.container_id] = {system_clock::now(), container, should, std::nullopt};
}

void Conditions::UpdateIsSilent(const std::string& container_id) {
  Condition silent;
  {
    const MutexLock lock(mutex_);
    const auto found = begun_.find(container_id);
    if (found == begun_.end()) return;
    Begun& begun = found->second;
    // A failure before this one is in the log, and is not resolved.
    if (begun.logged || entries_.contains({ConditionType::kCpusetUpdateFailed, container_id})) {
      return;
    }
    const Time now = std::max(system_clock::now(), begun.since + kAnswersWithin);
    silent =
        UpdateCondition(begun.container, begun.should, NoAnswer(begun.since, now), begun.since);
    begun.logged = silent;
  }
  LogActive(silent);
}

void Conditions::UpdateAnswered(const std::string& container_id) {
  std::optional<Condition> resolved;
  {
    const MutexLock lock(mutex_);
    const auto begun = begun_.extract(container_id);
    if (!begun) return;
    const Key key{ConditionType::kCpusetUpdateFailed, container_id};
    if (!entries_.contains(key)) resolved = begun.mapped().logged;
  }
  if (resolved) LogResolved(*resolved);
}

void Conditions::UpdateFailed(const Subject& container, const std::string& should,
                              const Error& error) {
  Time first = system_clock::now();
  {
    const MutexLock lock(mutex_);
    const auto begun = begun_.find(container.container_id);
    if (begun != begun_.end()) first = begun->second.since;
  }
  Raise(container.container_id,
        {.condition = UpdateCondition(container, should, error.message, first),
         .cause = error.message});
}

void Conditions::UpdateWaits(const Subject& container, const std::string& should,
                             const std::string& why) {
  Condition condition = UpdateCondition(container, should, why, system_clock::now());
  condition.remedy =
      "see the conditions of these containers; if one of them cannot be moved, delete its pod";
  // They leave one after the other, which is not logged each time.
  Raise(container.container_id,
        {.condition = std::move(condition), .cause = why, .logged_as = should + " waits"});
}

void Conditions::UpdateSettled(const std::string& container_id) {
  Clear(ConditionType::kCpusetUpdateFailed, container_id);
}

void Conditions::RuntimeAsked() {
  const MutexLock lock(mutex_);
  asked_ = system_clock::now();
}

void Conditions::RuntimeAnswered() {
  {
    const MutexLock lock(mutex_);
    answered_ = true;
    asked_.reset();
  }
  Clear(ConditionType::kRuntimeUnavailable, "");
}

void Conditions::RuntimeIsSilent() {
  Condition outage;
  {
    const MutexLock lock(mutex_);
    if (!asked_) return;
    outage = Outage(NoAnswer(*asked_, system_clock::now()), answered_, *asked_);
  }
  Raise("", {.condition = std::move(outage), .logged_as = kSilent});
}

void Conditions::RuntimeFailed(const Error& error) {
  Condition outage;
  {
    const MutexLock lock(mutex_);
    outage = Outage(error.message, answered_, asked_.value_or(system_clock::now()));
    asked_.reset();
  }
  const bool is_silent = error.code == ErrorCode::kDeadlineExceeded;
  Raise("", {.condition = std::move(outage),
             .logged_as = is_silent ? kSilent : WithoutMethod(error.message)});
}

void Conditions::AddUnanswered(Time now, Entries& entries) const {
  const Key runtime{ConditionType::kRuntimeUnavailable, ""};
  if (asked_ && now - *asked_ >= kAnswersWithin) {
    const auto [entry, is_new] = entries.try_emplace(runtime);
    Condition& condition = entry->second.condition;
    if (is_new) condition = Outage("", answered_, *asked_);
    if (is_new) condition.times = 1;
    if (is_new || entry->second.logged_as == kSilent) {
      condition.message = Outage(NoAnswer(*asked_, now), answered_, *asked_).message;
      condition.last = now;
    }
  }
  for (const auto& [id, begun] : begun_) {
    if (now - begun.since < kAnswersWithin) continue;
    Entry& entry = entries[{ConditionType::kCpusetUpdateFailed, id}];
    const uint64_t times = entry.condition.times;
    const std::string cause =
        (times == 0 ? "" : entry.cause + "; now ") + NoAnswer(begun.since, now);
    entry.condition = UpdateCondition(begun.container, begun.should, cause,
                                      times == 0 ? begun.since : entry.condition.first);
    entry.condition.last = now;
    entry.condition.times = times;
  }
}

}  // namespace alignd::reconcile
