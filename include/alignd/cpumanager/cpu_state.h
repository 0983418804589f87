// The assignment of CPUs: the default set (shared pool) and the exclusive assignments.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "alignd/base/cpu_set.h"
#include "alignd/base/shared_map.h"
#include "alignd/pod/pod.h"

namespace alignd::cpumanager {

// What a container of the shared pool that stays on one NUMA node requests there. A value.
struct NodeShare {
  int numa_id = 0;
  int64_t millis = 0;  // thousandths of a CPU
  ContainerKind kind = ContainerKind::kApp;

  friend bool operator==(const NodeShare&, const NodeShare&) = default;
};

// A value. All but `originals`, `reusable`, `withheld`, `moving`, `offline` and `shares` is the
// content of cpu_manager_state.
struct CpuState {
  CpuSet default_set;
  // pod UID -> container name -> exclusive CPUs; in a pod of `pods` also the shared CPUs of the
  // pod. Never an empty inner map, never an empty set.
  SharedMap<std::string, std::map<std::string, CpuSet>> assignments;
  // pod UID -> the CPUs assigned to the pod as a whole, which its containers' sets are parts of.
  // Only of pods with pod-level resources, with the feature gate PodLevelResourceManagers.
  SharedMap<std::string, CpuSet> pods = {};
  // pod UID -> container name -> the CPUs that it was assigned when it was created: they are never
  // taken away while it lives. Only of containers that were resized since, and, in a pod of `pods`,
  // of all containers with CPUs of their own, which marks those as not sharing the pod's. A
  // part of the assignment or equal to it. Empty: since it was created, the container was resized
  // to shared CPUs or from them (WasShared), and keeps no particular ones. Only then there may be
  // no assignment. Not in the kubelet's file; alignd's own file is cpu_originals.
  SharedMap<std::string, std::map<std::string, CpuSet>> originals = {};
  // CPUs of ended init containers that later containers of their pod can reuse: pod UID -> CPUs. At
  // most one pod: a decision about another pod drops the entry. Internal to the kubelet's policy;
  // not saved.
  std::map<std::string, CpuSet> reusable;
  // CPUs on which running containers are that claim a CPU of each other (admission::Adopt): neither
  // assigned nor in the default set. Not saved: the file shows them in the default set.
  SharedMap<ContainerKey, CpuSet> withheld = {};
  // Containers that a change of the configuration moves (admission/cpu_moves.h): of the CPUs that
  // they are assigned, those of before and those of after, the ones on which they are to run. Not
  // saved.
  SharedMap<ContainerKey, CpuSet> moving = {};
  // CPUs of the machine that are offline now (SetOffline). A container keeps those that it is
  // assigned, and runs on its others. Not saved.
  CpuSet offline = {};
  // The part of `offline` that is in the default set otherwise. The file shows it there.
  CpuSet offline_shared = {};
  // Containers of the shared pool that stay on one NUMA node (node_shares.h): none of them has
  // exclusive CPUs. Not in the kubelet's file; alignd's own file is cpu_shares.
  SharedMap<ContainerKey, NodeShare> shares = {};

  // The container's exclusive CPUs, or null.
  const CpuSet* Find(const ContainerKey& key) const;

  // Whether the container has exclusive CPUs, and one of them is online: otherwise it runs in the
  // shared pool.
  bool RunsOnItsOwn(const ContainerKey& key) const;

  // The CPUs on which the container is to run: its exclusive ones that are online; while it is
  // moved, of these the ones of `moving`. Empty: it runs in the shared pool.
  CpuSet RunsOn(const ContainerKey& key) const;

  // The CPUs that a resize keeps: the original ones, or all if it was never resized; none after
  // WasShared. `key` must have exclusive CPUs.
  const CpuSet& OriginalOf(const ContainerKey& key) const;

  // Whether a resize has moved the container between exclusive and shared CPUs since it was
  // created: it has, or may have, others than it was created with.
  bool WasShared(const ContainerKey& key) const;

  // Whether the container has an entry in `originals`: in a pod of `pods`, CPUs of its own.
  bool HasOwnCpus(const ContainerKey& key) const;

  // All CPUs of the pod: as a whole, and of its containers.
  CpuSet HeldBy(const std::string& pod_uid) const;

  // All CPUs of `withheld`.
  CpuSet Withheld() const;

  // The default set as the file has it: all CPUs that no container is assigned.
  CpuSet SavedDefaultSet() const { return default_set | offline_shared | Withheld(); }

  // Adds CPUs to the default set: those that are offline to `offline_shared`.
  void AddToDefaultSet(const CpuSet& cpus);

  friend bool operator==(const CpuState&, const CpuState&) = default;
};

}  // namespace alignd::cpumanager
