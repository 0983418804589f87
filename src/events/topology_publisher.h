// Keeps the node's NodeResourceTopology object in the cluster with the content that alignd reports.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "alignd/base/result.h"
#include "alignd/control/v1/topology.pb.h"
#include "apiserver/kept_call.h"
#include "events/event_sender.h"

namespace alignd::events {

// One thread at a time. Nothing of alignd waits for it: for an API server that does not answer,
// only the newest object is kept.
class TopologyPublisher {
 public:
  using Clock = std::chrono::steady_clock;
  // alignd's object, as control::ControlClient::GetTopology: waits until it differs from the known
  // one.
  using GetTopology = std::function<Result<control::v1::GetTopologyResponse>(
      const std::string& known_version, std::chrono::milliseconds wait)>;
  using Connect = apiserver::KeptCall<Clock::time_point>::Connect;

  static constexpr std::chrono::milliseconds kBetweenWrites{250};  // changes in it are one write
  static constexpr std::chrono::seconds kAligndWait{20};           // for a change
  // How often the object in the cluster is compared although nothing has changed.
  static constexpr std::chrono::minutes kBetweenChecks{5};
  // After a failure, the pause doubles from the first to the last. Retry-After replaces it.
  static constexpr std::chrono::seconds kFirstPause{1};
  static constexpr std::chrono::seconds kLastPause{30};
  static constexpr std::chrono::seconds kLongestRetryAfter{300};
  // Without the custom resource definition.
  static constexpr std::chrono::seconds kWithoutDefinition{60};
  static constexpr int kMaxTries = 5;  // calls of one write that others write between

  // What has happened so far.
  struct Counts {
    uint64_t written = 0;
    uint64_t conflicts = 0;  // others wrote between reading and writing
    uint64_t failures = 0;
    uint64_t foreign = 0;  // another program had written other contents
  };

  TopologyPublisher(std::string node, GetTopology get_topology, Connect connect,
                    std::function<Clock::time_point()> now = &Clock::now);

  // From now on, the annotation kChangedAnnotation of the Node gets another value after a write.
  // kube-scheduler asks its extenders again about waiting pods when a Node changes, and not when a
  // NodeResourceTopology does. Call before Step.
  void WakeScheduler() { wakes_scheduler_ = true; }
  static constexpr char kChangedAnnotation[] = "alignd.io/topology-changed";
  // Extenders have seen the write by then. Writes in it are one mark.
  static constexpr std::chrono::seconds kBeforeMark{1};
  TopologyPublisher(const TopologyPublisher&) = delete;
  TopologyPublisher& operator=(const TopologyPublisher&) = delete;

  // Waits for a change, for kAligndWait at most, and writes what there is to write. How long to
  // pause before the next step. Logs a failure when it begins, when it changes and when it ends.
  std::chrono::milliseconds Step();

  const Counts& counts() const { return counts_; }
  // The same and the failure that is not over, for alignd's conditions and metrics.
  control::v1::TopologyPublication Publication() const;

 private:
  // Why an attempt failed.
  struct Failure {
    Error error;
    bool is_credential = false;                      // the API server does not know it
    std::optional<std::chrono::seconds> pause = {};  // instead of the usual one
  };
  using Attempt = std::optional<Failure>;  // nullopt: it succeeded

  bool IsDue(Clock::time_point now) const;
  std::chrono::milliseconds WaitAtMost(Clock::time_point now) const;
  void Write(Clock::time_point now);
  Attempt TryToWrite(Clock::time_point now);
  Attempt Publish(const ApiCall& call);
  // nullopt in `done`: others wrote meanwhile, or the object is known now; try again.
  Attempt Create(const ApiCall& call, bool& done);
  Attempt Replace(const ApiCall& call, bool& done);
  Attempt Read(const ApiCall& call, bool& is_absent);
  // The Node object; empty: there is none, or it may not be read.
  Attempt ReadNode(const ApiCall& call, std::string& node);
  void MarkNode(Clock::time_point now);
  std::string TryToMark(Clock::time_point now);  // why it has failed; empty: it has not
  void Written(const std::string& object);
  void NoteForeign();
  void Note(const Attempt& attempt, Clock::time_point now);
  void NoteAlignd(const Error* error);
  void NoteLeftOut(const std::string& why);
  static Failure FailureOf(const ApiAnswer& answer, const std::string& verb,
                           const std::string& object = "the object");

  const std::string node_;
  const GetTopology get_topology_;
  const std::function<Clock::time_point()> now_;

  std::string version_;   // of `wanted_`
  std::string wanted_;    // alignd's newest object; empty: none yet
  std::string written_;   // the last one that is in the cluster; empty: none
  std::string existing_;  // the API server's object, as far as it is known; empty: it must be read
  // The API server's object after the last write; empty: not known. What differs from it was
  // written by another program.
  std::string previous_;
  apiserver::KeptCall<Clock::time_point> call_;
  Clock::time_point check_at_{};
  Clock::time_point ask_for_owner_at_{};  // of an object without an owner
  Clock::time_point not_before_{};
  std::chrono::seconds pause_ = kFirstPause;
  std::optional<Error> failure_;  // the last one, which is not over
  std::string alignd_failure_;    // likewise
  std::string not_made_;          // why `wanted_` is without Koordinator's annotations
  std::string left_out_;          // why the object in the cluster is without them
  bool has_named_foreign_ = false;
  bool wakes_scheduler_ = false;
  Clock::time_point written_at_{};
  std::optional<Clock::time_point> mark_at_;  // when the Node is to be marked
  std::chrono::seconds mark_pause_ = kFirstPause;
  std::string mark_failure_;  // the last one, which is not over; empty: none
  Counts counts_;
};

}  // namespace alignd::events
