// Random states, with names as odd as JSON allows: what is written is read again as it was, and a
// file with any single byte changed is read as the same state or not at all.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/checkpoint/verify.h"
#include "core/property_seed.h"

namespace alignd::checkpoint {
namespace {

class RandomStates {
 public:
  explicit RandomStates(std::mt19937_64& random) : random_(random) {}

  cpumanager::CpuState Cpu() {
    cpumanager::CpuState state;
    state.default_set = Cpus(0);
    for (size_t pods = Below(4); pods > 0; --pods) {
      auto& containers = state.assignments[Name()];
      for (size_t i = 0; i <= Below(3); ++i) containers[Name()] = Cpus(1);
    }
    for (size_t pods = Below(3); pods > 0; --pods) state.pods[Name()] = Cpus(1);
    return state;
  }

  memorymanager::MemoryState Memory() {
    memorymanager::MemoryState state;
    for (size_t nodes = Below(4); nodes > 0; --nodes) {
      memorymanager::NumaMemory& node = state.machine[NodeId()];
      node.number_of_assignments = static_cast<int>(Below(100));
      for (size_t i = 0; i <= Below(3); ++i) {
        node.tables[Name()] = {random_(), random_(), random_(), random_(), random_()};
      }
      node.cells = NodeIds();
    }
    for (size_t pods = Below(4); pods > 0; --pods) {
      auto& containers = state.assignments[Name()];
      for (size_t i = 0; i <= Below(3); ++i) {
        containers[Name()] = {{NodeIds(), "hugepages-2Mi", random_()},
                              {NodeIds(), "memory", random_()}};
      }
    }
    for (size_t pods = Below(3); pods > 0; --pods) {
      state.pods[Name()] = {{NodeIds(), "memory", random_()}};
    }
    return state;
  }

  devicemanager::DeviceState Devices() {
    devicemanager::DeviceState state;
    for (size_t resources = Below(4); resources > 0; --resources) {
      devicemanager::Resource& resource = state.resources[Name()];
      for (size_t i = Below(4); i > 0; --i) resource.devices[Name()].healthy = Below(2) == 0;
    }
    for (size_t entries = Below(4); entries > 0; --entries) {
      auto& allocation = state.allocations[{Name(), Name()}][Name()];
      for (size_t i = Below(3); i > 0; --i) {
        const int64_t node = static_cast<int64_t>(Below(14)) - 1;
        std::set<std::string> ids;
        for (size_t j = Below(4); j > 0; --j) ids.insert(Name());
        allocation.devices[node].assign(ids.begin(), ids.end());
      }
      for (size_t i = Below(9); i > 0; --i) allocation.response += static_cast<char>(random_());
    }
    return state;
  }

  std::string Name() {
    static const std::vector<std::string> pieces = {
        "app", "-1", "{}",     "]",      "\"", "\\",   " ",    "<nil>", "&", "map[", ":", "\n",
        "\t",  "ü",  "\u2028", "\uFFFD", "😀",  "\x01", "\x7f", "",      "0", "10",   "2"};
    std::string name;
    for (size_t i = 0; i <= Below(3); ++i) name += pieces[Below(pieces.size())];
    return name;
  }

  StateForm Form() {
    return std::array{StateForm::kPlain, StateForm::kPodLevel, StateForm::kData}[Below(3)];
  }

  size_t Below(size_t end) { return random_() % end; }

 private:
  CpuSet Cpus(size_t fewest) {
    CpuSet cpus;
    for (size_t i = fewest + Below(20); i > 0; --i) cpus.Add(static_cast<int>(Below(300)));
    return cpus;
  }

  int NodeId() { return static_cast<int>(Below(256)); }

  std::vector<int> NodeIds() {
    std::set<int> ids;
    for (size_t i = Below(4); i > 0; --i) ids.insert(NodeId());
    return {ids.begin(), ids.end()};
  }

  std::mt19937_64& random_;
};

TEST(CheckpointProperty, CpuStatesAreReadAsTheyWereWritten) {
  std::mt19937_64 random = SeededRandom();
  RandomStates states(random);
  for (int i = 0; i < Iterations(500); ++i) {
    CpuCheckpoint checkpoint{states.Name(), states.Cpu()};
    const StateForm form = states.Form();
    if (form == StateForm::kPlain) checkpoint.state.pods.clear();
    const std::string text = FormatCpuCheckpoint(checkpoint.policy_name, checkpoint.state, form);
    const Result<CpuCheckpoint> read = ParseCpuCheckpoint(text);
    ASSERT_TRUE(read.ok()) << text << '\n' << read.error().Text();
    ASSERT_EQ(*read, checkpoint) << text;
    ASSERT_EQ(KindOfText(text), CheckpointKind::kCpu) << text;
  }
}

TEST(CheckpointProperty, MemoryStatesAreReadAsTheyWereWritten) {
  std::mt19937_64 random = SeededRandom();
  RandomStates states(random);
  for (int i = 0; i < Iterations(500); ++i) {
    MemoryCheckpoint checkpoint{states.Name(), states.Memory()};
    const StateForm form = states.Form();
    if (form == StateForm::kPlain) checkpoint.state.pods.clear();
    const std::string text = FormatMemoryCheckpoint(checkpoint.policy_name, checkpoint.state, form);
    const Result<MemoryCheckpoint> read = ParseMemoryCheckpoint(text);
    ASSERT_TRUE(read.ok()) << text << '\n' << read.error().Text();
    ASSERT_EQ(*read, checkpoint) << text;
    ASSERT_EQ(KindOfText(text), CheckpointKind::kMemory) << text;
  }
}

TEST(CheckpointProperty, DeviceStatesAreReadAsTheyWereWritten) {
  std::mt19937_64 random = SeededRandom();
  RandomStates states(random);
  for (int i = 0; i < Iterations(500); ++i) {
    const devicemanager::DeviceState state = states.Devices();
    const std::string text = FormatDeviceCheckpoint(state);
    const Result<DeviceCheckpoint> read = ParseDeviceCheckpoint(text);
    ASSERT_TRUE(read.ok()) << text << '\n' << read.error().Text();
    ASSERT_EQ(read->allocations, state.allocations) << text;
    ASSERT_EQ(read->registered.size(), state.resources.size()) << text;
    for (const auto& [name, resource] : state.resources) {
      std::vector<std::string> healthy;
      for (const auto& [id, device] : resource.devices) {
        if (device.healthy) healthy.push_back(id);
      }
      ASSERT_EQ(read->registered.at(name), healthy) << text;
    }
    ASSERT_EQ(KindOfText(text), CheckpointKind::kDevice) << text;
  }
}

// FNV-1a of texts of equal length that differ in one byte always differs, so a change inside a name
// is always found. Structural damage is either no JSON or another content.
TEST(CheckpointProperty, NoChangedByteIsOverlooked) {
  std::mt19937_64 random = SeededRandom();
  RandomStates states(random);
  for (int i = 0; i < Iterations(2000); ++i) {
    CpuCheckpoint checkpoint{"static", states.Cpu()};
    const StateForm form = states.Form();
    if (form == StateForm::kPlain) checkpoint.state.pods.clear();
    std::string text = FormatCpuCheckpoint(checkpoint.policy_name, checkpoint.state, form);
    // The key of the checksum itself is spared: without it the kubelet checks nothing. The same
    // holds of the keys `data` and `dataChecksum`, and all before them is not read.
    const bool has_data = form == StateForm::kData;
    const size_t from = has_data ? text.find(R"("data":")") + 8 : 0;
    const size_t to = text.rfind(has_data ? R"(,"dataChecksum")" : R"("checksum")");
    text[from + states.Below(to - from)] = static_cast<char>(random());
    const Result<CpuCheckpoint> read = ParseCpuCheckpoint(text);
    ASSERT_TRUE(!read.ok() || *read == checkpoint) << text;
  }
}

}  // namespace
}  // namespace alignd::checkpoint
