#include "cli/pod_plan.h"

#include <ostream>
#include <string>

#include "alignd/admission/explanation.h"
#include "alignd/scenario/simulation.h"
#include "cli/program.h"
#include "cli/report_text.h"
#include "control/reports.h"

namespace alignd::cli {
namespace {

using admission::Assignment;

std::string NumaList(const std::vector<int>& ids) {
  std::string text = ids.size() == 1 ? "NUMA node " : "NUMA nodes ";
  for (size_t i = 0; i < ids.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(ids[i]);
  return text;
}

std::string DescribeDevices(const devicemanager::DeviceAllocation& allocation) {
  std::string text;
  for (const auto& [numa, ids] : allocation.devices) {
    for (const std::string& id : ids) {
      text += (text.empty() ? "" : " ") + id +
              (numa < 0 ? " (no NUMA node)" : " (NUMA node " + std::to_string(numa) + ")");
    }
  }
  return text;
}

std::string DescribeAssignment(const Machine& machine, const Assignment& assignment) {
  std::string text;
  if (!assignment.exclusive.empty()) {
    text = "CPUs " + assignment.exclusive.ToString() + " (" +
           NumaList(machine.NumaIds(machine.NumaOf(assignment.exclusive))) + ")";
  } else {
    text = assignment.cpuset.empty() ? "any CPUs" : "shared CPUs " + assignment.cpuset.ToString();
  }
  if (!assignment.memory_nodes.empty()) text += ", memory of " + NumaList(assignment.memory_nodes);
  for (const auto& [resource, allocation] : assignment.devices) {
    text += ", " + resource + " " + DescribeDevices(allocation);
  }
  return text;
}

}  // namespace

Result<int> PlanPods(const scenario::NodeDescription& description, const KubeletConfig& config,
                     const std::vector<Pod>& pods, bool explain, std::ostream& out) {
  Result<scenario::Simulation> simulation = scenario::Simulation::Start(description, config);
  if (!simulation.ok()) return simulation.error();
  const admission::Node& node = simulation->node();
  int status = kSuccess;
  for (const Pod& pod : pods) {
    const admission::NodeState before = simulation->state();
    const scenario::StepResult result = simulation->Run(scenario::AdmitPod{pod});
    out << "pod " << pod.name_space << "/" << pod.name << " (" << ToString(QosOf(pod)) << "): ";
    if (result.admission->admitted()) {
      out << "fits\n";
      for (const Container& container : pod.containers) {
        out << "  " << container.name << ": "
            << DescribeAssignment(node.machine, result.admission->assignments.at(container.name))
            << '\n';
      }
    } else {
      const Refusal refusal = admission::Explain(node, before, pod, *result.admission->refusal);
      out << "does not fit\n  " << refusal.reason << ": " << refusal.message << '\n';
      status = kFailure;
    }
    if (explain) {
      control::v1::PodDecision explained;
      for (const admission::ContainerDecision& decision : result.admission->decisions) {
        *explained.add_containers() = control::ExplainContainer(node, decision);
      }
      PrintExplanations(explained.containers(), "    ", out);
    }
  }
  if (explain) PrintLegend(out);
  out << "free:\n";
  for (const admission::NumaAvailability& numa :
       admission::AvailableByNode(node, simulation->state())) {
    out << "  " << admission::DescribeAvailable({numa}) << '\n';
  }
  return status;
}

}  // namespace alignd::cli
