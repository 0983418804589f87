#include "allocation/ledger.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace alignd::allocation {

using admission::NodeState;

namespace {

// After more writes that failed, only pods without an assignment count as saved.
constexpr size_t kMaxAttempts = 8;

}  // namespace

Ledger::Ledger(const admission::Node& node, NodeState initial, StateWriter& writer)
    : node_(node),
      writer_(writer),
      state_(std::move(initial)),
      on_disk_{state_, writer.bindings()},
      snapshot_(std::make_shared<const Snapshot>(Snapshot{0, state_})) {
  RequireSound(state_);
}

void Ledger::Reserve(NodeState next, Reservation reservation) {
  Amend(std::move(next));
  reserved_.insert_or_assign(reservation.pod_uid, std::move(reservation));
}

void Ledger::ReserveInPlace(Reservation reservation) {
  NodeState next = state_;
  allocation::ReserveInPlace(reservation, next);
  Reserve(std::move(next), std::move(reservation));
}

void Ledger::Amend(NodeState next) {
  RequireSound(next);
  state_ = std::move(next);
}

void Ledger::GiveBack(const std::string& pod_uid) {
  const auto reserved = reserved_.extract(pod_uid);
  if (reserved.empty()) return;
  const auto is_of_pod = [&](const Waiting& waiting) { return waiting.pod_uid == pod_uid; };
  std::erase_if(next_, is_of_pod);
  std::erase_if(written_, is_of_pod);  // the next write removes it from the files
  allocation::GiveBack(reserved.mapped(), state_);
  RequireSound(state_);
}

void Ledger::Commit(const std::string& pod_uid, Saved done) {
  next_.push_back({pod_uid, std::move(done)});
  WriteNext();
}

void Ledger::Keep(NodeState next) {
  Amend(std::move(next));
  Publish();
}

void Ledger::Save(Saved done) {
  if (done) next_.push_back({"", std::move(done)});
  WriteNext();
}

void Ledger::SaveAgain(Saved done) {
  must_write_ = true;
  Save(std::move(done));
}

bool Ledger::IsSaved(const std::string& pod_uid) const {
  const StateWriter::Job now{snapshot()->state, writer_.bindings()};
  if (attempts_.size() > kMaxAttempts) return now.HasEntriesOf({}, pod_uid);
  return now.HasEntriesOf(on_disk_, pod_uid) &&
         std::ranges::all_of(attempts_, [&](const StateWriter::Job& attempt) {
           return now.HasEntriesOf(attempt, pod_uid);
         });
}

void Ledger::WhenIdle(std::function<void()> idle) {
  idle_.push_back(std::move(idle));
  if (!is_writing_ && next_.empty()) {
    for (const auto& task : std::exchange(idle_, {})) task();
  }
}

std::shared_ptr<const Snapshot> Ledger::snapshot() const {
  const MutexLock lock(mutex_);
  return snapshot_;
}

NodeState Ledger::Visible(const std::vector<Waiting>& shown) const {
  NodeState visible = state_;
  bool is_state = true;
  for (const auto& [pod_uid, reservation] : reserved_) {
    if (std::ranges::find(shown, pod_uid, &Waiting::pod_uid) == shown.end()) {
      allocation::GiveBack(reservation, visible);
    } else if (reservation.IsInPlace()) {
      Complete(reservation, visible);
    } else {
      continue;
    }
    is_state = false;
  }
  if (!is_state) RequireSound(visible);
  return visible;
}

void Ledger::WriteNext() {
  if (is_writing_) return;
  std::vector<Waiting> waiting = std::exchange(next_, {});
  StateWriter::Job job{Visible(waiting), writer_.bindings()};
  if (!is_uncertain_ && !must_write_ && job.HasFilesOf(on_disk_)) {
    return Settle(std::move(waiting), Done{});
  }
  is_writing_ = true;
  must_write_ = false;
  // A repeated write adds nothing to what the disk may have.
  const bool is_repeated = !attempts_.empty() && job.HasFilesOf(attempts_.back());
  if (!is_repeated && attempts_.size() <= kMaxAttempts) attempts_.push_back(job);
  written_ = std::move(waiting);
  writer_.Write(
      job, [this](const StateWriter::Job& written, const Result<StateWriter::Leftover>& result) {
        OnWritten(written, result);
      });
}

void Ledger::OnWritten(const StateWriter::Job& job, const Result<StateWriter::Leftover>& result) {
  is_writing_ = false;
  is_uncertain_ = !result.ok() || *result != StateWriter::Leftover::kNothing;
  if (result.ok()) {
    on_disk_ = job;
    attempts_.clear();
  }
  Settle(std::exchange(written_, {}), result.ok() ? Result<Done>(Done{}) : result.error());
  // After a failure only for the requests that wait: each write is answered.
  if (!next_.empty() || !is_uncertain_) WriteNext();
  if (is_writing_ || !next_.empty()) return;
  for (const auto& task : std::exchange(idle_, {})) task();
}

void Ledger::Settle(std::vector<Waiting> waiting, const Result<Done>& result) {
  for (const Waiting& one : waiting) {
    if (one.pod_uid.empty()) continue;
    if (result.ok()) {
      const auto reserved = reserved_.extract(one.pod_uid);
      if (reserved.empty() || !reserved.mapped().IsInPlace()) continue;
      Complete(reserved.mapped(), state_);
      RequireSound(state_);
    } else {
      GiveBack(one.pod_uid);
    }
  }
  Publish();
  for (const Waiting& one : waiting) {
    if (one.done) one.done(result);
  }
}

void Ledger::Publish() {
  NodeState visible = Visible({});
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
