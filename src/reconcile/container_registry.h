// What the runtime has, as far as we saw it: sandboxes and containers, whose they are, and the CPU
// set that each container was last told.
#pragma once

#include <chrono>
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

// One pass of listing the runtime: sandboxes and the containers that have not exited.
struct RuntimeListing {
  struct Sandbox {
    std::string id;
    std::string pod_uid;
    bool ready = true;
    std::string name{};
    std::string name_space{};
  };
  struct Container {
    std::string id;
    ContainerKey key;
    std::string sandbox_id{};
    bool runs = true;  // else it was created only
  };
  std::vector<Sandbox> sandboxes;
  std::vector<Container> containers;
};

// The UID under which a sandbox's pod is known here: the stated one, or the sandbox's id for a pod
// that was made without one, so that two such pods are not taken for one.
inline const std::string& PodUidOr(const std::string& stated, const std::string& sandbox_id) {
  return stated.empty() ? sandbox_id : stated;
}

// Thread-safe.
class ContainerRegistry {
 public:
  // The whole id of what a caller names. Runtimes take the first characters of an id for it as long
  // as no other begins with them, and crictl passes them on; all other functions take whole ids.
  // nullopt: we know none, or several.
  std::optional<std::string> ContainerNamed(const std::string& id_or_beginning) const;
  std::optional<std::string> SandboxNamed(const std::string& id_or_beginning) const;

  // `name`: namespace/name of the pod.
  void AddSandbox(const std::string& id, const std::string& pod_uid, std::string name = {});
  // The runtime has stopped it: its containers no longer run; those of a pod without any other
  // sandbox are forgotten. The pod keeps its grant until it is needed or some time has passed,
  // because a kubelet that replaces a sandbox stops the old one first.
  void SandboxStopped(const std::string& id);
  // Returns the pod's UID if this was its last sandbox, so that the pod is gone.
  std::optional<std::string> RemoveSandbox(const std::string& id);
  std::optional<std::string> PodOfSandbox(const std::string& id) const;
  // The pod's name (namespace/name); empty if it is not known.
  std::string PodName(const std::string& pod_uid) const;
  // The pods' names (namespace/name) by UID, as far as they are known.
  std::map<std::string, std::string> PodNames() const;

  // `told`: the CPU set in the CreateContainer request that went to the runtime; empty for none.
  void AddContainer(const std::string& id, const ContainerKey& key, const CpuSet& told);
  void RemoveContainer(const std::string& id);

  // Around our own update of a container's CPU set. In between the container may be on the old CPUs
  // and on the new ones; afterwards it is on the new ones, if the runtime has `taken` them and no
  // call of somebody else was under way meanwhile, for then nobody knows which came last.
  void BeginApply(const std::string& id, const CpuSet& cpuset);
  void EndApply(const std::string& id, const CpuSet& cpuset, bool taken);

  // The cgroup says that the container is (also) on `cpus` although it was told otherwise; empty:
  // it may be anywhere. It counts as not told from here on. Forgotten once it has been told.
  void FoundElsewhere(const std::string& id, const CpuSet& cpus);
  void FoundAsApplied(const std::string& id);
  // Somebody else keeps moving the container to `cpus` (empty: anywhere), and nobody stops him: it
  // counts as being there as well, whatever it is told and wherever it is found, until LeftAlone.
  void KeptElsewhere(const std::string& id, const CpuSet& cpus);
  void LeftAlone(const std::string& id);
  // Where somebody else keeps it; nullopt: nowhere.
  std::optional<CpuSet> KeptOn(const std::string& id) const;
  // Where its cgroup says that it is, other than it was told; nullopt: nowhere else.
  std::optional<CpuSet> FoundOn(const std::string& id) const;
  // What the container was told, if that is certain and nobody is calling for it just now.
  std::optional<CpuSet> AppliedTo(const std::string& id) const;

  // Around somebody else's call of that container. While a container is being started, a runtime
  // may take an update without heeding it; after a call that `changes_cpus` it may be anywhere.
  void BeginContainerCall(const std::string& id, bool changes_cpus);
  // Whether the container must be told its set anew.
  bool EndContainerCall(const std::string& id, bool changes_cpus);

  std::optional<ContainerKey> KeyOf(const std::string& id) const;
  // Every container that runs or may be started, in id order, with the CPU set that it was told;
  // empty where that is not certain.
  std::vector<admission::RunningContainer> Containers() const;
  // The same with all CPUs that it may be on; empty where it may be anywhere.
  std::vector<admission::RunningContainer> Footprints() const;

  // A container that runs, and that nobody made through us.
  struct UnmanagedContainer {
    std::string id;
    ContainerKey key;
  };
  // Those that began to be while we were here; of older ones nobody knows. In id order.
  std::vector<UnmanagedContainer> UnmanagedContainers() const;

  // A call is under way that will give the pod a sandbox or a container: Resync leaves it alone.
  void BeginCall(const std::string& pod_uid);
  // Whether that was the last one of a pod whose sandboxes have all stopped.
  bool EndCall(const std::string& pod_uid);

  // Whether the pod has neither a running sandbox nor a call under way: what it holds may be given
  // back.
  bool IsGone(const std::string& pod_uid) const;

  // Pods all of whose sandboxes have stopped, without a call under way.
  std::set<std::string> StoppedPods() const;

  // How long a stopped pod may be expected back.
  struct Grace {
    // After somebody had its last sandbox stopped: who replaces it does so within milliseconds.
    std::chrono::milliseconds stopped{1'000};
    // After it was found stopped, as all are after a reboot: a kubelet has to start first.
    std::chrono::milliseconds found{10'000};
  };
  // The stopped pods, and when each is not to be expected back any more.
  std::map<std::string, std::chrono::steady_clock::time_point> ReleaseTimes(
      const Grace& grace) const;

  // Call before the runtime is asked for a listing: what is added from here on is not in it.
  void BeginListing();
  // Takes over what a listing shows: new containers are adopted (told: nothing), vanished ones
  // forgotten. A sandbox that is not ready has stopped, unless containers of it still run: it died
  // by itself, and they hold what they hold until somebody stops them. `allocated` are the pods
  // that hold something; returned are those of them that neither have a sandbox nor a call under
  // way, now and (unless `at_start`) at the listing before.
  std::set<std::string> Resync(const RuntimeListing& listing,
                               const std::set<std::string>& allocated, bool at_start);

 private:
  using Clock = std::chrono::steady_clock;

  struct Sandbox {
    std::string pod_uid;
    std::string name;
    std::optional<Clock::time_point> stopped;
    bool found = false;  // so in a listing; else somebody had it stopped
  };
  struct Container {
    ContainerKey key;
    CpuSet footprint;
    bool certain = false;                  // the footprint is what it was told
    std::optional<CpuSet> elsewhere = {};  // in addition; empty: anywhere
    std::optional<CpuSet> kept = {};       // in addition, by somebody else; empty: anywhere
    int calls = 0;                         // of others, under way
    bool disturbed = true;                 // by such a call, since our own update began
    bool stranger = false;                 // nobody made it through us, though we were here
    bool runs = false;                     // as of the last listing
  };

  void ForgetContainersOf(const std::string& pod_uid) REQUIRES(mutex_);
  bool HasSandbox(const std::string& pod_uid) const REQUIRES(mutex_);
  bool HasStopped(const std::string& pod_uid) const REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, Sandbox> sandboxes_ GUARDED_BY(mutex_);
  std::map<std::string, Container> containers_ GUARDED_BY(mutex_);
  std::map<std::string, int> calls_ GUARDED_BY(mutex_);   // by pod UID
  std::set<std::string> missing_ GUARDED_BY(mutex_);      // pods that the last listing lacked
  std::set<std::string> added_since_ GUARDED_BY(mutex_);  // sandbox and container ids
  // Containers of ours that were forgotten; a listing may still have them.
  std::set<std::string> forgotten_ GUARDED_BY(mutex_);
};

}  // namespace alignd::reconcile
