// Writes on each pod of the node what it has on which NUMA node, as KAI-Scheduler's NUMA placement
// exporter does.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "alignd/base/result.h"
#include "alignd/control/v1/topology.pb.h"
#include "events/event_sender.h"

namespace alignd::events {

// One thread at a time. Nothing of alignd waits for it: for an API server that does not answer,
// only the newest placements are kept.
//
// A pod is written through its status: the API server lets the credential of a kubelet change the
// pods of its own node there, and no others.
// Source: kubernetes plugin/pkg/admission/noderestriction/admission.go, admitPodStatus.
class PlacementPublisher {
 public:
  using Clock = std::chrono::steady_clock;
  // alignd's placements, as control::ControlClient::GetTopology: waits until they differ from the
  // known ones.
  using GetPlacements = std::function<Result<control::v1::GetTopologyResponse>(
      const std::string& known_version, std::chrono::milliseconds wait)>;
  // A connection with the credential of now.
  using Connect = std::function<Result<ApiCall>()>;

  static constexpr std::chrono::milliseconds kBetweenRounds{250};
  static constexpr std::chrono::seconds kAligndWait{20};  // for a change
  // How often all pods are written again: others may have changed the annotation. The API server
  // stores nothing if it is the same.
  static constexpr std::chrono::minutes kBetweenChecks{5};
  // After a failure, the pause doubles from the first to the last. Retry-After replaces it.
  static constexpr std::chrono::seconds kFirstPause{1};
  static constexpr std::chrono::seconds kLastPause{30};
  static constexpr std::chrono::seconds kLongestRetryAfter{300};
  // A connection is made anew so often: the files of its credential may have been renewed.
  static constexpr std::chrono::seconds kConnectionAge{60};

  // What has happened so far.
  struct Counts {
    uint64_t written = 0;
    uint64_t absent = 0;    // pods that the API server does not have, or has with another UID
    uint64_t refused = 0;   // pods that it does not change
    uint64_t failures = 0;  // rounds
  };

  PlacementPublisher(GetPlacements get_placements, Connect connect,
                     std::function<Clock::time_point()> now = &Clock::now);
  PlacementPublisher(const PlacementPublisher&) = delete;
  PlacementPublisher& operator=(const PlacementPublisher&) = delete;

  // Waits for a change, for kAligndWait at most, and writes what there is to write. How long to
  // pause before the next step. Logs a failure when it begins, when it changes and when it ends.
  std::chrono::milliseconds Step();

  const Counts& counts() const { return counts_; }

 private:
  // So many pods of a round can fail, each for itself: a webhook may fail for some. With more, the
  // round ends.
  static constexpr int kMaxFailures = 3;

  // Why a round has not written all pods.
  struct Failure {
    Error error;
    bool is_of_one_pod = false;                      // others may be written
    std::optional<std::chrono::seconds> pause = {};  // instead of the usual one
  };
  using Placements = std::map<std::string, control::v1::PodPlacement>;  // by UID

  void Take(const control::v1::GetTopologyResponse& answer);
  bool IsWritten(const std::string& uid, const control::v1::PodPlacement& placement) const;
  bool IsAllWritten() const;
  std::chrono::milliseconds WaitAtMost(Clock::time_point now) const;
  std::optional<Failure> Round(Clock::time_point now);
  std::optional<Failure> Write(const ApiCall& call, const control::v1::PodPlacement& placement);
  void Note(const std::optional<Failure>& failure, Clock::time_point now);
  void NoteAlignd(const Error* error);

  const GetPlacements get_placements_;
  const Connect connect_;
  const std::function<Clock::time_point()> now_;

  std::string version_;                         // of `wanted_`; empty: alignd has not answered yet
  Placements wanted_;                           // alignd's newest ones
  std::map<std::string, std::string> written_;  // by UID: the value that the pod has
  // The UIDs of running pods that may have the annotation, as far as it was written here.
  std::set<std::string> annotated_;
  std::optional<ApiCall> call_;
  Clock::time_point connected_{};
  std::string last_failed_;  // the UID of a pod that could not be written
  Clock::time_point check_at_{};
  Clock::time_point not_before_{};
  std::chrono::seconds pause_ = kFirstPause;
  std::string failure_;         // the last one, which is not over; empty: none
  std::string alignd_failure_;  // likewise
  Counts counts_;
};

}  // namespace alignd::events
