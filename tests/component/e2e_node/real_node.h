// This machine as the node: a container runtime that listens on a socket, cgroups v2 of the kernel,
// and alignd as a process. Needs root. The machine is for the cases alone.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "edge/process.h"
#include "node.h"
#include "simulator/kubelet.h"

namespace alignd::node_suites {

// From the command line of the test program.
struct RealNodeSettings {
  std::string runtime_endpoint;
  std::string alignd;    // the program
  bool only_ci = false;  // only the rows that CI runs
};

// nullopt: the cases run on a simulated node. Set before the tests start (main.cc).
inline std::optional<RealNodeSettings>& RealSettings() {
  static std::optional<RealNodeSettings> settings;
  return settings;
}

class RealNode : public Node {
 public:
  // `directory`: of the log of alignd.
  RealNode(const RealNodeSettings& settings, std::filesystem::path directory);
  // Removes all pods and their cgroups.
  ~RealNode() override;

  // An emulated machine on a busy host is slow.
  std::chrono::milliseconds Patience() const override { return std::chrono::minutes(2); }
  std::chrono::milliseconds CallDeadline() const override { return std::chrono::minutes(10); }
  // Sets the machine's huge pages.
  std::string Start(const Machine& machine) override;
  void Complete(daemon::Options& options) const override;
  std::string StartDaemon(const daemon::Options& options) override;
  void StopDaemon() override;
  void MakePodCgroup(const std::string& cgroup, const std::string& quota) override;
  void RemovePodCgroup(const std::string& cgroup) override;
  std::string QuotaOf(const std::string& cgroup) const override;
  // What the kernel enforces. The kernel knows nothing of a container that has ended: then, what it
  // enforced when Find or EndContainer looked last. Throws std::runtime_error if the CPUs or memory
  // nodes of a process are not those of the container's cgroup.
  std::optional<ContainerFacts> Find(const ContainerPlace& place) const override;
  std::string EndContainer(const ContainerPlace& place, int exit_code) override;
  void Reboot() override;
  simulator::EmbeddedRuntime& Simulated() override;

 private:
  std::string RemovePods();
  ContainerFacts Read(const ContainerPlace& place) const;  // of one that runs

  const RealNodeSettings settings_;
  const std::filesystem::path log_;
  const std::unique_ptr<simulator::Kubelet> runtime_;
  std::string all_memory_nodes_;
  mutable std::map<std::string, ContainerFacts> last_;  // by id
  std::unique_ptr<testing::Process> alignd_;
};

// Empty if `found` is the machine of the tables, but for its huge pages. Memory may differ by a
// tenth: a kernel keeps a part.
std::string DiffersFrom(const Machine& wanted, const Machine& found);

}  // namespace alignd::node_suites
