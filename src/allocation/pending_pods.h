// The pending pods: their last request was refused or failed. For the status.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/pod/pod.h"
#include "allocation/admission_request.h"
#include "allocation/outcome.h"
#include "sync/mutex.h"

namespace alignd::allocation {

// A pod, or one container of it, whose last request was not admitted. A value.
struct PendingPod {
  using Time = std::chrono::system_clock::time_point;

  ContainerKey key;    // without `container`: the pod as a whole
  std::string name;    // namespace/name
  std::string state;   // "refused" or "failed"
  std::string reason;  // of a refusal
  std::string message;
  bool by_policy = false;  // refused by admission::Admit: by the free resources of the node
  Time first;              // since the last request that was admitted
  Time last;
  uint64_t times = 0;
  std::shared_ptr<const Pod> pod;  // as it was requested; null: too large to be kept
};

// What a request was about. A value.
struct Requested {
  static Requested In(const AdmissionRequest& request);

  ContainerKey key;                // without `container`: the pod as a whole
  std::string name;                // namespace/name
  std::shared_ptr<const Pod> pod;  // null: too large to be kept
};

// Thread-safe. The kubelet repeats a request that is refused after 5 minutes at the latest. An
// entry that is not repeated for longer than kShown is dropped: the pod has been deleted, perhaps
// before it had a sandbox, of which alignd hears nothing.
class PendingPods {
 public:
  using Time = PendingPod::Time;

  static constexpr std::chrono::minutes kShown{15};
  // The entry with the oldest `last` is dropped first.
  static constexpr size_t kCapacity = 256;

  PendingPods() = default;
  PendingPods(const PendingPods&) = delete;
  PendingPods& operator=(const PendingPods&) = delete;

  // The answer to a request. An admitted one removes its container; as a whole pod, all of the pod.
  void Answered(const Requested& request, const Outcome& outcome,
                Time now = std::chrono::system_clock::now());
  // The pod is gone.
  void Forget(const std::string& pod_uid);

  // Oldest `first` first.
  std::vector<PendingPod> Report(Time now = std::chrono::system_clock::now()) const;
  // The pods with that UID, that namespace/name, or that name: one per namespace then. Of each, the
  // last request; of the containers of one pod, rather one that was not refused by the policies.
  std::vector<PendingPod> Find(std::string_view pod) const;

 private:
  void DropOld(Time now) REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<ContainerKey, PendingPod> pods_ GUARDED_BY(mutex_);
};

}  // namespace alignd::allocation
