// All assignments: the state that the next decision starts from, saved and published.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "allocation/checkpoint_store.h"
#include "allocation/reservation.h"
#include "sync/mutex.h"

namespace alignd::allocation {

// What is published after every change. Shared and never modified.
struct Snapshot {
  uint64_t generation = 0;  // grows by one with every change
  admission::NodeState state;
};

// One thread at a time, except for `snapshot`. Some of the state may be reserved for pods whose
// plugins are still asked: it is not available to other pods, but neither saved nor published.
class Ledger {
 public:
  using Observer = std::function<void(std::shared_ptr<const Snapshot>)>;

  // `node` and `store` outlive the ledger.
  Ledger(const admission::Node& node, admission::NodeState initial, CheckpointStore& store);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // With all reservations.
  const admission::NodeState& state() const { return state_; }

  // Adds and removes reservations: `next` differs from the state by them only. Nothing is saved.
  void Reserve(admission::NodeState next);
  void GiveBack(const Reservation& reservation);

  // Makes `next` the state once it is saved and published without `hidden`.
  // Errors: kIo; nothing has changed then.
  Result<Done> Commit(admission::NodeState next, const std::vector<const Reservation*>& hidden);
  // Makes `next` the state and publishes it whether it can be saved or not. Errors: kIo.
  Result<Done> Keep(admission::NodeState next, const std::vector<const Reservation*>& hidden);

  // Saves the published state again, if the store has files with uncertain content. Errors: kIo.
  Result<Done> SaveAgain();

  // The newest published state. Thread-safe.
  std::shared_ptr<const Snapshot> snapshot() const;

  // Called with every new snapshot, in order.
  void OnChange(Observer observer) { observers_.push_back(std::move(observer)); }

 private:
  admission::NodeState Visible(const admission::NodeState& state,
                               const std::vector<const Reservation*>& hidden) const;
  Result<Done> Save(const admission::NodeState& visible);
  void Publish(admission::NodeState visible);
  void RequireSound(const admission::NodeState& state) const;

  const admission::Node& node_;
  CheckpointStore& store_;
  admission::NodeState state_;
  std::vector<Observer> observers_;
  bool unsaved_ = false;  // the files may differ from what is published

  mutable Mutex mutex_;
  std::shared_ptr<const Snapshot> snapshot_ GUARDED_BY(mutex_);
};

}  // namespace alignd::allocation
