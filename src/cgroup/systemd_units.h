// Sets in systemd what alignd writes to the cgroups of its units.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"

namespace alignd::cgroup {

// The unit to which systemd writes the cgroup's settings: the last part of its path, if that names
// a scope, a slice or a service. nullopt: systemd does not write to this cgroup. Source:
// systemd.unit(5); systemd's CGROUP_DELEGATION.md.
std::optional<std::string> UnitOfCgroup(const std::string& path);

// systemd keeps the settings of its units, and writes them again at each `daemon-reload`. If
// kubelet and runtime use the systemd cgroup driver, the CFS quota of pods is among them, and with
// cgroup version 2 the CPUs of containers (AllowedCPUs=). A value that alignd writes to the cgroup
// is in force at once, but only until then, unless systemd has it as well. Thread-safe: every call
// has a connection of its own. Source: org.freedesktop.systemd1(5), SetUnitProperties.
class SystemdUnits {
 public:
  // `socket`: where systemd serves root, without a message bus.
  explicit SystemdUnits(std::filesystem::path socket = "/run/systemd/private");

  struct UnitCpus {
    std::string unit;
    CpuSet cpus;
  };

  // Sets AllowedCPUs= of the units until the next boot. One result for each, in this order. Blocks
  // until all are answered, 2 s at most, as while systemd reloads. The kernel has the CPUs later.
  // Done as well if systemd does not know the unit: then it writes nothing. Errors: kUnavailable if
  // systemd cannot be reached, or refuses; also for an empty set, which it would take for all CPUs.
  std::vector<Result<Done>> SetAllowedCpus(const std::vector<UnitCpus>& changes) const;

  // AllowedCPUs= of the units, in this order; nullopt: systemd does not know the unit. Blocks as
  // above. Errors: kUnavailable if systemd cannot be reached, refuses, or answers something else.
  std::vector<Result<std::optional<CpuSet>>> ReadAllowedCpus(
      const std::vector<std::string>& units) const;

  // Sets CPUQuota= of the unit until the next boot, in microseconds of CPU time per second;
  // nullopt: removes it. Results as those of SetAllowedCpus.
  Result<Done> SetCpuQuota(const std::string& unit, std::optional<uint64_t> per_second) const;

 private:
  std::string socket_;
};

}  // namespace alignd::cgroup
