#include "cli/fit_text.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/base/counted.h"
#include "cli/output.h"
#include "cli/pod_plan.h"
#include "cli/refusal_text.h"
#include "host/printable.h"

namespace alignd::cli {
namespace {

using placement::FitEntry;
using placement::FitReport;
using placement::FitResult;
using placement::RefusingNodes;
// Of texts that have parts of objects: line ends in them would be lines of the answer.
using host::Printable;

// What a list shows of many nodes.
constexpr size_t kShownScores = 10;
constexpr size_t kShownNames = 3;

std::string Nodes(size_t count) {
  return std::to_string(count) + (count == 1 ? " node" : " nodes");
}

// "w1, w2, w3 and 409 more".
std::string ShownNames(const std::vector<std::string>& names, bool wide) {
  const size_t shown = wide ? names.size() : std::min(names.size(), kShownNames);
  std::string text;
  for (size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + names[i];
  if (shown < names.size()) text += " and " + std::to_string(names.size() - shown) + " more";
  return text;
}

std::string ReasonOf(const RefusingNodes& refusal) {
  return refusal.group.outcome == placement::Outcome::kUndecided
             ? "cannot be decided"
             : "refused by " + std::string(ToString(refusal.group.stage));
}

void PrintRefusals(const std::vector<std::string>& names,
                   const std::vector<RefusingNodes>& refusals, bool wide, std::ostream& out) {
  for (const RefusingNodes& refusal : refusals) {
    std::vector<std::string> of_group;
    for (const size_t node : refusal.group.nodes) of_group.push_back(names[node]);
    out << "  " << Nodes(of_group.size()) << " (" << ShownNames(of_group, wide)
        << "): " << ReasonOf(refusal) << ": " << Printable(refusal.group.cause) << '\n';
    if (refusal.example.empty() || refusal.group.cause.ends_with(refusal.example)) continue;
    const std::vector<RefusalPart> parts = PartsOfRefusal(Printable(refusal.example));
    const std::string& first = parts.front().entries.front();
    const bool is_repeated = parts.size() > 1 && refusal.group.cause.ends_with(first);
    out << "    " << of_group.front() << ":" << (is_repeated ? "" : " " + first) << '\n';
    for (size_t i = 1; i < parts.size(); ++i) PrintPart(parts[i], "      ", out);
  }
}

void PrintScores(const FitResult& result, const FitEntry& entry, bool wide, std::ostream& out) {
  if (entry.fitting.empty()) return;
  std::vector<std::vector<std::string>> rows = {{"SCORE", "NODE"}};
  const size_t shown = wide ? entry.fitting.size() : std::min(entry.fitting.size(), kShownScores);
  for (size_t i = 0; i < shown; ++i) {
    const placement::Fleet::Fitting& fitting = entry.fitting[i];
    rows.push_back({std::to_string(fitting.score), result.nodes[fitting.node]});
  }
  PrintTable(rows, out);
  if (shown < entry.fitting.size()) {
    out << "  and " << Counted(entry.fitting.size() - shown, "more node")
        << "; -o wide shows all\n";
  }
}

void PrintPlaced(const FitResult& result, const FitEntry& entry, bool wide, std::ostream& out) {
  if (entry.placed_on.empty()) return;
  std::vector<std::string> placed;
  for (const auto& [node, pods] : entry.placed_on) {
    placed.push_back(result.nodes[node] + (pods > 1 ? " (" + std::to_string(pods) + ")" : ""));
  }
  out << "  placed on " << ShownNames(placed, wide) << '\n';
  for (const auto& [container, placement] : entry.first) {
    out << "    " << container << ": "
        << (placement.is_of_object ? DescribeAmounts(placement.cpu_nodes, placement.assignment)
                                   : DescribeAssignment(placement.cpu_nodes, placement.assignment))
        << '\n';
  }
  if (!entry.not_considered.empty()) PrintNotConsidered(entry.not_considered, out);
}

std::string PlacedOf(const FitEntry& entry) {
  if (!entry.is_fill) {
    return std::to_string(entry.placed) + " of " + std::to_string(entry.replicas) +
           (entry.replicas == 1 ? " pod placed" : " pods placed");
  }
  const bool is_least = entry.is_limited || entry.is_rest_undecided;
  return (is_least ? "at least " : "") + std::to_string(entry.placed) +
         (entry.placed == 1 ? " pod fits" : " pods fit");
}

void PrintEntry(const FitResult& result, const FitEntry& entry, bool wide, std::ostream& out) {
  const bool is_one = !entry.is_fill && entry.replicas == 1;
  out << Printable(entry.name) << ": ";
  if (!is_one) out << PlacedOf(entry) << "; at first, ";
  out << entry.fitting.size() << " of " << Nodes(result.nodes.size()) << " can take "
      << (is_one ? "it" : "one") << '\n';
  PrintScores(result, entry, wide, out);
  PrintRefusals(result.nodes, entry.others, wide, out);
  PrintPlaced(result, entry, wide, out);
  if (entry.rest.empty() || entry.placed == 0) return;
  out << (entry.is_rest_undecided ? "  one more cannot be decided:\n"
                                  : "  one more fits on no node:\n");
  PrintRefusals(result.nodes, entry.rest, wide, out);
}

std::string Sum(const FitReport& report) {
  return std::to_string(report.admitted) + " of " + std::to_string(report.pods) + " admitted, " +
         std::to_string(report.refused()) + " refused" +
         (report.undecided == 0 ? "" : ", " + std::to_string(report.undecided) + " undecided");
}

// "30 nodes: refused by kubelet: TopologyAffinityError: ...; 2 nodes: ...".
std::string CausesOf(const FitEntry& entry) {
  std::string text;
  for (const RefusingNodes& refusal : entry.rest) {
    text += (text.empty() ? "" : "; ") + Nodes(refusal.group.nodes.size()) + ": " +
            ReasonOf(refusal) + ": " + refusal.group.cause;
  }
  return text.empty() ? "there is no node" : text;
}

// Entries that fit nowhere for the same reasons are shown together.
void PrintRest(const FitReport& report, bool wide, std::ostream& out) {
  struct Rest {
    int64_t pods = 0;
    std::vector<std::string> names;
  };
  std::map<std::string, Rest> by_cause;
  for (const FitEntry& entry : report.entries) {
    if (entry.is_complete()) continue;
    Rest& rest = by_cause[CausesOf(entry)];
    rest.pods += entry.wanted() - entry.placed;
    rest.names.push_back(entry.name);
  }
  for (const auto& [cause, rest] : by_cause) {
    out << "  " << rest.pods << (rest.pods == 1 ? " pod" : " pods") << " ("
        << Printable(ShownNames(rest.names, wide)) << "): " << Printable(cause) << '\n';
  }
}

// Nodes with the same problem are shown together.
void PrintUnusable(const FitResult& result, bool wide, std::ostream& out) {
  std::map<std::string, std::vector<std::string>> by_text;
  for (const auto& [node, problem] : result.unusable) {
    by_text[placement::WithoutNodeName(problem, node).Text()].push_back(node);
  }
  for (const auto& [text, nodes] : by_text) {
    out << Nodes(nodes.size()) << " cannot be used (" << ShownNames(nodes, wide)
        << "): " << Printable(text) << '\n';
  }
}

void PrintComparison(const placement::Comparison& comparison, bool wide, std::ostream& out) {
  out << comparison.change.key << '=' << comparison.change.value << ": ";
  if (comparison.nodes == 0 && !comparison.left_out.empty()) {
    out << "no node can have this setting\n";
  } else {
    out << Sum(comparison.report) << '\n';
    PrintRest(comparison.report, wide, out);
  }
  for (const auto& [reason, nodes] : comparison.left_out) {
    out << "  " << Nodes(nodes.size()) << " left out (" << ShownNames(nodes, wide)
        << "): " << Printable(reason) << '\n';
  }
}

}  // namespace

void PrintFit(const FitResult& result, bool wide, std::ostream& out) {
  for (const FitEntry& entry : result.report.entries) PrintEntry(result, entry, wide, out);
  for (const std::string& what : result.skipped) out << "skipped: " << Printable(what) << '\n';
  for (const auto& [text, nodes] : result.notes) {
    out << "note on " << Nodes(nodes) << ": " << Printable(text) << '\n';
  }
  for (const std::string& text : result.fleet_notes) out << "note: " << Printable(text) << '\n';
  PrintUnusable(result, wide, out);
  out << Nodes(result.nodes.size()) << ", score " << result.score << ": " << Sum(result.report)
      << '\n';
  for (const placement::Comparison& comparison : result.comparisons) {
    PrintComparison(comparison, wide, out);
  }
}

}  // namespace alignd::cli
