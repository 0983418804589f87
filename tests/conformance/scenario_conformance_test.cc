// Scenarios with the real kubelet's results: alignd's must be the same, step by step. After every
// step the state must be valid, and the saved state must load without a difference. When all pods
// have ended, the node must be in its initial state.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "alignd/admission/node_state.h"
#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/checkpoint/originals_checkpoint.h"
#include "alignd/scenario/report.h"
#include "alignd/scenario/scenario.h"
#include "alignd/scenario/simulation.h"
#include "core/vector_files.h"

namespace alignd::scenario {
namespace {

struct Line {
  std::string place;  // file and line
  std::string text;
};

std::vector<Line> ReadLines(const std::filesystem::path& path) {
  std::vector<Line> lines;
  std::ifstream file(path);
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    if (!text.empty()) lines.push_back({path.string() + ":" + std::to_string(number), text});
  }
  return lines;
}

// Files without scenarios, or with scenarios that show the kubelet's faults. See
// kubelet_faults_test.cc.
bool HasOtherContents(const std::string& name) {
  return name == "checkpoints.jsonl" || name == "checkpoints-1.37.jsonl" ||
         name == "kubelet-bugs.jsonl";
}

// Gives a key without its ending `_1_37` the value of the key with it.
void TakeValuesOf137(nlohmann::json& object) {
  constexpr std::string_view kEnding = "_1_37";
  const nlohmann::json before = object;
  for (const auto& [key, value] : before.items()) {
    if (!key.ends_with(kEnding)) continue;
    object[key.substr(0, key.size() - kEnding.size())] = value;
    object.erase(key);
  }
}

// The scenarios of a line: one for each release for which it has results. Those of 1.36 and 1.37
// differ in the state files.
std::vector<std::string> Releases(const std::string& text) {
  if (text.find("_1_37") == std::string::npos) return {text};
  const nlohmann::json line = nlohmann::json::parse(text);
  nlohmann::json older = line;
  nlohmann::json newer = line;
  newer["kubelet"] = "1.37";
  TakeValuesOf137(newer);
  for (nlohmann::json& result : newer["expect"]) {
    for (const char* key :
         {"cpu_manager_state", "memory_manager_state", "memory_manager_state_unordered"}) {
      if (!result.contains(std::string(key) + "_1_37")) result.erase(key);
    }
    TakeValuesOf137(result);
  }
  older.erase("files_1_37");
  for (nlohmann::json& result : older["expect"]) {
    const nlohmann::json before = result;
    for (const auto& [key, value] : before.items()) {
      if (key.ends_with("_1_37")) result.erase(key);
    }
  }
  return {older.dump(), newer.dump()};
}

// The names of all scenario files.
std::vector<std::string> ScenarioFiles() {
  std::set<std::string> names;
  for (const std::filesystem::path& directory : VectorDirectories()) {
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      if (entry.path().extension() == ".jsonl" && !HasOtherContents(name)) names.insert(name);
    }
  }
  return {names.begin(), names.end()};
}

// The part of a state that the state files contain. They do not contain the reusable resources of a
// pod that is being admitted.
admission::NodeState SavedAndLoaded(const admission::Node& node,
                                    const admission::NodeState& state) {
  admission::NodeState loaded = state;
  if (node.cpu) {
    auto cpu = checkpoint::ParseCpuCheckpoint(checkpoint::FormatCpuCheckpoint(
        ToString(node.config.cpu_manager_policy), state.cpu, checkpoint::FormOf(node.config)));
    EXPECT_TRUE(cpu.ok()) << cpu.error().message;
    loaded.cpu = cpu.ok() ? std::move(cpu->state) : cpumanager::CpuState{};
    loaded.cpu.reusable = state.cpu.reusable;
    // In a file of its own, which exists once there is an entry.
    auto originals = checkpoint::ParseOriginalsCheckpoint(
        checkpoint::FormatOriginalsCheckpoint(state.cpu.originals));
    EXPECT_TRUE(originals.ok()) << originals.error().message;
    if (originals.ok()) loaded.cpu.originals = *std::move(originals);
  }
  if (node.memory) {
    auto memory = checkpoint::ParseMemoryCheckpoint(
        checkpoint::FormatMemoryCheckpoint(ToString(node.config.memory_manager_policy),
                                           state.memory, checkpoint::FormOf(node.config)));
    EXPECT_TRUE(memory.ok()) << memory.error().message;
    loaded.memory = memory.ok() ? std::move(memory->state) : memorymanager::MemoryState{};
  }
  auto devices =
      checkpoint::ParseDeviceCheckpoint(checkpoint::FormatDeviceCheckpoint(state.devices));
  EXPECT_TRUE(devices.ok()) << devices.error().message;
  loaded.devices.allocations.clear();
  if (devices.ok()) loaded.devices.allocations = std::move(devices->allocations);
  return loaded;
}

void ExpectSound(const Simulation& simulation) {
  const admission::NodeState& state = simulation.state();
  EXPECT_EQ(state.BrokenInvariants(simulation.node()), std::vector<std::string>{});
  const admission::NodeState loaded = SavedAndLoaded(simulation.node(), state);
  EXPECT_TRUE(loaded.cpu == state.cpu) << "saving changes " << simulation.CpuManagerState();
  EXPECT_TRUE(loaded.memory == state.memory)
      << "saving changes " << simulation.MemoryManagerState();
  EXPECT_TRUE(loaded.devices == state.devices) << "saving changes the devices";
}

// Runs the scenario and checks only the state.
void ExpectSoundThroughout(const Scenario& scenario) {
  Result<Simulation> simulation = Simulation::Start(scenario);
  if (!simulation.ok()) return;  // the other test compares the expected result
  admission::NodeState initial = admission::NodeState::Initial(simulation->node());
  initial.devices = simulation->state().devices;
  std::set<std::string> pods;
  for (size_t i = 0; i < scenario.steps.size(); ++i) {
    SCOPED_TRACE("after step " + std::to_string(i));
    if (const auto* admit = std::get_if<AdmitPod>(&scenario.steps[i])) pods.insert(admit->pod.uid);
    const StepResult result = simulation->Run(scenario.steps[i]);
    EXPECT_FALSE(result.restart_error) << result.restart_error->message;
    ExpectSound(*simulation);
  }
  for (const std::string& pod : pods) {
    simulation->Run(RemovePod{pod});
    ExpectSound(*simulation);
  }
  admission::NodeState last = simulation->state();
  last.devices.resources = initial.devices.resources;  // their health has changed
  EXPECT_TRUE(last == initial)
      << "the state differs from the initial state after all pods have ended";
}

class ScenarioConformance : public testing::TestWithParam<std::string> {};

TEST_P(ScenarioConformance, HasTheKubeletsResults) {
  int lines = 0;
  for (const std::filesystem::path& file : VectorFiles(GetParam())) {
    for (const Line& line : ReadLines(file)) {
      ++lines;
      for (const std::string& text : Releases(line.text)) {
        const Result<Check> check = CheckText(text);
        if (!check.ok()) {
          ADD_FAILURE() << line.place << ": " << check.error().message;
        } else {
          EXPECT_TRUE(check->passed)
              << line.place << ": " << check->name << ": " << check->difference;
        }
      }
    }
  }
  EXPECT_GT(lines, 0);
}

TEST_P(ScenarioConformance, KeepsTheStateSound) {
  for (const std::filesystem::path& file : VectorFiles(GetParam())) {
    for (const Line& line : ReadLines(file)) {
      SCOPED_TRACE(line.place);
      for (const std::string& text : Releases(line.text)) {
        const Result<Scenario> scenario = ParseScenario(text);
        // A configuration that is refused cannot be parsed; the other test compares the text.
        if (scenario.ok()) ExpectSoundThroughout(*scenario);
      }
    }
  }
}

// `blog-1.20.jsonl` as a test's name: `blog_1_20`.
std::string TestName(const testing::TestParamInfo<std::string>& file) {
  std::string name = std::filesystem::path(file.param).stem().string();
  std::ranges::replace_if(
      name, [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Vectors, ScenarioConformance, testing::ValuesIn(ScenarioFiles()),
                         TestName);

}  // namespace
}  // namespace alignd::scenario
