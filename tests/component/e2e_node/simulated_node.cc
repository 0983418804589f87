#include "simulated_node.h"

#include "edge/machine_tree.h"

namespace alignd::node_suites {

std::string SimulatedNode::Start(const Machine& machine) {
  testing::WriteMachine(machine, "machine", tree_);
  all_cpus_ = machine.cpus();
  cgroups_ = std::make_unique<daemon::FakeCgroups>(tree_.root() / "cgroup", /*unified=*/true,
                                                   all_cpus_.ToString());
  watch_.OnEvent([this](const simulator::RuntimeModel::Event& event) { cgroups_->Apply(event); });
  return StartRuntime();
}

std::string SimulatedNode::StartRuntime() {
  auto runtime = simulator::EmbeddedRuntime::Start(
      Endpoint(), [this](const simulator::RuntimeModel::Event& event) { watch_.Note(event); });
  if (!runtime.ok()) return runtime.error().Text();
  runtime_ = *std::move(runtime);
  return "";
}

void SimulatedNode::Complete(daemon::Options& options) const {
  options.root = tree_.root() / "machine";
  options.runtime_endpoint = Endpoint();
  options.cgroup_root = tree_.root() / "cgroup";
}

std::string SimulatedNode::StartDaemon(const daemon::Options& options) {
  auto started = daemon::Daemon::Start(options);
  if (!started.ok()) return started.error().Text();
  daemon_ = *std::move(started);
  return "";
}

void SimulatedNode::Reboot() {
  runtime_.reset();
  watch_.Forget();
  if (const std::string fault = StartRuntime(); !fault.empty()) throw std::runtime_error(fault);
}

// The resources that the runtime was given last.
std::optional<ContainerFacts> SimulatedNode::Find(const ContainerPlace& place) const {
  const auto container = runtime_->FindContainer(place.id);
  if (!container) return std::nullopt;
  const runtime::v1::LinuxContainerResources& resources = container->resources;
  ContainerFacts facts;
  facts.runs = container->state == runtime::v1::CONTAINER_RUNNING;
  // Without a cpuset a container runs on all CPUs.
  const std::string& cpus = resources.cpuset_cpus();
  facts.cpus = cpus.empty() ? all_cpus_ : *CpuSet::Parse(cpus);
  facts.memory_nodes = resources.cpuset_mems();
  facts.owns_its_cpus = resources.cpu_quota() < 0;
  facts.quota = (resources.cpu_quota() > 0 ? std::to_string(resources.cpu_quota()) : "max") + " " +
                std::to_string(resources.cpu_period());
  for (const auto& limit : resources.hugepage_limits()) {
    facts.hugepages[limit.page_size()] = limit.limit();
  }
  return facts;
}

}  // namespace alignd::node_suites
