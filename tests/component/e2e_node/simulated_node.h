// A node in this process: a sysfs tree, a simulated runtime, cgroups that are files.
#pragma once

#include <memory>
#include <string>

#include "daemon_fixture.h"
#include "fake_cgroups.h"
#include "node.h"

namespace alignd::node_suites {

class SimulatedNode : public Node {
 public:
  // Its files are in the tree. `watch` gets the runtime's events, and outlives this object.
  SimulatedNode(const testing::FakeTree& tree, daemon::Watch& watch) : tree_(tree), watch_(watch) {}
  ~SimulatedNode() override { watch_.OnEvent({}); }

  std::chrono::milliseconds Patience() const override { return std::chrono::seconds(10); }
  std::chrono::milliseconds CallDeadline() const override { return daemon::kPatience; }
  std::string Start(const Machine& machine) override;
  void Complete(daemon::Options& options) const override;
  std::string StartDaemon(const daemon::Options& options) override;
  void StopDaemon() override { daemon_.reset(); }
  void MakePodCgroup(const std::string& cgroup, const std::string& quota) override {
    cgroups_->SetQuota(cgroup, quota);
  }
  // The simulated kubelet does not remove cgroups.
  void RemovePodCgroup(const std::string& /*cgroup*/) override {}
  std::string QuotaOf(const std::string& cgroup) const override {
    return cgroups_->QuotaOf(cgroup);
  }
  std::optional<ContainerFacts> Find(const ContainerPlace& place) const override;
  std::string EndContainer(const ContainerPlace& place, int exit_code) override {
    return runtime_->EndContainer(place.id, exit_code) ? "" : "the container does not run";
  }
  void Reboot() override;
  simulator::EmbeddedRuntime& Simulated() override { return *runtime_; }

 private:
  std::string StartRuntime();
  std::string Endpoint() const { return (tree_.root() / "runtime.sock").string(); }

  const testing::FakeTree& tree_;
  daemon::Watch& watch_;
  CpuSet all_cpus_;
  std::unique_ptr<daemon::FakeCgroups> cgroups_;
  std::unique_ptr<simulator::EmbeddedRuntime> runtime_;
  std::unique_ptr<daemon::Daemon> daemon_;
};

}  // namespace alignd::node_suites
