#include "alignd/checkpoint/convert.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"

namespace alignd::checkpoint {
namespace {

cpumanager::CpuState CpusOfOnePod() {
  cpumanager::CpuState state;
  state.default_set = CpuSet{0} | CpuSet::Range(4, 27);
  state.assignments["uid"]["app"] = CpuSet::Range(1, 3);
  return state;
}

memorymanager::MemoryState SavedMemory() {
  memorymanager::MemoryState state;
  state.machine[0] = {.number_of_assignments = 1,
                      .tables = {{"memory",
                                  {.total = 1000,
                                   .system_reserved = 100,
                                   .allocatable = 900,
                                   .reserved = 50,
                                   .free = 850}}},
                      .cells = {0}};
  state.assignments["uid"]["app"] = {{.numa_affinity = {0}, .type = "memory", .size = 50}};
  return state;
}

std::string Converted(CheckpointKind kind, const std::string& text, const char* to) {
  const auto converted = Convert(kind, text, *ParseKubeletRelease(to));
  if (!converted.ok()) return converted.error().Text();
  return *converted ? **converted : "no file";
}

// To every release and back.
TEST(Convert, WritesTheFormOfTheRelease) {
  const std::string plain_cpu = FormatCpuCheckpoint("static", CpusOfOnePod(), StateForm::kPlain);
  const std::string data_cpu = FormatCpuCheckpoint("static", CpusOfOnePod(), StateForm::kData);
  const std::string plain_memory =
      FormatMemoryCheckpoint("Static", SavedMemory(), StateForm::kPlain);
  const std::string data_memory = FormatMemoryCheckpoint("Static", SavedMemory(), StateForm::kData);
  ASSERT_NE(plain_cpu, data_cpu);
  for (const std::string& cpu : {plain_cpu, data_cpu}) {
    for (const char* const old : {"1.20", "1.24", "1.36"}) {
      EXPECT_EQ(Converted(CheckpointKind::kCpu, cpu, old), plain_cpu) << old;
    }
    EXPECT_EQ(Converted(CheckpointKind::kCpu, cpu, "1.37"), data_cpu);
  }
  for (const std::string& memory : {plain_memory, data_memory}) {
    for (const char* const old : {"1.24", "1.36"}) {
      EXPECT_EQ(Converted(CheckpointKind::kMemory, memory, old), plain_memory) << old;
    }
    EXPECT_EQ(Converted(CheckpointKind::kMemory, memory, "1.37"), data_memory);
  }
}

TEST(Convert, RefusesPodsAsAWholeInOlderReleases) {
  cpumanager::CpuState cpus = CpusOfOnePod();
  cpus.pods["uid"] = CpuSet::Range(1, 3);
  const std::string text = FormatCpuCheckpoint("static", cpus, StateForm::kData);
  EXPECT_EQ(Converted(CheckpointKind::kCpu, text, "1.37"), text);
  EXPECT_EQ(Converted(CheckpointKind::kCpu, text, "1.36"),
            "pods have CPUs or memory as a whole, which kubelet 1.36 without the feature gate "
            "PodLevelResourceManagers does not keep: uid; let these pods end first; or, if that "
            "kubelet has the gate on, convert to 1.36-pod-level");
  EXPECT_EQ(Converted(CheckpointKind::kCpu, text, "1.24"),
            "pods have CPUs or memory as a whole, which kubelet 1.24 does not keep: uid; let these "
            "pods end first");
}

// Version 3 of the CPU file, 2 of the memory file.
TEST(Convert, WritesTheFormOf1_36WithItsGate) {
  cpumanager::CpuState cpus = CpusOfOnePod();
  cpus.pods["uid"] = CpuSet::Range(1, 3);
  memorymanager::MemoryState memory = SavedMemory();
  memory.pods["uid"] = {{.numa_affinity = {0}, .type = "memory", .size = 50}};
  const auto cpu = [&](StateForm form) { return FormatCpuCheckpoint("static", cpus, form); };
  const auto mem = [&](StateForm form) { return FormatMemoryCheckpoint("Static", memory, form); };
  for (const StateForm form : {StateForm::kPodLevel, StateForm::kData}) {
    EXPECT_EQ(Converted(CheckpointKind::kCpu, cpu(form), "1.36-pod-level"),
              cpu(StateForm::kPodLevel));
    EXPECT_EQ(Converted(CheckpointKind::kCpu, cpu(form), "1.37"), cpu(StateForm::kData));
    EXPECT_EQ(Converted(CheckpointKind::kMemory, mem(form), "1.36-pod-level"),
              mem(StateForm::kPodLevel));
    EXPECT_EQ(Converted(CheckpointKind::kMemory, mem(form), "1.37"), mem(StateForm::kData));
  }
  // Also without such pods: the checksums of the forms differ.
  const std::string plain = FormatCpuCheckpoint("static", CpusOfOnePod(), StateForm::kPlain);
  const std::string gate = FormatCpuCheckpoint("static", CpusOfOnePod(), StateForm::kPodLevel);
  EXPECT_EQ(Converted(CheckpointKind::kCpu, plain, "1.36-pod-level"), gate);
  EXPECT_EQ(Converted(CheckpointKind::kCpu, gate, "1.36"), plain);
}

TEST(Convert, ReleaseOfAConfigurationWritesItsForm) {
  KubeletConfig config;
  EXPECT_EQ(ReleaseOf(config), KubeletRelease::k1_37);
  config.compatibility = Compatibility::k1_36;
  EXPECT_EQ(ReleaseOf(config), KubeletRelease::k1_36);
  config.feature_gates["PodLevelResourceManagers"] = true;
  EXPECT_EQ(ReleaseOf(config), KubeletRelease::k1_36_pod_level);
  config.compatibility = Compatibility::k1_20;
  EXPECT_EQ(ReleaseOf(config), KubeletRelease::k1_20);
}

TEST(Convert, RefusesPinnedMemoryIn1_20) {
  const std::string pinned = FormatMemoryCheckpoint("Static", SavedMemory(), StateForm::kPlain);
  EXPECT_EQ(Converted(CheckpointKind::kMemory, pinned, "1.20"),
            "kubelet 1.20 has no memory manager, and containers of these pods have pinned memory: "
            "uid; let these pods end first, or convert to a later release");
  EXPECT_EQ(Converted(CheckpointKind::kMemory, FormatMemoryCheckpoint("None", {}, StateForm::kData),
                      "1.20"),
            "no file");
}

TEST(Convert, LeavesTheDeviceFileAsItIs) {
  const std::string text = FormatDeviceCheckpoint({});
  EXPECT_EQ(Converted(CheckpointKind::kDevice, text, "1.20"), text);
}

TEST(Convert, RefusesADamagedFile) {
  std::string text = FormatCpuCheckpoint("static", CpusOfOnePod(), StateForm::kPlain);
  text.replace(text.find("1-3"), 3, "1-2");
  const auto converted = Convert(CheckpointKind::kCpu, text, KubeletRelease::k1_37);
  ASSERT_FALSE(converted.ok());
  EXPECT_EQ(converted.error().code, ErrorCode::kCorrupt);
  EXPECT_FALSE(Convert(CheckpointKind::kDevice, "{}", KubeletRelease::k1_37).ok());
  EXPECT_FALSE(Convert(CheckpointKind::kMemory, "", KubeletRelease::k1_37).ok());
}

TEST(Convert, KnowsItsReleases) {
  EXPECT_FALSE(ParseKubeletRelease("1.28"));
  EXPECT_FALSE(ParseKubeletRelease(""));
}

}  // namespace
}  // namespace alignd::checkpoint
