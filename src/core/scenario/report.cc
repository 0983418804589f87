#include "alignd/scenario/report.h"

#include <algorithm>
#include <optional>
#include <set>

#include "alignd/admission/pod_level.h"
#include "alignd/checkpoint/verify.h"
#include "core/json/json_view.h"

namespace alignd::scenario {
namespace {

using Json = nlohmann::ordered_json;
using topologymanager::HintList;
using topologymanager::HintsByResource;
using topologymanager::TopologyHint;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json HintJson(const Machine& machine, const TopologyHint& hint) {
  Json json = Json::array();
  json.push_back(hint.affinity ? Json(machine.NumaIds(*hint.affinity)) : Json(nullptr));
  json.push_back(hint.preferred);
  return json;
}

// Sorted by number of NUMA nodes, then by mask value, then preferred first.
Json HintListJson(const Machine& machine, HintList hints) {
  std::ranges::sort(hints, [](const TopologyHint& a, const TopologyHint& b) {
    const NumaMask first = a.affinity.value_or(NumaMask());
    const NumaMask second = b.affinity.value_or(NumaMask());
    if (first != second) return first.IsNarrowerThan(second);
    return a.preferred && !b.preferred;
  });
  Json json = Json::array();
  for (const TopologyHint& hint : hints) json.push_back(HintJson(machine, hint));
  return json;
}

// Resources without hints have no key.
Json HintsJson(const Machine& machine, const HintsByResource& hints) {
  Json json = Json::object();
  for (const auto& [resource, list] : hints) {
    if (list) json[resource] = HintListJson(machine, list->Shown());
  }
  return json;
}

Json DevicesJson(const std::map<std::string, devicemanager::DeviceAllocation>& devices) {
  Json json = Json::object();
  for (const auto& [resource, allocation] : devices) {
    Json& per_node = json[resource] = Json::object();
    for (const auto& [numa, ids] : allocation.devices) {
      per_node[std::to_string(numa)] = ids.size();
    }
  }
  return json;
}

Json BlocksJson(std::vector<memorymanager::Block> blocks) {
  std::ranges::sort(blocks, {}, &memorymanager::Block::type);
  Json json = Json::array();
  for (const memorymanager::Block& block : blocks) {
    json.push_back({{"type", block.type}, {"numa", block.numa_affinity}, {"size", block.size}});
  }
  return json;
}

Json ContainerJson(const Simulation& simulation, const Pod& pod,
                   const admission::Admission& admission, const std::string& container) {
  const Machine& machine = simulation.node().machine;
  Json json = Json::object();
  for (const admission::ContainerDecision& decision : admission.decisions) {
    if (decision.container != container) continue;
    if (Json hints = HintsJson(machine, decision.hints); !hints.empty()) {
      json["hints"] = std::move(hints);
    }
    if (admission.admitted() && decision.affinity) {
      json["affinity"] = HintJson(machine, *decision.affinity);
    }
  }
  if (!admission.admitted()) return json;
  const admission::Assignment& assignment = admission.assignments.at(container);
  if (const CpuSet* cpus = simulation.state().cpu.Find({pod.uid, container})) {
    json["cpuset"] = cpus->ToString();
  }
  if (const Pod here = admission::OnThisNode(simulation.node(), pod);
      here.pod_level_managers != PodLevelManagers::kOff) {
    const auto self = std::ranges::find(here.containers, container, &Container::name);
    json["isolation"] = ToString(admission::IsolationOf(simulation.state(), here, *self));
  }
  if (!assignment.devices.empty()) json["devices"] = DevicesJson(assignment.devices);
  if (const auto* blocks = simulation.state().memory.Find({pod.uid, container})) {
    json["memory"] = BlocksJson(*blocks);
  }
  return json;
}

// Of a refused pod, only the containers that the topology manager has reached are shown.
Json ContainersJson(const Simulation& simulation, const Pod& pod,
                    const admission::Admission& admission) {
  Json json = Json::object();
  for (const Container& container : pod.containers) {
    const bool looked_at = std::ranges::any_of(admission.decisions, [&](const auto& decision) {
      return decision.container == container.name && decision.affinity;
    });
    if (admission.admitted() || looked_at) {
      json[container.name] = ContainerJson(simulation, pod, admission, container.name);
    }
  }
  return json;
}

// What the pod is assigned as a whole.
Json WholePodJson(const admission::NodeState& state, const std::string& uid) {
  Json json = Json::object();
  if (const auto cpus = state.cpu.pods.find(uid); cpus != state.cpu.pods.end()) {
    json["cpuset"] = cpus->second.ToString();
  }
  if (const auto blocks = state.memory.pods.find(uid); blocks != state.memory.pods.end()) {
    json["memory"] = BlocksJson(blocks->second);
  }
  return json;
}

// The devices that containers are allocated when they start.
Json StartedJson(const admission::StartedPod& started) {
  Json json = Json::object();
  for (const auto& [container, devices] : started.devices) {
    json[container] = Json{{"devices", DevicesJson(devices)}};
  }
  return json;
}

// The memory file without its checksums, and its `data` as an object. The order of blocks is
// random, so files are compared in this form.
Json UnorderedMemoryState(const std::string& text) {
  Result<Json> json = json::ParseOrdered(text);
  if (!json.ok()) return nullptr;
  for (const char* key : {"checksum", "dataChecksum"}) json->erase(key);
  if (const auto data = json->find("data"); data != json->end() && data->is_string()) {
    Result<Json> content = json::ParseOrdered(data->get<std::string>());
    if (!content.ok()) return nullptr;
    *data = *std::move(content);
  }
  return *std::move(json);
}

bool HoldsSeveralMemoryTypes(const memorymanager::MemoryState& state) {
  for (const auto& [pod, containers] : state.assignments) {
    for (const auto& [container, blocks] : containers) {
      if (blocks.size() > 1) return true;
    }
  }
  for (const auto& [pod, blocks] : state.pods) {
    if (blocks.size() > 1) return true;
  }
  return false;
}

Json ToJson(const Simulation& simulation, const Step& step, const StepResult& result) {
  Json json = Json::object();
  if (result.restart_error) json["error"] = result.restart_error->message;
  if (result.admission) {
    const admission::Admission& admission = *result.admission;
    json["admitted"] = admission.admitted();
    if (admission.refusal) {
      json["reason"] = admission.refusal->reason;
      json["message"] = admission.refusal->message;
    }
    Json containers = ContainersJson(simulation, std::get<AdmitPod>(step).pod, admission);
    if (!containers.empty()) json["containers"] = std::move(containers);
    const std::string& uid = std::get<AdmitPod>(step).pod.uid;
    Json whole = WholePodJson(simulation.state(), uid);
    if (admission.admitted() && !whole.empty()) json["pod"] = std::move(whole);
  }
  if (result.started) {
    Json containers = StartedJson(*result.started);
    if (!containers.empty()) json["containers"] = std::move(containers);
    if (const auto& waits = result.started->waits) {
      json["waits"] = {{"container", waits->first}, {"message", waits->second.message}};
    }
  }
  if (simulation.node().cpu && PodLevelResourceManagersOn(simulation.node().config)) {
    json["defaultCpuSet"] = simulation.state().cpu.default_set.ToString();
  }
  if (simulation.node().cpu) json["cpu_manager_state"] = simulation.CpuManagerState();
  if (simulation.node().memory) {
    const std::string text = simulation.MemoryManagerState();
    json["memory_manager_state"] = text;
    if (HoldsSeveralMemoryTypes(simulation.state().memory)) {
      json["memory_manager_state_unordered"] = UnorderedMemoryState(text);
    }
  }
  return json;
}

struct Outcome {
  std::optional<std::string> start_error;  // then there are no results
  std::vector<Json> results;               // one per step
};

Outcome Run(const Scenario& scenario) {
  Result<Simulation> simulation = Simulation::Start(scenario);
  if (!simulation.ok()) return {simulation.error().message, {}};
  Outcome outcome;
  for (const Step& step : scenario.steps) {
    const StepResult result = simulation->Run(step);
    outcome.results.push_back(ToJson(*simulation, step, result));
  }
  return outcome;
}

}  // namespace

std::vector<std::string> RunToJson(const Scenario& scenario) {
  const Outcome outcome = Run(scenario);
  if (outcome.start_error) return {Dump({{"error", *outcome.start_error}})};
  std::vector<std::string> texts;
  for (const Json& result : outcome.results) texts.push_back(Dump(result));
  return texts;
}

std::string ResultToJson(const Simulation& simulation, const Step& step, const StepResult& result) {
  return Dump(ToJson(simulation, step, result));
}

namespace {

struct Difference {
  std::string path;
  std::string expected;
  std::string got;
};

// The result of a step, its `containers`, each container and its `devices` may have more keys than
// expected: expectations omit what the kubelet decides at random. All else must be equal.
enum class Level { kResult, kContainers, kContainer, kOpen, kExact };

Level LevelBelow(Level level, const std::string& key) {
  switch (level) {
    case Level::kResult:
      return key == "containers" ? Level::kContainers : Level::kExact;
    case Level::kContainers:
      return Level::kContainer;
    case Level::kContainer:
      return key == "devices" ? Level::kOpen : Level::kExact;
    case Level::kOpen:
    case Level::kExact:
      break;
  }
  return Level::kExact;
}

// `nlohmann::json` compares objects regardless of the order of their keys.
std::optional<Difference> FirstDifference(const nlohmann::json& expected, const nlohmann::json& got,
                                          const std::string& path, Level level) {
  if (level == Level::kExact || !expected.is_object() || !got.is_object()) {
    if (expected == got) return std::nullopt;
    return Difference{path, expected.dump(), got.dump()};
  }
  for (const auto& [key, value] : expected.items()) {
    const std::string place = path.empty() ? key : path + "." + key;
    const auto found = got.find(key);
    if (found == got.end()) return Difference{place, value.dump(), "nothing"};
    if (auto difference = FirstDifference(value, *found, place, LevelBelow(level, key))) {
      return difference;
    }
  }
  return std::nullopt;
}

std::string Describe(const std::string& where, const Difference& difference) {
  return where + ", " + difference.path + ":\n    expected " + difference.expected +
         "\n    got      " + difference.got;
}

// Memory blocks of one container, sorted by type as in the results.
void SortBlocks(nlohmann::json& result) {
  const auto state = result.find("memory_manager_state_unordered");
  if (state == result.end() || !state->is_object() || !state->contains("entries")) return;
  for (auto& pod : (*state)["entries"]) {
    for (auto& blocks : pod) {
      if (!blocks.is_array()) continue;
      std::sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) {
        return a.value("type", "") < b.value("type", "");
      });
    }
  }
}

Check CompareSteps(const Scenario& scenario, const std::vector<Json>& results,
                   const nlohmann::json& expected) {
  Check check{scenario.name, false, ""};
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string where = "step " + std::to_string(i);
    if (i >= results.size()) {
      check.difference = where + ": expected " + expected[i].dump() + ", got no such step";
      return check;
    }
    nlohmann::json wanted = expected[i];
    SortBlocks(wanted);
    const nlohmann::json got = nlohmann::json::parse(Dump(results[i]), nullptr, false);
    if (const auto difference = FirstDifference(wanted, got, "", Level::kResult)) {
      check.difference = Describe(where, *difference);
      return check;
    }
  }
  check.passed = true;
  return check;
}

// A state file and whether it verifies.
Result<Check> CheckStateFile(const json::View& top) {
  const Result<json::View> kind_view = top.Require("kind");
  if (!kind_view.ok()) return kind_view.error();
  const Result<std::string> kind = kind_view->String();
  if (!kind.ok()) return kind.error();
  const Result<json::View> text_view = top.Require("text");
  if (!text_view.ok()) return text_view.error();
  const Result<std::string> text = text_view->String();
  if (!text.ok()) return text.error();
  const Result<json::View> valid_view = top.Require("valid");
  if (!valid_view.ok()) return valid_view.error();
  const Result<bool> valid = valid_view->Bool();
  if (!valid.ok()) return valid.error();
  const std::optional<checkpoint::CheckpointKind> known = checkpoint::KindOfFileName(*kind);
  if (!known) return kind_view->IsNot("the name of a state file");
  const Result<checkpoint::Verification> verified = checkpoint::VerifyCheckpoint(*known, *text);
  Check check{*kind, verified.ok() == *valid, ""};
  if (!check.passed) {
    check.difference = "expected " + std::string(*valid ? "valid" : "not valid") + ", got " +
                       (verified.ok() ? "valid" : verified.error().message) + ": " + *text;
  }
  return check;
}

Result<Check> CheckScenario(std::string_view text, const nlohmann::json& top) {
  const Result<Scenario> scenario = ParseScenario(text);
  if (!scenario.ok()) return scenario.error();
  const Outcome outcome = Run(*scenario);
  const std::string start = outcome.start_error ? Json(*outcome.start_error).dump() : "a start";
  if (const auto error = top.find("error"); error != top.end()) {
    Check check{scenario->name, start == error->dump(), ""};
    if (!check.passed) check.difference = Describe("start", {"error", error->dump(), start});
    return check;
  }
  const auto expected = top.find("expect");
  if (expected == top.end() || !expected->is_array()) {
    return Error{ErrorCode::kInvalidArgument, "expect: is missing or not a list"};
  }
  if (outcome.start_error) {
    return Check{scenario->name, false, Describe("start", {"error", "a start", start})};
  }
  return CompareSteps(*scenario, outcome.results, *expected);
}

}  // namespace

Result<Check> CheckText(std::string_view text) {
  const Result<nlohmann::json> top = json::Parse(text);
  if (!top.ok()) return top.error();
  if (!top->is_object()) return json::View(*top, "").IsNot("an object");
  if (top->contains("kind")) return CheckStateFile(json::View(*top, ""));
  return CheckScenario(text, *top);
}

bool IsJson(std::string_view text) { return nlohmann::json::accept(text); }

}  // namespace alignd::scenario
