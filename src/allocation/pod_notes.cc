#include "allocation/pod_notes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "alignd/admission/pod_level.h"

namespace alignd::allocation {

bool NamesNoMoreThan(const AdmissionRequest& request, const AdmissionRequest& other) {
  const std::vector<Container>& containers = other.pod.containers;
  const bool same_containers = std::ranges::all_of(request.pod.containers, [&](const Container& c) {
    return std::ranges::find(containers, c.name, &Container::name) != containers.end();
  });
  return same_containers && std::ranges::all_of(request.kubelet_allocated, [&](const auto& entry) {
           const auto known = other.kubelet_allocated.find(entry.first);
           return known != other.kubelet_allocated.end() && known->second == entry.second;
         });
}

void PodNotes::KeepRoles(Pod& pod, bool are_concluded) {
  const MutexLock lock(mutex_);
  for (Container& container : pod.containers) {
    const ContainerKey key{pod.uid, container.name};
    if (pod.is_complete && are_concluded) roles_.try_emplace(key, container.kind);
    if (pod.is_complete && !are_concluded) roles_.insert_or_assign(key, container.kind);
    if (const auto known = roles_.find(key); known != roles_.end()) container.kind = known->second;
  }
}

void PodNotes::LearnRoles(const std::map<ContainerKey, ContainerKind>& roles) {
  const MutexLock lock(mutex_);
  roles_.insert(roles.begin(), roles.end());
  for (const auto& [key, role] : roles) {
    if (role == ContainerKind::kInit) init_[key.pod_uid].insert(key.container);
  }
}

std::optional<ContainerKind> PodNotes::RoleOf(const ContainerKey& key) const {
  const MutexLock lock(mutex_);
  if (const auto role = roles_.find(key); role != roles_.end()) return role->second;
  const auto init = init_.find(key.pod_uid);
  if (init == init_.end() || !init->second.contains(key.container)) return std::nullopt;
  return ContainerKind::kInit;
}

void PodNotes::SawPod(const Pod& pod) {
  {
    const MutexLock lock(mutex_);
    std::set<std::string>& names = init_[pod.uid];
    for (const Container& container : pod.containers) {
      // Of a container that was taken for an ended init container, a later request may know more.
      if (container.kind == ContainerKind::kInit) names.insert(container.name);
      if (container.kind != ContainerKind::kInit) names.erase(container.name);
    }
    if (names.empty()) init_.erase(pod.uid);
  }
  if (std::ranges::count(pod.containers, ContainerKind::kInit, &Container::kind) == 0) return;
  with_init_[pod.uid] = pod;
}

const Pod* PodNotes::WithInit(const std::string& pod_uid) const {
  const auto pod = with_init_.find(pod_uid);
  return pod == with_init_.end() ? nullptr : &pod->second;
}

std::set<std::string> PodNotes::InitContainers(const std::string& pod_uid) const {
  const MutexLock lock(mutex_);
  const auto names = init_.find(pod_uid);
  return names == init_.end() ? std::set<std::string>() : names->second;
}

void PodNotes::NotePodLevel(const admission::Node& node, const Pod& pod) {
  if (!pod.is_complete) return;
  const MutexLock lock(mutex_);
  keeps_quota_[pod.uid] = admission::KeepsPodQuota(node, pod);
  has_pod_level_[pod.uid] = alignd::HasPodLevelResources(pod);
}

void PodNotes::LearnPodLevel(const std::map<std::string, bool>& pods) {
  const MutexLock lock(mutex_);
  annotated_.insert(pods.begin(), pods.end());
}

std::optional<bool> PodNotes::KeepsQuota(const std::string& pod_uid) const {
  const MutexLock lock(mutex_);
  const auto keeps = keeps_quota_.find(pod_uid);
  return keeps == keeps_quota_.end() ? std::nullopt : std::optional(keeps->second);
}

std::optional<bool> PodNotes::HasPodLevelResources(const std::string& pod_uid) const {
  const MutexLock lock(mutex_);
  const auto has = has_pod_level_.find(pod_uid);
  return has == has_pod_level_.end() ? std::nullopt : std::optional(has->second);
}

std::optional<bool> PodNotes::AnnotatedPodLevel(const std::string& pod_uid) const {
  const MutexLock lock(mutex_);
  const auto has = annotated_.find(pod_uid);
  return has == annotated_.end() ? std::nullopt : std::optional(has->second);
}

void PodNotes::Admitted(const Pod& pod) {
  for (const Container& container : pod.containers) admitted_.insert({pod.uid, container.name});
}

std::set<ContainerKey> PodNotes::AdmittedOf(const std::string& pod_uid) const {
  std::set<ContainerKey> admitted;
  for (auto key = admitted_.lower_bound({pod_uid, ""});
       key != admitted_.end() && key->pod_uid == pod_uid; ++key) {
    admitted.insert(*key);
  }
  return admitted;
}

void PodNotes::DropReleased(const std::string& pod_uid, const cpumanager::CpuState& before,
                            const cpumanager::CpuState& after) {
  for (const ContainerKey& key : AdmittedOf(pod_uid)) {
    if (before.Find(key) != nullptr && after.Find(key) == nullptr) admitted_.erase(key);
  }
}

void PodNotes::Forget(const std::string& pod_uid) {
  for (const ContainerKey& key : AdmittedOf(pod_uid)) admitted_.erase(key);
  with_init_.erase(pod_uid);
  const MutexLock lock(mutex_);
  const auto of_others = [&](const auto& entry) { return entry.first.pod_uid != pod_uid; };
  const auto first_role = roles_.lower_bound({pod_uid, ""});
  roles_.erase(first_role, std::find_if(first_role, roles_.end(), of_others));
  init_.erase(pod_uid);
  keeps_quota_.erase(pod_uid);
  has_pod_level_.erase(pod_uid);
  annotated_.erase(pod_uid);
}

void PodNotes::AddPodsTo(std::set<std::string>& pod_uids) const {
  for (const ContainerKey& key : admitted_) pod_uids.insert(key.pod_uid);
  for (const auto& [uid, pod] : with_init_) pod_uids.insert(uid);
  const MutexLock lock(mutex_);
  for (const auto& [key, role] : roles_) pod_uids.insert(key.pod_uid);
  for (const auto& [uid, keeps] : keeps_quota_) pod_uids.insert(uid);
  for (const auto& [uid, has] : has_pod_level_) pod_uids.insert(uid);
  for (const auto& [uid, has] : annotated_) pod_uids.insert(uid);
}

}  // namespace alignd::allocation
