// Calls under way. While one of these objects is begun, no other part of alignd draws conclusions
// from its pod or container, which is just being changed.
#pragma once

#include <string>
#include <utility>

#include "reconcile/container_registry.h"
#include "reconcile/reconciler.h"

namespace alignd::cri {

// A call that gives the pod a sandbox or a container. Its handler may outlive the answer. So the
// handler ends the call before it answers: a caller that then removes the pod finds no call of it
// under way, and the pod is released at once.
class PodCall {
 public:
  PodCall(reconcile::ContainerRegistry& registry, reconcile::Reconciler& reconciler,
          std::string pod_uid)
      : registry_(registry), reconciler_(reconciler), pod_uid_(std::move(pod_uid)) {
    registry_.BeginCall(pod_uid_);
  }
  PodCall(const PodCall&) = delete;
  PodCall& operator=(const PodCall&) = delete;
  ~PodCall() {
    if (registry_.EndCall(pod_uid_)) reconciler_.PodStopped();
  }

 private:
  reconcile::ContainerRegistry& registry_;
  reconcile::Reconciler& reconciler_;
  const std::string pod_uid_;
};

// A call that starts or updates a container. See ContainerRegistry::BeginContainerCall.
class ContainerCall {
 public:
  ContainerCall(reconcile::ContainerRegistry& registry, reconcile::Reconciler& reconciler,
                std::string id, bool changes_cpus)
      : registry_(registry),
        reconciler_(reconciler),
        id_(std::move(id)),
        changes_cpus_(changes_cpus) {
    registry_.BeginContainerCall(id_, changes_cpus_);
  }
  ContainerCall(const ContainerCall&) = delete;
  ContainerCall& operator=(const ContainerCall&) = delete;
  ~ContainerCall() {
    if (registry_.EndContainerCall(id_, changes_cpus_)) reconciler_.Nudge();
  }

 private:
  reconcile::ContainerRegistry& registry_;
  reconcile::Reconciler& reconciler_;
  const std::string id_;
  const bool changes_cpus_;
};

}  // namespace alignd::cri
