// The owner of the node's assignments. Every change is decided, saved, published and answered, in
// this order.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/adoption.h"
#include "alignd/admission/cpu_moves.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/devicemanager/device_policy.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "allocation/admission_request.h"
#include "allocation/allocation_events.h"
#include "allocation/boot_record.h"
#include "allocation/checkpoint_store.h"
#include "allocation/cpu_resizes.h"
#include "allocation/decision_log.h"
#include "allocation/device_plugins.h"
#include "allocation/held_requests.h"
#include "allocation/inventory_queue.h"
#include "allocation/kubelet_allocation.h"
#include "allocation/ledger.h"
#include "allocation/outcome.h"
#include "allocation/pending_pods.h"
#include "allocation/plugin_needs.h"
#include "allocation/pod_notes.h"
#include "allocation/reboot_wait.h"
#include "allocation/refusal_explanations.h"
#include "allocation/state_writer.h"
#include "allocation/wait_queue.h"
#include "sync/mutex.h"
#include "sync/task_queue.h"

namespace alignd::allocation {

// Thread-safe: its methods post to the decision thread and return at once. Callbacks run exactly
// once, on the decision thread (after its end on the caller's), and must not block.
//
// While a pod's plugins are asked and its state files are written, its CPUs, memory and devices are
// reserved: no other pod gets them, but they are not published. An assignment is visible once it is
// saved. No decision waits for the disk: what needs no write is answered at once.
class AllocationManager final : public InventorySink {
 public:
  using AdmitDone = std::function<void(Outcome)>;

  // `initial` comes from CheckpointStore::Load. The references outlive this object, and so does
  // `boot`, if given: after a reboot, containers then wait for the plugins of their devices.
  // `not_devices`: extended resources that no device plugin serves. Containers that request them do
  // not wait for one. `events` gets what happens. `resizes`: those of exclusive CPUs that are not
  // refused. `waiting`: the queue of pods that do not fit now; nullopt: they are refused at once.
  AllocationManager(admission::Node node, admission::NodeState initial, CheckpointStore& store,
                    DevicePlugins& plugins, KubeletAllocation& kubelet = NoKubeletAllocation(),
                    BootRecord* boot = nullptr, std::set<std::string> not_devices = {},
                    AllocationEvents& events = NoAllocationEvents(),
                    CpuResizes resizes = CpuResizes::kAll, std::optional<WaitQueue> waiting = {});
  AllocationManager(const AllocationManager&) = delete;
  AllocationManager& operator=(const AllocationManager&) = delete;
  // Runs what was posted. Requests that still wait for a plugin or for the kubelet's checkpoint get
  // an error (kUnavailable).
  ~AllocationManager() override;

  // Decides about all containers of the pod, asks the plugins for the assigned devices, saves,
  // publishes. A container that has its assignment gets the same one again. While a pod's plugins
  // are asked, further requests for its containers wait for the same answer.
  // A pod that requests devices waits for their plugin until request.wait_until, and goes on when
  // the plugin has registered. It is never admitted without them.
  // With a queue, a pod that is refused for lack of resources, and would fit without other pods,
  // waits until request.wait_until, too; it goes on when it is its turn and it fits. A pod that
  // would take what a pod before it in the queue needs waits behind it (WaitQueue).
  // Errors: kIo if the assignment could not be saved; kUnavailable if the pod was released
  // meanwhile, alignd stops, the caller cancels, or a plugin that the pod needs is awaited. If a
  // plugin fails, or has not registered in time, the pod is refused with UnexpectedAdmissionError.
  // Source: kubelet pkg/kubelet/cm/devicemanager/manager.go, allocateContainerResources.
  // Differs: plugins are asked once everything is decided. A plugin's answer is kept with the
  // assignment and not asked for again.
  void Admit(AdmissionRequest request, AdmitDone done);

  using ResizeDone = std::function<void(ResizeOutcome)>;

  // Gives the container `count` exclusive CPUs, 0: shared ones; admission::Resize decides. The
  // change is on the disk before it is published and answered. Until then, added CPUs go to no
  // other pod, and neither do those that are taken away. A container that has `count` CPUs keeps
  // them. `pod`: its name and namespace, for texts. Refusals: kResizeRefused. Errors: kIo if it
  // could not be saved; kUnavailable if the pod is being admitted, resized or released, or if
  // alignd stops.
  void Resize(Pod pod, std::string container, int64_t count, ResizeDone done);

  CpuResizes allowed_resizes() const { return allowed_resizes_; }

  // A caller has set `cancelled`: its request waits no longer, for a plugin, for the kubelet's
  // checkpoint or for the disk. A decision that has been made stays: the next request for the
  // container gets it.
  void DropCancelled();

  // The pod's last running sandbox was stopped, or its last one removed: what waits in the queue
  // for one of its containers is answered. Once the last one is removed, it loses its place.
  void SandboxStopped(std::string pod_uid, bool is_removed);

  // alignd is about to stop. Requests that wait get an error, and no further one waits.
  void StopWaiting() {
    queue_->Post([this] { EndWaits(); });
  }

  // Publishes the state after the step; saves it, too, before `done`, if that assigns other CPUs.
  // Errors: as admission::AfterStep, also if a pod is being resized; kIo: nothing was reserved.
  void Move(admission::MoveStep step, std::vector<admission::CpuMove> moves,
            std::function<void(Result<Done>)> done);

  // The container is about to start. Releases what the ended init containers of its pod were
  // assigned, if the pod is known as a whole (admission::ContainerStarts). `running`: containers of
  // it that have not ended, whatever role they were taken for. The next save repairs a failed one.
  void ContainerStarts(ContainerKey key, std::set<std::string> running = {});

  // The pod is gone: releases all that it was assigned. `done` runs after that is saved.
  // `still_gone`, if given, is asked on the decision thread. False: the pod has come back and keeps
  // its assignment. A pod that is marked as present before its admission is thus never released by
  // an earlier decision.
  // Errors: kIo if it could not be saved. The pod is released all the same, and the file keeps its
  // entry until the next save. Its CPUs are not assigned before a save has removed the entry.
  void ReleasePod(std::string pod_uid, std::function<void(Result<Done>)> done,
                  std::function<bool()> still_gone = {});

  // Adds what these containers have and the state lacks (admission::Adopt), publishes it and has it
  // saved. Before the first request is decided. Waits for the decision thread; nullopt once alignd
  // stops. If it cannot be saved, that is logged, and the next save repairs it.
  std::optional<admission::Adoption> Adopt(std::vector<admission::MarkedContainer> containers,
                                           std::set<std::string> absent);

  // What sandboxes and marks say, before the first request is decided. Policies that assignments
  // satisfy count again, those of a pod that Move moves back after that.
  void LearnPods(std::map<std::string, PodPolicies> policies,
                 const std::map<std::string, bool>& has_pod_level,
                 const std::map<ContainerKey, ContainerKind>& roles);

  // These CPUs of the machine, and no others, are offline now (cpumanager::SetOffline). Published
  // before the next request is decided. Nothing is written: the files say what is assigned.
  void SetOffline(CpuSet offline);

  // The UIDs of all pods of which anything is kept, also of refused ones. The caller releases those
  // that do not exist any more. Waits for the decision thread; empty once alignd stops.
  std::set<std::string> KnownPods();
  // The same without waiting: `done` gets the answer, on the decision thread.
  void KnownPods(std::function<void(std::set<std::string>)> done);

  // Writes the state files whose content on the disk is uncertain, without waiting. An error is
  // logged.
  void SaveAgain();
  // Repeats the last save if it failed, also one that was refused before it reached the disk;
  // otherwise writes nothing. Without waiting. An error is logged.
  void SaveUnsaved();

  // The newest published state. Never waits for a decision.
  std::shared_ptr<const Snapshot> snapshot() const { return ledger_.snapshot(); }

  // The requests that wait for a device plugin. Thread-safe.
  HeldRequests::Waits waits() const { return held_.waits(); }

  // The queue of pods that do not fit now; null: they do not wait. Thread-safe.
  std::shared_ptr<const WaitQueue> WaitingPods() const EXCLUDES(waiting_mutex_);
  // What that would answer to a request for the pod. Waits for the decision thread.
  std::optional<QueueAnswer> AskQueue(const Pod& pod) const;

  // How many tasks, writes, and refusals to be explained wait for their thread. Thread-safe.
  size_t QueuedDecisions() const { return queue_->size(); }
  size_t QueuedWrites() const { return writer_.queued(); }
  size_t QueuedRefusals() const { return explanations_.size(); }

  // The devices that are bound to kubelet-allocated ids. Thread-safe.
  std::shared_ptr<const checkpoint::Bindings> bindings() const { return kubelet_.bindings(); }

  // The last decisions. A pod that has its assignment is not decided about again, but recorded
  // once.
  const DecisionLog& decisions() const { return decisions_; }
  // `observer` must not block: it is called by the decision thread, too.
  void OnDecision(std::function<void()> observer) { decisions_.OnChange(std::move(observer)); }
  // The pods whose last request was not admitted. Thread-safe.
  const PendingPods& pending_pods() const { return pending_pods_; }
  // As PodNotes, thread-safe. Pod-level resources: only with the gate PodLevelResourceManagers.
  std::set<std::string> InitContainers(const std::string& pod_uid) const;
  std::optional<ContainerKind> RoleOf(const ContainerKey& key) const { return notes_.RoleOf(key); }
  std::optional<bool> HasPodLevelResources(const std::string& pod_uid) const;
  std::optional<bool> AnnotatedPodLevel(const std::string& pod_uid) const;

  // What is to be done with the CFS quota of the pod's own cgroup. Thread-safe.
  PodQuota QuotaOf(const std::string& pod_uid) const;

  // Records that the pod could not be decided about because the request is faulty. Thread-safe.
  void NoteFault(const Pod& pod, const Error& why);
  // Records that a change of the pod was refused. `source`: what asked for it. Thread-safe.
  void NoteRefusal(const Pod& pod, const std::string& source, const Refusal& why);

  // Calls `observer` with every new snapshot, in order. Set it before the first change.
  void OnChange(Ledger::Observer observer) {
    queue_->Post([this, observer = std::move(observer)] { ledger_.OnChange(observer); });
  }

  // An inventory that cannot be saved is logged and saved with the next change. After a crash the
  // plugins announce it again.
  void SetResource(std::string name, devicemanager::Resource resource) override {
    Announce(name, std::move(resource));
  }
  void RemoveResource(const std::string& name) override { Announce(name, std::nullopt); }

 private:
  struct Operation;

  // A change in place (Reservation::IsInPlace) that is being written, and what waits for its pod.
  struct ResizeUnderWay {
    Pod pod;  // its names
    std::string container;
    admission::NodeState before;  // the state that it started from
    ResizeDone done;
    std::vector<Caller> behind = {};                                           // decided afterwards
    std::vector<std::pair<ContainerKey, std::set<std::string>>> started = {};  // ContainerStarts
  };

  // A callback for any thread: runs `work` on the decision thread, or not at all once this object
  // is gone.
  template <typename Work>
  auto Posted(Work work) const;

  // All of these run on the decision thread, except Announce.
  void Start(Caller caller);
  // nullopt: the request needs a decision.
  std::optional<EarlyAnswer> AnswerWithoutDecision(const Caller& caller,
                                                   const std::vector<UnknownDevices>& unknown,
                                                   bool pending);
  // Completes the request for its decision. nullopt: it can be decided now.
  std::optional<EarlyAnswer> Complete(const Caller& caller, bool pending,
                                      AdmissionRequest& request);
  void Respond(Caller caller, EarlyAnswer answer);
  // The callers of the operation start again: a plugin that they need has gone.
  void StartAgain(const std::shared_ptr<Operation>& operation);
  void CheckHeld();
  void ScheduleCheck();
  void EndWaits();
  // Answers the callers that have cancelled, so that nothing of them is kept.
  void AnswerCancelled();
  // Keeps the caller until TakeParked.
  uint64_t Park(Caller caller);
  // nullopt: it has been answered, because it has gone or because alignd stops.
  std::optional<Caller> TakeParked(uint64_t number);
  void AnswerOnceSaved(Caller caller);
  void Learn(Caller caller);
  Result<Done> TakeOver(const ContainerKey& key);
  // Writes what was published; a failure is logged with `what` in front.
  void SaveOrLog(const std::string& what);

  void Continue(const std::shared_ptr<Operation>& operation);
  // Answers once the refusal is explained, which happens beside further decisions.
  void Refuse(const std::shared_ptr<Operation>& operation, Refusal refusal, bool by_policy);
  void OnExplained(const std::shared_ptr<Operation>& operation,
                   const std::optional<ExplainedRefusal>& explained);
  // Ends the pod's refusal if its callers have gone: the next request is decided by what is free
  // then.
  void DropUnwantedRefusal(const std::string& pod_uid);
  // Refused pods, whose refusal is being explained, are not.
  bool IsBeingAdmitted(const std::string& pod_uid) const;

  // The queue (manager_queue.cc). Without one, these do nothing, or answer false.
  WaitingPod AsWaiting(const AdmissionRequest& request) const;
  // As WaitQueue::Join; the place keeps the request.
  bool Join(WaitingPod asking, const AdmissionRequest& request, const Refusal& why);
  // Whether the pod waits because of a pod before it, or its time is over: then it is answered or
  // held. A pod without a place does so once it has been decided that it fits.
  bool MustWait(const std::shared_ptr<Operation>& operation);
  // Gives the refused pod a place, so that no pod behind it is admitted while the refusal is
  // explained. True: it needs no explanation, and is held again.
  bool Reserve(const std::shared_ptr<Operation>& operation, const Refusal& refusal);
  // The refusal is explained, or not (nullopt): the pod waits, or is refused.
  void WaitIfItHelps(const std::shared_ptr<Operation>& operation, Refusal refusal,
                     std::optional<bool> fits_without_others);
  // Holds the callers that may wait, and answers the others.
  void Wait(const std::shared_ptr<Operation>& operation, const Refusal& refusal);
  void NoteWait(Operation& operation, const Refusal& refusal);
  // What was requested waits no longer, or that container (empty: the whole pod). Returns the
  // callers of the pod that were held: they are to start again.
  std::vector<Caller> LeaveQueue(const AdmissionRequest& request, WaitEnd end);
  std::vector<Caller> LeaveQueue(const std::string& pod_uid, const std::string& container,
                                 WaitEnd end, bool has_part);
  void ForgetWaiting(const std::string& pod_uid);
  // A call came for it; it waits for a device plugin.
  void NoteCall(const AdmissionRequest& request);
  // For which devices pods can be served now.
  std::set<std::string> AvailableDevices() const;
  void ResourcesReleased();
  void TryWaitingSoon();
  void TryWaiting();
  void ScheduleExpiry();
  void ExpirePlaces();
  void PublishWaiting() EXCLUDES(waiting_mutex_);
  // The places that another daemon of the process has left, by this one's configuration.
  void RenewPlaces();
  // Drops places of pods that the empty node would refuse, too: one by one, beside decisions.
  void CheckPlacesSoon();
  void CheckPlaces();
  void OnPlaceChecked(const WaitQueue::Check& check, bool fits);

  void AskPreferences(const std::shared_ptr<Operation>& operation,
                      const std::set<devicemanager::PreferenceQuery>& queries);
  void AskPlugins(const std::shared_ptr<Operation>& operation, admission::NodeState next);
  void OnResponse(const std::shared_ptr<Operation>& operation, const PluginAsk& ask,
                  const Result<std::string>& response);
  void Commit(const std::shared_ptr<Operation>& operation);
  void Assign(Operation& operation);
  void Fail(Operation& operation, const Outcome& why);
  void Finish(Operation& operation, const Outcome& outcome);
  void Report(Operation& operation, const Outcome& outcome);

  // More CPUs for a running container: not before a pod of the queue that waits for CPUs.
  std::optional<Refusal> RefuseToOvertake(const Pod& pod, const std::string& container,
                                          int64_t count);
  void StartResize(Pod pod, const std::string& container, int64_t count, ResizeDone done);
  // Reserves it and has it written. Then `log` runs, and its pod's requests go on (FinishResize).
  void WriteInPlace(Reservation reservation, ResizeUnderWay resize,
                    std::function<void(const ResizeUnderWay&)> log);
  void FinishResize(const std::string& pod_uid, const ResizeOutcome& outcome);
  // Gives back the resize of the pod that is under way, if any. Requests that wait get `why`.
  void CancelResize(const std::string& pod_uid, const Error& why);
  // Before a container is decided that is created with another number of exclusive CPUs than it
  // has, or that stays on one NUMA node and requests something else there. Both answer whether the
  // caller was taken over: it starts again, or gets the refusal.
  bool ResizeFirst(Caller& caller, bool pending);
  bool RenewShare(Caller& caller, bool pending);
  ResizeDone GoOn(uint64_t parked);  // starts the caller again, or responds
  void LogResize(const ResizeUnderWay& resize, const CpuSet& cpus);

  // The stopped pods of the request that have an assignment and are not being admitted.
  std::set<std::string> Releasable(const AdmissionRequest& request) const;
  // Their assignments have gone to another pod.
  void ForgetReleased(const std::set<std::string>& pod_uids);
  void Cancel(const std::string& pod_uid, const Error& why);
  // The name of a pod that is being admitted; of another one, its UID.
  std::string NameInCalls(const std::string& pod_uid) const;
  void Release(const std::string& pod_uid, std::function<void(Result<Done>)> done);

  void Announce(const std::string& name, std::optional<devicemanager::Resource> resource);
  void TakeAnnouncements();
  // `arrived`: adds what the kubelet's plugins assigned of these resources.
  void ChangeInventory(InventoryChanges changes, bool arrived);

  const admission::Node node_;               // constant after construction
  const std::set<std::string> not_devices_;  // constant after construction
  const CpuResizes allowed_resizes_;
  DevicePlugins& plugins_;    // thread-safe
  AllocationEvents& events_;  // thread-safe
  KubeletAllocation& kubelet_;
  DecisionLog decisions_;     // thread-safe
  PendingPods pending_pods_;  // thread-safe
  InventoryQueue inventory_;  // announcing is thread-safe

  // Shared with callbacks that outlive this object: what they post then is dropped.
  const std::shared_ptr<TaskQueue> queue_;
  StateWriter writer_;  // thread-safe

  // Decision thread only, except for the ledger's snapshot and the names of init containers.
  Ledger ledger_;
  RefusalExplanations explanations_;
  RebootWait reboot_;
  PodNotes notes_;
  std::map<std::string, PodPolicies> missed_policies_;            // of LearnPods
  std::map<std::string, std::shared_ptr<Operation>> operations_;  // by pod UID
  std::map<std::string, ResizeUnderWay> resizes_;                 // by pod UID
  HeldRequests held_;
  std::optional<HeldRequests::Clock::time_point> next_check_;  // of held_; posted
  std::map<uint64_t, Caller> parked_;  // wait for the kubelet's checkpoint or the disk; by number
  uint64_t park_count_ = 0;
  std::optional<WaitQueue> waiting_;
  bool try_posted_ = false;                                     // TryWaiting
  bool check_posted_ = false;                                   // CheckPlaces
  bool is_checking_ = false;                                    // a place
  std::optional<HeldRequests::Clock::time_point> next_expiry_;  // of waiting_; posted
  std::atomic<bool> drop_posted_ = false;                       // any thread
  bool may_wait_ = true;
  bool stopping_ = false;

  mutable Mutex waiting_mutex_;
  std::shared_ptr<const WaitQueue> published_waiting_ GUARDED_BY(waiting_mutex_);
};

template <typename Work>
auto AllocationManager::Posted(Work work) const {
  return [queue = queue_, work = std::move(work)](const auto&... answer) {
    queue->Post([work, answer...] { work(answer...); });
  };
}

}  // namespace alignd::allocation
