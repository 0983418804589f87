// What the cases run on: a container runtime, the kernel's cgroups, and alignd in front of the
// runtime. Two implementations: simulated_node.h in this process, and real_node.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/machine/machine.h"
#include "daemon/options.h"
#include "simulator/embedded_runtime.h"

namespace alignd::node_suites {

// Where a container is: the cgroup of its pod, as in the sandbox's configuration, and its id.
struct ContainerPlace {
  std::string pod_cgroup;
  std::string id;
};

// What a container has, or had when it ran.
struct ContainerFacts {
  bool runs = false;
  std::optional<CpuSet> cpus;  // nullopt: not known
  std::string memory_nodes;    // empty: all
  std::string quota;           // "20000 100000" or "max 100000": microseconds of each period
  bool owns_its_cpus = false;  // alignd has removed its quota, as the CPUs are its own
  // The limit in bytes by page size ("2MB").
  nlohmann::ordered_json hugepages = nlohmann::ordered_json::object();
};

// Errors are texts, empty if there is none, as a step reports them.
class Node {
 public:
  virtual ~Node() = default;

  // The longest time that a change may take until it shows, and that a call may take.
  virtual std::chrono::milliseconds Patience() const = 0;
  virtual std::chrono::milliseconds CallDeadline() const = 0;
  // Starts the runtime, without containers, on this machine.
  virtual std::string Start(const Machine& machine) = 0;
  // Changes what is not the same on every node, before alignd starts.
  virtual void Complete(daemon::Options& options) const = 0;
  virtual std::string StartDaemon(const daemon::Options& options) = 0;
  virtual void StopDaemon() = 0;

  // The part of the kubelet that is not CRI: the pod's cgroup, with its CFS quota.
  virtual void MakePodCgroup(const std::string& cgroup, const std::string& quota) = 0;
  virtual void RemovePodCgroup(const std::string& cgroup) = 0;
  virtual std::string QuotaOf(const std::string& cgroup) const = 0;

  // nullopt: the runtime does not have it.
  virtual std::optional<ContainerFacts> Find(const ContainerPlace& place) const = 0;
  // The container's process ends by itself, with 0 or 1.
  virtual std::string EndContainer(const ContainerPlace& place, int exit_code) = 0;

  // The machine starts again; alignd does not run. Only of a simulated runtime.
  virtual void Reboot() = 0;
  // For what only a simulated runtime can do or say. Throws std::runtime_error without one.
  virtual simulator::EmbeddedRuntime& Simulated() = 0;
};

}  // namespace alignd::node_suites
