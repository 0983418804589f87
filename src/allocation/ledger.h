// All assignments: the state that the next decision starts from, what is published of it, and what
// is on the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "allocation/reservation.h"
#include "allocation/state_writer.h"
#include "sync/mutex.h"

namespace alignd::allocation {

// What is published after every change. Shared and never modified.
struct Snapshot {
  uint64_t generation = 0;  // grows by one with every change
  admission::NodeState state;
};

// One thread at a time, except for `snapshot`. What is reserved for a pod is not available to other
// pods, but neither saved nor published before Commit. Other changes are published at once.
//
// One write runs at a time, on the writer's thread. What is committed or changed meanwhile is
// written together by the next one (group commit). So a slow disk delays the requests that wait for
// it by two writes at most, and no other.
class Ledger {
 public:
  using Observer = std::function<void(std::shared_ptr<const Snapshot>)>;
  // Runs on the ledger's thread, once. Errors: kIo.
  using Saved = std::function<void(const Result<Done>&)>;

  // The references outlive the ledger. `initial` is on the disk.
  Ledger(const admission::Node& node, admission::NodeState initial, StateWriter& writer);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // With all reservations.
  const admission::NodeState& state() const { return state_; }

  // `next` differs from the state by this reservation and, once it is published, by released pods.
  // A pod has one reservation at a time.
  void Reserve(admission::NodeState next, Reservation reservation);
  // Reserves a change in place (Reservation::IsInPlace). The pod's container has what it has before
  // and after until Commit has written the latter.
  void ReserveInPlace(Reservation reservation);
  // Makes `next` the state. It has other answers of plugins, which are published with the next
  // change.
  void Amend(admission::NodeState next);
  // Drops the pod's reservation, if there is one. If it was committed, `done` is not called.
  void GiveBack(const std::string& pod_uid);
  // Saves the pod's reservation; once it is on the disk, publishes it and calls `done`. After an
  // error it is given back, before `done`.
  void Commit(const std::string& pod_uid, Saved done);

  // Makes `next` the state and publishes it. Follow it with Save: until then it is not written.
  void Keep(admission::NodeState next);
  // `done` runs when everything that is published now is on the disk; at once if it is. May be
  // null.
  void Save(Saved done);
  // The same, but writes also what is believed to be on the disk.
  void SaveAgain(Saved done);

  // Whether everything that is published of the pod, and its bindings, are on the disk.
  bool IsSaved(const std::string& pod_uid) const;

  // `idle` runs once no write is under way and none is due; perhaps at once.
  void WhenIdle(std::function<void()> idle);

  // The newest published state. Thread-safe.
  std::shared_ptr<const Snapshot> snapshot() const;

  // Called with every new snapshot, in order.
  void OnChange(Observer observer) { observers_.push_back(std::move(observer)); }

 private:
  // Waits for a write.
  struct Waiting {
    std::string pod_uid;  // whose reservation is written; empty: none
    Saved done;
  };

  // The state without the reservations, except those of `shown`, which are complete.
  admission::NodeState Visible(const std::vector<Waiting>& shown) const;
  void WriteNext();
  void OnWritten(const StateWriter::Job& job, const Result<StateWriter::Leftover>& result);
  void Settle(std::vector<Waiting> waiting, const Result<Done>& result);
  void Publish();
  void RequireSound(const admission::NodeState& state) const;

  const admission::Node& node_;
  StateWriter& writer_;
  admission::NodeState state_;
  std::map<std::string, Reservation> reserved_;  // by pod UID
  std::vector<Observer> observers_;

  StateWriter::Job on_disk_;  // as of the last write that succeeded
  // Since then: the write that is under way, and those that failed. The files may have parts of
  // any.
  std::vector<StateWriter::Job> attempts_;
  bool is_uncertain_ = false;  // the last write failed, or left bindings of released pods
  bool must_write_ = false;    // SaveAgain since the last write began
  bool is_writing_ = false;    // and these wait for it:
  std::vector<Waiting> written_;
  std::vector<Waiting> next_;  // wait for the write after that
  std::vector<std::function<void()>> idle_;

  mutable Mutex mutex_;
  std::shared_ptr<const Snapshot> snapshot_ GUARDED_BY(mutex_);
};

}  // namespace alignd::allocation
