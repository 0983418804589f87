#include "cli/report_text.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <ostream>

#include "alignd/admission/explanation.h"
#include "reconcile/conditions.h"

namespace alignd::cli {
namespace {

using control::ContainerExplanation;
using control::ContainerReport;
using control::DecisionReport;
using control::HintReport;
using Row = std::array<std::string, 5>;

template <typename Number>
std::string Joined(const std::vector<Number>& numbers) {
  std::string text;
  for (const Number number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string DescribeDevices(const std::vector<control::AssignedDevice>& devices) {
  std::string text;
  for (const control::AssignedDevice& device : devices) {
    text += (text.empty() ? "" : " ") + device.id;
    if (!device.numa.empty()) text += " (NUMA " + Joined(device.numa) + ")";
    if (!device.kubelet_id.empty()) text += " (counted as " + device.kubelet_id + ")";
    if (!device.problem.empty()) text += " [" + device.problem + "]";
  }
  return text;
}

std::string DescribeDevices(const ContainerReport& container) {
  std::string text;
  for (const auto& [resource, devices] : container.devices) {
    text += (text.empty() ? "" : ", ") + resource + " " + DescribeDevices(devices);
  }
  return text;
}

std::string DescribeOptions(const std::map<std::string, std::string>& options) {
  std::string text;
  for (const auto& [name, value] : options) {
    text += (text.empty() ? " (" : ", ") + name + "=" + value;
  }
  return text.empty() ? text : text + ")";
}

// Columns as wide as their widest cell, the last one as it is.
void PrintTable(const std::vector<Row>& rows, std::ostream& out) {
  std::array<size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    out << "  ";
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      out << row[i] << std::string(widths[i] - row[i].size() + 2, ' ');
    }
    out << row.back() << '\n';
  }
}

std::string DescribeHint(const HintReport& hint) {
  return (hint.numa ? "{" + Joined(*hint.numa) + "}" : "any") + (hint.preferred ? "!" : "");
}

std::string DescribeHints(const control::ResourceHints& hints) {
  if (hints.no_opinion) return "any!";
  if (hints.hints.empty()) return "fits nowhere";
  std::string text;
  for (const HintReport& hint : hints.hints) text += (text.empty() ? "" : " ") + DescribeHint(hint);
  if (hints.left_out > 0) text += " and " + std::to_string(hints.left_out) + " more";
  return text;
}

std::string DescribeAssignment(const ContainerReport& grant) {
  std::string text = grant.exclusive.empty() ? "shared CPUs" : "CPUs " + grant.exclusive.ToString();
  if (!grant.memory_nodes.empty()) text += ", memory of NUMA " + Joined(grant.memory_nodes);
  if (!grant.devices.empty()) text += ", " + DescribeDevices(grant);
  return text;
}

std::string UtcTime(int64_t unix_ms) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  std::array<char, 32> text{};
  gmtime_r(&seconds, &parts);
  const size_t length = std::strftime(text.data(), text.size(), "%F %T UTC", &parts);
  return {text.data(), length};
}

void PrintExplanation(const ContainerExplanation& container, const std::string& indent,
                      std::ostream& out) {
  for (const control::ResourceHints& hints : container.hints) {
    out << indent << hints.resource << ": " << DescribeHints(hints) << '\n';
  }
  if (!container.merged) {
    out << indent << "not aligned: topologyManagerPolicy is none\n";
    return;
  }
  out << indent << "merged: " << DescribeHint(*container.merged) << '\n';
  for (const control::CandidateReport& candidate : container.candidates) {
    out << indent << "  " << DescribeHint(candidate.hint) << ": " << candidate.verdict << '\n';
  }
  if (container.candidates_left_out > 0) {
    out << indent << "  and " << container.candidates_left_out << " more\n";
  }
  for (const std::string& note : container.notes) out << indent << "  " << note << '\n';
}

// Everything but the name.
bool SameExplanation(ContainerExplanation a, const ContainerExplanation& b) {
  a.container = b.container;
  return a == b;
}

void PrintDecision(const DecisionReport& decision, std::ostream& out) {
  out << UtcTime(decision.time_unix_ms) << "  pod " << decision.name_space << "/" << decision.name
      << " (" << decision.pod_uid << ") " << decision.outcome;
  if (decision.times > 1) out << ", " << decision.times << " times in a row";
  out << '\n';
  if (!decision.message.empty()) {
    out << "  " << (decision.reason.empty() ? "" : decision.reason + ": ") << decision.message
        << '\n';
  }
  if (!decision.asked.empty()) out << "  asked: " << decision.asked << '\n';
  if (!decision.source.empty()) out << "  known from: " << decision.source << '\n';
  if (!decision.left.empty()) out << "  left: " << decision.left << '\n';
  PrintExplanations(decision.containers, "  ", out);
  if (decision.outcome == "granted" && decision.containers.empty()) {
    out << "  nothing to decide: it asks for nothing of its own, or holds it already\n";
  }
  for (const ContainerReport& grant : decision.assignments) {
    out << "  granted " << grant.container << ": " << DescribeAssignment(grant) << '\n';
  }
}

std::string NameOf(const control::ConditionReport& note) {
  return reconcile::NameOf({note.container_id, {note.pod_uid, note.container}, note.pod});
}

// Nothing where all is well.
void PrintConditions(const control::ConditionReports& conditions, std::ostream& out) {
  constexpr size_t kRepairsShown = 5;
  if (conditions.runtime_outage) {
    const control::ConditionReport& outage = *conditions.runtime_outage;
    out << "\nTHE RUNTIME DOES NOT ANSWER since " << UtcTime(outage.first_unix_ms) << " ("
        << (outage.last_unix_ms - outage.first_unix_ms) / 1000 << " s): " << outage.text
        << "\n  remedy: " << outage.remedy << '\n';
  }
  for (const control::ConditionReport& other : conditions.conflicting_managers) {
    out << "\nANOTHER CPU MANAGER: " << other.text << " (" << other.times
        << (other.times == 1 ? " time" : " times") << ", last seen " << UtcTime(other.last_unix_ms)
        << ")\n  remedy: " << other.remedy << '\n';
  }
  for (const control::ConditionReport& unmanaged : conditions.unmanaged) {
    out << "\nMADE PAST ALIGND: " << NameOf(unmanaged) << ": " << unmanaged.text << " (since "
        << UtcTime(unmanaged.first_unix_ms) << ")\n  remedy: " << unmanaged.remedy << '\n';
  }
  for (const control::ConditionReport& devices : conditions.past_mirror) {
    out << "\nANOTHER DEVICE PLUGIN: " << NameOf(devices) << " has " << devices.text << " (since "
        << UtcTime(devices.first_unix_ms) << ")\n  remedy: " << devices.remedy << '\n';
  }
  for (const control::ConditionReport& pod : conditions.throttled_pods) {
    out << "\nTHROTTLED POD: pod " << pod.pod_uid
        << " has exclusive CPUs, and a CFS quota that cannot be lifted: " << pod.text << " (since "
        << UtcTime(pod.first_unix_ms) << ")\n  remedy: " << pod.remedy << '\n';
  }
  if (!conditions.failed_updates.empty()) out << '\n';
  for (const control::ConditionReport& failed : conditions.failed_updates) {
    if (failed.times == 0) {
      out << "not moved yet: " << NameOf(failed) << " to " << failed.should;
    } else {
      out << "cannot be moved: " << NameOf(failed) << " to " << failed.should << ", "
          << failed.times << (failed.times == 1 ? " time" : " times");
    }
    out << ": " << failed.text << '\n';
  }
  if (conditions.repairs == 0) return;
  out << '\n'
      << conditions.repairs << (conditions.repairs == 1 ? " repair" : " repairs")
      << " of cpusets that somebody else had changed:\n";
  for (size_t i = 0; i < std::min(conditions.last_repairs.size(), kRepairsShown); ++i) {
    const control::ConditionReport& repair = conditions.last_repairs[i];
    out << "  " << UtcTime(repair.last_unix_ms) << "  " << NameOf(repair) << " was " << repair.was
        << ", should be " << repair.should << ": put back within " << repair.noticed_ms
        << " ms of that being noticed, " << repair.lasted_ms
        << " ms after it was last seen to be right\n";
  }
}

}  // namespace

void PrintStatus(const control::StatusReport& report, std::ostream& out) {
  const control::Policies& policies = report.policies;
  out << "alignd " << report.version << ", generation " << report.generation << '\n'
      << "CPU manager:      " << policies.cpu_manager
      << DescribeOptions(policies.cpu_manager_options) << '\n'
      << "memory manager:   " << policies.memory_manager << '\n'
      << "topology manager: " << policies.topology_manager << ", scope " << policies.topology_scope
      << ", as kubelet " << policies.compatibility
      << DescribeOptions(policies.topology_manager_options) << '\n'
      << "shared pool:      CPUs " << OrDash(report.default_set.ToString()) << ", reserved "
      << OrDash(report.reserved_cpus.ToString()) << "\n\nfree:\n";
  for (const admission::NumaAvailability& room : report.numa) {
    out << "  " << admission::DescribeAvailable({room}) << '\n';
  }
  for (const control::DeviceResource& resource : report.devices) {
    out << "  " << resource.name << ": " << resource.healthy.free << " of "
        << resource.healthy.total;
    if (resource.unhealthy > 0) out << ", " << resource.unhealthy << " unhealthy";
    out << (resource.registered ? "\n" : ", its plugin is not there\n");
  }
  PrintConditions(report.conditions, out);
  if (report.containers.empty()) {
    out << "\nno container holds anything\n";
    return;
  }
  out << "\nheld:\n";
  std::vector<Row> rows = {{"POD", "CONTAINER", "CPUS", "MEMORY", "DEVICES"}};
  for (const ContainerReport& container : report.containers) {
    rows.push_back(
        {container.pod.empty() ? container.pod_uid : container.pod + " (" + container.pod_uid + ")",
         container.container,
         container.exclusive.empty() ? "shared" : container.exclusive.ToString(),
         container.memory_nodes.empty() ? "any" : "NUMA " + Joined(container.memory_nodes),
         OrDash(DescribeDevices(container))});
  }
  PrintTable(rows, out);
}

void PrintExplanations(const std::vector<ContainerExplanation>& containers,
                       const std::string& indent, std::ostream& out) {
  for (size_t i = 0; i < containers.size(); ++i) {
    out << indent << containers[i].container << ":";
    if (i > 0 && SameExplanation(containers[i - 1], containers[i])) {
      out << " as " << containers[i - 1].container << '\n';
      continue;
    }
    out << '\n';
    PrintExplanation(containers[i], indent + "  ", out);
  }
}

void PrintLegend(std::ostream& out) { out << "{..}: NUMA nodes; !: preferred\n"; }

void PrintDecisions(const std::vector<DecisionReport>& decisions, std::ostream& out) {
  if (decisions.empty()) {
    out << "no decision is known\n";
    return;
  }
  for (const DecisionReport& decision : decisions) {
    PrintDecision(decision, out);
    out << '\n';
  }
  PrintLegend(out);
}

}  // namespace alignd::cli
