#include "cli/report_text.h"

#include <algorithm>
#include <ostream>
#include <vector>

#include "allocation/requested_resize.h"
#include "cli/message_text.h"
#include "cli/output.h"
#include "cli/refusal_text.h"

namespace alignd::cli {
namespace {

namespace v1 = control::v1;
using google::protobuf::RepeatedPtrField;

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
  std::string text = !assignment.exclusive_cpus().empty() ? "CPUs " + assignment.exclusive_cpus()
                     : !assignment.pod_cpus().empty()
                         ? "CPUs " + assignment.pod_cpus() + " shared in its pod"
                         : "shared CPUs" + OfNode(assignment);
  if (!assignment.memory_nodes().empty()) {
    text += ", memory of NUMA " + Joined(assignment.memory_nodes());
  }
  if (!assignment.devices().empty()) text += ", " + DescribeAssignedDevices(assignment);
  return text;
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

void PrintDecision(const v1::PodDecision& decision, bool knows_queue, std::ostream& out) {
  out << IsoTime(decision.time_unix_ms()) << "  pod " << decision.pod_namespace() << "/"
      << decision.pod_name() << " (" << decision.pod_uid() << ") " << decision.outcome();
  const bool has_waited = decision.outcome() == "waiting" && !decision.reason().empty();
  if (decision.position() > 0) {
    out << ", position " << decision.position() << " in the queue";
  } else if (has_waited && knows_queue) {
    out << ", no place in the queue now";
  }
  if (decision.times() > 1) out << ", " << decision.times() << " times in a row";
  out << '\n';
  if (!decision.message().empty()) {
    PrintRefusal(decision.reason(), decision.message(), "  ", out);
  }
  const std::vector<RefusalPart> parts = PartsOfRefusal(decision.message());
  if (!decision.asked().empty() && !HasPart(parts, "requested")) {
    out << "  requested: " << decision.asked() << '\n';
  }
  if (!decision.source().empty()) out << "  source: " << decision.source() << '\n';
  if (!decision.available().empty() && !HasPart(parts, "free")) {
    out << "  free: " << decision.available() << '\n';
  }
  PrintExplanations(decision.containers(), "  ", out);
  // A resize is decided without hints.
  const bool is_resize = decision.source() == allocation::kInPlaceResize;
  if (decision.outcome() == "admitted" && decision.containers().empty() && !is_resize) {
    out << "  nothing to decide: the pod needs no alignment, or is assigned its resources "
           "already\n";
  }
  for (const v1::ContainerAssignment& assignment : decision.assignments()) {
    out << "  assigned to " << assignment.container() << ": " << DescribeAssignment(assignment)
        << '\n';
  }
}

}  // namespace

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

void PrintDecisions(const v1::ExplainResponse& report, bool knows_queue, std::ostream& out) {
  v1::ExplainResponse explained = report;
  MakePrintable(explained);
  if (explained.decisions().empty()) {
    out << "no decision is known\n";
    return;
  }
  for (const v1::PodDecision& decision : explained.decisions()) {
    PrintDecision(decision, knows_queue, out);
    out << '\n';
  }
  // A refused resize has no hints.
  const bool has_hints = std::ranges::any_of(
      explained.decisions(),
      [](const v1::PodDecision& decision) { return decision.containers_size() > 0; });
  if (has_hints) PrintLegend(out);
}

}  // namespace alignd::cli
