#include "simulated_node.h"

#include <stdexcept>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/config/kubelet_config.h"

namespace alignd::node_suites {

std::string SimulatedNode::RunSteps(const Case& row, const Machine& machine) {
  const Result<KubeletConfig> config = ParseKubeletConfig(ConfigText(row));
  if (!config.ok()) return config.error().Text();
  auto simulation = scenario::Simulation::Start({machine, {}, {}}, *config);
  if (!simulation.ok()) return simulation.error().Text();
  simulation_ = *std::move(simulation);
  config_ = row.config;
  for (const Json& step : row.steps) {
    std::string fault;
    try {
      fault = DoStep(step);
    } catch (const std::exception& error) {
      fault = error.what();
    }
    if (!fault.empty()) return step.dump() + ": " + fault;
  }
  return "";
}

std::string SimulatedNode::DoStep(const Json& step) {
  const std::string verb = VerbOf(step);
  const Json& what = step[verb];
  if (verb == "run") return RunPod(PodOfTable(what));
  if (verb == "refused") {
    const std::string refusal = RunPod(PodOfTable(what));
    if (refusal.empty()) return "the pod was not refused";
    const std::string reason = step.value("reason", "");
    return refusal.find(reason) == std::string::npos ? "refused because of: " + refusal : "";
  }
  if (verb == "expect") {
    for (const Json& matcher : what) {
      const std::string fault = Check(matcher);
      if (!fault.empty()) return matcher.dump() + " does not hold: " + fault;
    }
    return "";
  }
  if (verb == "remember") {
    remembered_[what] = FactsOf(step["of"]);
    return "";
  }
  // A container that has ended stays in its pod, and a pod whose containers have ended is removed.
  if (verb == "end" || verb == "complete") return "";
  if (verb == "remove") {
    simulation_->Run(scenario::RemovePod{pods_.at(what).uid});
    pods_.erase(what.get<std::string>());
    return "";
  }
  return "not in a simulation";
}

std::string SimulatedNode::RunPod(const Pod& pod) {
  const scenario::StepResult result = simulation_->Run(scenario::AdmitPod{pod});
  if (result.admission->refusal) {
    return result.admission->refusal->reason + ": " + result.admission->refusal->message;
  }
  pods_[pod.name] = pod;
  simulation_->Run(scenario::StartPod{pod.uid});
  return "";
}

std::string SimulatedNode::Check(const Json& matcher) {
  if (matcher.contains("of")) return CheckContainer(matcher);
  if (matcher.contains("get") && matcher.contains("containers")) return CheckMemory(matcher);
  if (matcher.contains("memory-state") && matcher.contains("reserved-at-least")) {
    const auto& node = simulation_->state().memory.machine.at(matcher["memory-state"].get<int>());
    const uint64_t reserved = node.tables.at("memory").reserved;
    return reserved >= matcher["reserved-at-least"].get<uint64_t>() ? "" : std::to_string(reserved);
  }
  if (!matcher.contains("pod") || !matcher.contains("cpus") || matcher.size() != 2) {
    return "not in a simulation";
  }
  const Pod& pod = pods_.at(matcher["pod"]);
  CpuSet cpus;
  for (const Container& container : pod.containers) {
    if (container.kind == ContainerKind::kInit) continue;
    cpus |= AssignmentOf(pod.name + "/" + container.name).cpuset;
  }
  return Differs("CPUs of all containers", cpus.Count(), matcher["cpus"]);
}

std::string SimulatedNode::CheckContainer(const Json& matcher) {
  const std::string name = matcher["of"];
  const admission::Assignment assignment = AssignmentOf(name);
  const CpuView view{simulation_->node().machine, [this](const std::string& word) {
                       if (word != "reserved") return AssignmentOf(word).cpuset;
                       return *CpuSet::Parse(config_.at("reservedSystemCPUs").get<std::string>());
                     }};
  for (const auto& [key, value] : matcher.items()) {
    if (key == "of") continue;
    std::string fault = "not in a simulation";
    if (const auto checked = CheckCpus(key, value, assignment.cpuset, view)) fault = *checked;
    if (key == "memory-nodes") fault = Differs("nodes", MemoryNodes(assignment), value);
    if (key == "same-as") fault = Differs("it has", FactsOf(name), remembered_.at(value));
    if (!fault.empty()) return key + ": " + fault;
  }
  return "";
}

// The memory of the pod's containers. A container of the pod that has none is "{}".
std::string SimulatedNode::CheckMemory(const Json& matcher) const {
  const Pod& pod = pods_.at(matcher["get"]);
  for (const auto& [name, wanted] : matcher["containers"].items()) {
    Json memory = Json::object();
    const auto* const blocks = simulation_->state().memory.Find({pod.uid, name});
    if (blocks != nullptr) {
      for (const memorymanager::Block& block : *blocks) memory["memory"][block.type] = block.size;
    }
    if (memory != wanted) return name + " has " + memory.dump();
  }
  return "";
}

admission::Assignment SimulatedNode::AssignmentOf(const std::string& name) const {
  const size_t slash = name.find('/');
  const auto pod = pods_.find(name.substr(0, slash));
  if (pod == pods_.end()) throw std::runtime_error("no pod of " + name);
  return admission::AssignmentOf(simulation_->node(), simulation_->state(),
                                 {pod->second.uid, name.substr(slash + 1)});
}

std::string SimulatedNode::FactsOf(const std::string& name) const {
  const admission::Assignment assignment = AssignmentOf(name);
  return "CPUs " + assignment.cpuset.ToString() + ", nodes " + MemoryNodes(assignment);
}

std::string SimulatedNode::MemoryNodes(const admission::Assignment& assignment) {
  std::string text;
  for (const int node : assignment.memory_nodes) {
    text += (text.empty() ? "" : ",") + std::to_string(node);
  }
  return text;
}

}  // namespace alignd::node_suites
