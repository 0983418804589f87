#include "allocation/pod_notes.h"

#include <algorithm>

namespace alignd::allocation {

bool NamesNoMoreThan(const Pod& pod, const Pod& other) {
  return std::ranges::all_of(pod.containers, [&other](const Container& c) {
    return std::ranges::find(other.containers, c.name, &Container::name) != other.containers.end();
  });
}

void PodNotes::SawPod(const Pod& pod) {
  if (std::ranges::count(pod.containers, ContainerKind::kInit, &Container::kind) == 0) return;
  with_init_[pod.uid] = pod;
}

const Pod* PodNotes::WithInit(const std::string& pod_uid) const {
  const auto pod = with_init_.find(pod_uid);
  return pod == with_init_.end() ? nullptr : &pod->second;
}

void PodNotes::Allocated(const Pod& pod) {
  for (const Container& container : pod.containers) granted_.insert({pod.uid, container.name});
}

std::set<ContainerKey> PodNotes::AllocatedOf(const std::string& pod_uid) const {
  std::set<ContainerKey> granted;
  for (auto key = granted_.lower_bound({pod_uid, ""});
       key != granted_.end() && key->pod_uid == pod_uid; ++key) {
    granted.insert(*key);
  }
  return granted;
}

void PodNotes::Forget(const std::string& pod_uid) {
  for (const ContainerKey& key : AllocatedOf(pod_uid)) granted_.erase(key);
  with_init_.erase(pod_uid);
}

void PodNotes::AddPodsTo(std::set<std::string>& pod_uids) const {
  for (const ContainerKey& key : granted_) pod_uids.insert(key.pod_uid);
  for (const auto& [uid, pod] : with_init_) pod_uids.insert(uid);
}

}  // namespace alignd::allocation
