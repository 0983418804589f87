// The last decisions about pods and the hints that led to them, for `alignctl explain`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/assignment.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "allocation/outcome.h"
#include "sync/mutex.h"

namespace alignd::allocation {

// One decision about one pod, and its outcome. A value.
struct PodDecision {
  // Takes the outcome, as of now. The plugins' answers are left out: they are large, and needed
  // only while the pod exists.
  void Set(const Outcome& outcome);

  std::chrono::system_clock::time_point time;  // of the outcome, the last time
  std::string pod_uid;
  std::string name_space;
  std::string name;
  std::string source;  // of the pod's resources; empty: not known
  std::string asked;   // admission::DescribeRequest
  // The pod's own policy, if it was decided under that one (admission::OwnPolicy).
  std::optional<NumaTopologyPolicy> own_policy;
  // How it was decided; empty for containers that were not looked at.
  std::vector<admission::ContainerDecision> containers;
  // By container name. The pod was admitted if it has neither a refusal nor an error.
  std::map<std::string, admission::Assignment> assignments;
  std::optional<Refusal> refusal;
  std::optional<Error> error;  // decided, but not saved, or released meanwhile
  std::optional<admission::RefusalPoint> refused_at;  // as Admission's
  std::string available;  // of a refused pod: what was free (DescribeAvailable)
  // False: a refusal without explanation, and without `available`.
  bool is_explained = true;
  bool waits = false;          // it has a place in the WaitQueue, or is held for a plugin
  bool is_waiting_on = false;  // and had one before: that is no news
  std::string wanted = {};     // the container that was asked for; empty: the pod as a whole
  uint64_t times = 1;          // how often in a row the kubelet got the same answer
  // The container whose answers `times` counts: one attempt of the kubelet asks for the pod as a
  // whole, and then for each of its containers.
  std::string counted = {};
};

// A decision that is about to be made, starting from `state`.
PodDecision DecisionAbout(const admission::Node& node, const admission::NodeState& state,
                          const Pod& pod, std::string source);

// Whether nothing had to be decided: the pod asks for nothing exclusive, or has its assignment.
bool IsPlain(const PodDecision& decision);

// Whether the same pod got the same answer for the same reasons. They may differ in `time`, in
// `times`, and in whether a refusal is explained.
bool SameAnswer(const PodDecision& a, const PodDecision& b);

// The decision in one line, as it is logged.
std::string Describe(const PodDecision& decision);

// Whether `wanted` is the pod's UID, name or `namespace/name`, or empty, which names every pod.
bool NamesPod(std::string_view wanted, const std::string& uid, const std::string& name_space,
              const std::string& name);

// Thread-safe. Keeps the last kCapacity decisions, and of these not more than 8 MiB; plain ones are
// dropped first. Long texts are cut.
class DecisionLog {
 public:
  static constexpr size_t kCapacity = 256;

  DecisionLog() = default;
  DecisionLog(const DecisionLog&) = delete;
  DecisionLog& operator=(const DecisionLog&) = delete;

  // Keeps the decision and logs it at level info. The kubelet tries again and again to start a
  // refused container: the same answer becomes the newest, increments `times` once for each
  // attempt, and is logged at level debug. So are plain decisions. False: it is the same answer as
  // the pod's last one.
  bool Add(PodDecision decision);

  // Adds what a pod was answered without a decision. An assignment is added only if no decision
  // about it is kept.
  void AddUndecided(PodDecision decision, const Outcome& outcome);

  // `observer` is called after each change, on the thread that made it.
  void OnChange(std::function<void()> observer);

  // Whether a kept decision assigned something to the container, also if that is the shared pool.
  bool HasAssignment(const ContainerKey& key) const;

  // Newest first, `limit` at most, of the pods that `pod` names (NamesPod).
  std::vector<std::shared_ptr<const PodDecision>> Newest(std::string_view pod, size_t limit) const;

 private:
  void DropOne() REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::deque<std::shared_ptr<const PodDecision>> newest_first_ GUARDED_BY(mutex_);
  std::function<void()> observer_ GUARDED_BY(mutex_);
};

}  // namespace alignd::allocation
