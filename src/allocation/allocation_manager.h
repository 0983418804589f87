// The one owner of what is given away. Every change is: decide, persist, publish, answer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>

#include "alignd/admission/admission.h"
#include "alignd/admission/grant.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "allocation/device_plugins.h"

namespace alignd::allocation {

// What is published after every change. A value, shared and never modified.
struct Snapshot {
  uint64_t generation = 0;  // grows by one with every change
  admission::NodeState state;
};

struct Granted {
  std::map<std::string, admission::Grant> grants;  // by container name
  // The shared pool must have been moved to this generation before an exclusive container starts.
  uint64_t generation = 0;
};

// Granted; refused (nothing changed, kubelet's reason, explained message); or a malfunction
// (nothing changed).
using Outcome = std::variant<Granted, Refusal, Error>;

// Thread-safe: its methods post to the decision thread and return at once; callbacks run on the
// decision thread or on a plugin's thread and must not block.
class AllocationManager : public InventorySink {
 public:
  // Decides about all containers of `pod` (one, where no more of the pod is known), asks the
  // plugins for granted devices, persists, publishes. Containers that already hold a grant get it
  // again.
  virtual void Admit(Pod pod, std::function<void(Outcome)> done) = 0;

  // The pod is gone: gives everything back. `done` after it is on disk.
  virtual void ReleasePod(std::string pod_uid, std::function<void(Result<Done>)> done) = 0;

  // The containers of the runtime's sandboxes are what is left: releases every other pod. Used at
  // start and by the reconciler. Answers with the UIDs that were released.
  virtual void ReleaseAllBut(std::set<std::string> live_pod_uids,
                             std::function<void(Result<std::set<std::string>>)> done) = 0;

  // The newest published state. Never blocks on a decision.
  virtual std::shared_ptr<const Snapshot> snapshot() const = 0;

  // Called with every new snapshot, in order. Set before the first change.
  virtual void OnChange(std::function<void(std::shared_ptr<const Snapshot>)> observer) = 0;
};

}  // namespace alignd::allocation
