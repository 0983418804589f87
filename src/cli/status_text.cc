// The status as text: one screen.
#include <google/protobuf/repeated_field.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <ostream>
#include <string_view>
#include <vector>

#include "alignd/base/counted.h"
#include "alignd/base/cpu_set.h"
#include "cli/message_text.h"
#include "cli/output.h"
#include "cli/refusal_text.h"
#include "cli/report_text.h"
#include "cli/topology_tree.h"
#include "control/health.h"
#include "reconcile/conditions.h"

namespace alignd::cli {
namespace {

namespace v1 = control::v1;
using google::protobuf::Map;
using google::protobuf::RepeatedPtrField;
using std::chrono::milliseconds;

constexpr size_t kMaxTextShown = 160;  // of one message; `wide` shows all

std::string DescribeOptions(const Map<std::string, std::string>& options) {
  std::string text;
  const std::map<std::string, std::string> sorted(options.begin(), options.end());
  for (const auto& [name, value] : sorted) {
    text += (text.empty() ? " (" : ", ") + name + "=" + value;
  }
  return text.empty() ? text : text + ")";
}

std::string Age(const v1::GetStatusResponse& status, int64_t since_unix_ms) {
  return ReadableDuration(milliseconds(status.time_unix_ms() - since_unix_ms));
}

std::string InOneLine(const std::vector<std::string>& entries, std::string_view between) {
  std::string text;
  for (const std::string& entry : entries) {
    if (!text.empty()) text += between;
    text += entry;
  }
  return text;
}

std::string Shortened(const std::string& text, bool wide) {
  if (wide || text.size() <= kMaxTextShown) return text;
  size_t end = kMaxTextShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // whole letters
  return text.substr(0, end) + " ... (-o wide)";
}

void PrintHealth(const v1::GetStatusResponse& status, std::ostream& out) {
  const std::vector<std::string> problems = control::ProblemsOf(status);
  out << "alignd " << status.version();
  if (!status.node().empty()) out << " on " << status.node();
  out << ": ";
  if (problems.empty()) {
    out << Coloured{Colour::kGreen, "healthy"};
  } else {
    out << Coloured{Colour::kRed, "degraded"};
  }
  if (status.started_unix_ms() > 0) out << ", up " << Age(status, status.started_unix_ms());
  out << ", generation " << status.generation() << '\n';
  for (const std::string& problem : problems) {
    out << "  " << Coloured{Colour::kRed, problem} << '\n';
  }
  if (!status.decisions_not_saved().empty()) {
    out << "decisions:        not saved for alignctl explain: " << status.decisions_not_saved()
        << '\n';
  }
}

void PrintPolicies(const v1::GetStatusResponse& status, std::ostream& out) {
  const v1::Policies& policies = status.policies();
  out << "CPU manager:      " << policies.cpu_manager()
      << DescribeOptions(policies.cpu_manager_options()) << '\n'
      << "memory manager:   " << policies.memory_manager() << '\n'
      << "topology manager: " << policies.topology_manager() << ", scope "
      << policies.topology_scope() << ", as kubelet " << policies.compatibility()
      << DescribeOptions(policies.topology_manager_options()) << '\n'
      << "shared pool:      CPUs " << OrDash(status.default_set()) << ", reserved "
      << OrDash(status.reserved_cpus()) << '\n';
  if (!status.offline_cpus().empty()) {
    out << "offline:          CPUs " << status.offline_cpus() << '\n';
  }
}

// The CPUs of a NUMA node, each once. `shared`: those that back what containers request that stay
// there.
struct NumaCpus {
  CpuSet reserved;
  CpuSet exclusive;
  CpuSet shared;
  CpuSet offline;
  CpuSet free;
};

// The lists are valid, as in an answer of ControlClient.
NumaCpus CpusOf(const v1::NumaNode& node, const CpuSet& offline) {
  NumaCpus cpus;
  cpus.reserved = *CpuSet::Parse(node.reserved_cpus());
  cpus.exclusive = *CpuSet::Parse(node.exclusive_cpus());
  cpus.free = *CpuSet::Parse(node.free_cpus());
  const CpuSet others =
      *CpuSet::Parse(node.all_cpus()) - cpus.reserved - cpus.exclusive - cpus.free;
  cpus.offline = others & offline;
  cpus.shared = others - offline;
  return cpus;
}

// One character for each CPU, up to kMaxBar; beyond that in proportion, with at least one character
// for each kind that there is. The largest kind takes what rounding leaves, so that a long bar has
// kMaxBar characters.
std::string BarOf(const NumaCpus& cpus) {
  constexpr int kMaxBar = 40;
  const std::array<std::pair<char, int>, 5> kinds = {{{'r', cpus.reserved.Count()},
                                                      {'#', cpus.exclusive.Count()},
                                                      {'s', cpus.shared.Count()},
                                                      {'-', cpus.offline.Count()},
                                                      {'.', cpus.free.Count()}}};
  int all = 0;
  for (const auto& [sign, count] : kinds) all += count;
  const auto width_of = [all](int count) {
    return all <= kMaxBar ? count : std::max(count > 0 ? 1 : 0, count * kMaxBar / all);
  };
  int missing = std::min(all, kMaxBar);
  for (const auto& [sign, count] : kinds) missing -= width_of(count);
  const auto largest = std::ranges::max_element(kinds, {}, &std::pair<char, int>::second);
  std::string bar;
  for (auto kind = kinds.begin(); kind != kinds.end(); ++kind) {
    const int wide = width_of(kind->second) + (kind == largest ? missing : 0);
    bar += std::string(static_cast<size_t>(wide), kind->first);
  }
  return bar;
}

std::string CountAndList(const CpuSet& cpus) {
  return std::to_string(cpus.Count()) + (cpus.empty() ? "" : " (" + cpus.ToString() + ")");
}

// "memory 1 GiB free of 2 GiB, hugepages-2Mi 0 B free of 1 GiB".
std::string DescribeMemory(const v1::NumaNode& node) {
  std::string text;
  const std::map<std::string, v1::Availability> assigned(node.memory().begin(),
                                                         node.memory().end());
  for (const auto& [type, amount] : assigned) {
    text += (text.empty() ? "" : ", ") + type + " " + ReadableBytes(amount.free()) + " free of " +
            ReadableBytes(amount.total());
  }
  if (!assigned.empty()) return text;
  const std::map<std::string, uint64_t> capacity(node.memory_capacity().begin(),
                                                 node.memory_capacity().end());
  for (const auto& [type, bytes] : capacity) {
    text += (text.empty() ? "" : ", ") + type + " " + ReadableBytes(bytes);
  }
  return text.empty() ? text : text + " (not assigned)";
}

void PrintNumaNode(const v1::NumaNode& node, const CpuSet& offline, std::ostream& out) {
  out << "  NUMA node " << node.id() << ": ";
  const NumaCpus cpus = CpusOf(node, offline);
  if (cpus.exclusive.empty() && cpus.free.empty() && cpus.reserved.empty()) {
    const char* const shared = node.cpus() == 1 ? ", shared" : ", all shared";
    out << Counted(node.cpus(), "CPU") << (node.cpus() == 0 ? "" : shared) << '\n';
  } else {
    out << '[' << BarOf(cpus) << "] " << cpus.free.Count() << " of " << Counted(node.cpus(), "CPU")
        << " free" << (cpus.free.empty() ? "" : " (" + cpus.free.ToString() + ")") << ", exclusive "
        << CountAndList(cpus.exclusive) << ", reserved " << CountAndList(cpus.reserved);
    if (!cpus.shared.empty()) out << ", shared " << CountAndList(cpus.shared);
    if (!cpus.offline.empty()) out << ", offline " << CountAndList(cpus.offline);
    out << '\n';
  }
  if (node.has_shared_millis()) {
    out << "    shared CPU for containers that stay here: " << node.shared_millis().free()
        << "m free of " << node.shared_millis().total() << "m\n";
  }
  if (const std::string memory = DescribeMemory(node); !memory.empty()) {
    out << "    " << memory << '\n';
  }
  const std::map<std::string, v1::Availability> devices(node.devices().begin(),
                                                        node.devices().end());
  for (const auto& [resource, amount] : devices) {
    out << "    " << resource << " " << amount.free() << " free of "
        << amount.total() + amount.unhealthy() << '\n';
  }
}

void PrintDevices(const v1::GetStatusResponse& status, std::ostream& out) {
  if (!status.devices().empty()) out << "\ndevice plugins:\n";
  for (const v1::DeviceResource& resource : status.devices()) {
    out << "  " << resource.name() << ": " << resource.healthy().free() << " free of "
        << resource.healthy().total() + resource.unhealthy();
    if (resource.unhealthy() > 0) {
      out << ", " << Coloured{Colour::kRed, std::to_string(resource.unhealthy()) + " unhealthy"};
    }
    if (resource.disconnected_unix_ms() > 0) {
      out << ", "
          << Coloured{Colour::kRed, "its plugin is disconnected since " +
                                        IsoTime(resource.disconnected_unix_ms())};
    } else if (!resource.registered()) {
      out << ", " << Coloured{Colour::kRed, "its plugin is not registered"};
    }
    out << '\n';
  }
}

// Not `wide`: why the pod does not fit, and what would help. What is free is above.
void PrintMessage(const v1::PendingPod& pod, bool wide, std::ostream& out) {
  const std::vector<RefusalPart> parts = PartsOfRefusal(pod.message());
  if (!pod.reason().empty()) out << pod.reason() << ": ";
  out << Shortened(parts.front().entries.front(), wide) << '\n';
  for (size_t i = 1; i < parts.size(); ++i) {
    RefusalPart part = parts[i];
    const bool is_short =
        part.label == "requested" || part.label == "cause" || part.label == "what would help";
    if (!wide && !is_short) continue;
    if (!wide) part.entries = {Shortened(InOneLine(part.entries, "; "), wide)};
    PrintPart(part, "    ", out);
  }
}

void PrintPendingPod(const v1::GetStatusResponse& status, const v1::PendingPod& pod, bool wide,
                     std::ostream& out) {
  out << "  pod " << pod.pod();
  if (!pod.container().empty()) out << ", container " << pod.container();
  out << ": " << Coloured{Colour::kYellow, pod.state()} << " for "
      << Age(status, pod.first_unix_ms());
  if (pod.position() > 0) out << ", position " << pod.position() << " in the queue";
  if (pod.times() > 1) out << " (" << pod.times() << " times)";
  if (pod.until_unix_ms() > 0) {
    out << ", at most "
        << ReadableDuration(milliseconds(pod.until_unix_ms() - status.time_unix_ms())) << " more";
  }
  out << ": ";
  PrintMessage(pod, wide, out);
}

// Not `wide`: the first ones, of which those that wait come last.
void PrintPending(const v1::GetStatusResponse& status, bool wide, std::ostream& out) {
  constexpr size_t kPodsShown = 8;
  if (!status.pending().empty()) out << "\npending:\n";
  std::vector<const v1::PendingPod*> pods;
  for (const v1::PendingPod& pod : status.pending()) pods.push_back(&pod);
  std::stable_partition(pods.begin(), pods.end(), [wide](const v1::PendingPod* pod) {
    return wide || pod->state() != "waiting";
  });
  const size_t shown = wide ? pods.size() : std::min(pods.size(), kPodsShown);
  for (size_t i = 0; i < shown; ++i) PrintPendingPod(status, *pods[i], wide, out);
  if (shown < pods.size()) out << "  and " << pods.size() - shown << " more (-o wide)\n";
}

std::string DescribeTimes(const v1::Condition& condition) {
  if (condition.times() < 2) return "";
  return " (" + std::to_string(condition.times()) + " times, last seen " +
         IsoTime(condition.last_unix_ms()) + ")";
}

// Not `wide`: the first ones of each type.
void PrintConditions(const RepeatedPtrField<v1::Condition>& conditions, bool wide,
                     std::ostream& out) {
  constexpr size_t kShownOfType = 5;
  if (!conditions.empty()) out << "\nconditions:\n";
  std::map<std::string, size_t> counts;
  for (const v1::Condition& condition : conditions) {
    if (++counts[condition.type()] > kShownOfType && !wide) continue;
    const std::string subject = reconcile::NameOf(
        {condition.container_id(), {condition.pod_uid(), condition.container()}, condition.pod()});
    out << "  " << Coloured{Colour::kYellow, condition.type()} << " since "
        << IsoTime(condition.first_unix_ms()) << DescribeTimes(condition) << ": " << subject
        << (subject.empty() ? "" : ": ") << condition.message() << '\n';
    if (!condition.remedy().empty()) out << "    What to do: " << condition.remedy() << '\n';
  }
  for (const auto& [type, count] : counts) {
    if (count <= kShownOfType || wide) continue;
    out << "  " << type << ": " << count - kShownOfType << " more (-o wide)\n";
  }
}

void PrintAssigned(const v1::GetStatusResponse& status, bool wide, std::ostream& out) {
  if (status.containers().empty()) {
    out << "\nno container is assigned anything\n";
    return;
  }
  if (!wide) {
    out << "\nassigned: " << status.containers_size()
        << (status.containers_size() == 1 ? " container" : " containers")
        << " (alignctl pods, or -o wide)\n";
    return;
  }
  out << "\nassigned:\n";
  std::vector<std::vector<std::string>> rows = {{"POD", "CONTAINER", "CPUS", "MEMORY", "DEVICES"}};
  for (const v1::ContainerAssignment& container : status.containers()) {
    rows.push_back(
        {container.pod().empty() ? container.pod_uid()
                                 : container.pod() + " (" + container.pod_uid() + ")",
         container.container(),
         !container.exclusive_cpus().empty() ? container.exclusive_cpus()
         : !container.pod_cpus().empty()     ? "pod's " + container.pod_cpus()
                                             : "shared" + OfNode(container),
         container.memory_nodes().empty() ? "any" : "NUMA " + Joined(container.memory_nodes()),
         OrDash(DescribeAssignedDevices(container))});
  }
  PrintTable(rows, out);
}

void PrintWholePods(const v1::GetStatusResponse& status, std::ostream& out) {
  if (status.whole_pods().empty()) return;
  out << "\npods with CPUs or memory as a whole:\n";
  for (const v1::WholePod& pod : status.whole_pods()) {
    out << "  " << (pod.pod().empty() ? pod.pod_uid() : pod.pod()) << ": " << DescribeWholePod(pod)
        << '\n';
  }
}

}  // namespace

void PrintStatus(const v1::GetStatusResponse& report, bool wide, std::ostream& out) {
  v1::GetStatusResponse status = report;
  MakePrintable(status);
  PrintHealth(status, out);
  PrintPolicies(status, out);
  const CpuSet offline = *CpuSet::Parse(status.offline_cpus());
  const auto has_shared = [](const v1::NumaNode& node) { return node.has_shared_millis(); };
  const bool knows_shared = std::ranges::any_of(status.numa(), has_shared);
  out << "\nfree (#: exclusive, .: free and used by the shared pool, r: reserved"
      << (knows_shared ? ", s: kept for what containers request that stay there" : "")
      << (offline.empty() ? "" : ", -: offline") << "):\n";
  for (const v1::NumaNode& node : status.numa()) PrintNumaNode(node, offline, out);
  PrintDevices(status, out);
  PrintPending(status, wide, out);
  PrintConditions(status.conditions(), wide, out);
  PrintAssigned(status, wide, out);
  PrintWholePods(status, out);
}

}  // namespace alignd::cli
