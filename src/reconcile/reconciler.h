// Keeps running containers and their assignments consistent: lists the runtime, releases removed
// pods, applies the shared pool's CPU set whenever it changes, and restores changed cpusets.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "allocation/allocation_manager.h"
#include "cgroup/cgroup_tree.h"
#include "host/event_loop.h"
#include "reconcile/conditions.h"
#include "reconcile/container_adopter.h"
#include "reconcile/container_registry.h"
#include "reconcile/cpuset_guard.h"
#include "reconcile/cpuset_narrower.h"
#include "reconcile/cpuset_updater.h"
#include "reconcile/online_cpus.h"
#include "reconcile/pod_cpu_guard.h"
#include "reconcile/pod_releaser.h"
#include "reconcile/process_scan.h"
#include "reconcile/runtime_client.h"
#include "reconcile/runtime_events.h"
#include "reconcile/runtime_lister.h"
#include "sync/task_queue.h"

namespace alignd::reconcile {

// Thread-safe. CpusetUpdater, PodReleaser and RuntimeEvents run on `background`, RuntimeLister,
// CpusetGuard, CpusetNarrower, PodCpuGuard, ProcessScan and OnlineCpus on `io`. Of threads of its
// own, it has only CpusetNarrower's.
class Reconciler {
 public:
  struct Threads {
    TaskQueue& background;
    TaskQueue& io;
    std::shared_ptr<host::EventLoop> events;  // for inotify
  };
  struct Options {
    RuntimeLister::Options lister;
    PodReleaser::Options releaser;
    CpusetUpdater::Options updater;
    CpusetGuard::Options guard;
    std::optional<PodCpuGuard::Options> pods{PodCpuGuard::Options()};  // nullopt: they keep quotas
    ProcessScan::Options processes;
    RuntimeEvents::Options events;
    OnlineCpus::Options online_cpus;
    std::function<void()> after_listing;  // on `io`; may be null
    allocation::StateFindings findings;   // of the start, for ContainerAdopter
  };

  // All references outlive this object. The callbacks of `allocation` end before it does.
  Reconciler(const Threads& threads, const admission::Node& node,
             allocation::AllocationManager& allocation, ContainerRegistry& registry,
             RuntimeClient& runtime, const cgroup::CgroupTree& cgroups, Conditions& conditions,
             Options options);
  ~Reconciler() { Stop(); }

  // Begins the work. The runtime is listed at once, or as soon as it is available; Start does not
  // wait for that.
  void Start();

  // Ends our calls of the runtime and all work on the queues. Callers that wait get kUnavailable.
  // The other methods may still be called afterwards.
  void Stop();

  // Call after a change that may need new CPU sets.
  void Nudge() {
    updater_.Nudge();
    online_cpus_.StateChanged();
  }

  // As OnlineCpus::Look.
  void LookForOfflineCpus() { online_cpus_.Look(); }

  // Call after a sandbox has stopped, or a call has ended for a pod without a running sandbox.
  // Waiting containers may start now, and the pod is released unless it runs again soon.
  void PodStopped() {
    updater_.Nudge();
    releaser_.Look();
  }

  // As PodCpuGuard. They do nothing if pods keep their quotas.
  void GuardPod(const std::string& pod_uid, const std::string& cgroup_parent) {
    if (pods_) pods_->Guard(pod_uid, cgroup_parent);
  }
  void ResizeRefused(const std::string& pod_uid) {
    if (pods_) pods_->ResizeRefused(pod_uid);
  }
  void ResizeAccepted(const std::string& pod_uid) {
    if (pods_) pods_->ResizeAccepted(pod_uid);
  }

  // Stops guarding pods, for the next Reconciler of the process: as PodCpuGuard::Lifted.
  LiftedQuotas StopGuardingPods() {
    if (!pods_) return {};
    pods_->Stop();
    return pods_->Lifted();
  }

  // As RuntimeEvents::ClientReads and ClientHasLeft.
  void ClientReadsEvents() { events_.ClientReads(); }
  void ClientHasLeftEvents() { events_.ClientHasLeft(); }

  // As PodReleaser::Release.
  void Release(const std::string& pod_uid) { releaser_.Release(pod_uid); }

  // As RuntimeLister::Relist.
  void Relist() { lister_.Relist(); }
  // Call when the connection to the runtime has ended: another runtime may serve the next one.
  void RuntimeLost() {
    events_.RuntimeLost();
    lister_.Relist();
  }

  // Call after a container was started: it is guarded from then on.
  void Started() { guard_.Look(); }

  // As CpusetGuard::CgroupOf.
  std::optional<KnownCgroup> CgroupOf(const std::string& id) const { return guard_.CgroupOf(id); }

  // As RuntimeLister::WhenListed.
  void WhenListed(std::function<void(bool recovered)> done,
                  RuntimeLister::Cancelled cancelled = nullptr) {
    lister_.WhenListed(std::move(done), std::move(cancelled));
  }

  // As RuntimeLister::recovered.
  bool Recovered() const { return lister_.recovered(); }

  // As RuntimeLister::WhenListedAnew.
  void WhenListedAnew(RuntimeLister::Clock::time_point until, std::function<void(bool listed)> done,
                      RuntimeLister::Cancelled cancelled = nullptr) {
    lister_.WhenListedAnew(until, std::move(done), std::move(cancelled));
  }

  // As CpusetUpdater::BeforeStart.
  void BeforeStart(const std::string& named, std::function<void(Result<Done>)> done) {
    updater_.BeforeStart(named, std::move(done));
  }

 private:
  // Null if pods keep their quotas.
  PodCpuGuard* MakePodGuard(const Threads& threads, const allocation::AllocationManager& allocation,
                            const ContainerRegistry& registry, const cgroup::CgroupTree& cgroups,
                            Conditions& conditions,
                            const std::optional<PodCpuGuard::Options>& options);

  static CpusetGuard::Options WithSuspicion(CpusetGuard::Options options,
                                            std::function<void()> suspected) {
    options.suspected = std::move(suspected);
    return options;
  }

  static RuntimeLister::Options WithAdopter(RuntimeLister::Options options,
                                            ContainerAdopter& adopter) {
    options.adopter = &adopter;
    return options;
  }

  RuntimeClient& runtime_;
  const std::function<void()> after_listing_;
  std::optional<PodCpuGuard> pods_;
  CpusetGuard guard_;
  CpusetNarrower narrower_;
  CpusetUpdater updater_;
  PodReleaser releaser_;
  ContainerAdopter adopter_;
  RuntimeLister lister_;
  ProcessScan processes_;
  RuntimeEvents events_;
  OnlineCpus online_cpus_;
};

}  // namespace alignd::reconcile
