// The allocation manager and moves of running containers to other exclusive CPUs.
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/cpu_moves.h"
#include "alignd/admission/own_policy.h"
#include "allocation/allocation_manager.h"
#include "allocation/operation.h"
#include "allocation/state_limits.h"

namespace alignd::allocation {

using admission::MoveStep;

void AllocationManager::Move(MoveStep step, std::vector<admission::CpuMove> moves,
                             std::function<void(Result<Done>)> done) {
  const bool posted = queue_->Post([this, step, moves = std::move(moves), done] {
    if (stopping_) return done(AligndStops());
    for (const admission::CpuMove& move : moves) {
      if (step != MoveStep::kReserve || !resizes_.contains(move.key.pod_uid)) continue;
      return done(Error{ErrorCode::kUnavailable,
                        "container " + move.key.container + " of pod " + move.key.pod_uid +
                            " cannot be moved: a resize of its pod is being written",
                        "repeat the change"});
    }
    Result<admission::NodeState> next = admission::AfterStep(step, node_, ledger_.state(), moves);
    if (!next.ok()) return done(next.error());
    const bool is_written = step != MoveStep::kGo && step != MoveStep::kReturn;
    if (const Result<Done> fits = RequireReadable(*next); is_written && !fits.ok()) {
      return done(fits.error());
    }
    if (step == MoveStep::kGiveBack) {
      // The CPUs of before and of after together may not have satisfied the policy at the start.
      for (const admission::CpuMove& move : moves) {
        const auto missed = missed_policies_.extract(move.key.pod_uid);
        if (missed.empty()) continue;
        *next = admission::WithPolicies(node_, *std::move(next), {{missed.key(), missed.mapped()}});
      }
    }
    ledger_.Keep(*std::move(next));
    if (!is_written) return done(Done{});
    if (step != MoveStep::kReserve) ResourcesReleased();
    ledger_.Save([this, step, moves, done](const Result<Done>& saved) {
      if (!saved.ok() && step == MoveStep::kReserve) {
        // No container has begun to move: they are where they were.
        ledger_.Keep(*admission::AfterStep(MoveStep::kGiveBack, node_, ledger_.state(), moves));
        ResourcesReleased();
      }
      done(saved);
    });
  });
  if (!posted) done(AligndStops());
}

}  // namespace alignd::allocation
