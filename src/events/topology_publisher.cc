#include "events/topology_publisher.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "events/api_text.h"
#include "events/topology_object.h"
#include "host/printable.h"
#include "host/utc_time.h"

namespace alignd::events {
namespace {

using std::chrono::milliseconds;

constexpr char kObjects[] = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";

bool IsSuccess(const ApiAnswer& answer) { return answer.status >= 200 && answer.status < 300; }

// A success that a proxy has answered can have any text. nullopt: it is an object.
std::optional<Error> WhyNoObject(const ApiAnswer& answer) {
  const auto body = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (body.is_object()) return std::nullopt;
  return Error{ErrorCode::kUnavailable,
               "the answer of the API server is no NodeResourceTopology: " + Shown(answer),
               "see what is between alignd-events and the API server, such as a proxy, and changes "
               "its answers; the call is repeated"};
}

}  // namespace

TopologyPublisher::TopologyPublisher(std::string node, GetTopology get_topology, Connect connect,
                                     std::function<Clock::time_point()> now)
    : node_(std::move(node)),
      get_topology_(std::move(get_topology)),
      now_(std::move(now)),
      call_(std::move(connect)) {}

milliseconds TopologyPublisher::Step() {
  const auto answer = get_topology_(version_, WaitAtMost(now_()));
  NoteAlignd(answer.ok() ? nullptr : &answer.error());
  if (answer.ok() && !answer->object().empty()) {
    wanted_ = answer->object();
    version_ = answer->version();
    not_made_ = answer->left_out();
  }
  if (const Clock::time_point now = now_(); IsDue(now)) Write(now);
  if (const Clock::time_point now = now_(); mark_at_ && now >= *mark_at_) MarkNode(now);
  return answer.ok() ? kBetweenWrites : milliseconds(kFirstPause);
}

control::v1::TopologyPublication TopologyPublisher::Publication() const {
  control::v1::TopologyPublication publication;
  if (failure_) {
    publication.set_failure(host::Printable(failure_->message));
    publication.set_remedy(host::Printable(failure_->remedy));
  }
  publication.set_written(counts_.written);
  publication.set_failed(counts_.failures);
  publication.set_conflicts(counts_.conflicts);
  return publication;
}

bool TopologyPublisher::IsDue(Clock::time_point now) const {
  if (wanted_.empty() || now < not_before_) return false;
  return wanted_ != written_ || now >= check_at_;
}

milliseconds TopologyPublisher::WaitAtMost(Clock::time_point now) const {
  // After a failed call, alignd may have been started again with the same object: it would answer
  // after kAligndWait.
  if (wanted_.empty() || !alignd_failure_.empty()) return milliseconds(0);
  Clock::time_point due = std::max(not_before_, wanted_ == written_ ? check_at_ : now);
  if (mark_at_) due = std::min(due, *mark_at_);
  const auto wait = std::chrono::ceil<milliseconds>(due - now);
  return std::clamp<milliseconds>(wait, milliseconds(1), kAligndWait);
}

void TopologyPublisher::Write(Clock::time_point now) {
  if (wanted_ == written_) existing_.clear();  // it is compared
  Attempt attempt = TryToWrite(now);
  if (attempt && attempt->is_credential) {
    // A token may have expired: the file has the next one.
    attempt = TryToWrite(now);
  }
  Note(attempt, now);
}

TopologyPublisher::Attempt TopologyPublisher::TryToWrite(Clock::time_point now) {
  const Result<Done> connected = call_.Refresh(now);
  if (!connected.ok()) return Failure{.error = connected.error()};
  Attempt attempt = Publish(*call_);
  if (attempt) call_.Drop();
  return attempt;
}

TopologyPublisher::Attempt TopologyPublisher::Publish(const ApiCall& call) {
  for (int tries = 0; tries < kMaxTries; ++tries) {
    bool done = false;
    bool is_absent = false;
    if (existing_.empty()) {
      if (Attempt failed = Read(call, is_absent)) return failed;
    }
    if (Attempt failed = is_absent ? Create(call, done) : Replace(call, done)) return failed;
    if (done) return std::nullopt;
    ++counts_.conflicts;
  }
  return Failure{.error = {ErrorCode::kUnavailable,
                           "the object is changed by others faster than it can be written",
                           "stop the other program that writes it"}};
}

TopologyPublisher::Attempt TopologyPublisher::Read(const ApiCall& call, bool& is_absent) {
  const auto answer = call("GET", std::string(kObjects) + "/" + node_, "");
  if (!answer.ok()) return Failure{.error = answer.error()};
  is_absent = answer->status == 404;
  if (is_absent) return std::nullopt;
  if (!IsSuccess(*answer)) return FailureOf(*answer, "get");
  if (auto why = WhyNoObject(*answer)) return Failure{.error = *std::move(why)};
  existing_ = answer->body;
  if (!previous_.empty() && !SaysTheSame(previous_, existing_)) NoteForeign();
  return std::nullopt;
}

TopologyPublisher::Attempt TopologyPublisher::ReadNode(const ApiCall& call, std::string& node) {
  // The object is deleted with its owner, the Node. Without the right to read it (403), or without
  // a Node (404), the object has no owner until a later write. Other failures pass.
  const auto answer = call("GET", "/api/v1/nodes/" + node_, "");
  if (!answer.ok()) return Failure{.error = answer.error()};
  if (IsSuccess(*answer)) {
    node = answer->body;
  } else if (answer->status != 403 && answer->status != 404) {
    return FailureOf(*answer, "get", "Node " + node_);
  }
  if (node.empty()) ask_for_owner_at_ = now_() + kBetweenChecks;
  return std::nullopt;
}

TopologyPublisher::Attempt TopologyPublisher::Create(const ApiCall& call, bool& done) {
  std::string node;
  if (Attempt failed = ReadNode(call, node)) return failed;
  NoteLeftOut(not_made_);
  const Result<std::string> body = CreationOf(wanted_, node);
  if (!body.ok()) return Failure{.error = body.error()};
  std::string before = std::exchange(previous_, {});
  const auto answer = call("POST", kObjects, *body);
  if (!answer.ok()) return Failure{.error = answer.error()};
  if (answer->status == 409) {  // another program has created it
    previous_ = std::move(before);
    return std::nullopt;
  }
  if (answer->status == 404) {
    return Failure{
        .error = {ErrorCode::kNotFound,
                  "the cluster has no NodeResourceTopology (topology.node.k8s.io/"
                  "v1alpha2)",
                  "install its custom resource definition; see docs/topology-objects.md"},
        .pause = kWithoutDefinition};
  }
  if (!IsSuccess(*answer)) return FailureOf(*answer, "create");
  if (auto why = WhyNoObject(*answer)) return Failure{.error = *std::move(why)};
  Written(answer->body);
  done = true;
  return std::nullopt;
}

TopologyPublisher::Attempt TopologyPublisher::Replace(const ApiCall& call, bool& done) {
  std::string node;
  if (now_() >= ask_for_owner_at_ && !HasNodeAsOwner(existing_)) {
    if (Attempt failed = ReadNode(call, node)) return failed;
  }
  const Writable writable = WritableBeside(wanted_, existing_);
  NoteLeftOut(writable.left_out.empty() ? not_made_ : writable.left_out);
  if (node.empty() && SaysTheSame(writable.object, existing_)) {
    written_ = wanted_;
    previous_ = existing_;
    done = true;
    return std::nullopt;
  }
  const Result<std::string> body = ReplacementOf(writable.object, existing_, node);
  // After a failure, it may have been written all the same.
  existing_.clear();
  if (!body.ok()) return Failure{.error = body.error()};
  std::string before = std::exchange(previous_, {});
  const auto answer = call("PUT", std::string(kObjects) + "/" + node_, *body);
  if (!answer.ok()) return Failure{.error = answer.error()};
  if (answer->status == 409 || answer->status == 404) {
    previous_ = std::move(before);
    return std::nullopt;
  }
  if (!IsSuccess(*answer)) return FailureOf(*answer, "update");
  if (auto why = WhyNoObject(*answer)) return Failure{.error = *std::move(why)};
  Written(answer->body);
  done = true;
  return std::nullopt;
}

void TopologyPublisher::MarkNode(Clock::time_point now) {
  const std::string failure = TryToMark(now);
  if (failure.empty()) {
    if (!mark_failure_.empty()) spdlog::info("the Node {} is marked again", node_);
    mark_pause_ = kFirstPause;
    // What was written just before, the scheduler's extenders may not have yet.
    const Clock::time_point next = written_at_ + kBeforeMark;
    mark_at_ = next > now ? std::optional(next) : std::nullopt;
  } else {
    if (failure != mark_failure_) spdlog::warn("SchedulerNotWoken: {}", failure);
    mark_at_ = now + mark_pause_;
    mark_pause_ = std::min(2 * mark_pause_, kLastPause);
  }
  mark_failure_ = failure;
}

std::string TopologyPublisher::TryToMark(Clock::time_point now) {
  const Result<Done> connected = call_.Refresh(now);
  if (!connected.ok()) return connected.error().Text();
  const std::string time = host::UtcTime(std::chrono::system_clock::now(), /*with_ms=*/true);
  const nlohmann::json patch = {{"metadata", {{"annotations", {{kChangedAnnotation, time}}}}}};
  const auto answer = (*call_)("PATCH", "/api/v1/nodes/" + node_, patch.dump());
  if (answer.ok() && IsSuccess(*answer)) return {};
  call_.Drop();
  if (!answer.ok()) return answer.error().Text();
  return "the Node cannot be marked for kube-scheduler: " + Shown(*answer) + "; " +
         (answer->status == 403 ? "give the credential's user the verb patch for nodes (RBAC), or "
                                  "leave out --wake-scheduler"
                                : apiserver::StatusRemedy(*answer));
}

void TopologyPublisher::Written(const std::string& object) {
  existing_ = previous_ = object;
  written_ = wanted_;
  written_at_ = now_();
  if (wakes_scheduler_ && !mark_at_) mark_at_ = written_at_ + kBeforeMark;
  ++counts_.written;
}

void TopologyPublisher::NoteForeign() {
  ++counts_.foreign;
  const auto level = has_named_foreign_ ? spdlog::level::debug : spdlog::level::warn;
  has_named_foreign_ = true;
  spdlog::log(
      level,
      "ConflictingTopologyExporter: another program writes the NodeResourceTopology {}; its "
      "topologyManagerPolicy is {}, alignd's is {}; stop that exporter on this node: behind "
      "alignd, the kubelet's own policies say none",
      node_, PolicyIn(existing_), PolicyIn(wanted_));
}

TopologyPublisher::Failure TopologyPublisher::FailureOf(const ApiAnswer& answer,
                                                        const std::string& verb,
                                                        const std::string& object) {
  Failure failure;
  if (answer.retry_after) {
    failure.pause =
        std::clamp<std::chrono::seconds>(*answer.retry_after, kFirstPause, kLongestRetryAfter);
  }
  if (answer.status == 401 || answer.status == 403) {
    failure.is_credential = answer.status == 401;
    failure.error = {ErrorCode::kInvalidArgument,
                     std::string("the API server does not ") +
                         (failure.is_credential ? "accept the credential: " : "permit the call: ") +
                         Shown(answer),
                     failure.is_credential
                         ? apiserver::StatusRemedy(answer)
                         : "give its user the verbs get, create and update for "
                           "noderesourcetopologies.topology.node.k8s.io (RBAC), or choose another "
                           "with --kubeconfig"};
  } else if (answer.status == 429 || answer.status >= 500) {
    failure.error = {ErrorCode::kUnavailable, Shown(answer),
                     "Wait: alignd-events repeats the call."};
  } else {
    failure.error = {ErrorCode::kInvalidArgument,
                     "the API server refuses to " + verb + " " + object + ": " + Shown(answer),
                     "see its text, and the version of the custom resource definition"};
  }
  return failure;
}

void TopologyPublisher::Note(const Attempt& attempt, Clock::time_point now) {
  if (!attempt) {
    if (check_at_ == Clock::time_point() || failure_) {
      spdlog::info("the NodeResourceTopology {} is published", node_);
    }
    failure_.reset();
    pause_ = kFirstPause;
    not_before_ = {};
    check_at_ = now + kBetweenChecks;
    return;
  }
  ++counts_.failures;
  const std::string text = attempt->error.Text();
  if (!failure_ || text != failure_->Text()) spdlog::warn("TopologyNotPublished: {}", text);
  failure_ = attempt->error;
  not_before_ = now + attempt->pause.value_or(pause_);
  if (!attempt->pause) pause_ = std::min(2 * pause_, kLastPause);
}

void TopologyPublisher::NoteAlignd(const Error* error) {
  const std::string text = error == nullptr ? "" : error->Text();
  if (!text.empty() && text != alignd_failure_) {
    spdlog::warn("TopologyNotPublished: alignd's topology is not known: {}", text);
  }
  if (text.empty() && !alignd_failure_.empty()) spdlog::info("alignd's topology is known again");
  alignd_failure_ = text;
}

void TopologyPublisher::NoteLeftOut(const std::string& why) {
  if (!why.empty() && why != left_out_) {
    spdlog::warn("KoordinatorAnnotationsLeftOut: the object is published without them: {}", why);
  }
  if (why.empty() && !left_out_.empty()) {
    spdlog::info("the object has Koordinator's annotations again");
  }
  left_out_ = why;
}

}  // namespace alignd::events
