#include "alignd/placement/fit.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "alignd/admission/explanation.h"

namespace alignd::placement {
namespace {

// Of generated names, as in expand.cc.
constexpr std::string_view kSuffixCharacters = "bcdfghjklmnpqrstvwxz2456789";

bool IsLike(PlannedPod a, const PlannedPod& b) {
  a.pod.uid = b.pod.uid;
  a.pod.name = b.pod.name;
  return a == b;
}

// The name before a generated suffix: "web" of "web-x7k2b"; empty if there is none.
std::string GeneratedBase(const std::string& name) {
  constexpr size_t kEnd = 6;  // with the hyphen
  if (name.size() <= kEnd || name[name.size() - kEnd] != '-') return "";
  const size_t base = name.size() - kEnd;
  if (name.find_first_not_of(kSuffixCharacters, base + 1) != std::string::npos) return "";
  return name.substr(0, base);
}

// Whether both belong to one entry: replicas of one object, or of one Pod with --replicas.
bool IsReplicaOf(const PlannedPod& first, const PlannedPod& pod) {
  if (!IsLike(first, pod)) return false;
  if (!first.owner.empty()) return true;
  const std::string base = GeneratedBase(first.pod.name);
  return !base.empty() && base == GeneratedBase(pod.pod.name);
}

std::vector<RefusingNodes> RefusalsOf(Fleet& fleet, const PlannedPod& pod) {
  std::vector<RefusingNodes> all;
  for (AnswerGroup& group : fleet.OtherNodes(pod)) {
    const size_t first = group.nodes.front();
    std::string example = ExplainedMessage(fleet.StateOf(first), pod, fleet.Ask(first, pod));
    all.push_back({std::move(group), std::move(example)});
  }
  return all;
}

void DescribeFirst(Fleet& fleet, FitEntry& entry) {
  entry.fitting = fleet.FittingNodes(entry.pod);
  entry.others = RefusalsOf(fleet, entry.pod);
  if (entry.fitting.empty()) return;
  const size_t best = entry.fitting.front().node;
  const Verdict verdict = fleet.Ask(best, entry.pod);
  entry.first = PlacementsOf(fleet.StateOf(best), verdict);
  entry.not_considered = fleet.StateOf(best).NotConsidered(entry.pod);
  std::erase(entry.not_considered, "spec.nodeName");  // the nodes of a fleet have names
}

FitEntry NewEntry(const PlannedPod& pod) {
  FitEntry entry;
  entry.pod = pod;
  const std::string base = GeneratedBase(pod.pod.name);
  entry.name = pod.owner.empty()
                   ? "Pod " + pod.pod.name_space + "/" + (base.empty() ? pod.pod.name : base)
                   : pod.owner;
  return entry;
}

// Places the pods of one entry, as long as they fit.
class Replicas {
 public:
  Replicas(Fleet& fleet, FitEntry& entry) : fleet_(fleet), entry_(entry) {
    DescribeFirst(fleet_, entry_);
  }
  ~Replicas() { entry_.placed_on.assign(placed_on_.begin(), placed_on_.end()); }
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  bool Place(const PlannedPod& pod) {
    const std::optional<size_t> node = fleet_.Place(pod);
    if (node) {
      ++entry_.placed;
      ++placed_on_[*node];
      return true;
    }
    const bool is_undecided = fleet_.IsUndecided(pod);
    if (entry_.rest.empty()) {
      entry_.rest = entry_.placed == 0 ? entry_.others : RefusalsOf(fleet_, pod);
      entry_.is_rest_undecided = is_undecided;
    }
    // After pods that fit, one more with `is_fill` is not wanted.
    if (is_undecided && !(entry_.is_fill && entry_.placed > 0)) ++entry_.undecided;
    return false;
  }

 private:
  Fleet& fleet_;
  FitEntry& entry_;
  std::map<size_t, int64_t> placed_on_;
};

bool IsOfDaemonSet(const PlannedPod& pod) { return pod.owner.starts_with("DaemonSet "); }

bool IsNodeOf(const Fleet& fleet, size_t node, const PlannedPod& pod) {
  return fleet.MayTake(node, pod) && fleet.StateOf(node).IsNodeOf(pod);
}

// Without one, or with faults, a pod that is planned as others shows why.
bool HasNodeForDaemon(const Fleet& fleet, const PlannedPod& pod) {
  if (!pod.faults.empty()) return false;
  for (size_t node = 0; node < fleet.size(); ++node) {
    if (IsNodeOf(fleet, node, pod)) return true;
  }
  return false;
}

// One pod on each node that the DaemonSet is for: no other node can have it.
FitEntry PlaceOnEach(Fleet& fleet, const PlannedPod& pod) {
  FitEntry entry = NewEntry(pod);
  DescribeFirst(fleet, entry);
  std::set<size_t> refusing;
  for (size_t node = 0; node < fleet.size(); ++node) {
    if (!IsNodeOf(fleet, node, pod)) continue;
    PlannedPod next = pod;
    next.pod.name += "-" + std::to_string(++entry.replicas);
    next.pod.uid = next.pod.name_space + "/" + next.pod.name;
    const Outcome outcome = fleet.PlaceOn(node, next);
    if (outcome == Outcome::kFits) {
      ++entry.placed;
      entry.placed_on.emplace_back(node, 1);
    } else {
      refusing.insert(node);
    }
    if (outcome == Outcome::kUndecided) ++entry.undecided;
  }
  for (RefusingNodes group : entry.others) {
    std::erase_if(group.group.nodes, [&](size_t node) { return !refusing.contains(node); });
    if (!group.group.nodes.empty()) entry.rest.push_back(std::move(group));
  }
  entry.is_rest_undecided = entry.undecided > 0 && entry.refused() == 0;
  return entry;
}

// As many as fit; of pods with many containers, fewer are tried.
FitEntry FillWith(Fleet& fleet, const PlannedPod& pod) {
  FitEntry entry = NewEntry(pod);
  entry.is_fill = true;
  const auto containers = std::max<int64_t>(std::ssize(pod.pod.containers), 1);
  const int64_t most = std::clamp<int64_t>(kMaxPlannedContainers / containers, 1, kMaxFill);
  {
    Replicas replicas(fleet, entry);
    PlannedPod next = pod;
    while (replicas.Place(next)) {
      if (entry.placed == most) {
        entry.is_limited = true;
        break;
      }
      next.pod.name = pod.pod.name + "-" + std::to_string(entry.placed);
      next.pod.uid = next.pod.name_space + "/" + next.pod.name;
    }
  }
  return entry;
}

void Count(FitReport& report) {
  for (const FitEntry& entry : report.entries) {
    report.admitted += entry.placed;
    report.undecided += entry.undecided;
    report.pods += entry.wanted();
  }
}

}  // namespace

std::string ExplainedMessage(const PlannedNode& node, const PlannedPod& pod,
                             const Verdict& verdict) {
  if (!verdict.refusal) return "";
  const bool is_kubelet = verdict.admission && verdict.admission->refusal;
  // An explanation would name CPUs and devices, which the object does not have.
  if (!is_kubelet || node.is_of_object()) return verdict.refusal->message;
  // The class is known for all containers at once.
  Pod explained = pod.pod;
  explained.stated_qos = QosOf(explained);
  return admission::Explain(node.node(), node.state(), explained, *verdict.refusal).message;
}

Placements PlacementsOf(const PlannedNode& node, const Verdict& verdict) {
  Placements placements;
  if (verdict.outcome != Outcome::kFits || !verdict.admission) return placements;
  const Machine& machine = node.node().machine;
  for (const auto& [container, assignment] : verdict.admission->assignments) {
    placements[container] = {assignment, machine.NumaIds(machine.NumaOf(assignment.exclusive)),
                             node.is_of_object()};
  }
  return placements;
}

bool FitReport::is_complete() const {
  return std::ranges::all_of(entries, [](const FitEntry& entry) { return entry.is_complete(); });
}

Result<FitReport> Fit(Fleet& fleet, const std::vector<PlannedPod>& pods, bool fill,
                      int64_t& decidable) {
  FitReport report;
  for (size_t i = 0; i < pods.size();) {
    const PlannedPod& first = pods[i];
    // The replicas after the first one are decided about on one node each.
    decidable -= fleet.ContainersToDecide(first);
    if (decidable < 0) {
      return Error{ErrorCode::kInvalidArgument,
                   "pod " + first.pod.name_space + "/" + first.pod.name +
                       ": with it, too many containers of pods on nodes are to be decided about",
                   "plan fewer pods, nodes or comparisons at once"};
    }
    if (IsOfDaemonSet(first) && HasNodeForDaemon(fleet, first)) {
      report.entries.push_back(PlaceOnEach(fleet, pods[i++]));
      continue;
    }
    if (fill && !IsOfDaemonSet(first)) {
      report.entries.push_back(FillWith(fleet, pods[i++]));
      continue;
    }
    FitEntry entry = NewEntry(first);
    {
      Replicas replicas(fleet, entry);
      for (; i < pods.size() && (entry.replicas == 0 || IsReplicaOf(first, pods[i])); ++i) {
        ++entry.replicas;
        replicas.Place(pods[i]);
      }
    }
    report.entries.push_back(std::move(entry));
  }
  Count(report);
  return report;
}

Result<Comparison> Compare(const std::vector<FleetNode>& nodes, const ConfigChange& change,
                           ScoreStrategy strategy, const std::vector<PlannedPod>& pods, bool fill,
                           const ForEach& for_each, int64_t& decidable) {
  Comparison comparison;
  comparison.change = change;
  std::vector<FleetNode> changed;
  std::vector<LeftOut> left_out;
  bool is_any_changed = false;
  for (FleetNode node : nodes) {
    const Result<Done> applied = node.problem ? Done{} : Apply(change, node);
    if (applied.ok()) {
      is_any_changed = is_any_changed || !node.problem;
      changed.push_back(std::move(node));
    } else {
      left_out.push_back({node.name, applied.error()});
    }
  }
  if (!is_any_changed && !left_out.empty()) return left_out.front().error;
  Result<Fleet> fleet = Fleet::Make(changed, strategy, for_each, &left_out);
  if (!fleet.ok()) return fleet.error();
  std::map<std::string, std::vector<std::string>> reasons;
  for (const LeftOut& out : left_out) {
    std::string text = out.error.Text();
    const std::string place = "node " + out.node + ": ";
    if (text.starts_with(place)) text.erase(0, place.size());
    reasons[text].push_back(out.node);
  }
  comparison.left_out.assign(reasons.begin(), reasons.end());
  comparison.nodes = fleet->size();
  Result<FitReport> report = Fit(*fleet, pods, fill, decidable);
  if (!report.ok()) return report.error();
  comparison.report = *std::move(report);
  return comparison;
}

Result<FitResult> FitFleet(const std::vector<FleetNode>& nodes, const std::vector<PlannedPod>& pods,
                           const FitOptions& options, const ForEach& for_each) {
  if (options.changes.size() > kMaxComparisons) {
    return Error{ErrorCode::kInvalidArgument,
                 "more than " + std::to_string(kMaxComparisons) + " comparisons",
                 "compare fewer settings at once"};
  }
  Result<Fleet> fleet = Fleet::Make(nodes, options.strategy, for_each);
  if (!fleet.ok()) return fleet.error();
  int64_t decidable = kMaxDecidedContainers;
  FitResult result;
  result.score = ToString(options.strategy);
  std::map<std::string, size_t> notes;
  for (size_t node = 0; node < fleet->size(); ++node) {
    result.nodes.push_back(fleet->NameOf(node));
    for (const std::string& note : fleet->StateOf(node).notes()) ++notes[note];
  }
  result.notes.assign(notes.begin(), notes.end());
  for (const auto& [node, problem] : fleet->problems()) {
    result.unusable.emplace_back(fleet->NameOf(node), problem);
  }
  Result<FitReport> report = Fit(*fleet, pods, options.fill, decidable);
  if (!report.ok()) return report.error();
  result.report = *std::move(report);
  for (const ConfigChange& change : options.changes) {
    Result<Comparison> comparison =
        Compare(nodes, change, options.strategy, pods, options.fill, for_each, decidable);
    if (!comparison.ok()) {
      Error error = comparison.error().In("comparison " + change.key + "=" + change.value);
      if (error.remedy.empty()) error.remedy = "compare with a value that is permitted";
      return error;
    }
    result.comparisons.push_back(*std::move(comparison));
  }
  return result;
}

}  // namespace alignd::placement
