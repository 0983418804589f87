// The last decisions about pods and how they came about, for those who ask later.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
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
#include "sync/mutex.h"

namespace alignd::allocation {

// One decision about one pod, and how it ended. A value.
struct PodDecision {
  std::chrono::system_clock::time_point time;  // when it ended, the last time
  std::string pod_uid;
  std::string name_space;
  std::string name;
  std::string source;  // where the pod's resources were learnt from; empty: not said
  std::string asked;   // admission::DescribeRequest
  // How it was decided; empty of containers that were not looked at.
  std::vector<admission::ContainerDecision> containers;
  // By container name. Allocated if neither of the two below is there.
  std::map<std::string, admission::Assignment> assignments;
  std::optional<Refusal> refusal;
  std::optional<Error> error;  // decided, but it came to nothing: not saved, or released meanwhile
  std::string left;            // of what was refused: what the node had left (DescribeAvailable)
  uint64_t times = 1;          // how often in a row the pod got this very answer
};

// One about `pod` that is yet to be made; `state` is the one that it starts from.
PodDecision DecisionAbout(const admission::Node& node, const admission::NodeState& state,
                          const Pod& pod, std::string source);

// Whether there was nothing to decide: the pod asks for nothing of its own, or holds it already.
bool IsPlain(const PodDecision& decision);

// The decision in one line, for people.
std::string Describe(const PodDecision& decision);

// Thread-safe. Holds the last kCapacity decisions; plain ones go first.
class DecisionLog {
 public:
  static constexpr size_t kCapacity = 256;

  DecisionLog() = default;
  DecisionLog(const DecisionLog&) = delete;
  DecisionLog& operator=(const DecisionLog&) = delete;

  // Keeps the decision and writes it to the log, at level info. The kubelet tries again and again
  // to start a refused container: an answer that the pod has got already is counted in `times`
  // instead, becomes the newest, and is written at level debug, as are plain decisions.
  void Add(PodDecision decision);

  // Whether a decision that is held here gave the container something, be it the shared pool.
  bool HasAssignment(const ContainerKey& key) const;

  // Newest first, `limit` at most. `pod`: only those of the pod with that UID, that name, or that
  // `namespace/name`; empty: all.
  std::vector<std::shared_ptr<const PodDecision>> Newest(std::string_view pod, size_t limit) const;

 private:
  void DropOne() REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::deque<std::shared_ptr<const PodDecision>> newest_first_ GUARDED_BY(mutex_);
};

}  // namespace alignd::allocation
