// What AllocationManager remembers of pods, besides their assignments.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/cpumanager/cpu_state.h"
#include "alignd/pod/pod.h"
#include "allocation/admission_request.h"
#include "sync/mutex.h"

namespace alignd::allocation {

// Whether `other` names every container of `request`, with the same kubelet-allocated ids.
bool NamesNoMoreThan(const AdmissionRequest& request, const AdmissionRequest& other);

// What is done with the CFS quota of the own cgroup of a pod with exclusive CPUs.
enum class PodQuota {
  kLift,
  kKeep,
  // With the feature gate PodLevelResourceManagers, of a pod that no request has shown since the
  // start: it stays as alignd or the kubelet left it.
  kAsFound,
};

// Each entry stays until its pod is forgotten, also if the pod was refused. One thread at a time,
// except for those that say otherwise.
class PodNotes {
 public:
  // Gives each container the role that is known since the start, or that a request with all
  // containers of its pod has shown. Roles do not change, but a source that concludes them from
  // sizes (`are_concluded`) may be wrong after a resize, and a request about one container may not
  // know its role. A source that states the roles of all containers corrects those that are known.
  void KeepRoles(Pod& pod, bool are_concluded) EXCLUDES(mutex_);
  // Roles that requests before the start have shown. Before the first request. Thread-safe.
  void LearnRoles(const std::map<ContainerKey, ContainerKind>& roles) EXCLUDES(mutex_);
  // nullopt: not known. Thread-safe.
  std::optional<ContainerKind> RoleOf(const ContainerKey& key) const EXCLUDES(mutex_);

  // Keeps the pod if it has init containers.
  void SawPod(const Pod& pod) EXCLUDES(mutex_);
  // The pod as it was requested last, if it has init containers; else null.
  const Pod* WithInit(const std::string& pod_uid) const;
  // The names of the pod's init containers (not sidecars), as far as they are known. Thread-safe.
  std::set<std::string> InitContainers(const std::string& pod_uid) const EXCLUDES(mutex_);

  // Notes whether the pod has pod-level resources and whether it keeps its quota
  // (admission::KeepsPodQuota), if all of its containers are known.
  void NotePodLevel(const admission::Node& node, const Pod& pod) EXCLUDES(mutex_);
  // What annotations of running pods say, by UID: whether they have pod-level resources.
  // Thread-safe.
  void LearnPodLevel(const std::map<std::string, bool>& pods) EXCLUDES(mutex_);
  // nullopt: not known. Thread-safe.
  std::optional<bool> KeepsQuota(const std::string& pod_uid) const EXCLUDES(mutex_);
  std::optional<bool> HasPodLevelResources(const std::string& pod_uid) const EXCLUDES(mutex_);
  // As LearnPodLevel says. An author of a pod writes its annotations: the kubelet's answer counts
  // more.
  std::optional<bool> AnnotatedPodLevel(const std::string& pod_uid) const EXCLUDES(mutex_);

  // The assignments of all containers of the pod are saved.
  void Admitted(const Pod& pod);
  // Containers of the pod that had CPUs `before` and have none `after` are not admitted any more.
  void DropReleased(const std::string& pod_uid, const cpumanager::CpuState& before,
                    const cpumanager::CpuState& after);
  // Since alignd started.
  const std::set<ContainerKey>& admitted() const { return admitted_; }

  void Forget(const std::string& pod_uid) EXCLUDES(mutex_);

  // Adds the UIDs of all pods that have an entry.
  void AddPodsTo(std::set<std::string>& pod_uids) const EXCLUDES(mutex_);

 private:
  std::set<ContainerKey> AdmittedOf(const std::string& pod_uid) const;

  std::set<ContainerKey> admitted_;
  std::map<std::string, Pod> with_init_;  // by UID

  mutable Mutex mutex_;
  std::map<ContainerKey, ContainerKind> roles_ GUARDED_BY(mutex_);
  std::map<std::string, std::set<std::string>> init_ GUARDED_BY(mutex_);  // names by UID
  std::map<std::string, bool> keeps_quota_ GUARDED_BY(mutex_);            // by UID
  std::map<std::string, bool> has_pod_level_ GUARDED_BY(mutex_);          // by UID
  std::map<std::string, bool> annotated_ GUARDED_BY(mutex_);              // by UID
};

}  // namespace alignd::allocation
