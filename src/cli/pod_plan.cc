#include "cli/pod_plan.h"

#include <cstddef>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "alignd/admission/explanation.h"
#include "alignd/admission/node_state.h"
#include "alignd/admission/own_policy.h"
#include "alignd/base/counted.h"
#include "alignd/pod/refusal.h"
#include "allocation/decision_log.h"
#include "cli/output.h"
#include "cli/program.h"
#include "cli/refusal_text.h"
#include "cli/report_json.h"
#include "cli/report_text.h"
#include "control/reports.h"
#include "host/printable.h"

namespace alignd::cli {
namespace {

using admission::Assignment;
using placement::Outcome;
using placement::PlannedPod;
using placement::Verdict;

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

// One pod of the plan, and what became of it.
struct Planned {
  const PlannedPod& pod;
  const Verdict& verdict;
  std::optional<Refusal> refusal;  // explained
  std::vector<std::string> not_considered;

  // The container assignments of a pod that fits.
  const Assignment& AssignmentOf(const Container& container) const {
    return verdict.admission->assignments.at(container.name);
  }
};

void PrintOutcome(const placement::PlannedNode& node, const Planned& planned, std::ostream& out) {
  const Machine& machine = node.node().machine;
  const Pod& pod = planned.pod.pod;
  const bool is_valid = planned.pod.faults.empty();
  // Line ends in texts of others would be lines of the answer.
  out << "pod " << host::Printable(pod.name_space + "/" + pod.name);
  if (is_valid) out << " (" << ToString(QosOf(pod)) << ")";
  switch (planned.verdict.outcome) {
    case Outcome::kFits:
      out << ": fits\n";
      for (const Container& container : pod.containers) {
        const Assignment& assignment = planned.AssignmentOf(container);
        const std::vector<int> cpu_nodes = machine.NumaIds(machine.NumaOf(assignment.exclusive));
        out << "  " << container.name << ": "
            << (node.is_of_object() ? DescribeAmounts(cpu_nodes, assignment)
                                    : DescribeAssignment(cpu_nodes, assignment))
            << '\n';
      }
      return;
    case Outcome::kRefused:
      out << ": does not fit, refused by " << ToString(planned.verdict.stage) << '\n';
      break;
    case Outcome::kUndecided:
      out << ": cannot be decided\n";
      for (const std::string& reason : planned.pod.undecided) {
        out << "  " << host::Printable(reason) << '\n';
      }
      if (planned.pod.undecided.empty()) {
        out << "  " << host::Printable(planned.refusal->message) << '\n';
      }
      return;
  }
  if (is_valid) {
    PrintRefusal(planned.refusal->reason, host::Printable(planned.refusal->message), "  ", out);
    return;
  }
  for (const std::string& fault : planned.pod.faults) {
    out << "  " << host::Printable(fault) << '\n';
  }
}

void PrintPlanned(const placement::PlannedNode& node, const Planned& planned, bool explain,
                  std::ostream& out) {
  PrintOutcome(node, planned, out);
  if (planned.verdict.outcome == Outcome::kFits && !planned.not_considered.empty()) {
    PrintNotConsidered(planned.not_considered, out);
  }
  if (!explain || !planned.verdict.admission) return;
  const std::string policy =
      admission::DescribePodPolicy(node.node(), placement::PodOn(node.node().config, planned.pod));
  if (!policy.empty()) out << "    " << policy << '\n';
  control::v1::PodDecision explained;
  for (const admission::ContainerDecision& decision : planned.verdict.admission->decisions) {
    *explained.add_containers() = control::ExplainContainer(
        node.node(), admission::TopologyOf(node.node(), planned.pod.pod), decision);
  }
  PrintExplanations(explained.containers(), "    ", out);
}

// The same as the daemon would report it.
PlanEntry ReportPlanned(const placement::PlannedNode& planned_node, const Planned& planned,
                        const admission::NodeState& before) {
  const admission::Node& node = planned_node.node();
  allocation::PodDecision decision = allocation::DecisionAbout(
      node, before, placement::PodOn(node.config, planned.pod), /*source=*/"manifest");
  decision.refusal = planned.refusal;
  if (planned.verdict.admission) {
    decision.containers = planned.verdict.admission->decisions;
    decision.assignments = planned.verdict.admission->assignments;
    if (planned.refusal && !planned_node.is_of_object()) {
      decision.available = admission::DescribeAvailable(
          admission::AvailableFor(node, before, placement::PodOn(node.config, planned.pod)));
    }
  }
  PlanEntry entry;
  entry.decision = control::ReportDecision(node, decision);
  entry.decision.clear_time_unix_ms();
  if (planned_node.is_of_object()) {
    entry.decision.clear_assignments();
    entry.amounts = placement::PlacementsOf(planned_node, planned.verdict);
  }
  entry.outcome = ToString(planned.verdict.outcome);
  const bool fits = planned.verdict.outcome == Outcome::kFits;
  entry.stage = fits ? "" : ToString(planned.verdict.stage);
  entry.owner = planned.pod.owner;
  entry.faults = planned.pod.faults;
  entry.not_considered = planned.not_considered;
  return entry;
}

// What the scheduler counts: by resource the amount that pods request, and the allocatable one.
std::map<std::string, std::pair<std::string, std::string>> SchedulerAmounts(
    const placement::PlannedNode& node) {
  std::map<std::string, std::pair<std::string, std::string>> amounts;
  for (const auto& [name, amount] : node.allocatable().amounts) {
    const Quantity* const requested = Find(node.requested().total(), name);
    amounts[name] = {requested == nullptr ? "0" : requested->ToString(), amount.ToString()};
  }
  amounts["pods"] = {std::to_string(node.requested().pods()),
                     std::to_string(node.allocatable().pods)};
  return amounts;
}

void PrintFree(const placement::PlannedNode& node, bool is_wide, std::ostream& out) {
  if (is_wide) {
    out << "requested of allocatable:";
    const char* separator = " ";
    for (const auto& [name, amounts] : SchedulerAmounts(node)) {
      out << separator << name << ' ' << amounts.first << " of " << amounts.second;
      separator = ", ";
    }
    out << '\n';
  }
  if (node.is_of_object()) return;  // after the pods, it is not known of each NUMA node
  out << "free:\n";
  for (const admission::NumaAvailability& numa :
       admission::AvailableByNode(node.node(), node.state())) {
    out << "  " << admission::DescribeAvailable({numa}) << '\n';
  }
}

}  // namespace

std::string DescribeAmounts(const std::vector<int>& cpu_nodes, const Assignment& assignment) {
  const int cpus = assignment.exclusive.Count();
  std::string text = cpus == 0 ? "shared CPUs" : Counted(cpus, "exclusive CPU");
  if (cpu_nodes.size() == 1) text += " (" + NumaList(cpu_nodes) + ")";
  if (!assignment.memory_nodes.empty()) text += ", memory of " + NumaList(assignment.memory_nodes);
  for (const auto& [resource, allocation] : assignment.devices) {
    text += ", " + std::to_string(allocation.Ids().size()) + " of " + resource;
  }
  return text;
}

std::string DescribeAssignment(const std::vector<int>& cpu_nodes, const Assignment& assignment) {
  std::string text;
  if (!assignment.exclusive.empty()) {
    text = "CPUs " + assignment.exclusive.ToString() + " (" + NumaList(cpu_nodes) + ")";
  } else {
    text = assignment.cpuset.empty() ? "any CPUs" : "shared CPUs " + assignment.cpuset.ToString();
  }
  if (!assignment.memory_nodes.empty()) text += ", memory of " + NumaList(assignment.memory_nodes);
  for (const auto& [resource, allocation] : assignment.devices) {
    text += ", " + resource + " " + DescribeDevices(allocation);
  }
  return text;
}

void PrintNotConsidered(const std::vector<std::string>& texts, std::ostream& out) {
  out << "  not considered: ";
  for (size_t i = 0; i < texts.size(); ++i) out << (i > 0 ? ", " : "") << texts[i];
  out << '\n';
}

int PlanPods(placement::PlannedNode& node, const std::vector<PlannedPod>& pods,
             const std::vector<std::string>& skipped, bool explain, const std::string& format,
             std::ostream& out) {
  const bool is_wide = explain || format == "wide";
  size_t fitting = 0;
  Plan plan;
  for (const PlannedPod& pod : pods) {
    const admission::NodeState before = node.state();
    std::vector<std::string> not_considered = node.NotConsidered(pod);  // before it is there
    const Verdict verdict = node.Place(pod);
    Planned planned{pod, verdict, verdict.refusal, std::move(not_considered)};
    // An explanation would name CPUs and devices, which an object does not have.
    if (verdict.refusal && verdict.admission && verdict.admission->refusal &&
        !node.is_of_object()) {
      planned.refusal = admission::Explain(
          node.node(), before, placement::PodOn(node.node().config, pod), *verdict.refusal);
    }
    fitting += verdict.outcome == Outcome::kFits ? 1 : 0;
    if (IsData(format)) {
      plan.entries.push_back(ReportPlanned(node, planned, before));
    } else {
      PrintPlanned(node, planned, is_wide, out);
    }
  }
  const int status = fitting == pods.size() ? kSuccess : kFailure;
  if (IsData(format)) {
    plan.scheduler = SchedulerAmounts(node);
    plan.notes = node.notes();
    plan.skipped = skipped;
    const control::v1::GetStatusResponse numa =
        node.is_of_object() ? control::v1::GetStatusResponse()
                            : control::ReportNuma(node.node(), node.state());
    out << AsData(PlanJson(plan, numa), format);
    return status;
  }
  if (is_wide) PrintLegend(out);
  PrintFree(node, is_wide, out);
  for (const std::string& what : skipped) out << "skipped: " << host::Printable(what) << '\n';
  for (const std::string& note : node.notes()) out << "note: " << host::Printable(note) << '\n';
  if (pods.size() != 1) out << fitting << " of " << pods.size() << " pods fit\n";
  return status;
}

}  // namespace alignd::cli
