// A node for the tables: a whole alignd on a machine with a runtime and cgroups (node.h), with a
// simulated kubelet and device plugins. It does what the steps of a row say.
#pragma once

#include <grpcpp/support/status.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "case_table.h"
#include "cpu_checks.h"
#include "daemon_fixture.h"
#include "node.h"
#include "podresources/v1/podresources.pb.h"
#include "simulator/kubelet_requests.h"
#include "simulator/pod_manifest.h"
#include "simulator/pods_api.h"

namespace alignd::node_suites {

class NodeFixture : public daemon::DaemonTest {
 protected:
  ~NodeFixture() override;

  // Starts the node and does all steps. A failure names the step.
  void RunSteps(const Case& row, const Machine& machine);
  // Makes the node of this run (real_node.h, RealSettings) and starts everything.
  void StartNode(const Case& row, const Machine& machine);
  // Empty, or why the step failed.
  std::string DoStep(const Json& step);

  // --- What the matchers look at (checks.cc) ----------------------------------------------------

  // Empty, or what does not hold. Does not wait.
  std::string Check(const Json& matcher);
  // Until everything holds, at most `patience_`.
  std::string CheckAll(const Json& matchers);

  daemon::Options DaemonOptions() const override;

  std::chrono::milliseconds patience_{0};  // StartNode sets it

 private:
  struct RunningPod {
    simulator::PodManifest manifest;
    runtime::v1::PodSandboxConfig config;
    std::string sandbox;
    std::map<std::string, std::string> containers;  // ids, by name
    std::map<std::string, runtime::v1::ContainerConfig> sent;
    uint32_t attempt = 0;
  };
  // What a container is assigned, as text.
  struct Facts {
    std::string cpus;
    std::string memory_nodes;
    std::string devices;
    std::string Text() const { return "CPUs " + cpus + ", nodes " + memory_nodes + ", " + devices; }
  };

  std::string DoPodStep(const std::string& verb, const Json& step);
  std::string DoPluginStep(const std::string& verb, const Json& step);
  std::string DoDaemonStep(const std::string& verb, const Json& step);
  std::string DoCallStep(const std::string& verb, const Json& step);

  // Empty, or the message of the call that was refused.
  std::string RunPod(RunningPod& pod);
  std::string CreateAndStart(RunningPod& pod, const Container& container);
  std::string Refused(const std::string& message, const std::string& reason) const;
  RunningPod MakePod(const Json& json) const;
  std::string PodQuota(const runtime::v1::PodSandboxConfig& config) const;
  std::string EndContainers(RunningPod& pod);
  std::string Remove(RunningPod& pod);
  void TryStart();
  void Stop();
  bool Await(const std::function<bool()>& is_so) const;

  std::string CheckContainer(const Json& matcher);
  std::string CheckResources(const Json& matcher, const std::string& key);
  std::string CheckPod(const Json& matcher);
  std::string CheckListed(const Json& matcher) const;
  std::string CheckGet(const Json& matcher) const;
  std::string CheckAllocatable(const Json& matcher) const;
  std::string CheckMetric(const Json& matcher) const;
  std::string CheckMemoryState(const Json& matcher) const;
  std::string CheckThrottled(const Json& matcher) const;
  std::string CheckQuota(const std::string& found, const std::string& quota,
                         const Json& matcher) const;

  CpuView Cpus();
  RunningPod& PodOf(const std::string& name);
  // Of "pod/container".
  ContainerPlace PlaceOf(const std::string& name);
  ContainerFacts ContainerOf(const std::string& name);
  CpuSet CpusOfContainer(const std::string& name);
  // Empty if no container runs on a CPU that is another's own.
  std::string CheckOverlaps();
  Facts FactsOf(const std::string& name);

  ::v1::ListPodResourcesResponse ListResources() const;
  // "r Dev-1 Dev-2"; the lister's devices of one container.
  std::string DevicesOf(const std::string& name) const;
  std::string MetricsSocket() const { return (tree_.root() / "metrics.sock").string(); }

  std::optional<Machine> machine_;
  Json config_;
  Json flags_;
  simulator::KubeletHost host_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<simulator::PodsApi> api_;
  std::map<std::string, std::unique_ptr<simulator::DevicePlugin>> plugins_;  // by resource
  std::map<std::string, std::vector<simulator::SimulatedDevice>> devices_;
  std::map<std::string, RunningPod> pods_;  // by name
  std::map<std::string, Facts> remembered_;
  std::string start_error_;
};

}  // namespace alignd::node_suites
