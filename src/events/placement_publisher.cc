#include "events/placement_publisher.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "alignd/noderesourcetopology/pod_placement.h"
#include "events/api_text.h"
#include "host/node_name.h"

namespace alignd::events {
namespace {

using control::v1::PodPlacement;
using std::chrono::milliseconds;
using Json = nlohmann::json;

std::string PathOf(const PodPlacement& placement) {
  return "/api/v1/namespaces/" + placement.name_space() + "/pods/" + placement.name() + "/status";
}

// With the UID, a later pod of the same name is not changed.
std::string BodyOf(const PodPlacement& placement) {
  // null deletes it.
  const Json value = placement.value().empty() ? Json() : Json(placement.value());
  const Json annotations = {{noderesourcetopology::kPlacementAnnotation, value}};
  const Json body = {{"metadata", {{"uid", placement.uid()}, {"annotations", annotations}}}};
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// There is no such pod, or the one of that name has another UID: it is a later pod, or the mirror
// pod of a static pod. A change of the UID is a conflict (409) that names it, or invalid (422) with
// the name of the field.
// Source: kubernetes pkg/controller/controller_ref_manager.go, ReleasePod;
// staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go, Update.
bool IsAbsent(const ApiAnswer& answer) {
  return answer.status == 404 ||
         (answer.status == 409 &&
          (Has(answer, "UID in precondition") || Has(answer, "uid mismatch"))) ||
         (answer.status == 422 && Has(answer, "metadata.uid"));
}

}  // namespace

PlacementPublisher::PlacementPublisher(GetPlacements get_placements, Connect connect,
                                       std::function<Clock::time_point()> now)
    : get_placements_(std::move(get_placements)),
      connect_(std::move(connect)),
      now_(std::move(now)) {}

milliseconds PlacementPublisher::Step() {
  const auto answer = get_placements_(version_, WaitAtMost(now_()));
  NoteAlignd(answer.ok() ? nullptr : &answer.error());
  // Without an object, the caller has the newest placements.
  if (answer.ok() && !answer->object().empty()) Take(*answer);
  const Clock::time_point now = now_();
  if (now >= check_at_) {
    written_.clear();
    check_at_ = now + kBetweenChecks;
  }
  if (now >= not_before_ && !IsAllWritten()) Note(Round(now), now);
  return answer.ok() ? kBetweenRounds : milliseconds(kFirstPause);
}

void PlacementPublisher::Take(const control::v1::GetTopologyResponse& answer) {
  version_ = answer.version();
  wanted_.clear();
  for (const PodPlacement& placement : answer.placements()) {
    // Others cannot be names of pods, and would be another path.
    if (!host::IsObjectName(placement.name()) || !host::IsObjectName(placement.name_space())) {
      continue;
    }
    wanted_[placement.uid()] = placement;
  }
  std::erase_if(written_, [&](const auto& entry) { return !wanted_.contains(entry.first); });
  std::erase_if(annotated_, [&](const std::string& uid) { return !wanted_.contains(uid); });
}

bool PlacementPublisher::IsWritten(const std::string& uid, const PodPlacement& placement) const {
  if (placement.value().empty()) return !annotated_.contains(uid);
  const auto written = written_.find(uid);
  return written != written_.end() && written->second == placement.value();
}

bool PlacementPublisher::IsAllWritten() const {
  return std::ranges::all_of(
      wanted_, [&](const auto& entry) { return IsWritten(entry.first, entry.second); });
}

milliseconds PlacementPublisher::WaitAtMost(Clock::time_point now) const {
  // After a failed call, see TopologyPublisher::WaitAtMost.
  if (version_.empty() || !alignd_failure_.empty()) return milliseconds(0);
  const Clock::time_point due = IsAllWritten() ? check_at_ : std::max(not_before_, now);
  const auto wait = std::chrono::ceil<milliseconds>(due - now);
  return std::clamp<milliseconds>(wait, milliseconds(1), kAligndWait);
}

std::optional<PlacementPublisher::Failure> PlacementPublisher::Round(Clock::time_point now) {
  if (!call_ || now - connected_ >= kConnectionAge) {
    Result<ApiCall> call = connect_();
    if (!call.ok()) return Failure{.error = call.error()};
    call_ = *std::move(call);
    connected_ = now;
  }
  // Those after the last one that ended a round go first: it may fail each time.
  std::vector<const PodPlacement*> due;
  for (const auto& [uid, placement] : wanted_) {
    if (!IsWritten(uid, placement)) due.push_back(&placement);
  }
  const auto next = std::ranges::find_if(
      due, [this](const PodPlacement* placement) { return placement->uid() > last_failed_; });
  std::rotate(due.begin(), next, due.end());
  std::optional<Failure> first;
  int failures = 0;
  for (const PodPlacement* const placement : due) {
    const std::string& uid = placement->uid();
    annotated_.insert(uid);  // also if the call fails: it may have been written all the same
    if (std::optional<Failure> failure = Write(*call_, *placement)) {
      last_failed_ = uid;
      const bool goes_on = failure->is_of_one_pod && ++failures < kMaxFailures;
      // One that concerns all pods says how long to wait.
      if (!first || !failure->is_of_one_pod) first = std::move(failure);
      if (goes_on) continue;
      break;
    }
    written_[uid] = placement->value();
    if (placement->value().empty()) annotated_.erase(uid);
  }
  if (first) call_.reset();  // a token may have expired: the file has the next one
  return first;
}

std::optional<PlacementPublisher::Failure> PlacementPublisher::Write(
    const ApiCall& call, const PodPlacement& placement) {
  const auto answer = call("PATCH", PathOf(placement), BodyOf(placement));
  if (!answer.ok()) return Failure{.error = answer.error()};
  const int status = answer->status;
  if (status >= 200 && status < 300) {
    ++counts_.written;
    return std::nullopt;
  }
  if (IsAbsent(*answer)) {
    ++counts_.absent;
    return std::nullopt;
  }
  if (IsAboutTheCredential(*answer)) {
    return Failure{.error = {ErrorCode::kInvalidArgument,
                             std::string("the API server does not ") +
                                 (status == 401 ? "accept the credential: " : "permit the call: ") +
                                 Shown(*answer),
                             status == 401
                                 ? apiserver::StatusRemedy(*answer)
                                 : "use the kubelet's credential, or give its user the verb patch "
                                   "for pods/status (RBAC)"}};
  }
  // A conflict with another writer (409) is repeated as well.
  if (status == 429 || status == 409 || status >= 500) {
    Failure failure{
        .error = {ErrorCode::kUnavailable, Shown(*answer), "Wait: alignd-events repeats the call."},
        .is_of_one_pod = status != 429};
    if (answer->retry_after) {
      failure.pause =
          std::clamp<std::chrono::seconds>(*answer->retry_after, kFirstPause, kLongestRetryAfter);
    }
    return failure;
  }
  // It is not repeated before the next check: the other pods do not wait.
  ++counts_.refused;
  spdlog::warn("PlacementNotPublished: the API server refuses to change pod {}/{}: {}",
               placement.name_space(), placement.name(), Shown(*answer));
  return std::nullopt;
}

void PlacementPublisher::Note(const std::optional<Failure>& failure, Clock::time_point now) {
  if (!failure) {
    if (!failure_.empty()) spdlog::info("the NUMA placement of the pods is published again");
    failure_.clear();
    pause_ = kFirstPause;
    not_before_ = {};
    return;
  }
  ++counts_.failures;
  const std::string text = failure->error.Text();
  if (text != failure_) spdlog::warn("PlacementNotPublished: {}", text);
  failure_ = text;
  not_before_ = now + failure->pause.value_or(pause_);
  if (!failure->pause) pause_ = std::min(2 * pause_, kLastPause);
}

void PlacementPublisher::NoteAlignd(const Error* error) {
  const std::string text = error == nullptr ? "" : error->Text();
  if (!text.empty() && text != alignd_failure_) {
    spdlog::warn("PlacementNotPublished: alignd's assignments are not known: {}", text);
  }
  if (text.empty() && !alignd_failure_.empty()) {
    spdlog::info("alignd's assignments are known again");
  }
  alignd_failure_ = text;
}

}  // namespace alignd::events
