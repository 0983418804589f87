// Requests whose answer waits: for a device plugin, or for resources that other pods are assigned.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "allocation/admission_request.h"
#include "allocation/kubelet_allocation.h"
#include "allocation/outcome.h"
#include "allocation/plugin_needs.h"
#include "sync/mutex.h"

namespace alignd::allocation {

// A request, and the callers that get the answer.
struct Caller {
  AdmissionRequest request;
  std::function<void(Outcome)> done;
  std::optional<KubeletAllocation::Learned> learned = {};
  // It waited in the WaitQueue, and other pods have released resources since.
  bool is_tried_again = false;
};

// The answer to a caller when alignd ends.
inline Error AligndStops() {
  return {ErrorCode::kUnavailable, "alignd is stopping", "call it again"};
}

// The answer to a caller that has set `cancelled`.
inline Error CallerCancelled() {
  return {ErrorCode::kUnavailable, "the caller cancelled the call", "call it again"};
}

// The kubelet counts an answer as a failed start: after 10, 20, 40 s and more it tries again. So a
// request waits here for as long as its caller does, and goes on when the plugin has registered, or
// when it is its pod's turn in the WaitQueue. One request for each container; one thread at a time,
// except for `waits`.
class HeldRequests {
 public:
  using Clock = std::chrono::steady_clock;

  // More than the pods of a node.
  static constexpr size_t kMaxHeld = 256;
  // Of all messages together. Each has up to rpc::kMaxMessageBytes; those of real pods have some
  // KiB.
  static constexpr size_t kMaxHeldBytes = size_t{64} * 1024 * 1024;

  // Takes the caller. An earlier caller for the same container is answered: a kubelet has one call
  // for each container.
  // Errors, which are the answer to the caller: `wait.why` if it may not wait any longer;
  // kUnavailable if a limit is reached, with the limit and the size.
  Result<Done> Hold(Caller& caller, const PluginWait& wait);

  // Answers the callers whose time is over, and returns those that need not wait any more, have
  // cancelled, or waited in the WaitQueue until their time was over: these are decided about once
  // more, so that the answer says what is free then. `is_awaited`: whether the resource's plugin is
  // still to be waited for.
  std::vector<Caller> Take(const std::function<bool(const std::string& resource)>& is_awaited);

  // Takes out the pod's callers that wait in the WaitQueue.
  std::vector<Caller> TakeQueued(const std::string& pod_uid);
  // Whether there are some.
  bool HasQueued(const std::string& pod_uid) const;
  // Whether a call for that container is held, or for any of the pod (empty), whatever it waits
  // for.
  bool Holds(const std::string& pod_uid, const std::string& container) const;

  // Answers all callers, each also with what it waited for.
  void Answer(const Error& why);
  // Answers those of one pod with what `why` says about it.
  void AnswerPod(const std::string& pod_uid, const std::function<Error(const Pod& pod)>& why);

  struct Wait {
    ContainerKey key;  // without `container`: the pod as a whole
    std::string name;  // of the pod: namespace/name
    std::string why;
    Clock::time_point since;
    Clock::time_point until;
  };
  struct Waits {
    size_t requests = 0;
    Clock::time_point oldest{};  // since when the oldest one waits; without one: no time
    // Shared and never modified. Null: none.
    std::shared_ptr<const std::vector<Wait>> list{};
  };
  // The requests that are held for a plugin. Thread-safe.
  Waits waits() const;

  // When Take must be called again at the latest; nullopt: no request is held.
  std::optional<Clock::time_point> NextCheck() const;

 private:
  // Whether a plugin is awaited may change without an announcement: its time is over, or it has
  // registered as before.
  static constexpr std::chrono::milliseconds kCheckPeriod{500};

  struct Held {
    Caller caller;
    PluginWait wait;
    Clock::time_point since;
  };

  // Why a message of that size is not taken; nullopt: it is.
  std::optional<std::string> WhyFull(size_t message_bytes) const;
  std::map<ContainerKey, Held>::iterator Erase(std::map<ContainerKey, Held>::iterator entry);
  // Follows each change of `held_`.
  void Publish() EXCLUDES(mutex_);

  std::map<ContainerKey, Held> held_;
  size_t held_bytes_ = 0;  // of their messages

  mutable Mutex mutex_;
  Waits waits_ GUARDED_BY(mutex_);
};

}  // namespace alignd::allocation
