// Whether the containers that run have the CPUs and memory nodes that the state says, by their
// cgroups.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"

namespace alignd::moving {

// What one container may use. A value.
struct ContainerCpuset {
  CpuSet cpus;          // cpuset.cpus; empty: nothing has set it
  CpuSet memory_nodes;  // NUMA node ids of which it may take memory
  // Whether cpuset.mems of the container itself is set. If not, it may use what its pod may use.
  bool sets_memory_nodes = false;
  // Whether the container has a memory limit, as each one that the memory manager assigns memory
  // has. nullopt: not known.
  std::optional<bool> has_memory_limit = std::nullopt;

  friend bool operator==(const ContainerCpuset&, const ContainerCpuset&) = default;
};

// The CPU sets of the containers of all pods that run. A value.
struct ContainerCpusets {
  // Pod UID -> cgroup path of the container.
  std::map<std::string, std::map<std::string, ContainerCpuset>> pods;

  // Reads the cgroups of all pods below `cgroup_root`, of both cgroup drivers and versions.
  // Errors: kIo: the cgroups cannot be read.
  static Result<ContainerCpusets> Read(const std::filesystem::path& cgroup_root);

  friend bool operator==(const ContainerCpusets&, const ContainerCpusets&) = default;
};

// One sentence for each container that does not have the CPUs that the state says:
//   - it runs on a part of the exclusive CPUs of its pod, or on them and others;
//   - its pod is assigned CPUs, and nothing has set its own; one such cgroup is the sandbox's;
//   - it had an exclusive set in `before` and has another one now;
//   - it runs only on CPUs that other pods are assigned;
//   - its pod is assigned none, and it runs on a part of the shared pool without any CPU of
//     `reserved`, as only a container with exclusive CPUs does. Not if the shared pool has none of
//     them (strict-cpu-reservation).
// And for each that does not have the memory nodes, if the memory manager has a state:
//   - its CPUs say which container of the pod it is, and it has other memory nodes than that one;
//   - it has its own memory nodes, and no container of its pod is assigned these. Not if it cannot
//     be assigned memory: see FindNarrowedByOthers;
//   - its pod is assigned memory, and nothing has set its own; one such cgroup is the sandbox's.
//     Not if none of these cgroups has a memory limit, as an ephemeral container has none;
//   - it had assigned memory nodes in `before` and has others now.
// Containers that have ended meanwhile, or that are new, are compared with the state alone; so are
// all without a `before`. `reserved`: CPUs that are never exclusive; empty: not known.
std::vector<std::string> FindMisplaced(const ContainerCpusets& before, const ContainerCpusets& now,
                                       const admission::NodeState& state,
                                       const CpuSet& reserved = {});

// One sentence for each container whose memory nodes another program has set: it has its own, no
// container of its pod is assigned these, and it cannot be assigned memory. It is not of a
// Guaranteed pod, by its cgroup, or it has no memory limit, and its pod has no memory as a whole.
std::vector<std::string> FindNarrowedByOthers(const ContainerCpusets& now,
                                              const admission::NodeState& state);

}  // namespace alignd::moving
