// The one owner of what is given away. Every change is: decide, persist, publish, answer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/devicemanager/device_policy.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "allocation/binding_table.h"
#include "allocation/boot_record.h"
#include "allocation/checkpoint_store.h"
#include "allocation/counted_devices.h"
#include "allocation/decision_log.h"
#include "allocation/device_plugins.h"
#include "allocation/kubelet_devices.h"
#include "allocation/ledger.h"
#include "allocation/pod_counts.h"
#include "allocation/pod_notes.h"
#include "sync/mutex.h"
#include "sync/task_queue.h"

namespace alignd::allocation {

struct Allocated {
  // By container name; at least those of the pod that was asked about.
  std::map<std::string, admission::Assignment> assignments;
  // The shared pool must have been moved to this generation before an exclusive container starts.
  uint64_t generation = 0;
};

// Allocated; refused (nothing changed, kubelet's reason, explained message); or a malfunction
// (nothing changed).
using Outcome = std::variant<Allocated, Refusal, Error>;

// Thread-safe: its methods post to the decision thread and return at once. Callbacks run exactly
// once, on the decision thread (after the end on the caller's), and must not block.
//
// What is reserved for a pod whose plugins are still being asked is given to nobody else, but is
// neither saved nor published: both show a grant only once all of it is on the disk.
class AllocationManager final : public InventorySink {
 public:
  using AdmitDone = std::function<void(Outcome)>;
  // The UIDs of pods that have stopped and may give back what they hold, as of now. Called on the
  // decision thread; must not block.
  using StoppedPods = std::function<std::set<std::string>()>;

  // `initial` comes from CheckpointStore::Load. `store`, `plugins` and `bindings` outlive us.
  // `bindings`, where given, remembers which devices counted ids became; `modes` says which they
  // become, nullopt that the kubelet counts no devices. `kubelet`, where given, tells what was
  // counted for containers that have yet to be created, and what containers hold of a plugin that
  // comes from the kubelet; it is called on a thread of its own. `boot`, where given, says whether
  // the machine has booted since: then who holds devices waits until their plugins have come.
  AllocationManager(admission::Node node, admission::NodeState initial, CheckpointStore& store,
                    DevicePlugins& plugins, BindingTable* bindings = nullptr,
                    const std::optional<BindingModes>& modes = std::nullopt,
                    KubeletDevices kubelet = {}, BootRecord* boot = nullptr);
  AllocationManager(const AllocationManager&) = delete;
  AllocationManager& operator=(const AllocationManager&) = delete;
  // Finishes what was posted. Who waits for a plugin gets an error (kUnavailable), and what was
  // reserved for him was never saved.
  ~AllocationManager() override;

  // Decides about all containers of `pod` (one, where no more of the pod is known), asks the
  // plugins for granted devices, persists, publishes. Containers that already hold a grant get it
  // again. While a pod's plugins are being asked, further calls for its containers wait for the
  // same answer.
  // Errors: kIo if the grant could not be saved; kUnavailable if the pod was released meanwhile, we
  // are stopping, or a plugin that it needs is awaited. A plugin's failure is a refusal,
  // UnexpectedAdmissionError.
  // Source: kubelet pkg/kubelet/cm/devicemanager/manager.go, allocateContainerResources.
  // Differs: plugins are asked once everything is decided; an answer that a plugin has given is
  // kept with the grant and not asked for again.
  // `source` says in the decision log where the pod's resources were learnt from. `wanted` names
  // the one container that matters now: if it holds its grant it gets it again at once, whatever
  // becomes of the others, so that a restart is never refused for the sake of an init container
  // that has long ended. `counted`: the devices that the kubelet counted for containers of the pod,
  // whose limits name as many. `stopped`, where given, names pods that are released if the pod fits
  // then and not before; in one change, so that nobody is moved onto their CPUs in between.
  void Admit(Pod pod, AdmitDone done, std::string source = {}, std::string wanted = {},
             KubeletAllocatedPod counted = {}, StoppedPods stopped = {});

  // The container is about to start: what ended init containers of its pod held is given back, as
  // far as the pod is known as a whole (admission::ContainerStarts). A failure to save it is
  // logged: then the disk says more than is held until the next save.
  void ContainerStarts(ContainerKey key);

  // The pod is gone: gives everything back. `done` after it is on disk.
  // Errors: kIo if it could not be saved. The pod is released all the same: what is on the disk
  // then still has its entry, which costs nothing but its CPUs, and only until the next save or,
  // after a crash, until the pod is found gone. Nobody gets them before a save that has removed the
  // entry.
  // `still_gone`, where given, is asked on the decision thread when it is the release's turn: false
  // means that the pod came back meanwhile and keeps what it has. Who marks a pod as present before
  // he has it admitted cannot lose its grant to a release that was decided earlier.
  void ReleasePod(std::string pod_uid, std::function<void(Result<Done>)> done,
                  std::function<bool()> still_gone = {});

  // The UIDs of all pods of which anything is kept: they hold something, or were decided about. Who
  // knows which pods there are releases the others, so that what is kept of pods that came to
  // nothing does not grow for ever. Waits for the decision thread; empty once we are stopping.
  std::set<std::string> KnownPods();
  // The same without waiting: `done` gets the answer, on the decision thread.
  void KnownPods(std::function<void(std::set<std::string>)> done);

  // Writes the state files of which the store does not know that they are ours. Waits for the
  // decision thread. Errors: kIo; kUnavailable once we are stopping.
  Result<Done> SaveAgain();

  // The newest published state. Never blocks on a decision.
  std::shared_ptr<const Snapshot> snapshot() const { return ledger_.snapshot(); }

  // Which devices counted ids became. Thread-safe.
  std::shared_ptr<const checkpoint::Bindings> bindings() const;

  // The last decisions. A pod that already holds its grant is not decided about again; what it has
  // is put down once all the same.
  const DecisionLog& decisions() const { return decisions_; }

  // Puts down that the pod could not be decided about, for what is known of it is wrong.
  // Thread-safe.
  void NoteFault(const Pod& pod, const Error& why);

  // Called with every new snapshot, in order. Set before the first change.
  void OnChange(std::function<void(std::shared_ptr<const Snapshot>)> observer);

  // An inventory that cannot be saved is logged and saved with the next change; after a crash the
  // plugins announce it anew. With a plugin that comes for the first time, or again after its
  // resource has gone, what containers hold of it from the kubelet is taken over first.
  void SetResource(std::string name, devicemanager::Resource resource) override;
  // What containers hold of it stays theirs.
  void RemoveResource(const std::string& name) override;

 private:
  // What plugins announced, by resource; nullopt: removed.
  using Inventory = std::map<std::string, std::optional<devicemanager::Resource>>;
  struct Operation;
  struct Caller {
    Pod pod;
    AdmitDone done;
    std::string source;
    std::string wanted;
    KubeletAllocatedPod counted;
    StoppedPods stopped;
    std::optional<Result<KubeletAllocatedPod>> told =
        {};  // what the kubelet counted for the whole pod
  };

  // All of these on the decision thread.
  void Start(Caller caller);
  // Has the kubelet's counts read elsewhere; Start follows.
  void ReadCounts(Caller caller);
  // Takes over what the wanted container has of plugins that were the kubelet's, if it is not held
  // (any more): it comes with their answers, whether we know of it or not.
  // Errors: kUnavailable if somebody else holds it now; kIo.
  Result<Done> TakeOverWanted(const Caller& caller);
  // Why a container is not to be made although it holds its devices.
  std::optional<Outcome> AwaitsPluginsOfThisBoot(const Caller& caller) const;
  // Notes the machine's boot once nobody waits for a plugin of an earlier one any more.
  void SettleBoot();
  bool IsAllocated(const Caller& caller, bool pending) const;
  // Binds what is counted to the devices that `state` gives the pod.
  Result<Done> KeepBound(const admission::NodeState& state, const std::string& pod_uid,
                         const KubeletAllocatedPod& counted);
  Allocated AssignmentsNow(const Pod& pod) const;
  void Decide(const std::shared_ptr<Operation>& operation);
  void Consult(const std::shared_ptr<Operation>& operation,
               const std::set<devicemanager::PreferenceQuery>& queries);
  // Those of its stopped pods that hold something and are not being admitted.
  std::set<std::string> Releasable(const Operation& operation) const;
  // Their room has been given to somebody else.
  void ForgetReleased(const std::set<std::string>& pod_uids);
  void Take(const std::shared_ptr<Operation>& operation, admission::NodeState next);
  void OnResponse(Operation& operation, const ContainerKey& key, const std::string& resource,
                  Result<std::string> response);
  void Conclude(Operation& operation, admission::NodeState next);
  void Fail(Operation& operation, const Outcome& why);
  void Finish(Operation& operation, const Outcome& outcome);
  void Note(Operation& operation, const admission::Admission& admission);
  void NotePlain(const Caller& caller, const Allocated& granted);
  void Cancel(const std::string& pod_uid, const Error& why);
  Result<Done> Release(const std::set<std::string>& pod_uids);
  // Takes over what plugins announced since: once for all of it, so that a plugin that floods us
  // costs one decision's time at most between two others.
  void ChangeInventory();
  // Has the kubelet's checkpoint read for those that came, until it can be; Arrive follows.
  void ReadForArrival(const std::set<std::string>& came, const std::string& last_fault);
  void Arrive(const std::set<std::string>& came);
  // `takes_over`: what the kubelet's plugins had given of them.
  void Put(Inventory inventory, bool takes_over);
  void Announce(const std::string& name, std::optional<devicemanager::Resource> resource)
      EXCLUDES(mutex_);

  // Of all operations but `except`: what is not to be seen yet.
  std::vector<const Reservation*> Hidden(const Operation* except) const;

  const admission::Node node_;    // constant after construction
  DevicePlugins& plugins_;        // thread-safe
  BindingTable* const bindings_;  // decision thread only, but for its snapshot; may be null
  const bool mirrors_;
  const BindingModes modes_;
  const KubeletDevices kubelet_;
  DecisionLog decisions_;  // thread-safe

  // Decision thread only, but for the snapshot.
  Ledger ledger_;
  std::map<std::string, std::shared_ptr<Operation>> operations_;  // by pod UID
  PodNotes notes_;
  PodCounts pod_counts_;
  std::set<std::string> plugins_seen_;  // resources
  BootRecord* const boot_;              // may be null
  // Resources that were held before the machine booted, and whose plugins have not come since.
  std::set<std::string> of_earlier_boot_;
  bool unsettled_said_ = false;
  // Those of plugins that just came, with what they announced since: to be shown with what
  // containers hold of them.
  Inventory arriving_;
  // What the kubelet's own plugins had given when last one of them came to us.
  checkpoint::DeviceCheckpoint of_its_plugins_;
  bool stopping_ = false;

  Mutex mutex_;
  Inventory announced_ GUARDED_BY(mutex_);  // and not yet seen by the decision thread

  // Shared with the callbacks that plugins still hold when we are gone: they post to it in vain.
  const std::shared_ptr<TaskQueue> queue_;
  // Reads the kubelet's checkpoint: no decision is to wait for that. Null where there is none.
  const std::unique_ptr<TaskQueue> reader_;
};

}  // namespace alignd::allocation
