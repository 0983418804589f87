// The explanations of refusals: what is free, which pods have it, what would help. They take some
// dozen further decisions, so that they are made beside the decision thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/checkpoint/binding_checkpoint.h"
#include "alignd/pod/refusal.h"
#include "allocation/admission_request.h"
#include "allocation/kubelet_allocation.h"
#include "sync/task_queue.h"

namespace alignd::allocation {

// A refusal, and what it was decided from. Nothing in it changes any more; but the names of other
// pods, and whether they end, are asked when it is explained (AdmissionRequest::describe).
struct RefusedRequest {
  std::shared_ptr<const AdmissionRequest> request;
  admission::NodeState state;  // a copy costs some reference counts
  std::shared_ptr<const checkpoint::Bindings> bindings;
  Refusal refusal;
  bool by_policy = false;  // as Decision::by_policy
};

struct ExplainedRefusal {
  Refusal refusal;
  std::string available;  // what was free (DescribeAvailable)
  // Whether the pod would be admitted if all other pods released what they have.
  bool fits_without_others = false;
};

// The explanation, computed at once.
ExplainedRefusal ExplainRefusal(const admission::Node& node, const KubeletAllocation& kubelet,
                                const RefusedRequest& refused);

// The refusal without an explanation, because too many others wait for theirs or there is no
// thread: it says so, and how to get it.
Refusal WithoutExplanation(const RefusedRequest& refused);

// A thread that explains refusals, in their order.
class RefusalExplanations {
 public:
  using Clock = std::chrono::steady_clock;

  // A kubelet can start all pods of a node at once, and each may be refused. On usual machines one
  // explanation takes a millisecond.
  static constexpr size_t kMaxWaiting = 64;
  // On the largest machines it may take seconds: refusals do not add up to minutes.
  static constexpr std::chrono::seconds kMaxWait{2};

  // nullopt: not computed, because no caller waits for it.
  using Done = std::function<void(const std::optional<ExplainedRefusal>&)>;

  // The references outlive this object.
  RefusalExplanations(const admission::Node& node, const KubeletAllocation& kubelet)
      : node_(node), kubelet_(kubelet) {}

  // Calls `done` on the thread, once. `abandoned` is read when the turn comes. False, and `done` is
  // dropped: kMaxWaiting refusals wait, the one whose turn it is came more than kMaxWait before
  // `now`, no thread can be started, or Stop was called. One thread at a time.
  bool Explain(std::shared_ptr<const RefusedRequest> refused,
               std::shared_ptr<const std::atomic<bool>> abandoned, Clock::time_point now,
               Done done);

  // Whether the pod would be admitted if all other pods released what they have: `done` gets the
  // answer on the thread, once. False as for Explain.
  bool CheckFits(const admission::NodeState& state, std::shared_ptr<const Pod> pod,
                 Clock::time_point now, std::function<void(bool)> done);

  // How many refusals wait.
  size_t size() const { return queue_.size(); }

  // Returns when all have been explained.
  void Stop() { queue_.Stop(); }

 private:
  bool IsFull(Clock::time_point now) const;

  const admission::Node& node_;
  const KubeletAllocation& kubelet_;
  // When the refusal came that is being explained; max(): there is none.
  std::atomic<Clock::time_point> came_{Clock::time_point::max()};
  TaskQueue queue_{"refusals", TaskQueue::kLinger};
};

}  // namespace alignd::allocation
