#include "cli/report_text.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <ostream>
#include <string_view>
#include <vector>

#include "alignd/admission/explanation.h"
#include "alignd/base/cpu_set.h"
#include "host/printable.h"
#include "reconcile/conditions.h"

namespace alignd::cli {
namespace {

namespace v1 = control::v1;
using google::protobuf::Map;
using google::protobuf::RepeatedField;
using google::protobuf::RepeatedPtrField;
using Row = std::array<std::string, 5>;

// Makes every text in the message printable: a line end in the name of a pod or in the error of a
// plugin must not look like a line of the report.
void MakePrintable(google::protobuf::Message& message) {
  const google::protobuf::Reflection& fields = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> set;
  fields.ListFields(message, &set);
  for (const google::protobuf::FieldDescriptor* field : set) {
    const bool is_text = field->cpp_type() == field->CPPTYPE_STRING;
    const bool is_message = field->cpp_type() == field->CPPTYPE_MESSAGE;
    if (!field->is_repeated()) {
      if (is_message) MakePrintable(*fields.MutableMessage(&message, field));
      if (is_text) {
        fields.SetString(&message, field, host::Printable(fields.GetString(message, field)));
      }
      continue;
    }
    for (int i = 0; i < fields.FieldSize(message, field); ++i) {
      if (is_message) MakePrintable(*fields.MutableRepeatedMessage(&message, field, i));
      if (!is_text) continue;
      const std::string text = fields.GetRepeatedString(message, field, i);
      fields.SetRepeatedString(&message, field, i, host::Printable(text));
    }
  }
}

template <typename Number>
std::string Joined(const RepeatedField<Number>& numbers) {
  std::string text;
  for (const Number number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string DescribeDevices(const v1::ContainerAssignment& container) {
  std::string text;
  for (const v1::AssignedDevices& assigned : container.devices()) {
    text += (text.empty() ? "" : ", ") + assigned.resource();
    for (const v1::Device& device : assigned.devices()) {
      text += " " + device.id();
      if (!device.numa().empty()) text += " (NUMA " + Joined(device.numa()) + ")";
      if (!device.kubelet_id().empty()) text += " (kubelet: " + device.kubelet_id() + ")";
      if (!device.problem().empty()) text += " [" + device.problem() + "]";
    }
  }
  return text;
}

std::string DescribeOptions(const Map<std::string, std::string>& options) {
  std::string text;
  const std::map<std::string, std::string> sorted(options.begin(), options.end());
  for (const auto& [name, value] : sorted) {
    text += (text.empty() ? " (" : ", ") + name + "=" + value;
  }
  return text.empty() ? text : text + ")";
}

std::map<std::string, admission::Availability> AvailabilityOf(
    const Map<std::string, v1::Availability>& messages) {
  std::map<std::string, admission::Availability> availability;
  for (const auto& [name, message] : messages) {
    availability[name] = {message.free(), message.total()};
  }
  return availability;
}

std::string DescribeNode(const v1::NumaNode& node) {
  return admission::DescribeAvailable({{.numa_id = node.id(),
                                        .free_cpus = *CpuSet::Parse(node.free_cpus()),
                                        .cpus = static_cast<int>(node.cpus()),
                                        .memory = AvailabilityOf(node.memory()),
                                        .devices = AvailabilityOf(node.devices())}});
}

// Columns have the width of their widest cell; the last one is not padded.
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

std::string DescribeHint(const v1::Hint& hint) {
  return (hint.any() ? "any" : "{" + Joined(hint.numa()) + "}") + (hint.preferred() ? "!" : "");
}

std::string DescribeHints(const v1::ResourceHints& hints) {
  if (hints.no_opinion()) return "any!";
  if (hints.hints().empty()) return "fits nowhere";
  std::string text;
  for (const v1::Hint& hint : hints.hints()) text += (text.empty() ? "" : " ") + DescribeHint(hint);
  if (hints.left_out() > 0) text += " and " + std::to_string(hints.left_out()) + " more";
  return text;
}

std::string DescribeAssignment(const v1::ContainerAssignment& assignment) {
  std::string text =
      assignment.exclusive_cpus().empty() ? "shared CPUs" : "CPUs " + assignment.exclusive_cpus();
  if (!assignment.memory_nodes().empty()) {
    text += ", memory of NUMA " + Joined(assignment.memory_nodes());
  }
  if (!assignment.devices().empty()) text += ", " + DescribeDevices(assignment);
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

void PrintExplanation(const v1::ContainerDecision& container, const std::string& indent,
                      std::ostream& out) {
  for (const v1::ResourceHints& hints : container.hints()) {
    out << indent << hints.resource() << ": " << DescribeHints(hints) << '\n';
  }
  if (!container.has_merged()) {
    out << indent << "not aligned: topologyManagerPolicy is none\n";
    return;
  }
  out << indent << "merged: " << DescribeHint(container.merged()) << '\n';
  for (const v1::Candidate& candidate : container.candidates()) {
    out << indent << "  " << DescribeHint(candidate.hint()) << ": " << candidate.verdict() << '\n';
  }
  if (container.candidates_left_out() > 0) {
    out << indent << "  and " << container.candidates_left_out() << " more\n";
  }
  for (const std::string& note : container.notes()) out << indent << "  " << note << '\n';
}

// Apart from the name of the container.
bool IsSameExplanation(v1::ContainerDecision a, const v1::ContainerDecision& b) {
  a.set_container(b.container());
  return a.SerializeAsString() == b.SerializeAsString();
}

void PrintDecision(const v1::PodDecision& decision, std::ostream& out) {
  out << UtcTime(decision.time_unix_ms()) << "  pod " << decision.pod_namespace() << "/"
      << decision.pod_name() << " (" << decision.pod_uid() << ") " << decision.outcome();
  if (decision.times() > 1) out << ", " << decision.times() << " times in a row";
  out << '\n';
  if (!decision.message().empty()) {
    out << "  " << (decision.reason().empty() ? "" : decision.reason() + ": ") << decision.message()
        << '\n';
  }
  if (!decision.asked().empty()) out << "  requested: " << decision.asked() << '\n';
  if (!decision.source().empty()) out << "  source: " << decision.source() << '\n';
  if (!decision.available().empty()) out << "  free: " << decision.available() << '\n';
  PrintExplanations(decision.containers(), "  ", out);
  if (decision.outcome() == "admitted" && decision.containers().empty()) {
    out << "  nothing to decide: the pod needs no alignment, or is assigned its resources "
           "already\n";
  }
  for (const v1::ContainerAssignment& assignment : decision.assignments()) {
    out << "  assigned to " << assignment.container() << ": " << DescribeAssignment(assignment)
        << '\n';
  }
}

std::string DescribeTimes(const v1::Condition& condition) {
  if (condition.times() < 2) return "";
  return " (" + std::to_string(condition.times()) + " times, last seen " +
         UtcTime(condition.last_unix_ms()) + ")";
}

void PrintConditions(const RepeatedPtrField<v1::Condition>& conditions, std::ostream& out) {
  constexpr size_t kRepairsShown = 5;
  const std::string_view repaired = ToString(reconcile::ConditionType::kCpusetRepaired);
  if (!conditions.empty()) out << "\nconditions:\n";
  size_t repairs = 0;
  for (const v1::Condition& condition : conditions) {
    if (condition.type() == repaired && ++repairs > kRepairsShown) continue;
    const std::string subject = reconcile::NameOf(
        {condition.container_id(), {condition.pod_uid(), condition.container()}, condition.pod()});
    out << "  " << condition.type() << " since " << UtcTime(condition.first_unix_ms())
        << DescribeTimes(condition) << ": " << subject << (subject.empty() ? "" : ": ")
        << condition.message() << '\n';
    if (!condition.remedy().empty()) out << "    What to do: " << condition.remedy() << '\n';
  }
  if (repairs > kRepairsShown) {
    out << "  " << repaired << ": " << repairs - kRepairsShown << " more containers\n";
  }
}

}  // namespace

void PrintStatus(const v1::GetStatusResponse& report, std::ostream& out) {
  v1::GetStatusResponse status = report;
  MakePrintable(status);
  const v1::Policies& policies = status.policies();
  out << "alignd " << status.version() << ", generation " << status.generation() << '\n'
      << "CPU manager:      " << policies.cpu_manager()
      << DescribeOptions(policies.cpu_manager_options()) << '\n'
      << "memory manager:   " << policies.memory_manager() << '\n'
      << "topology manager: " << policies.topology_manager() << ", scope "
      << policies.topology_scope() << ", as kubelet " << policies.compatibility()
      << DescribeOptions(policies.topology_manager_options()) << '\n'
      << "shared pool:      CPUs " << OrDash(status.default_set()) << ", reserved "
      << OrDash(status.reserved_cpus()) << "\n\nfree:\n";
  for (const v1::NumaNode& node : status.numa()) out << "  " << DescribeNode(node) << '\n';
  for (const v1::DeviceResource& resource : status.devices()) {
    out << "  " << resource.name() << ": " << resource.healthy().free() << " of "
        << resource.healthy().total();
    if (resource.unhealthy() > 0) out << ", " << resource.unhealthy() << " unhealthy";
    out << (resource.registered() ? "\n" : ", its plugin is not registered\n");
  }
  PrintConditions(status.conditions(), out);
  if (status.containers().empty()) {
    out << "\nno container is assigned anything\n";
    return;
  }
  out << "\nassigned:\n";
  std::vector<Row> rows = {{"POD", "CONTAINER", "CPUS", "MEMORY", "DEVICES"}};
  for (const v1::ContainerAssignment& container : status.containers()) {
    rows.push_back(
        {container.pod().empty() ? container.pod_uid()
                                 : container.pod() + " (" + container.pod_uid() + ")",
         container.container(),
         container.exclusive_cpus().empty() ? "shared" : container.exclusive_cpus(),
         container.memory_nodes().empty() ? "any" : "NUMA " + Joined(container.memory_nodes()),
         OrDash(DescribeDevices(container))});
  }
  PrintTable(rows, out);
}

void PrintExplanations(const RepeatedPtrField<v1::ContainerDecision>& containers,
                       const std::string& indent, std::ostream& out) {
  const v1::ContainerDecision* before = nullptr;
  for (const v1::ContainerDecision& container : containers) {
    out << indent << container.container() << ":";
    if (before != nullptr && IsSameExplanation(*before, container)) {
      out << " as " << before->container() << '\n';
    } else {
      out << '\n';
      PrintExplanation(container, indent + "  ", out);
    }
    before = &container;
  }
}

void PrintLegend(std::ostream& out) { out << "{..}: NUMA nodes; !: preferred\n"; }

void PrintDecisions(const v1::ExplainResponse& report, std::ostream& out) {
  v1::ExplainResponse explained = report;
  MakePrintable(explained);
  if (explained.decisions().empty()) {
    out << "no decision is known\n";
    return;
  }
  for (const v1::PodDecision& decision : explained.decisions()) {
    PrintDecision(decision, out);
    out << '\n';
  }
  PrintLegend(out);
}

}  // namespace alignd::cli
