// Whether the cgroups above a container permit the CPUs and memory nodes that it is assigned.
#pragma once

#include <optional>
#include <string>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "cgroup/cgroup_tree.h"

namespace alignd::cgroup {

// What containers below one parent are assigned.
struct ParentNeeds {
  CpuSet exclusive;  // all of them
  // At least one CPU of the shared pool; empty: no container is in it.
  CpuSet shared = {};
  // CPUs that no container has exclusively. Containers of the shared pool may run on them alone if
  // they are in the kubelet's system partition, which is for such CPUs; empty: they may not.
  CpuSet shared_in_partition = {};
  CpuSet memory_nodes = {};  // all of them; NUMA node ids

  // Adds what another container needs, which has the same shared pool.
  void Add(const ParentNeeds& other) {
    exclusive |= other.exclusive;
    shared |= other.shared;
    shared_in_partition |= other.shared_in_partition;
    memory_nodes |= other.memory_nodes;
  }

  bool IsEmpty() const { return exclusive.empty() && shared.empty() && memory_nodes.empty(); }
};

// Requires that the kernel gives cgroups below `parent`, the cgroup parent of a sandbox, what they
// need. The nearest cgroup above that has a cpuset decides. In version 2, a cgroup without any CPU
// of its parent runs on all CPUs of the parent, also on exclusive ones of other containers, and
// likewise for memory nodes. So does a container of the shared pool in a system partition
// (KEP-5894) without CPUs of the pool: it may, if none of the CPUs can be exclusive to another one.
// In version 1 the runtime fails; the shared pool is not checked then.
// May block. Errors: kUnavailable, naming the cgroup, what it may use and the remedy; kIo, kCorrupt
// as ReadCpuset. None if no cgroup on the path has a cpuset. Source: kernel
// Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus; cgroup-v1/cpusets.rst.
Result<Done> RequireInParent(const CgroupTree& cgroups, const std::string& parent,
                             const ParentNeeds& needs);

// A cgroup, and the CPUs that the kernel lets it use. A value.
struct NarrowCgroup {
  std::string path;
  CpuSet may_use;

  friend bool operator==(const NarrowCgroup&, const NarrowCgroup&) = default;
};

// The highest cgroup above `path`, a container's, that may not use all of `cpus`: the one that is
// to be widened first. nullopt: there is none. In version 1, the kernel refuses the container these
// CPUs, and in version 2, it gives it fewer. A cgroup of version 1 without CPUs is not meant: the
// runtime fills it. May block. Errors: kIo, kCorrupt as ReadCpuset. Source: kernel
// kernel/cgroup/cpuset.c, validate_change; Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus.
Result<std::optional<NarrowCgroup>> FindNarrowerAbove(const CgroupTree& cgroups, std::string path,
                                                      const CpuSet& cpus);

}  // namespace alignd::cgroup
