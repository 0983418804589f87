// The assignment of CPUs: the default set (shared pool) and the exclusive assignments.
#pragma once

#include <map>
#include <string>

#include "alignd/base/cpu_set.h"
#include "alignd/base/shared_map.h"
#include "alignd/pod/pod.h"

namespace alignd::cpumanager {

// A value. `default_set` and `assignments` are the contents of cpu_manager_state.
struct CpuState {
  CpuSet default_set;
  // pod UID -> container name -> exclusive CPUs. Never an empty inner map, never an empty set.
  SharedMap<std::string, std::map<std::string, CpuSet>> assignments;
  // CPUs of ended init containers that later containers of their pod can reuse: pod UID -> CPUs. At
  // most one pod: a decision about another pod drops the entry. Internal to the kubelet's policy;
  // not saved.
  std::map<std::string, CpuSet> reusable;

  // The container's exclusive CPUs, or null.
  const CpuSet* Find(const ContainerKey& key) const;

  friend bool operator==(const CpuState&, const CpuState&) = default;
};

}  // namespace alignd::cpumanager
