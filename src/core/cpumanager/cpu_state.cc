#include "alignd/cpumanager/cpu_state.h"

namespace alignd::cpumanager {

const CpuSet* CpuState::Find(const ContainerKey& key) const {
  const auto pod = assignments.find(key.pod_uid);
  if (pod == assignments.end()) return nullptr;
  const auto container = pod->second.find(key.container);
  return container == pod->second.end() ? nullptr : &container->second;
}

bool CpuState::RunsOnItsOwn(const ContainerKey& key) const {
  const CpuSet* const assigned = Find(key);
  return assigned != nullptr && !(*assigned - offline).empty();
}

CpuSet CpuState::RunsOn(const ContainerKey& key) const {
  const CpuSet* const assigned = Find(key);
  if (assigned == nullptr) return {};
  CpuSet cpus = *assigned - offline;
  const auto part = moving.find(key);
  // Without an online one of these, any of its CPUs is better than those of others.
  if (part != moving.end() && part->second.Intersects(cpus)) cpus &= part->second;
  return cpus;
}

const CpuSet& CpuState::OriginalOf(const ContainerKey& key) const {
  if (const auto pod = originals.find(key.pod_uid); pod != originals.end()) {
    const auto container = pod->second.find(key.container);
    if (container != pod->second.end()) return container->second;
  }
  return assignments.at(key.pod_uid).at(key.container);
}

bool CpuState::WasShared(const ContainerKey& key) const {
  const auto pod = originals.find(key.pod_uid);
  if (pod == originals.end()) return false;
  const auto container = pod->second.find(key.container);
  return container != pod->second.end() && container->second.empty();
}

bool CpuState::HasOwnCpus(const ContainerKey& key) const {
  const auto pod = originals.find(key.pod_uid);
  return pod != originals.end() && pod->second.contains(key.container);
}

CpuSet CpuState::HeldBy(const std::string& pod_uid) const {
  CpuSet cpus;
  if (const auto whole = pods.find(pod_uid); whole != pods.end()) cpus = whole->second;
  if (const auto pod = assignments.find(pod_uid); pod != assignments.end()) {
    for (const auto& [container, of_container] : pod->second) cpus |= of_container;
  }
  return cpus;
}

CpuSet CpuState::Withheld() const {
  CpuSet cpus;
  for (const auto& [key, of_container] : withheld) cpus |= of_container;
  return cpus;
}

void CpuState::AddToDefaultSet(const CpuSet& cpus) {
  default_set |= cpus - offline;
  offline_shared |= cpus & offline;
}

}  // namespace alignd::cpumanager
