// Calls that are under way, for as long as these objects live, so that nobody draws conclusions
// from a pod or a container that is just being changed.
#pragma once

#include <string>
#include <utility>

#include "reconcile/container_registry.h"
#include "reconcile/reconciler.h"

namespace alignd::cri {

// A call that gives the pod a sandbox or a container. Its handler may outlive the answer, so it
// ends the call itself before it answers: who has the answer and removes the pod finds nobody in
// the way.
class PodCall {
 public:
  PodCall(reconcile::ContainerRegistry& registry, reconcile::Reconciler& reconciler,
          std::string pod_uid)
      : registry_(registry), reconciler_(reconciler), pod_uid_(std::move(pod_uid)) {
    registry_.BeginCall(pod_uid_);
  }
  PodCall(const PodCall&) = delete;
  PodCall& operator=(const PodCall&) = delete;
  ~PodCall() { End(); }

  void End() {
    if (std::exchange(ended_, true)) return;
    if (registry_.EndCall(pod_uid_)) reconciler_.PodStopped();
  }

 private:
  reconcile::ContainerRegistry& registry_;
  reconcile::Reconciler& reconciler_;
  const std::string pod_uid_;
  bool ended_ = false;
};

// A call that starts or updates a container, from Begin on. See
// ContainerRegistry::BeginContainerCall. Begin happens before End.
class ContainerCall {
 public:
  ContainerCall(reconcile::ContainerRegistry& registry, reconcile::Reconciler& reconciler,
                bool changes_cpus)
      : registry_(registry), reconciler_(reconciler), changes_cpus_(changes_cpus) {}
  ContainerCall(const ContainerCall&) = delete;
  ContainerCall& operator=(const ContainerCall&) = delete;
  ~ContainerCall() { End(); }

  void Begin(std::string id) {
    id_ = std::move(id);
    registry_.BeginContainerCall(id_, changes_cpus_);
    begun_ = true;
  }
  void End() {
    if (!std::exchange(begun_, false)) return;
    if (registry_.EndContainerCall(id_, changes_cpus_)) reconciler_.Nudge();
  }

 private:
  reconcile::ContainerRegistry& registry_;
  reconcile::Reconciler& reconciler_;
  const bool changes_cpus_;
  std::string id_;
  bool begun_ = false;
};

}  // namespace alignd::cri
