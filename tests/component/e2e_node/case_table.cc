#include "case_table.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "alignd/base/quantity.h"
#include "alignd/pod/kubernetes_pod.h"
#include "core/machine_builder.h"

namespace alignd::node_suites {
namespace {

namespace fs = std::filesystem;

using Names = std::set<std::string_view>;

Error Fault(const std::string& text) { return {ErrorCode::kInvalidArgument, text}; }

// --- What the tables may contain ----------------------------------------------------------------

// The verbs, each with the members that may stand beside it.
const std::map<std::string_view, Names>& Verbs() {
  static const std::map<std::string_view, Names> verbs = {
      {"run", {}},
      {"refused", {"reason"}},
      {"retry", {}},
      {"retry-refused", {"reason"}},
      {"end", {}},
      {"again", {}},
      {"complete", {}},
      {"remove", {}},
      {"remove-unseen", {}},
      {"stop", {}},
      {"start", {}},
      {"restart", {}},
      {"reboot", {}},
      {"start-refused", {}},
      {"plugin", {"devices", "cdi", "fails"}},
      {"unplug", {}},
      {"health", {"id", "healthy"}},
      {"end-lists", {}},
      {"fail", {"message"}},
      {"delay", {"milliseconds"}},
      {"call", {"code", "message"}},
      {"remember", {"of"}},
      {"expect", {}},
  };
  return verbs;
}

// The subjects of a matcher, each with what can be asked of it.
const std::map<std::string_view, Names>& Subjects() {
  static const std::map<std::string_view, Names> subjects = {
      {"of",  // a container, "pod/container"
       {"cpus",
        "within",
        "equal",
        "disjoint",
        "overlaps",
        "contains",
        "surplus-siblings",
        "whole-cores",
        "one-cache",
        "no-cache-of",
        "numa-count",
        "on-nodes",
        "per-node",
        "distance",
        "quota",
        "period",
        "memory-nodes",
        "devices",
        "cdi",
        "hugepages",
        "same-as",
        "state",
        "same-devices",
        "other-devices"}},
      {"pod", {"quota", "period", "cpus", "numa-count"}},
      {"listed", {"api"}},
      {"get", {"containers", "code"}},
      {"allocatable", {"cpus", "devices", "memory"}},
      {"metric", {"is", "at-least"}},
      {"memory-state", {"reserved-at-least", "free"}},
      {"requests", {"count"}},
      {"allocations", {"count"}},
      {"throttled", {"of-calls"}},
      {"asked", {}},
  };
  return subjects;
}

bool IsResource(std::string_view name) {
  return name == "cpu" || name == "memory" || name.starts_with("hugepages-") ||
         name.find('/') != std::string_view::npos;
}

// --- Checks -------------------------------------------------------------------------------------

Result<Done> OnlyKnown(const Json& object, const Names& known, const std::string& where) {
  if (!object.is_object()) return Fault(where + " is not an object");
  for (const auto& [key, value] : object.items()) {
    if (!known.contains(key)) return Fault(where + ": unknown member " + key);
  }
  return Done{};
}

Result<Done> CheckContainer(const Json& container, const std::string& where) {
  if (!container.is_object() || !container.contains("name")) {
    return Fault(where + ": a container without name");
  }
  for (const auto& [key, value] : container.items()) {
    const bool known = key == "name" || key == "sidecar" || key == "init" || IsResource(key);
    if (!known) return Fault(where + ": unknown member " + key + " of a container");
    const bool flag = key == "sidecar" || key == "init";
    if (flag ? !value.is_boolean() : !value.is_string()) {
      return Fault(where + ": " + key + " has the wrong type");
    }
  }
  return Done{};
}

Result<Done> CheckPod(const Json& pod, const std::string& where) {
  const Result<Done> known = OnlyKnown(pod, {"name", "containers", "whole"}, where);
  if (!known.ok()) return known.error();
  if (!pod.contains("name") || !pod.contains("containers") || !pod["containers"].is_array() ||
      pod["containers"].empty()) {
    return Fault(where + ": a pod needs name and containers");
  }
  for (const Json& container : pod["containers"]) {
    const Result<Done> checked = CheckContainer(container, where);
    if (!checked.ok()) return checked.error();
  }
  const Json whole = pod.value("whole", Json::object());
  for (const auto& [key, value] : whole.items()) {
    if (!IsResource(key)) return Fault(where + ": unknown resource " + key + " of the whole pod");
  }
  return Done{};
}

// The only member of `object` that `table` has; the others must be allowed beside it.
Result<std::string> TheOne(const Json& object, const std::map<std::string_view, Names>& table,
                           const std::string& where, bool needs_more) {
  if (!object.is_object()) return Fault(where + " is not an object");
  std::string found;
  for (const auto& [key, value] : object.items()) {
    if (!table.contains(key)) continue;
    if (!found.empty()) return Fault(where + " has both " + found + " and " + key);
    found = key;
  }
  if (found.empty()) return Fault(where + ": nothing known in " + object.dump());
  Names allowed = table.at(found);
  const bool more = !allowed.empty();
  allowed.insert(found);
  const Result<Done> known = OnlyKnown(object, allowed, where);
  if (!known.ok()) return known.error();
  if (needs_more && more && object.size() == 1 && found != "listed") {
    return Fault(where + ": nothing is asked of " + found);
  }
  return found;
}

Result<Done> CheckStep(const Json& step, const std::string& where) {
  const Result<std::string> verb = TheOne(step, Verbs(), where, /*needs_more=*/false);
  if (!verb.ok()) return verb.error();
  if (*verb == "run" || *verb == "refused") return CheckPod(step[*verb], where);
  if (*verb != "expect") return Done{};
  if (!step["expect"].is_array() || step["expect"].empty()) {
    return Fault(where + ": expect needs a list of matchers");
  }
  for (const Json& matcher : step["expect"]) {
    const Result<std::string> subject = TheOne(matcher, Subjects(), where, /*needs_more=*/true);
    if (!subject.ok()) return subject.error();
  }
  return Done{};
}

Result<Verdict> ParseVerdict(const std::string& text) {
  if (text == "run") return Verdict::kRun;
  if (text == "cannot apply") return Verdict::kCannotApply;
  if (text == "weakness") return Verdict::kWeakness;
  return Fault("unknown verdict " + text);
}

Result<Done> CheckCase(const Case& row) {
  if (std::ranges::find(kSuites, row.suite) == std::end(kSuites)) {
    return Fault("unknown suite " + row.suite);
  }
  if (row.number < 1 || row.file.empty() || row.about.empty()) {
    return Fault("file, number and about are needed");
  }
  if (row.reason.empty() == (row.verdict != Verdict::kRun)) {
    return Fault("a reason is for verdicts other than run, and needed there");
  }
  if (row.difference.empty() == (row.verdict == Verdict::kWeakness)) {
    return Fault("a difference is for the verdict weakness, and needed there");
  }
  if (row.steps.empty() && row.verdict != Verdict::kCannotApply) return Fault("no steps");
  if (row.ci && (row.steps.empty() || !NeedsSimulation(row).empty())) {
    return Fault("ci is for rows that a real runtime can run");
  }
  if (row.machine.empty() != row.steps.empty()) return Fault("steps and a machine need each other");
  bool expects = row.steps.empty();
  for (size_t i = 0; i < row.steps.size(); ++i) {
    const Result<Done> checked = CheckStep(row.steps[i], "step " + std::to_string(i + 1));
    if (!checked.ok()) return checked.error();
    for (const char* const verb : {"expect", "refused", "start-refused", "retry-refused", "call"}) {
      expects = expects || row.steps[i].contains(verb);
    }
  }
  if (!expects) return Fault("no step expects anything");
  return Done{};
}

Result<Case> CaseOf(const Json& json) {
  const Result<Done> known =
      OnlyKnown(json,
                {"id", "suite", "file", "number", "about", "verdict", "reason", "difference",
                 "machine", "config", "flags", "ci", "steps"},
                "the row");
  if (!known.ok()) return known.error();
  const Result<Verdict> verdict = ParseVerdict(json.at("verdict").get<std::string>());
  if (!verdict.ok()) return verdict.error();
  Case row{.id = json.at("id").get<std::string>(),
           .suite = json.at("suite").get<std::string>(),
           .file = json.at("file").get<std::string>(),
           .number = json.at("number").get<int>(),
           .about = json.at("about").get<std::string>(),
           .verdict = *verdict,
           .reason = json.value("reason", ""),
           .difference = json.value("difference", ""),
           .machine = json.value("machine", ""),
           .config = json.value("config", Json::object()),
           .flags = json.value("flags", Json::object()),
           .ci = json.value("ci", false),
           .steps = {}};
  for (const Json& step : json.value("steps", Json::array())) row.steps.push_back(step);
  const Result<Done> checked = CheckCase(row);
  if (!checked.ok()) return checked.error().In(row.id);
  return row;
}

// The request and the limit in "100m..200m", either of which may be empty; "1" is both.
void AddAmount(const std::string& name, const std::string& text, Json& resources) {
  const size_t dots = text.find("..");
  const std::string request = dots == std::string::npos ? text : text.substr(0, dots);
  const std::string limit = dots == std::string::npos ? text : text.substr(dots + 2);
  if (!request.empty()) resources["requests"][name] = request;
  if (!limit.empty()) resources["limits"][name] = limit;
}

Json ContainerJson(const Json& container) {
  Json json = {{"name", container["name"]}, {"resources", Json::object()}};
  for (const auto& [key, value] : container.items()) {
    if (key == "sidecar") json["restartPolicy"] = "Always";
    if (value.is_string() && key != "name") AddAmount(key, value, json["resources"]);
  }
  return json;
}

Result<Machine> MachineOf(const Json& json) {
  const Result<Done> known = OnlyKnown(json, {"levels", "distances", "hugepages"}, "the machine");
  if (!known.ok()) return known.error();
  const Machine plain = MakeMachine(json.at("levels").get<std::string>());
  std::vector<NumaNode> nodes = plain.numa();
  if (json.contains("distances")) {
    for (NumaNode& node : nodes) {
      node.distances = json["distances"].at(static_cast<size_t>(node.id)).get<std::vector<int>>();
    }
  }
  const Json hugepages = json.value("hugepages", Json::object());
  for (const auto& [size, pages] : hugepages.items()) {
    const Result<Quantity> bytes = Quantity::Parse(size);
    if (!bytes.ok()) return bytes.error();
    for (NumaNode& node : nodes) {
      node.hugepages[static_cast<uint64_t>(bytes->Value())] =
          pages.at(static_cast<size_t>(node.id)).get<uint64_t>();
    }
  }
  return Machine::Make(plain.cpu_rows(), std::move(nodes));
}

}  // namespace

std::string VerbOf(const Json& step) { return TheOne(step, Verbs(), "", false).value(); }

std::string NeedsSimulation(const Case& row) {
  const std::map<std::string_view, std::string> verbs = {
      {"fail", "A real runtime does not fail on demand."},
      {"delay", "A real runtime is not slow on demand."},
      {"reboot", "The machine does not reboot within a case."}};
  const std::map<std::string_view, std::string> matchers = {
      {"requests", "A real runtime does not record the requests that it gets."},
      {"cdi", "The containerd of the guest (1.6) has no CDI devices in CRI."}};
  for (const Json& step : row.steps) {
    for (const auto& [verb, reason] : verbs) {
      if (step.contains(verb)) return reason;
    }
    for (const Json& matcher : step.value("expect", Json::array())) {
      for (const auto& [key, reason] : matchers) {
        if (matcher.contains(key)) return reason;
      }
    }
  }
  return "";
}

Pod PodOfTable(const Json& json) {
  const std::string name = json["name"];
  Json spec = {{"containers", Json::array()}, {"initContainers", Json::array()}};
  for (const Json& container : json["containers"]) {
    const bool init = container.value("init", false) || container.value("sidecar", false);
    spec[init ? "initContainers" : "containers"].push_back(ContainerJson(container));
  }
  const Json whole = json.value("whole", Json::object());
  for (const auto& [resource, amount] : whole.items()) {
    AddAmount(resource, amount, spec["resources"]);
  }
  const Json metadata = {{"name", name}, {"namespace", "default"}, {"uid", name + "-uid"}};
  Result<Pod> pod =
      ParseKubernetesPod(Json{{"kind", "Pod"}, {"metadata", metadata}, {"spec", spec}}.dump());
  if (!pod.ok()) throw std::runtime_error(pod.error().Text());
  return *std::move(pod);
}

std::string ConfigText(const Case& row) {
  Json config = {{"apiVersion", "kubelet.config.k8s.io/v1beta1"}, {"kind", "KubeletConfiguration"}};
  config.update(row.config);
  return config.dump();
}

fs::path TableDirectory() { return fs::path(ALIGND_SOURCE_DIR) / "tests/e2e_node"; }

Result<Case> ParseCase(std::string_view line) {
  try {
    return CaseOf(Json::parse(line));
  } catch (const nlohmann::json::exception& fault) {
    return Fault(fault.what());
  }
}

Result<std::vector<Case>> ReadCases(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  }
  if (files.empty()) return Error{ErrorCode::kNotFound, directory.string() + " has no tables"};
  std::ranges::sort(files);
  std::vector<Case> cases;
  std::set<std::string> ids;
  for (const fs::path& file : files) {
    std::ifstream in(file);
    int number = 0;
    for (std::string line; std::getline(in, line);) {
      const std::string where = file.filename().string() + " line " + std::to_string(++number);
      Result<Case> row = ParseCase(line);
      if (!row.ok()) return row.error().In(where);
      if (!ids.insert(row->id).second) return Fault(where + ": a second row " + row->id);
      cases.push_back(*std::move(row));
    }
  }
  return cases;
}

Result<std::map<std::string, Machine>> ReadMachines(const fs::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  std::map<std::string, Machine> machines;
  try {
    const Json all = Json::parse(text.str());
    for (const auto& [name, json] : all.items()) {
      Result<Machine> machine = MachineOf(json);
      if (!machine.ok()) return machine.error().In(file.string() + ": " + name);
      machines.emplace(name, *std::move(machine));
    }
  } catch (const nlohmann::json::exception& fault) {
    return Fault(file.string() + ": " + fault.what());
  }
  return machines;
}

}  // namespace alignd::node_suites
