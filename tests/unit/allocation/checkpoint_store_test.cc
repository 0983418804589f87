#include "allocation/checkpoint_store.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "alignd/admission/admission.h"
#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/memorymanager/adoption.h"
#include "edge/allocation_node.h"
#include "edge/odd_files.h"
#include "host/file.h"

namespace alignd::allocation {
namespace {

constexpr auto kForm = checkpoint::StateForm::kData;

using namespace alignd::testing;

class CheckpointStoreTest : public ::testing::Test {
 protected:
  // Every file's text by its name, lock and directories left out.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(tree.root())) {
      if (!entry.is_regular_file()) continue;
      files[entry.path().filename().string()] = host::ReadFile(entry.path()).value();
    }
    return files;
  }

  Result<admission::NodeState> Load(const admission::Node& of) {
    return CheckpointStore(paths(), disk).Load(of);
  }

  StatePaths paths() const { return {tree.root(), tree.root() / "device-plugins"}; }

  // Two pods, one of them with devices, as they would be saved.
  admission::NodeState TwoPods() const {
    admission::NodeState state = admission::NodeState::Initial(node);
    state.devices.resources[kGpu] = EightDevices("gpu");
    for (const Pod& pod : {AppPod("one", 2), AppPod("two", 4, {{kGpu, "2"}})}) {
      state = admission::Admit(node, state, pod, [](const auto&) { return std::nullopt; }).next;
    }
    state.devices.allocations[{"two", "app"}].at(kGpu).response = "answer";
    return state;
  }

  // The parts of a state that no file contains.
  static admission::NodeState WithoutUnsaved(admission::NodeState state) {
    state.affinities.clear();
    state.cpu.reusable.clear();
    const auto resources = state.devices.resources;
    for (const auto& [name, resource] : resources) state.devices.resources[name] = {};
    return state;
  }

  const FakeTree tree;
  FaultyFile disk;
  const admission::Node node = MakeNode();
};

TEST_F(CheckpointStoreTest, StartsWithNothingGivenAwayAndWritesTheFiles) {
  const Result<admission::NodeState> state = Load(node);
  ASSERT_TRUE(state.ok()) << state.error().Text();
  EXPECT_EQ(*state, admission::NodeState::Initial(node));
  EXPECT_EQ(Files().size(), 3u);
  EXPECT_EQ(Files().at("cpu_manager_state"),
            checkpoint::FormatCpuCheckpoint("static", state->cpu, kForm));
}

TEST_F(CheckpointStoreTest, WritesTheFilesOfAKubeletWithoutPolicies) {
  const admission::Node none = MakeNode(KubeletConfig{});
  ASSERT_TRUE(Load(none).ok());
  EXPECT_EQ(
      Files().at("cpu_manager_state"),
      R"({"policyName":"none","defaultCpuSet":"","checksum":1353318690,)"
      R"("data":"{\"policyName\":\"none\",\"defaultCpuSet\":\"\"}","dataChecksum":3028111495})");
  const Result<admission::NodeState> again = Load(none);
  ASSERT_TRUE(again.ok()) << again.error().Text();
  EXPECT_EQ(*again, admission::NodeState::Initial(none));
}

TEST_F(CheckpointStoreTest, LoadsWhatItSaved) {
  CheckpointStore store(paths(), disk);
  ASSERT_TRUE(store.Load(node).ok());
  const admission::NodeState state = TwoPods();
  ASSERT_TRUE(store.Save(node, state).ok());
  const Result<admission::NodeState> loaded = Load(node);
  ASSERT_TRUE(loaded.ok()) << loaded.error().Text();
  EXPECT_EQ(*loaded, WithoutUnsaved(state));
}

TEST_F(CheckpointStoreTest, WritesOnlyWhatChanged) {
  CheckpointStore store(paths(), disk);
  ASSERT_TRUE(store.Load(node).ok());
  admission::NodeState state = TwoPods();
  ASSERT_TRUE(store.Save(node, state).ok());
  const int calls = disk.calls();
  ASSERT_TRUE(store.Save(node, state).ok());
  EXPECT_EQ(disk.calls(), calls);
  admission::ReleasePod("one", state);  // no devices
  ASSERT_TRUE(store.Save(node, state).ok());
  const auto& log = disk.log();
  EXPECT_EQ(std::count(log.begin() + calls, log.end(), "rename"), 2);
}

TEST_F(CheckpointStoreTest, WritesAgainWhatItCouldNotWrite) {
  CheckpointStore store(paths(), disk);
  const admission::NodeState empty = store.Load(node).value();
  const admission::NodeState state = TwoPods();
  for (int index = 0; index < 3 * 9; ++index) {
    SCOPED_TRACE(index);
    disk.FailAt(index);
    const Result<Done> saved = store.Save(node, state);
    ASSERT_TRUE(disk.failed());
    ASSERT_FALSE(saved.ok());
    EXPECT_EQ(saved.error().code, ErrorCode::kIo);
    // Back to the start, as an admission that could not be saved.
    ASSERT_TRUE(store.Save(node, empty).ok());
    EXPECT_EQ(Load(node).value(), empty);
  }
}

TEST_F(CheckpointStoreTest, NamesTheDirectoryThatCannotBeMadeOrWritten) {
  const int calls = [this] {
    FaultyFile counter;
    const FakeTree other;
    EXPECT_TRUE(
        CheckpointStore({other.root(), other.root() / "device-plugins"}, counter).Load(node).ok());
    return counter.calls();
  }();
  for (int index = 0; index < calls; ++index) {
    const FakeTree other;
    FaultyFile faulty;
    faulty.FailAt(index, EROFS);
    const Result<admission::NodeState> loaded =
        CheckpointStore({other.root(), other.root() / "device-plugins"}, faulty).Load(node);
    ASSERT_FALSE(loaded.ok()) << index;
    EXPECT_EQ(loaded.error().code, ErrorCode::kIo);
    EXPECT_NE(loaded.error().message.find(other.root().string()), std::string::npos);
  }
}

TEST_F(CheckpointStoreTest, RemovesHalfWrittenTemporaries) {
  tree.Write({".cpu_manager_state.alignd-new", "{\"policyNa"});
  tree.Write({"device-plugins/.kubelet_internal_checkpoint.alignd-new", "{"});
  ASSERT_TRUE(Load(node).ok());
  EXPECT_EQ(Files().size(), 3u);
}

TEST_F(CheckpointStoreTest, TakesAStateThatSaysNothingAsTheInitialOne) {
  tree.Write({"cpu_manager_state", checkpoint::FormatCpuCheckpoint("static", {}, kForm)});
  tree.Write({"memory_manager_state", checkpoint::FormatMemoryCheckpoint("Static", {}, kForm)});
  const Result<admission::NodeState> state = Load(node);
  ASSERT_TRUE(state.ok()) << state.error().Text();
  EXPECT_EQ(*state, admission::NodeState::Initial(node));
}

TEST_F(CheckpointStoreTest, ChangesFromNoPolicyToAnyOther) {
  ASSERT_TRUE(Load(MakeNode(KubeletConfig{})).ok());  // writes the files of policy none
  const Result<admission::NodeState> state = Load(node);
  ASSERT_TRUE(state.ok()) << state.error().Text();
  EXPECT_EQ(*state, admission::NodeState::Initial(node));
  EXPECT_EQ(Files().at("cpu_manager_state"),
            checkpoint::FormatCpuCheckpoint("static", state->cpu, kForm));
}

TEST_F(CheckpointStoreTest, RefusesACpuFileFromBefore118) {
  tree.Write({"cpu_manager_state",
              R"({"policyName":"static","defaultCpuSet":"0-1,4-15","entries":{"c1":"2-3"}})"});
  const Result<admission::NodeState> state = Load(node);
  ASSERT_FALSE(state.ok());
  EXPECT_NE(state.error().message.find("the file is from a kubelet before 1.18"), std::string::npos)
      << state.error().Text();
  EXPECT_EQ(state.error().remedy, RebuildRemedy(paths().CpuFile()));
}

struct Refused {
  std::string name;
  std::string file;  // below the state directory
  std::string text;
  ErrorCode code;
  std::string message;  // a part of it
  std::string remedy;   // a part of it; the file's path is in every remedy
};

// Row 23 of the pain points: nodes have some memory more or less after a boot, and the kubelet does
// not start.
TEST_F(CheckpointStoreTest, Row23KeepsWhatIsAssignedWhenNodesHaveOtherSizesAfterABoot) {
  ASSERT_TRUE(Load(node).ok());
  ASSERT_TRUE(CheckpointStore(paths(), disk).Save(node, TwoPods()).ok());
  for (const char* size : {"63", "65"}) {
    const admission::Node booted =
        MakeNode(StaticConfig(),
                 MakeMachine("socket:2 numa:1 core:4 thread:2 memory-gib=" + std::string(size)));
    const Result<admission::NodeState> state = Load(booted);
    ASSERT_TRUE(state.ok()) << state.error().Text();
    EXPECT_EQ(state->memory.assignments, TwoPods().memory.assignments);
    EXPECT_EQ(state->BrokenInvariants(booted), std::vector<std::string>());
  }
  // Two pods of 1Gi on one node do not fit on what is left.
  const admission::Node shrunk =
      MakeNode(StaticConfig(), MakeMachine("socket:2 numa:1 core:4 thread:2 memory-gib=1"));
  const Result<admission::NodeState> state = Load(shrunk);
  ASSERT_FALSE(state.ok());
  EXPECT_EQ(state.error().remedy, RebuildRemedy(paths().MemoryFile()));
}

TEST_F(CheckpointStoreTest, RefusesToStartAndTouchesNothingOrSetsTheFileAside) {
  admission::NodeState overlapping = TwoPods();
  overlapping.cpu.default_set |= *overlapping.cpu.Find({"one", "app"});
  admission::NodeState other_cpus = TwoPods();
  other_cpus.cpu.default_set |= Cpus("16");
  admission::NodeState torn_memory = TwoPods();
  torn_memory.memory.machine.at(0).tables.at("memory").total -= 4096;
  admission::NodeState shared_device = TwoPods();
  shared_device.devices.allocations[{"one", "app"}] =
      shared_device.devices.allocations.at({"two", "app"});
  // Sound under other reservations: CPU 0 is assigned; no pod may use it; more memory.
  admission::NodeState reserved_assigned = TwoPods();
  reserved_assigned.cpu.assignments["one"]["app"] |= Cpus("0");
  reserved_assigned.cpu.default_set -= Cpus("0");
  admission::NodeState strict = TwoPods();
  strict.cpu.default_set -= Cpus("0");
  KubeletConfig more_memory = StaticConfig();
  more_memory.reserved_memory = {{0, {{"memory", Amount("200Mi")}}}};
  more_memory.kube_reserved = {{"memory", Amount("100Mi")}};
  const admission::NodeState other_memory = admission::NodeState::Initial(MakeNode(more_memory));
  std::string wrong_sum = checkpoint::FormatDeviceCheckpoint(TwoPods().devices);
  wrong_sum.insert(wrong_sum.find("gpu0"), "x");

  const char* const kRebuild = "start alignd with --on-bad-state=rebuild";
  const std::string device_file = "device-plugins/kubelet_internal_checkpoint";
  const std::vector<Refused> cases = {
      {"CPU file cut off", "cpu_manager_state", R"({"policyName":"static","defa)",
       ErrorCode::kCorrupt, "could not restore state from checkpoint: ", kRebuild},
      {"CPU file empty", "cpu_manager_state", "", ErrorCode::kCorrupt,
       "could not restore state from checkpoint: ", kRebuild},
      {"CPU file with a wrong checksum", "cpu_manager_state",
       R"({"policyName":"static","defaultCpuSet":"0-15","checksum":1})", ErrorCode::kCorrupt,
       "could not restore state from checkpoint: ", kRebuild},
      {"CPU file of another policy", "cpu_manager_state",
       checkpoint::FormatCpuCheckpoint("none", TwoPods().cpu, kForm), ErrorCode::kInvalidArgument,
       R"(configured policy "static" differs from state checkpoint policy "none")",
       "set cpuManagerPolicy to \"none\", or remove "},
      {"default set overlaps", "cpu_manager_state",
       checkpoint::FormatCpuCheckpoint("static", overlapping.cpu, kForm), ErrorCode::kCorrupt,
       "overlaps with default cpuset", kRebuild},
      {"a CPU was removed", "cpu_manager_state",
       checkpoint::FormatCpuCheckpoint("static", other_cpus.cpu, kForm), ErrorCode::kCorrupt,
       R"(current set of available CPUs "0-15" doesn't match with CPUs in state)", kRebuild},
      {"a reserved CPU is assigned", "cpu_manager_state",
       checkpoint::FormatCpuCheckpoint("static", reserved_assigned.cpu, kForm),
       ErrorCode::kInvalidArgument, R"(not all reserved cpus: "0" are present in defaultCpuSet)",
       "as before, and change them with `alignctl apply`"},
      {"strict-cpu-reservation was turned off", "cpu_manager_state",
       checkpoint::FormatCpuCheckpoint("static", strict.cpu, kForm), ErrorCode::kInvalidArgument,
       R"(not all reserved cpus: "0" are present in defaultCpuSet)",
       "set reservedSystemCPUs (or kubeReserved and systemReserved) and strict-cpu-reservation "
       "as "},
      {"other reserved memory", "memory_manager_state",
       checkpoint::FormatMemoryCheckpoint("Static", other_memory.memory, kForm),
       ErrorCode::kInvalidArgument, "the expected machine state is different from the real one",
       "set reservedMemory as before, and change them with `alignctl apply`"},
      {"memory file cut off", "memory_manager_state", "{", ErrorCode::kCorrupt,
       "could not restore state from checkpoint: ", kRebuild},
      {"memory file of another policy", "memory_manager_state",
       checkpoint::FormatMemoryCheckpoint("None", TwoPods().memory, kForm),
       ErrorCode::kInvalidArgument,
       R"([memorymanager] configured policy "Static" differs from state checkpoint policy "None")",
       "set memoryManagerPolicy to \"None\", or remove "},
      {"a memory table that does not add up", "memory_manager_state",
       checkpoint::FormatMemoryCheckpoint("Static", torn_memory.memory, kForm), ErrorCode::kCorrupt,
       "the expected machine state is different from the real one", kRebuild},
      {"device file cut off", device_file, "{", ErrorCode::kCorrupt,
       "could not restore state from checkpoint: ", kRebuild},
      {"device file with a wrong checksum", device_file, wrong_sum, ErrorCode::kCorrupt,
       "could not restore state from checkpoint: ", kRebuild},
      {"device file that is too long", device_file, std::string(host::kMaxFileBytes + 1, ' '),
       ErrorCode::kCorrupt, "longer than 16777216 bytes", kRebuild},
      {"a device that two pods are assigned", device_file,
       checkpoint::FormatDeviceCheckpoint(shared_device.devices), ErrorCode::kCorrupt, "gpu",
       kRebuild},
  };
  for (const Refused& each : cases) {
    SCOPED_TRACE(each.name);
    const FakeTree broken;
    CheckpointStore store({broken.root(), broken.root() / "device-plugins"});
    ASSERT_TRUE(store.Load(node).ok());
    ASSERT_TRUE(store.Save(node, TwoPods()).ok());
    broken.Write({each.file, each.text});
    const std::string path = (broken.root() / each.file).string();
    const Result<admission::NodeState> loaded =
        CheckpointStore({broken.root(), broken.root() / "device-plugins"}).Load(node);
    ASSERT_FALSE(loaded.ok());
    const Error& error = loaded.error();
    EXPECT_EQ(error.code, each.code);
    EXPECT_EQ(error.message.find("load " + path + ": "), 0u) << error.message;
    EXPECT_NE(error.message.find(each.message), std::string::npos) << error.message;
    EXPECT_NE(error.remedy.find(each.remedy), std::string::npos) << error.remedy;
    EXPECT_NE(error.remedy.find(path), std::string::npos) << error.remedy;
    EXPECT_EQ(host::ReadFile(path, 2 * host::kMaxFileBytes).value(), each.text);

    CheckpointStore again({broken.root(), broken.root() / "device-plugins"});
    const Result<admission::NodeState> rebuilt = again.Load(node, OnBadState::kRebuild);
    if (each.code == ErrorCode::kInvalidArgument) {  // a change of the configuration is no damage
      EXPECT_FALSE(rebuilt.ok());
      EXPECT_EQ(host::ReadFile(path).value(), each.text);
      continue;
    }
    ASSERT_TRUE(rebuilt.ok()) << rebuilt.error().Text();
    ASSERT_EQ(again.findings().bad.size(), 1U);
    const BadFile bad = again.findings().bad[0];
    EXPECT_EQ(bad.file, path);
    EXPECT_NE(bad.why.find(each.message), std::string::npos) << bad.why;
    EXPECT_TRUE(bad.kept.string().starts_with(path + ".bad-")) << bad.kept;
    EXPECT_EQ(host::ReadFile(bad.kept, 2 * host::kMaxFileBytes).value(), each.text);
    // Its part is as without containers, and written; the others are as they were.
    const admission::NodeState initial = admission::NodeState::Initial(node);
    const admission::NodeState saved = WithoutUnsaved(TwoPods());
    EXPECT_EQ(rebuilt->cpu, each.file == "cpu_manager_state" ? initial.cpu : saved.cpu);
    EXPECT_EQ(rebuilt->memory, each.file == "memory_manager_state" ? initial.memory : saved.memory);
    EXPECT_EQ(rebuilt->devices, each.file == device_file ? initial.devices : saved.devices);
    EXPECT_TRUE(host::ReadFile(path).ok());
    EXPECT_TRUE(again.Load(node).ok());
    EXPECT_TRUE(again.findings().bad.empty());
  }
}

// Whether the reservations have changed or the machine, if the CPUs of the file are not all of it.
TEST_F(CheckpointStoreTest, OtherReservationsAreNoOtherCpus) {
  struct Saved {
    const char* cpus;      // of the file
    const char* reserved;  // now
    bool strict;           // now
    ErrorCode code;
  };
  const std::vector<Saved> cases = {
      {"0-15", "0", true, ErrorCode::kInvalidArgument},    // strict was turned on
      {"1-15", "0", false, ErrorCode::kInvalidArgument},   // strict was turned off
      {"1-15", "0-1", true, ErrorCode::kInvalidArgument},  // one more is reserved
      {"1-15", "2", true, ErrorCode::kInvalidArgument},    // another one is reserved
      {"0-14", "0", false, ErrorCode::kCorrupt},           // CPU 15 was added
      {"0-16", "0", false, ErrorCode::kCorrupt},           // CPU 16 is offline
      {"1-14", "0", true, ErrorCode::kCorrupt},            // CPU 15 was added
      {"1-16", "0-1", true, ErrorCode::kCorrupt},          // and CPU 16 is offline
  };
  for (const Saved& saved : cases) {
    SCOPED_TRACE(std::string(saved.cpus) + ", reserved now " + saved.reserved);
    KubeletConfig config = StaticConfig();
    config.reserved_system_cpus = saved.reserved;
    if (saved.strict) config.cpu_manager_policy_options["strict-cpu-reservation"] = "true";
    cpumanager::CpuState state;
    state.assignments["one"]["app"] = Cpus("1-3");
    state.default_set = Cpus(saved.cpus) - Cpus("1-3");
    const std::string text = checkpoint::FormatCpuCheckpoint("static", state, kForm);
    tree.Write({"cpu_manager_state", text});
    const auto loaded = CheckpointStore(paths(), disk).Load(MakeNode(config), OnBadState::kRebuild);
    EXPECT_EQ(loaded.ok(), saved.code == ErrorCode::kCorrupt);
    if (loaded.ok()) continue;
    EXPECT_EQ(loaded.error().code, saved.code) << loaded.error().Text();
    EXPECT_EQ(host::ReadFile(paths().CpuFile()).value(), text);
  }
}

TEST_F(CheckpointStoreTest, NewCpusJoinTheSharedPool) {
  admission::NodeState fewer = TwoPods();
  fewer.cpu.default_set -= Cpus("14-15");
  const std::string text = checkpoint::FormatCpuCheckpoint("static", fewer.cpu, kForm);
  tree.Write({"cpu_manager_state", text});
  EXPECT_FALSE(Load(node).ok());  // as a kubelet
  CheckpointStore store(paths(), disk);
  const Result<admission::NodeState> loaded = store.Load(node, OnBadState::kRebuild);
  ASSERT_TRUE(loaded.ok()) << loaded.error().Text();
  EXPECT_EQ(loaded->cpu, WithoutUnsaved(TwoPods()).cpu);
  EXPECT_TRUE(store.findings().bad.empty());
  EXPECT_TRUE(Load(node).ok());  // it has been written
}

// A kubelet writes the memory of a pod as a whole before that of its containers.
TEST_F(CheckpointStoreTest, FreesTheMemoryOfAPodWithoutContainer) {
  KubeletConfig config = StaticConfig();
  config.topology_manager_scope = TopologyManagerScope::kPod;
  config.feature_gates["PodLevelResourceManagers"] = true;
  const admission::Node whole = MakeNode(config);
  const memorymanager::MemoryState initial = admission::NodeState::Initial(whole).memory;
  memorymanager::MemoryState memory = initial;
  ASSERT_TRUE(memorymanager::AdoptPod("p", {{{0}, "memory", uint64_t{1} << 30}}, memory).ok());
  ASSERT_NE(memory, initial);
  tree.Write({"memory_manager_state",
              checkpoint::FormatMemoryCheckpoint("Static", memory, checkpoint::FormOf(config))});
  const Result<admission::NodeState> loaded = Load(whole);
  ASSERT_TRUE(loaded.ok()) << loaded.error().Text();
  EXPECT_EQ(loaded->memory, initial);
}

TEST_F(CheckpointStoreTest, KeepsEveryBadFile) {
  for (int i = 0; i < 3; ++i) {
    tree.Write({"cpu_manager_state", "damage " + std::to_string(i)});
    ASSERT_TRUE(CheckpointStore(paths(), disk).Load(node, OnBadState::kRebuild).ok());
  }
  size_t kept = 0;
  for (const auto& [name, text] : Files()) kept += text.starts_with("damage ") ? 1 : 0;
  EXPECT_EQ(kept, 3U);
}

TEST_F(CheckpointStoreTest, SaysWhichFilesWereMissing) {
  CheckpointStore store(paths(), disk);
  ASSERT_TRUE(store.Load(node).ok());
  EXPECT_EQ(store.findings().missing.size(), 3U);
  ASSERT_TRUE(store.Load(node).ok());
  EXPECT_EQ(store.findings().missing.size(), 0U);
}

// The disk fails while the file is renamed: the start ends, and the file is as it was.
TEST_F(CheckpointStoreTest, DoesNotStartWithoutKeepingABadFile) {
  tree.Write({"cpu_manager_state", "damage"});
  class NoRename final : public host::FileCalls {
   public:
    int Rename(const char*, const char*) override {
      errno = EROFS;
      return -1;
    }
  } calls;
  const auto loaded = CheckpointStore(paths(), calls).Load(node, OnBadState::kRebuild);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::kIo);
  EXPECT_EQ(host::ReadFile(paths().CpuFile()).value(), "damage");
}

TEST_F(CheckpointStoreTest, TakesNothingButAnAbsentFileForAbsent) {
  for (const auto& path : {paths().CpuFile(), paths().MemoryFile(), paths().DeviceFile()}) {
    for (const OddFile kind : OddFiles()) {
      SCOPED_TRACE(path.filename().string() + ": " + NameOf(kind));
      MakeOddFile(kind, path);
      const Result<admission::NodeState> loaded = Load(node);
      ASSERT_FALSE(loaded.ok());
      EXPECT_EQ(loaded.error().code, ErrorCode::kIo);
      EXPECT_NE(loaded.error().message.find(path.string()), std::string::npos);
      EXPECT_NE(loaded.error().remedy, "");
    }
    std::filesystem::remove_all(path);
  }
  EXPECT_TRUE(Load(node).ok());
}

TEST_F(CheckpointStoreTest, WritesAFileAgainThatIsGoneOrNoFileAnyMore) {
  CheckpointStore store(paths());  // the faulty disk reads what a rename replaces, a FIFO too
  ASSERT_TRUE(store.Load(node).ok());
  ASSERT_TRUE(store.Save(node, TwoPods()).ok());
  const std::string ours = host::ReadFile(paths().CpuFile()).value();
  for (const OddFile kind : OddFiles()) {
    SCOPED_TRACE(NameOf(kind));
    MakeOddFile(kind, paths().CpuFile());
    EXPECT_TRUE(store.FindForeignFiles().empty());
    EXPECT_TRUE(store.IsUncertain());
    if (kind == OddFile::kDirectory) {
      EXPECT_FALSE(store.Save(node, TwoPods()).ok());
      EXPECT_TRUE(store.IsUncertain());
      continue;
    }
    ASSERT_TRUE(store.Save(node, TwoPods()).ok());
    EXPECT_EQ(host::ReadFile(paths().CpuFile()).value(), ours);
    EXPECT_FALSE(store.IsUncertain());
  }
  std::filesystem::remove(paths().CpuFile());
  EXPECT_TRUE(store.FindForeignFiles().empty());
  EXPECT_TRUE(store.IsUncertain());
}

TEST_F(CheckpointStoreTest, FindsFilesThatAnotherProgramWrote) {
  CheckpointStore store(paths(), disk);
  EXPECT_TRUE(store.FindForeignFiles().empty());
  ASSERT_TRUE(store.Load(node).ok());
  ASSERT_TRUE(store.Save(node, TwoPods()).ok());
  EXPECT_TRUE(store.FindForeignFiles().empty());
  EXPECT_FALSE(store.IsUncertain());
  for (const auto& path : {paths().CpuFile(), paths().MemoryFile()}) {
    const std::string ours = host::ReadFile(path).value();
    ASSERT_TRUE(host::ReplaceFile(path, "{}").ok());
    const std::vector<CheckpointStore::ForeignFile> foreign = store.FindForeignFiles();
    ASSERT_EQ(foreign.size(), 1u);
    EXPECT_EQ(foreign[0].path, path);
    EXPECT_EQ(foreign[0].text, "{}");
    EXPECT_TRUE(store.IsUncertain());
    // The same as before: ours is written again all the same.
    ASSERT_TRUE(store.Save(node, TwoPods()).ok());
    EXPECT_EQ(host::ReadFile(path).value(), ours);
    EXPECT_FALSE(store.IsUncertain());
  }
  EXPECT_TRUE(store.FindForeignFiles().empty());
}

}  // namespace
}  // namespace alignd::allocation
