// Whether the containers that run have the CPUs that the state says, by their cgroups.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/cpumanager/cpu_state.h"

namespace alignd::moving {

// The CPU sets of the containers of all pods that run. A value.
struct ContainerCpusets {
  // Pod UID -> cgroup path of the container -> cpuset.cpus; empty: nothing has set it.
  std::map<std::string, std::map<std::string, CpuSet>> pods;

  // Reads the cgroups of all pods below `cgroup_root`, of both cgroup drivers and versions.
  // Errors: kIo: the cgroups cannot be read.
  static Result<ContainerCpusets> Read(const std::filesystem::path& cgroup_root);

  friend bool operator==(const ContainerCpusets&, const ContainerCpusets&) = default;
};

// One sentence for each container that does not have what the state says:
//   - it runs on a part of the exclusive CPUs of its pod, or on them and others;
//   - its pod is assigned CPUs, and nothing has set its own; one such cgroup is the sandbox's;
//   - it had an exclusive set in `before` and has another one now;
//   - it runs only on CPUs that other pods are assigned;
//   - its pod is assigned none, and it runs on a part of the shared pool without any CPU of
//     `reserved`, as only a container with exclusive CPUs does. Not if the shared pool has none of
//     them (strict-cpu-reservation).
// Containers that have ended meanwhile, or that are new, are compared with the state alone; so are
// all without a `before`. `reserved`: CPUs that are never exclusive; empty: not known.
std::vector<std::string> FindMisplaced(const ContainerCpusets& before, const ContainerCpusets& now,
                                       const cpumanager::CpuState& state,
                                       const CpuSet& reserved = {});

}  // namespace alignd::moving
