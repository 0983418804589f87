#include "cli/pod_plan.h"

#include <optional>
#include <ostream>
#include <string>

#include "alignd/admission/explanation.h"
#include "alignd/scenario/simulation.h"
#include "allocation/decision_log.h"
#include "cli/output.h"
#include "cli/program.h"
#include "cli/report_json.h"
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

// One pod of the plan.
struct PlannedPod {
  const Pod& pod;
  const admission::Admission& admission;
  std::optional<Refusal> refusal;  // explained
};

void PrintPlanned(const admission::Node& node, const PlannedPod& planned, bool explain,
                  std::ostream& out) {
  const Pod& pod = planned.pod;
  out << "pod " << pod.name_space << "/" << pod.name << " (" << ToString(QosOf(pod)) << "): ";
  if (!planned.refusal) {
    out << "fits\n";
    for (const Container& container : pod.containers) {
      out << "  " << container.name << ": "
          << DescribeAssignment(node.machine, planned.admission.assignments.at(container.name))
          << '\n';
    }
  } else {
    out << "does not fit\n  " << planned.refusal->reason << ": " << planned.refusal->message
        << '\n';
  }
  if (!explain) return;
  control::v1::PodDecision explained;
  for (const admission::ContainerDecision& decision : planned.admission.decisions) {
    *explained.add_containers() = control::ExplainContainer(node, decision);
  }
  PrintExplanations(explained.containers(), "    ", out);
}

// The same as the daemon would report it.
control::v1::PodDecision ReportPlanned(const admission::Node& node, const PlannedPod& planned,
                                       const admission::NodeState& before) {
  allocation::PodDecision decision =
      allocation::DecisionAbout(node, before, planned.pod, /*source=*/"manifest");
  decision.containers = planned.admission.decisions;
  decision.assignments = planned.admission.assignments;
  decision.refusal = planned.refusal;
  if (planned.refusal) {
    decision.available =
        admission::DescribeAvailable(admission::AvailableFor(node, before, planned.pod));
  }
  control::v1::PodDecision report = control::ReportDecision(node, decision);
  report.clear_time_unix_ms();
  return report;
}

}  // namespace

Result<int> PlanPods(const scenario::NodeDescription& description, const KubeletConfig& config,
                     const std::vector<Pod>& pods, bool explain, const std::string& format,
                     std::ostream& out) {
  Result<scenario::Simulation> simulation = scenario::Simulation::Start(description, config);
  if (!simulation.ok()) return simulation.error();
  const admission::Node& node = simulation->node();
  int status = kSuccess;
  control::v1::ExplainResponse report;
  for (const Pod& pod : pods) {
    const admission::NodeState before = simulation->state();
    const scenario::StepResult result = simulation->Run(scenario::AdmitPod{pod});
    PlannedPod planned{pod, *result.admission, std::nullopt};
    if (!result.admission->admitted()) {
      planned.refusal = admission::Explain(node, before, pod, *result.admission->refusal);
      status = kFailure;
    }
    if (IsData(format)) {
      *report.add_decisions() = ReportPlanned(node, planned, before);
    } else {
      PrintPlanned(node, planned, explain || format == "wide", out);
    }
  }
  if (IsData(format)) {
    out << AsData(PlanJson(report, control::ReportNuma(node, simulation->state())), format);
    return status;
  }
  if (explain || format == "wide") PrintLegend(out);
  out << "free:\n";
  for (const admission::NumaAvailability& numa :
       admission::AvailableByNode(node, simulation->state())) {
    out << "  " << admission::DescribeAvailable({numa}) << '\n';
  }
  return status;
}

}  // namespace alignd::cli
