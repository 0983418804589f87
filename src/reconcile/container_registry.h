// The sandboxes and containers of the runtime, as far as alignd knows them: their pods, and the CPU
// set that was last applied to each container.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/shared_pool.h"
#include "alignd/base/cpu_set.h"
#include "alignd/pod/pod.h"
#include "sync/mutex.h"

namespace alignd::reconcile {

// One listing of the runtime: sandboxes and the containers that have not exited.
// What a pod's annotation with its resources says.
struct AnnotatedPod {
  bool has_pod_level = false;
  std::set<std::string> containers{};  // that it names
};

struct RuntimeListing {
  struct Sandbox {
    std::string id;
    std::string pod_uid;
    bool ready = true;
    std::string name{};
    std::string name_space{};
    std::string handler{};   // the runtime handler; empty: the runtime's default
    PodPolicies policies{};  // that its annotations ask for, and that outlast the admission
    int64_t created_at = 0;  // in nanoseconds since 1970
    CpuSet decided{};        // the CPUs of its annotation resource-status
    std::optional<AnnotatedPod> annotated{};
  };
  struct Container {
    std::string id;
    ContainerKey key;
    std::string sandbox_id{};
    bool runs = true;  // false: it was only created
    // At the start, if it is not on exactly the CPUs that it is assigned: the CPUs of the runtime's
    // record and of its cgroup; empty: not known.
    CpuSet place{};
    // At the start, without `place`: the CPUs that it is assigned, on which the runtime has it, or
    // of which the runtime does not say anything.
    CpuSet assumed{};
  };
  // A container with the mark of an assignment. Of each pod and name the one that runs, else the
  // newest in a sandbox that runs, else the newest.
  struct Marked {
    std::string id;
    ContainerKey key;
    std::string pod;          // namespace/name
    bool runs = true;         // or was created; false: it has ended
    bool has_sandbox = true;  // its sandbox runs
    std::string mark;         // as in checkpoint/mark_annotation.h
    std::string mark_id;      // the label; empty: none
  };
  std::vector<Sandbox> sandboxes;
  std::vector<Container> containers;
  std::vector<Marked> marked{};
};

// The UID under which alignd knows the pod of a sandbox. A pod without a UID gets the sandbox's id,
// so that two such pods are not taken for the same pod.
inline const std::string& PodUidOr(const std::string& stated, const std::string& sandbox_id) {
  return stated.empty() ? sandbox_id : stated;
}

// Thread-safe.
class ContainerRegistry {
 public:
  // The full id of a container or sandbox that a caller names. Runtimes accept the first characters
  // of an id if they are unique, and crictl passes them on. All other methods take full ids.
  // nullopt: no id begins so, or several do.
  std::optional<std::string> ContainerNamed(const std::string& id_or_beginning) const;
  std::optional<std::string> SandboxNamed(const std::string& id_or_beginning) const;

  // `name`: namespace/name of the pod. `handler`: the runtime handler. `policies`: what its
  // annotations ask for.
  void AddSandbox(const std::string& id, const std::string& pod_uid, std::string name = {},
                  std::string handler = {}, PodPolicies policies = {});
  // The runtime has stopped the sandbox, so its containers no longer run. Containers of a pod
  // without another sandbox are forgotten. The pod keeps its assignment until another pod needs it
  // or some time has passed: a kubelet that replaces a sandbox stops the old one first.
  void SandboxStopped(const std::string& id);
  // Returns the pod's UID if this was its last sandbox: the pod is gone then.
  std::optional<std::string> RemoveSandbox(const std::string& id);
  std::optional<std::string> PodOfSandbox(const std::string& id) const;
  // The ids of the pod's sandboxes that have not stopped.
  std::vector<std::string> SandboxesOf(const std::string& pod_uid) const;
  // The names of the pod's containers that are not known to have ended.
  std::set<std::string> ContainersOf(const std::string& pod_uid) const;
  // The runtime handler; empty: the runtime's default, or the sandbox is not known.
  std::string HandlerOfSandbox(const std::string& id) const;
  // The runtime handler of the pod's sandboxes, which all have the same.
  std::string HandlerOfPod(const std::string& pod_uid) const;
  // Of one of the pod's sandboxes. A pod whose annotations change gets no other sandbox.
  PodPolicies PoliciesOfPod(const std::string& pod_uid) const;
  // The pod's name (namespace/name); empty if it is not known.
  std::string PodName(const std::string& pod_uid) const;
  // The pods' names (namespace/name) by UID, as far as they are known.
  std::map<std::string, std::string> PodNames() const;

  struct Pod {
    std::string uid;
    std::string name;
    std::string name_space;
    std::set<std::string> containers;  // by name; those that have not ended
    CpuSet decided = {};               // the CPUs of its annotation resource-status
  };
  // The pods with a running sandbox, by UID. Of the `holding` ones also those whose sandboxes have
  // all stopped.
  std::vector<Pod> Pods(const std::set<std::string>& holding = {}) const;

  // `applied`: the CPU set in the CreateContainer request to the runtime; empty for none.
  // `is_exclusive`: whether these are exclusive CPUs; nullopt: not known.
  void AddContainer(const std::string& id, const ContainerKey& key, const CpuSet& applied,
                    std::optional<bool> is_exclusive = {});

  // Around a call that stops or removes the sandbox or container of that id. `may_go_on`: the call
  // has failed, but it is not known whether the runtime has gone on with it; the processes may have
  // got the signal to end, and ignore it.
  void BeginStop(const std::string& id);
  void EndStop(const std::string& id, bool may_go_on);
  // Whether a sandbox of the pod is being stopped, or all containers of the pod that have not
  // ended. A kubelet also stops single containers, of a pod that goes on.
  bool IsEnding(const std::string& pod_uid) const;

  void RemoveContainer(const std::string& id);

  // Around our own update of a container's CPU set. In between, the container may be on the old
  // CPUs and on the new ones. Afterwards it is on the new ones if the runtime has `taken` them and
  // no other call for the container was under way: in that case the order of the two is not known.
  // `is_exclusive`: as above.
  void BeginApply(const std::string& id, const CpuSet& cpuset);
  void EndApply(const std::string& id, const CpuSet& cpuset, bool taken,
                std::optional<bool> is_exclusive = {});
  // Instead of EndApply: the runtime was not asked. Everything is as before BeginApply.
  void DropApply(const std::string& id);

  // Around our own write of `cpuset` to a container's cgroup, which takes CPUs from the container.
  // BeginNarrow answers false, and the write must not begin, if it could give the container a CPU
  // on which it is not, or if a call could undo it: one that is under way, or whose outcome is not
  // known. In between, the container may be on its old CPUs and on these. `proved`: the cgroup
  // shows that the container is on `cpuset` alone; it counts as being there unless another call
  // has begun in between. EndNarrow answers whether it counts. The runtime's record has the old
  // set, so the set counts as not applied until the runtime has been updated. `exact`: the kernel
  // applies all of `cpuset`, as a read that began then has shown. The file may have more if a
  // cgroup above has not.
  bool BeginNarrow(const std::string& id, const CpuSet& cpuset);
  bool EndNarrow(const std::string& id, const CpuSet& cpuset, bool proved,
                 std::optional<std::chrono::steady_clock::time_point> exact = {});
  // Whether such a write is under way.
  bool IsWritten(const std::string& id) const;
  // The set of the last such write, if the container counts as being there, and the kernel applied
  // all of it by a read that began after that time.
  std::optional<CpuSet> ExactSince(const std::string& id,
                                   std::chrono::steady_clock::time_point time) const;

  // The cgroup shows that the container is (also) on `cpus`, not on the applied set; empty: it may
  // be anywhere. Its set counts as not applied until it has been applied again.
  void FoundElsewhere(const std::string& id, const CpuSet& cpus);
  void FoundAsApplied(const std::string& id);
  // Another program keeps moving the container to `cpus` (empty: anywhere), and alignd has stopped
  // restoring it. Until LeftAlone, its footprint includes `cpus`, whatever is applied or found.
  void KeptElsewhere(const std::string& id, const CpuSet& cpus);
  void LeftAlone(const std::string& id);
  // The kernel lets the container run on `cpus` only, because a cgroup above it is narrower or CPUs
  // are offline; nullopt: on its whole set. From then on, a set without any of `cpus` counts as not
  // kept: the kernel then ignores it. Answers whether that is news.
  // Source: kernel Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus.
  bool KernelAllows(const std::string& id, const std::optional<CpuSet>& cpus);
  // Where the kernel keeps the container instead of its set; nullopt: nowhere else.
  std::optional<CpuSet> OutsideItsSet(const std::string& id) const;
  // The CPUs of KeptElsewhere; nullopt: none.
  std::optional<CpuSet> KeptOn(const std::string& id) const;
  // The CPUs of FoundElsewhere; nullopt: none.
  std::optional<CpuSet> FoundOn(const std::string& id) const;
  // The CPU set that the container's cgroup must show: applied or narrowed to, if that is certain
  // and no other call for the container is under way.
  std::optional<CpuSet> AppliedTo(const std::string& id) const;

  // Around a call of another client for that container. While a container starts, a runtime may
  // accept an update without applying it. During and after a call that `changes_cpus`, the
  // container may be where it was or on `cpus`, which are sent with the call and are its exclusive
  // ones; empty: it may be anywhere. `may_go_on`: the call has ended, but perhaps not what the
  // runtime does for it.
  void BeginContainerCall(const std::string& id, bool changes_cpus, const CpuSet& cpus = {});
  // The call that has begun is sent with these CPUs instead.
  void ContainerCallSets(const std::string& id, const CpuSet& cpus);
  // Whether the container's set must be applied again.
  bool EndContainerCall(const std::string& id, bool changes_cpus, bool may_go_on = false);

  std::optional<ContainerKey> KeyOf(const std::string& id) const;
  // Every container that runs or may be started, in id order, with the applied CPU set; empty where
  // that is not certain.
  std::vector<admission::RunningContainer> Containers() const;
  // Where such a container may be.
  struct Footprint {
    std::string id;
    ContainerKey key;
    CpuSet cpuset;            // all CPUs that it may be on; empty: anywhere
    bool may_narrow = false;  // BeginNarrow would answer true for a part of these CPUs
    bool is_written = false;  // between BeginNarrow and EndNarrow
    bool has_calls = false;   // a call of another client is under way
    bool was_moved = false;   // another program has moved it
    bool is_listed = false;   // as RuntimeListing::Container::place; not updated since
    // On which it was when that was last certain, or assumed at the start; empty: never. `cpuset`
    // also has those of later calls and updates whose outcome is not known.
    CpuSet last = {};
    std::optional<bool> last_exclusive = {};  // whether they were exclusive; nullopt: not known
  };
  // In id order.
  std::vector<Footprint> Footprints() const;

  // A running container that was not created through alignd.
  struct UnmanagedContainer {
    std::string id;
    ContainerKey key;
  };
  // Those that were created while alignd was running; of older ones it is not known. In id order.
  std::vector<UnmanagedContainer> UnmanagedContainers() const;

  // Whether that is a sandbox, or a container that was created through alignd or before alignd was
  // started. Also for a while after it was removed.
  bool Manages(const std::string& id) const;

  // A call is under way that will give the pod a sandbox or a container: Resync keeps the pod.
  void BeginCall(const std::string& pod_uid);
  // Whether that was the last call of a pod whose sandboxes have all stopped.
  bool EndCall(const std::string& pod_uid);

  // When the last call of BeginCall or BeginContainerCall ended, of all pods and containers; now,
  // if one is under way.
  std::chrono::steady_clock::time_point LastCall() const;

  // Whether the pod has neither a running sandbox nor a call under way: it may be released.
  bool IsGone(const std::string& pod_uid) const;

  bool HasRunningSandbox(const std::string& pod_uid) const;

  // Pods all of whose sandboxes have stopped, without a call under way.
  std::set<std::string> StoppedPods() const;

  // How long a stopped pod keeps its assignment.
  struct Grace {
    // After its last sandbox was stopped through alignd. A kubelet replaces a sandbox within
    // milliseconds.
    std::chrono::milliseconds stopped{1'000};
    // After it was found stopped. After a reboot, all sandboxes are found stopped, and the kubelet
    // has to start first.
    std::chrono::milliseconds found{10'000};
  };
  // The stopped pods, and when the grace period of each ends.
  std::map<std::string, std::chrono::steady_clock::time_point> ReleaseTimes(
      const Grace& grace) const;

  // Call before the runtime is asked for a listing. What is added from here on may be missing in
  // the listing, and what is removed may still be in it.
  void BeginListing();
  // Takes over a listing: adds new containers (nothing applied), forgets missing ones. A sandbox
  // that is not ready has stopped, unless containers of it still run: it died by itself, and they
  // keep their assignment until they are stopped. `allocated` are the pods with an assignment.
  // Returns those of them that have neither a sandbox nor a call under way, now and (unless
  // `at_start`) at the listing before.
  std::set<std::string> Resync(const RuntimeListing& listing,
                               const std::set<std::string>& allocated, bool at_start);

 private:
  using Clock = std::chrono::steady_clock;

  struct Stopping {
    int calls = 0;           // under way
    bool may_go_on = false;  // after the last one that has ended

    bool now() const { return calls > 0 || may_go_on; }
  };
  struct Sandbox {
    std::string pod_uid;
    std::string name;
    std::optional<Clock::time_point> stopped;
    bool found = false;  // stopped in a listing; false: stopped through alignd
    Stopping stopping = {};
    std::string handler = {};
    PodPolicies policies = {};
    CpuSet decided = {};  // as Pod's
  };
  struct BeforeApply {
    CpuSet footprint;
    bool certain = false;
    bool narrowed = false;
  };
  struct Container {
    ContainerKey key;
    CpuSet footprint;
    bool certain = false;                     // the footprint is the applied set
    bool narrowed = false;                    // the footprint is what the cgroup was narrowed to
    bool is_listed = false;                   // the footprint is from the listing at the start
    CpuSet last = {};                         // as Footprint's
    std::optional<bool> last_exclusive = {};  // likewise
    bool outcome_known = false;               // of the last call that sets its CPUs
    int applying = 0;                         // our own updates, under way
    std::optional<CpuSet> writing = {};       // in addition: our write to the cgroup is under way
    bool narrowing = false;                   // nothing has disturbed that write since it began
    std::optional<BeforeApply> before = {};   // what DropApply restores
    std::optional<CpuSet> elsewhere = {};     // in addition; empty: anywhere
    std::optional<CpuSet> kept = {};          // in addition, by another program; empty: anywhere
    std::optional<CpuSet> allowed = {};       // as in KernelAllows
    int calls = 0;                            // of other clients, under way
    bool disturbed = true;                    // by such a call, since our own update began
    bool unmanaged = false;                   // not created through alignd although it was running
    bool runs = false;                        // as of the last listing
    // As in EndNarrow; valid if narrowed.
    std::optional<Clock::time_point> exact = {};
    Stopping stopping = {};
  };

  void CallBegins() REQUIRES(mutex_) { ++calls_under_way_; }
  void CallEnds() REQUIRES(mutex_);
  Container* Find(const std::string& id) REQUIRES(mutex_);
  // All CPUs that the container may be on; empty: anywhere.
  static CpuSet FootprintOf(const Container& container);
  // A call may bring it onto these exclusive CPUs; none if empty.
  static void MayComeOnto(Container& container, const CpuSet& exclusive);
  static bool MayNarrow(const Container& container);
  // Of the sandbox or container of that id; null if it is not known.
  Stopping* StoppingOf(const std::string& id) REQUIRES(mutex_);
  void ForgetContainersOf(const std::string& pod_uid) REQUIRES(mutex_);
  bool HasSandbox(const std::string& pod_uid) const REQUIRES(mutex_);
  bool HasStopped(const std::string& pod_uid) const REQUIRES(mutex_);
  // The parts of Resync.
  void TakeSandboxes(const RuntimeListing& listing) REQUIRES(mutex_);
  void TakeContainers(const RuntimeListing& listing, bool at_start) REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, Sandbox> sandboxes_ GUARDED_BY(mutex_);
  std::map<std::string, Container> containers_ GUARDED_BY(mutex_);
  std::map<std::string, int> calls_ GUARDED_BY(mutex_);  // by pod UID
  int calls_under_way_ GUARDED_BY(mutex_) = 0;           // see LastCall
  Clock::time_point last_call_ GUARDED_BY(mutex_);       // its end
  std::set<std::string> missing_ GUARDED_BY(mutex_);     // pods that the last listing lacked
  // Ids of sandboxes and containers, since BeginListing.
  std::set<std::string> added_since_ GUARDED_BY(mutex_);
  std::set<std::string> removed_since_ GUARDED_BY(mutex_);
  // Containers that were created through alignd and are forgotten; a listing may still show them.
  std::set<std::string> forgotten_ GUARDED_BY(mutex_);
};

}  // namespace alignd::reconcile
