#include "alignd/placement/fleet.h"

#include <algorithm>
#include <tuple>

#include "alignd/machine/node_json.h"

namespace alignd::placement {
namespace {

// More kinds of pods are seldom; the answers about older ones are asked for again.
constexpr size_t kMaxShapes = 64;

constexpr char kAlreadyThere[] = "AlreadyExists: a node of the fleet has a pod of that name or UID";

// Equal nodes have equal texts. Nodes with one text may differ, and are compared with each other:
// so the text has what differs from node to node in a real fleet.
std::string RoughKeyOf(const FleetNode& node) {
  std::string key = MachineToNodeJson(node.input.description.machine) + node.config +
                    node.files.cpu_manager_state + node.files.memory_manager_state +
                    node.files.device_checkpoint;
  for (const auto& [resource, devices] : node.input.description.devices) {
    key += "\n" + resource;
    for (const auto& [id, device] : devices) key += " " + id;
  }
  if (node.input.object) {
    key += "\n" + node.input.object->name;
    for (const auto& [label, value] : node.input.object->labels) key += " " + label + "=" + value;
  }
  for (const PlannedPod& running : node.running) {
    key += "\n" + running.pod.name_space + "/" + running.pod.name + " " + running.pod.uid;
  }
  for (const auto* const pods : {&node.counted, &node.arriving}) {
    for (const PlannedPod& pod : *pods) key += "\n" + pod.pod.uid;
  }
  if (node.input.object_view) key += "\n" + node.input.object_view->assigned_cpus.ToString();
  return key;
}

// The pod itself says to which node it is bound.
PlannedPod ShapeOf(PlannedPod pod) {
  pod = WithoutNames(std::move(pod));
  pod.node_name.clear();
  return pod;
}

std::string BoundElsewhere(const PlannedPod& pod) {
  return "the pod is bound to node " + pod.node_name + " (spec.nodeName)";
}

// Of nodes without a problem.
bool IsAlike(const FleetNode& a, const FleetNode& b) {
  return a.input == b.input && a.config == b.config && a.files == b.files &&
         a.running == b.running && a.counted == b.counted && a.arriving == b.arriving;
}

}  // namespace

void ForEachInTurn(size_t count, const std::function<void(size_t)>& work) {
  for (size_t i = 0; i < count; ++i) work(i);
}

Result<Fleet> Fleet::Make(const std::vector<FleetNode>& nodes, ScoreStrategy strategy,
                          ForEach for_each, std::vector<LeftOut>* left_out) {
  Fleet fleet(strategy, std::move(for_each));
  const Result<Done> added = fleet.AddNodes(nodes, left_out);
  if (!added.ok()) return added.error();
  return fleet;
}

Result<Done> Fleet::AddNodes(const std::vector<FleetNode>& nodes, std::vector<LeftOut>* left_out) {
  if (nodes.empty()) {
    return Error{ErrorCode::kInvalidArgument, "the fleet has no node", "name nodes"};
  }
  struct Kind {
    const FleetNode* first = nullptr;
    std::shared_ptr<State> state;
  };
  std::map<std::string, std::vector<Kind>> kinds;
  std::set<std::string> names;
  for (const FleetNode& node : nodes) {
    if (const Result<Done> named = CheckNodeName(node.name); !named.ok()) return named.error();
    if (!names.insert(node.name).second) {
      return Error{ErrorCode::kInvalidArgument, "two nodes are named " + node.name,
                   "give each node once, with a name of its own"};
    }
    std::vector<Kind>* similar = nullptr;  // of a node with a problem, none is looked for
    if (!node.problem) {
      similar = &kinds[RoughKeyOf(node)];
      const auto alike = std::ranges::find_if(
          *similar, [&node](const Kind& kind) { return IsAlike(*kind.first, node); });
      if (alike != similar->end()) {
        alike->state->is_shared = true;
        states_.push_back(alike->state);
        names_.push_back(node.name);
        continue;
      }
    }
    Result<PlannedNode> planned =
        MakePlannedNode(node, left_out == nullptr ? IfRefused::kOpen : IfRefused::kError);
    const bool is_of_objects = node.problem || node.input.object_view;
    if (!planned.ok() && (node.problem || (is_of_objects && left_out == nullptr))) {
      problems_.emplace(names_.size(), planned.error());
      planned = MakeUnusableNode(node, planned.error());
    } else if (!planned.ok() && left_out == nullptr) {
      return planned.error();
    } else if (!planned.ok()) {
      left_out->push_back({node.name, planned.error()});
      continue;
    }
    names_.push_back(node.name);
    for (std::string& pod : planned->KnownPods()) known_pods_.insert(std::move(pod));
    auto state = std::make_shared<State>(*std::move(planned));
    states_.push_back(state);
    if (similar != nullptr) similar->push_back({&node, std::move(state)});
  }
  if (left_out == nullptr && problems_.size() == size()) return problems_.begin()->second;
  return Done{};
}

std::string Fleet::NodeNameOf(size_t node) const {
  std::string of_object = states_[node]->node.name();
  return of_object.empty() ? names_[node] : of_object;
}

bool Fleet::Knows(const PlannedPod& pod) const {
  return known_pods_.contains(pod.pod.uid) ||
         known_pods_.contains(pod.pod.name_space + "/" + pod.pod.name);
}

Fleet::Answer Fleet::AnswerOf(const State& state, const PlannedPod& pod) const {
  Verdict verdict = state.node.Ask(pod);
  Answer answer{verdict.outcome, verdict.stage, std::move(verdict.cause), 0};
  if (verdict.outcome == Outcome::kFits) {
    answer.score = Score(strategy_, state.node, pod, verdict);
  }
  return answer;
}

int64_t Fleet::ContainersToDecide(const PlannedPod& pod) const {
  const PlannedPod nameless = ShapeOf(pod);
  const auto shape = std::ranges::find_if(
      shapes_, [&nameless](const auto& known) { return known->pod == nameless; });
  if (Knows(pod) || (shape != shapes_.end() && (*shape)->is_current)) return 0;
  std::set<StatePointer> states(states_.begin(), states_.end());
  if (shape != shapes_.end()) {
    std::erase_if(states, [&](const auto& state) { return (*shape)->answers.contains(state); });
  }
  return std::ssize(states) * std::max<int64_t>(std::ssize(pod.pod.containers), 1);
}

Fleet::Shape& Fleet::Asked(const PlannedPod& pod) {
  PlannedPod nameless = ShapeOf(pod);
  auto found = std::ranges::find_if(
      shapes_, [&nameless](const auto& shape) { return shape->pod == nameless; });
  if (found == shapes_.end()) {
    if (shapes_.size() == kMaxShapes) shapes_.erase(shapes_.begin());
    shapes_.push_back(std::make_unique<Shape>());
    shapes_.back()->pod = std::move(nameless);
    found = shapes_.end() - 1;
  }
  Shape& shape = **found;
  if (shape.is_current) return shape;
  std::vector<std::pair<const StatePointer, Answer>*> missing;
  for (const StatePointer& state : states_) {
    const auto [answer, is_new] = shape.answers.try_emplace(state);
    if (is_new) missing.push_back(&*answer);
  }
  for_each_(missing.size(),
            [&](size_t i) { missing[i]->second = AnswerOf(*missing[i]->first, shape.pod); });
  shape.undecided.reset();
  shape.fitting.clear();
  for (size_t node = 0; node < states_.size(); ++node) {
    const Answer& answer = shape.answers.at(states_[node]);
    if (answer.outcome == Outcome::kFits) shape.fitting.emplace(-answer.score, node);
  }
  shape.is_current = true;
  return shape;
}

std::vector<Fleet::Fitting> Fleet::FittingNodes(const PlannedPod& pod) {
  std::vector<Fitting> fitting;
  if (Knows(pod)) return fitting;
  for (const auto& [score, node] : Asked(pod).fitting) {
    if (MayTake(node, pod)) fitting.push_back({node, -score});
  }
  return fitting;
}

std::vector<AnswerGroup> Fleet::OtherNodes(const PlannedPod& pod) {
  std::vector<AnswerGroup> groups;
  if (Knows(pod)) {
    groups.push_back({Outcome::kRefused, Stage::kValidation, kAlreadyThere, {}});
    for (size_t node = 0; node < size(); ++node) groups[0].nodes.push_back(node);
    return groups;
  }
  const Shape& shape = Asked(pod);
  std::map<std::tuple<Outcome, Stage, std::string>, std::vector<size_t>> nodes;
  for (size_t node = 0; node < size(); ++node) {
    if (!MayTake(node, pod)) {
      nodes[{Outcome::kRefused, Stage::kScheduler, "Unschedulable: " + BoundElsewhere(pod)}]
          .push_back(node);
      continue;
    }
    const Answer& answer = shape.answers.at(states_[node]);
    if (answer.outcome == Outcome::kFits) continue;
    nodes[{answer.outcome, answer.stage, answer.cause}].push_back(node);
  }
  for (auto& [key, members] : nodes) {
    groups.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), std::move(members)});
  }
  std::ranges::stable_sort(groups, [](const AnswerGroup& a, const AnswerGroup& b) {
    return a.nodes.size() > b.nodes.size();
  });
  return groups;
}

bool Fleet::IsUndecided(const PlannedPod& pod) {
  if (Knows(pod)) return false;
  Shape& shape = Asked(pod);
  if (!pod.node_name.empty()) {
    return std::ranges::any_of(UndecidedNodes(shape),
                               [&](size_t node) { return MayTake(node, pod); });
  }
  return shape.fitting.empty() && !UndecidedNodes(shape).empty();
}

// Looked for once for all replicas that fit nowhere.
const std::vector<size_t>& Fleet::UndecidedNodes(Shape& shape) const {
  if (shape.undecided) return *shape.undecided;
  std::vector<size_t>& undecided = shape.undecided.emplace();
  for (size_t node = 0; node < size(); ++node) {
    if (shape.answers.at(states_[node]).outcome == Outcome::kUndecided) undecided.push_back(node);
  }
  return undecided;
}

Fleet::StatePointer Fleet::After(Shape& shape, const StatePointer& state, const PlannedPod& pod) {
  if (state->is_shared) {
    const auto known = shape.after.find(state);
    if (known != shape.after.end()) return known->second;
  }
  auto after = std::make_shared<State>(state->node);
  after->is_shared = state->is_shared;
  // Which node has it is not known.
  if (shape.answers.at(state).outcome == Outcome::kUndecided) {
    after->node.LeaveOpen(pod);
  } else {
    after->node.Place(pod);
  }
  if (state->is_shared) shape.after.emplace(state, after);
  return after;
}

void Fleet::Move(size_t node, Shape& shape, const PlannedPod& pod) {
  const StatePointer before = states_[node];
  states_[node] = After(shape, before, pod);
  for (const auto& other : shapes_) other->is_current = other->is_current && &*other == &shape;
  // The shape stays current, so that a replica costs one node and not all.
  shape.undecided.reset();
  shape.fitting.erase({-shape.answers.at(before).score, node});
  const auto [answer, is_new] = shape.answers.try_emplace(states_[node]);
  if (is_new) answer->second = AnswerOf(*states_[node], shape.pod);
  if (answer->second.outcome == Outcome::kFits) {
    shape.fitting.emplace(-answer->second.score, node);
  }
  if (before->is_shared) return;
  // No node will have that state again.
  for (const auto& other : shapes_) other->answers.erase(before);
}

std::optional<size_t> Fleet::Place(const PlannedPod& pod) {
  if (Knows(pod)) return std::nullopt;
  if (!pod.node_name.empty()) {
    for (size_t node = 0; node < size(); ++node) {
      if (!MayTake(node, pod)) continue;
      return PlaceOn(node, pod) == Outcome::kFits ? std::optional(node) : std::nullopt;
    }
    return std::nullopt;
  }
  Shape& shape = Asked(pod);
  if (!shape.fitting.empty()) {
    const size_t best = shape.fitting.begin()->second;
    PlaceOn(best, pod);
    return best;
  }
  // A second undecided pod changes nothing: copies of each node would be made for each replica.
  const std::vector<size_t> undecided = UndecidedNodes(shape);
  for (const size_t node : undecided) {
    if (!states_[node]->node.has_undecided()) Move(node, shape, pod);
  }
  return std::nullopt;
}

Outcome Fleet::PlaceOn(size_t node, const PlannedPod& pod) {
  if (Knows(pod) || !MayTake(node, pod)) return Outcome::kRefused;
  Shape& shape = Asked(pod);
  const Outcome outcome = shape.answers.at(states_[node]).outcome;
  if (outcome == Outcome::kFits) {
    Move(node, shape, pod);
    known_pods_.insert(pod.pod.uid);
    known_pods_.insert(pod.pod.name_space + "/" + pod.pod.name);
  } else if (outcome == Outcome::kUndecided && !states_[node]->node.has_undecided()) {
    Move(node, shape, pod);
  }
  return outcome;
}

Verdict Fleet::Ask(size_t node, const PlannedPod& pod) const {
  if (!MayTake(node, pod)) {
    return {Outcome::kRefused, Stage::kScheduler, Refusal{"Unschedulable", BoundElsewhere(pod)},
            std::nullopt, "Unschedulable: " + BoundElsewhere(pod)};
  }
  if (!Knows(pod)) return states_[node]->node.Ask(pod);
  const std::string text = kAlreadyThere;
  const size_t colon = text.find(": ");
  return {Outcome::kRefused, Stage::kValidation,
          Refusal{text.substr(0, colon), text.substr(colon + 2)}, std::nullopt, text};
}

const PlannedNode& Fleet::StateOf(size_t node) const { return states_[node]->node; }

}  // namespace alignd::placement
