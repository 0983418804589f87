// Sees that systemd has the CPU sets of containers that are in force.
#pragma once

#include <map>
#include <set>
#include <string>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "cgroup/cgroup_tree.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"

namespace alignd::reconcile {

// With the systemd cgroup driver, the cgroups of containers are units of systemd, which writes its
// own AllowedCPUs= to them at a daemon-reload: a container with other CPUs would be moved. Not
// thread-safe.
class SystemdCpus {
 public:
  // Both outlive this object.
  SystemdCpus(const cgroup::CgroupTree& cgroups, const ContainerRegistry& registry)
      : cgroups_(cgroups), registry_(registry) {}

  // The container's cpuset was written to, or the container has ended.
  void Changed(const std::string& id) { recorded_.erase(id); }

  // The container has the CPUs that were applied to it; `path`: its cgroup. The next call of
  // Correct compares them with systemd's, unless that was done since the last change.
  void Found(const Subject& container, const std::string& path, const CpuSet& cpus);

  // Gives systemd the CPUs of the containers that it has otherwise. Blocks as SystemdUnits. After a
  // failure, the next call of Found asks for it again; the first failure is logged.
  void Correct();

 private:
  struct Pending {
    Subject container;
    std::string unit;
    CpuSet cpus;
  };

  // Whether it succeeded.
  template <typename Value>
  bool Note(const Result<Value>& result);

  const cgroup::CgroupTree& cgroups_;
  const ContainerRegistry& registry_;
  std::map<std::string, Pending> pending_;  // by container id
  std::set<std::string> recorded_;          // ids; systemd has the applied set too, or has none
  bool fails_ = false;                      // the last call of systemd did
  bool has_corrected_ = false;              // that has been logged
};

}  // namespace alignd::reconcile
