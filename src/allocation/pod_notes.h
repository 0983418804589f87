// What is remembered of pods beside what they hold.
#pragma once

#include <map>
#include <set>
#include <string>

#include "alignd/pod/pod.h"

namespace alignd::allocation {

// Whether every container of `pod` is one of `other`'s.
bool NamesNoMoreThan(const Pod& pod, const Pod& other);

// Each entry stays until its pod is forgotten: whoever knows which pods there are has to forget the
// others, also those that never held anything. One thread at a time.
class PodNotes {
 public:
  // Keeps the pod if it has init containers.
  void SawPod(const Pod& pod);
  // The pod as it was seen last, if it has init containers; else null.
  const Pod* WithInit(const std::string& pod_uid) const;

  // All containers of the pod have what they were granted, on the disk, in this life of ours.
  void Allocated(const Pod& pod);
  // The container is to be decided about once more.
  void NoLongerAllocated(const ContainerKey& key) { granted_.erase(key); }
  const std::set<ContainerKey>& granted() const { return granted_; }
  // Those of one pod.
  std::set<ContainerKey> AllocatedOf(const std::string& pod_uid) const;

  void Forget(const std::string& pod_uid);

  // Adds the UIDs of all pods of which something is remembered.
  void AddPodsTo(std::set<std::string>& pod_uids) const;

 private:
  std::set<ContainerKey> granted_;
  std::map<std::string, Pod> with_init_;  // by UID
};

}  // namespace alignd::allocation
