// Keeps what runs and what was granted the same: asks the runtime what exists, releases what is
// gone, moves the containers of the shared pool whenever its CPU set changes, and has repaired what
// others change.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "allocation/allocation_manager.h"
#include "cgroup/cgroup_tree.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"
#include "reconcile/cpuset_guard.h"
#include "reconcile/cpuset_updater.h"
#include "reconcile/pod_releaser.h"
#include "reconcile/runtime_client.h"
#include "reconcile/runtime_lister.h"

namespace alignd::reconcile {

// Thread-safe. Four threads that never wait for each other: one lists, one releases, one moves, one
// guards.
class Reconciler {
 public:
  struct Options {
    RuntimeLister::Options lister;
    PodReleaser::Options releaser;
    CpusetUpdater::Options updater;
    CpusetGuard::Options guard;
    std::function<void()> after_listing;  // on the lister's thread; may be null
  };

  // All references outlive this object.
  Reconciler(const admission::Node& node, allocation::AllocationManager& allocation,
             ContainerRegistry& registry, RuntimeClient& runtime, const cgroup::CgroupTree& cgroups,
             Conditions& conditions, Options options);
  ~Reconciler() { Stop(); }

  // Starts the threads. The runtime is listed at once, or as soon as it is there; nobody waits for
  // that here.
  void Start();

  // Stops the threads, ending the runtime's calls; waiting callers get kUnavailable. From here on
  // the other methods may still be called.
  void Stop();

  // Something changed: look whether containers must move.
  void Nudge() { updater_.Nudge(); }

  // A sandbox has stopped, or a call has ended for a pod without one that runs: somebody may wait
  // for its containers to leave, and what the pod holds is released unless it comes back soon.
  void PodStopped() {
    updater_.Nudge();
    releaser_.Look();
  }

  // As PodReleaser::Release.
  void Release(const std::string& pod_uid) { releaser_.Release(pod_uid); }

  // The runtime may have done something that we did not see: list it at once.
  void Relist() { lister_.Relist(); }

  // A container was started: guard it.
  void Started() { guard_.Look(); }

  // Answers whether the runtime has been listed since the start, so that stale assignments are gone
  // and what runs is known. As RuntimeLister::WhenListed.
  void WhenListed(std::function<void(bool recovered)> done) { lister_.WhenListed(std::move(done)); }

  // As CpusetUpdater::BeforeStart.
  void BeforeStart(const std::string& named, std::function<void(Result<Done>)> done) {
    updater_.BeforeStart(named, std::move(done));
  }

 private:
  RuntimeClient& runtime_;
  const std::function<void()> after_listing_;
  CpusetGuard guard_;
  CpusetUpdater updater_;
  PodReleaser releaser_;
  RuntimeLister lister_;
};

}  // namespace alignd::reconcile
