// Calls under way. While one of these objects is begun, no other part of alignd draws conclusions
// from its pod or container, which is just being changed.
#pragma once

#include <grpcpp/support/status.h>

#include <string>
#include <utility>

#include "reconcile/container_registry.h"
#include "reconcile/reconciler.h"

namespace alignd::cri {

// Whether the runtime may go on with a call that has ended so: with these codes the call has ended,
// not what it began.
inline bool MayGoOn(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::CANCELLED ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::UNAVAILABLE;
}

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

// A call that starts or updates a container. `cpus`: those that it sets, if it `changes_cpus`. See
// ContainerRegistry::BeginContainerCall.
class ContainerCall {
 public:
  ContainerCall(reconcile::ContainerRegistry& registry, reconcile::Reconciler& reconciler,
                std::string id, bool changes_cpus, const CpuSet& cpus = {})
      : registry_(registry),
        reconciler_(reconciler),
        id_(std::move(id)),
        changes_cpus_(changes_cpus) {
    registry_.BeginContainerCall(id_, changes_cpus_, cpus);
  }
  ContainerCall(const ContainerCall&) = delete;
  ContainerCall& operator=(const ContainerCall&) = delete;
  ~ContainerCall() {
    if (registry_.EndContainerCall(id_, changes_cpus_, may_go_on_)) reconciler_.Nudge();
  }

  // The call sets these CPUs instead.
  void Sets(const CpuSet& cpus) { registry_.ContainerCallSets(id_, cpus); }

  // What the runtime answered. Without an answer, and with some codes, it may still be at work.
  void Answered(const grpc::Status& status) { may_go_on_ = MayGoOn(status); }

 private:
  reconcile::ContainerRegistry& registry_;
  reconcile::Reconciler& reconciler_;
  const std::string id_;
  const bool changes_cpus_;
  bool may_go_on_ = true;
};

// A call that stops or removes a sandbox or a container. See ContainerRegistry::BeginStop.
class StopCall {
 public:
  StopCall(reconcile::ContainerRegistry& registry, std::string id)
      : registry_(registry), id_(std::move(id)) {
    registry_.BeginStop(id_);
  }
  StopCall(const StopCall&) = delete;
  StopCall& operator=(const StopCall&) = delete;
  ~StopCall() { registry_.EndStop(id_, may_go_on_); }

  // What the runtime answered.
  void Answered(const grpc::Status& status) { may_go_on_ = MayGoOn(status); }

 private:
  reconcile::ContainerRegistry& registry_;
  const std::string id_;
  bool may_go_on_ = false;
};

}  // namespace alignd::cri
