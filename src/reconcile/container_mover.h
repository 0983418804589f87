// Moves running containers from exclusive CPUs to other ones, before the configuration changes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "alignd/admission/cpu_moves.h"
#include "alignd/base/result.h"
#include "allocation/allocation_manager.h"
#include "cgroup/cgroup_tree.h"
#include "reconcile/container_registry.h"
#include "reconcile/reconciler.h"
#include "reconcile/runtime_client.h"
#include "sync/task_queue.h"

namespace alignd::reconcile {

// Thread-safe. Each container is assigned its CPUs of before and of after from the beginning to the
// end, also on the disk. It goes to those of after, by one update of the runtime, when all other
// containers have left them.
class ContainerMover {
 public:
  // On any thread, once.
  using MoveDone = std::function<void(Result<Done>)>;

  // Cgroup files are read on `io`. All references outlive this object, and this object the calls of
  // `done`.
  ContainerMover(TaskQueue& io, allocation::AllocationManager& allocation,
                 const ContainerRegistry& registry, RuntimeClient& runtime,
                 const cgroup::CgroupTree& cgroups, Reconciler& reconciler)
      : io_(io),
        allocation_(allocation),
        registry_(registry),
        runtime_(runtime),
        cgroups_(cgroups),
        reconciler_(reconciler) {}
  ContainerMover(const ContainerMover&) = delete;
  ContainerMover& operator=(const ContainerMover&) = delete;

  // After it, each container runs on the CPUs of after, and is still assigned both. After an error,
  // MoveBack is to follow.
  // Errors: as AllocationManager::Move and CpusetUpdater::BeforeStart; before anything is changed:
  // kUnavailable: a cgroup above a container may not use the CPUs of after, or which cgroups these
  // are is not known.
  void Move(std::vector<admission::CpuMove> moves, MoveDone done);

  // After it, each container runs on the CPUs of before, and is assigned only these. Moves that
  // have not begun, or have ended, change nothing.
  // Errors: as Move; kUnavailable: the runtime has not been listed since the start, and which
  // containers run is not known. The containers are still assigned both.
  void MoveBack(std::vector<admission::CpuMove> moves, MoveDone done);

 private:
  // Whether the kernel would run the containers on their CPUs of after (cgroup::RequireInParent).
  void RequireInParents(const std::vector<admission::CpuMove>& moves, MoveDone done);
  // The step after which the containers are to run elsewhere, and their arrival there.
  void Go(admission::MoveStep step, std::vector<admission::CpuMove> moves, MoveDone done);
  // Answers when each of the containers that runs has been moved by the runtime.
  void AwaitArrival(const std::vector<admission::CpuMove>& moves, MoveDone done);
  // Their CPUs may have gone offline.
  Result<Done> RequireAllOnline(admission::MoveStep step,
                                const std::vector<admission::CpuMove>& moves) const;
  // The ids of the containers of these moves.
  std::vector<std::string> IdsOf(const std::vector<admission::CpuMove>& moves) const;

  TaskQueue& io_;
  allocation::AllocationManager& allocation_;
  const ContainerRegistry& registry_;
  RuntimeClient& runtime_;
  const cgroup::CgroupTree& cgroups_;
  Reconciler& reconciler_;
};

}  // namespace alignd::reconcile
