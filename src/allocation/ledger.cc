#include "allocation/ledger.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace alignd::allocation {

using admission::NodeState;

Ledger::Ledger(const admission::Node& node, NodeState initial, CheckpointStore& store)
    : node_(node),
      store_(store),
      state_(std::move(initial)),
      snapshot_(std::make_shared<const Snapshot>(Snapshot{0, state_})) {
  RequireSound(state_);
}

void Ledger::Reserve(NodeState next) {
  RequireSound(next);
  state_ = std::move(next);
}

void Ledger::GiveBack(const Reservation& reservation) {
  allocation::GiveBack(reservation, state_);
  RequireSound(state_);
}

Result<Done> Ledger::Commit(NodeState next, const std::vector<const Reservation*>& hidden) {
  NodeState visible = Visible(next, hidden);
  if (Result<Done> saved = Save(visible); !saved.ok()) return saved;
  state_ = std::move(next);
  Publish(std::move(visible));
  return Done{};
}

Result<Done> Ledger::Keep(NodeState next, const std::vector<const Reservation*>& hidden) {
  Reserve(std::move(next));
  NodeState visible = Visible(state_, hidden);
  Result<Done> saved = Save(visible);
  Publish(std::move(visible));
  return saved;
}

Result<Done> Ledger::SaveAgain() {
  unsaved_ = true;
  return Save(snapshot()->state);
}

std::shared_ptr<const Snapshot> Ledger::snapshot() const {
  const MutexLock lock(mutex_);
  return snapshot_;
}

NodeState Ledger::Visible(const NodeState& state,
                          const std::vector<const Reservation*>& hidden) const {
  NodeState visible = state;
  for (const Reservation* reservation : hidden) allocation::GiveBack(*reservation, visible);
  RequireSound(visible);
  return visible;
}

Result<Done> Ledger::Save(const NodeState& visible) {
  if (!unsaved_ && visible == snapshot()->state) return Done{};
  Result<Done> saved = store_.Save(node_, visible);
  unsaved_ = !saved.ok();
  return saved;
}

void Ledger::Publish(NodeState visible) {
  const std::shared_ptr<const Snapshot> before = snapshot();
  if (visible == before->state) return;
  const auto after =
      std::make_shared<const Snapshot>(Snapshot{before->generation + 1, std::move(visible)});
  {
    const MutexLock lock(mutex_);
    snapshot_ = after;
  }
  for (const Observer& observer : observers_) observer(after);
}

// In every build: with a broken state something would be assigned twice. The files still have a
// sound one. The check is cheap beside a save.
void Ledger::RequireSound(const NodeState& state) const {
  const std::vector<std::string> broken = state.BrokenInvariants(node_);
  if (broken.empty()) return;
  for (const std::string& sentence : broken) {
    std::fprintf(stderr, "alignd: broken invariant: %s\n", sentence.c_str());
  }
  std::abort();
}

}  // namespace alignd::allocation
