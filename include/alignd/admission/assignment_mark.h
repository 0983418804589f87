// What alignd writes at the runtime about each container that it creates with an assignment, so
// that the assignment can be rebuilt without the state files.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/devicemanager/device_state.h"
#include "alignd/memorymanager/memory_state.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

// What the parts of all containers of a pod may take in a mark, in bytes, roughly; otherwise the
// mark is without them. Each container's mark has all parts, and the listing of a runtime, at most
// 16 MiB, has all marks.
inline constexpr size_t kMaxPartBytes = 2048;

// What a pod is assigned as a whole (feature gate PodLevelResourceManagers), and how it is divided
// among its containers. A value. In topology scope pod that stays until the pod ends, so that the
// mark of one container says it for all.
struct WholePodMark {
  CpuSet cpus;
  std::map<std::string, CpuSet> cpu_parts;  // by container; empty: not known
  std::set<std::string> own;                // the containers whose CPUs no other one has
  std::vector<memorymanager::Block> memory;
  std::map<std::string, std::vector<memorymanager::Block>> memory_parts;  // as cpu_parts

  bool IsEmpty() const { return cpus.empty() && memory.empty(); }

  friend bool operator==(const WholePodMark&, const WholePodMark&) = default;
};

// The assignment of one container when it was created. A value. A resize changes the CPUs later,
// but not the mark: runtimes keep a container's annotations as they are.
struct AssignmentMark {
  CpuSet cpus;      // exclusive; empty: of the shared pool
  CpuSet original;  // CpuState::originals of a container that was created again after a resize
  std::vector<memorymanager::Block> memory;
  std::map<std::string, devicemanager::DevicesPerNuma> devices;  // by resource
  WholePodMark whole = {};
  // nullopt: no request has shown all containers of its pod.
  std::optional<ContainerKind> role = {};
  // CpuState::shares: the container is of the shared pool and stays on one NUMA node.
  std::optional<cpumanager::NodeShare> share = {};

  // The CPUs that a resize keeps.
  const CpuSet& Original() const { return original.empty() ? cpus : original; }
  // What such a container had is free when it has ended, unless its pod has it as a whole.
  bool IsInit() const { return role == ContainerKind::kInit; }
  // Whether it says nothing: the container needs no mark.
  bool IsEmpty() const { return cpus.empty() && memory.empty() && devices.empty() && !share; }

  friend bool operator==(const AssignmentMark&, const AssignmentMark&) = default;
};

// The mark of a container that is created with what this state has for it.
AssignmentMark MarkOf(const NodeState& state, const ContainerKey& key,
                      std::optional<ContainerKind> role = {});

}  // namespace alignd::admission
