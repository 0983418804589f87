// Pods, and what would let one fit, as text.
#include <chrono>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/message_text.h"
#include "cli/output.h"
#include "cli/refusal_text.h"
#include "cli/report_text.h"

namespace alignd::cli {
namespace {

namespace v1 = control::v1;

std::string CpusOf(const v1::ContainerAssignment& container, bool wide) {
  if (!container.exclusive_cpus().empty()) return container.exclusive_cpus();
  if (!container.pod_cpus().empty()) return "pod's " + container.pod_cpus();
  if (container.cpus().empty()) return "any";
  return (wide ? "shared " + container.cpus() : "shared") + OfNode(container);
}

std::string NodesOf(const google::protobuf::RepeatedField<int32_t>& nodes) {
  return nodes.empty() ? "any" : Joined(nodes);
}

std::string NameOf(const v1::PodReport& pod) {
  return pod.pod_name().empty() ? pod.pod_uid() : pod.pod_namespace() + "/" + pod.pod_name();
}

std::string DevicesOf(const v1::ContainerAssignment& container) {
  std::string text = DescribeAssignedDevices(container);
  const std::string claimed = DescribeClaimedDevices(container.claimed_devices());
  if (!text.empty() && !claimed.empty()) text += ", ";
  return text + claimed;
}

// What is not in a row of the table.
void PrintOfWholePods(const v1::ListPodsResponse& pods, std::ostream& out) {
  for (const v1::PodReport& pod : pods.pods()) {
    const std::string name = NameOf(pod);
    if (pod.has_whole()) out << name << " as a whole: " << DescribeWholePod(pod.whole()) << '\n';
    if (pod.claimed_devices().empty()) continue;
    out << name << " has claimed devices of which the container is not known: "
        << DescribeClaimedDevices(pod.claimed_devices()) << '\n';
  }
  if (pods.claims_error().empty()) return;
  out << "claimed devices are not shown: " << pods.claims_error() << '\n';
}

// A pod with a sandbox is in the table as well.
void PrintWaiting(const v1::ListPodsResponse& pods, std::ostream& out) {
  if (pods.waiting().empty()) return;
  out << "\nwaiting for resources of other pods:\n";
  std::vector<std::vector<std::string>> rows = {{"POSITION", "POD", "PRIORITY", "AGE", "REASON"}};
  for (const v1::PendingPod& pod : pods.waiting()) {
    const std::chrono::milliseconds age(pods.time_unix_ms() - pod.first_unix_ms());
    rows.push_back({std::to_string(pod.position()), pod.pod(), std::to_string(pod.priority()),
                    ReadableDuration(age), pod.reason()});
  }
  PrintTable(rows, out);
}

}  // namespace

void PrintPods(const v1::ListPodsResponse& report, bool wide, std::ostream& out) {
  v1::ListPodsResponse pods = report;
  MakePrintable(pods);
  if (pods.pods().empty()) {
    out << "no pod runs or is assigned anything\n";
    return PrintWaiting(pods, out);
  }
  std::vector<std::vector<std::string>> rows = {
      {"POD", "CONTAINER", "CPUS", "NUMA", "MEMORY", "DEVICES", "SOURCE"}};
  if (wide) rows.front().insert(rows.front().begin() + 1, "UID");
  for (const v1::PodReport& pod : pods.pods()) {
    const std::string name = NameOf(pod);
    if (pod.containers().empty()) {  // its sandbox alone
      rows.push_back({name, "-", "-", "-", "-", "-", OrDash(pod.source())});
      if (wide) rows.back().insert(rows.back().begin() + 1, pod.pod_uid());
    }
    for (const v1::ContainerAssignment& container : pod.containers()) {
      std::vector<std::string>& row = rows.emplace_back(std::vector<std::string>{
          name, container.container(), CpusOf(container, wide), NodesOf(container.cpu_nodes()),
          NodesOf(container.memory_nodes()), OrDash(DevicesOf(container)), OrDash(pod.source())});
      if (wide) row.insert(row.begin() + 1, pod.pod_uid());
    }
  }
  PrintTable(rows, out);
  PrintOfWholePods(pods, out);
  PrintWaiting(pods, out);
}

void PrintWhyNot(const v1::WhyNotResponse& report, std::ostream& out) {
  v1::WhyNotResponse why = report;
  MakePrintable(why);
  const bool has_failed = why.reason() == "failed";
  const char* const not_now = has_failed ? "its last request failed" : "does not fit now";
  out << "pod " << why.pod() << ": "
      << (why.fits() ? Coloured{Colour::kGreen, "fits now"} : Coloured{Colour::kRed, not_now})
      << '\n';
  const bool has_request = HasPart(PartsOfRefusal(why.message()), "requested");
  if (!why.asked().empty() && !has_request) out << "  requested: " << why.asked() << '\n';
  if (why.fits()) return;
  PrintRefusal(why.reason(), why.message(), "  ", out);
  if (has_failed) {
    out << "the node has enough free: remove the cause of this error\n";
  } else if (why.changes().empty()) {
    out << "no single change was found with which it fits\n";
  }
  // These two kinds come first.
  std::string_view above;
  for (const v1::Change& change : why.changes()) {
    const bool is_first = change.kind() == "repair-devices" || change.kind() == "wait-for-pods";
    const std::string_view heading = is_first
                                         ? "first, because nothing else helps before:"
                                         : "each of these changes lets it fit, the smallest first:";
    if (heading != above) out << heading << '\n';
    above = heading;
    out << "  " << change.kind() << ": " << change.what() << '\n';
  }
  if (!why.is_complete()) out << "the search ended at its time limit: there may be more changes\n";
}

}  // namespace alignd::cli
