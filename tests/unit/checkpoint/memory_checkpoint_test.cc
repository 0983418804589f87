#include "alignd/checkpoint/memory_checkpoint.h"

#include <gtest/gtest.h>

#include "alignd/checkpoint/documents.h"

namespace alignd::checkpoint {
namespace {

using memorymanager::MemoryState;

constexpr const char* kMemoryOfOnePod =
    R"({"policyName":"Static","machineState":{"0":{"numberOfAssignments":1,"memoryMap":{)"
    R"("memory":{"total":1000,"systemReserved":100,"allocatable":900,"reserved":50,"free":850}},)"
    R"("cells":[0]}},"entries":{"u1":{"app":[{"numaAffinity":[0],"type":"memory","size":50}]}},)"
    R"("checksum":2008844346})";

MemoryState MemoryOfOnePod() {
  MemoryState state;
  state.machine[0] = {1, {{"memory", {1000, 100, 900, 50, 850}}}, {0}};
  state.assignments["u1"]["app"] = {{{0}, "memory", 50}};
  return state;
}

TEST(FormatMemoryCheckpoint, WritesAnEmptyState) {
  EXPECT_EQ(FormatMemoryCheckpoint("None", {}, StateForm::kPlain),
            R"({"policyName":"None","machineState":{},"checksum":4236770233})");
}

TEST(FormatMemoryCheckpoint, WritesNodesAndAssignments) {
  EXPECT_EQ(FormatMemoryCheckpoint("Static", MemoryOfOnePod(), StateForm::kPlain), kMemoryOfOnePod);
}

TEST(ParseMemoryCheckpoint, ReadsWhatIsWritten) {
  const Result<MemoryCheckpoint> read = ParseMemoryCheckpoint(kMemoryOfOnePod);
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(*read, (MemoryCheckpoint{"Static", MemoryOfOnePod()}));
}

TEST(ParseMemoryCheckpoint, SortsWhatTheKubeletWritesInAnyOrder) {
  const Result<MemoryCheckpoint> read = ParseMemoryCheckpoint(
      R"({"machineState":{"0":{"cells":[1,0]}},"entries":{"u":{"c":[{"type":"memory",)"
      R"("numaAffinity":[1,0],"size":2},{"type":"hugepages-2Mi","size":1}]}}})");
  ASSERT_TRUE(read.ok()) << read.error().Text();
  MemoryState state;
  state.machine[0].cells = {0, 1};
  state.assignments["u"]["c"] = {{{}, "hugepages-2Mi", 1}, {{0, 1}, "memory", 2}};
  EXPECT_EQ(read->state, state);
}

TEST(ParseMemoryCheckpoint, LeavesOutPodsWithoutContainers) {
  const Result<MemoryCheckpoint> read =
      ParseMemoryCheckpoint(R"({"machineState":null,"entries":{"a":null,"b":{}}})");
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(read->state, MemoryState{});
}

// The kubelet makes null an empty list, and has an entry for a container that requests no memory.
TEST(ParseMemoryCheckpoint, KeepsContainersWithoutBlocks) {
  const Result<MemoryCheckpoint> read =
      ParseMemoryCheckpoint(R"({"machineState":null,"entries":{"c":{"d":[],"e":null}}})");
  ASSERT_TRUE(read.ok()) << read.error().Text();
  MemoryState state;
  state.assignments["c"] = {{"d", {}}, {"e", {}}};
  EXPECT_EQ(read->state, state);
  EXPECT_NE(FormatMemoryCheckpoint("Static", state, StateForm::kPlain)
                .find(R"("entries":{"c":{"d":[],"e":[]}})"),
            std::string::npos);
}

struct MemoryErrorCase {
  const char* name;
  const char* text;
  const char* message;
};

class MemoryCheckpointErrors : public testing::TestWithParam<MemoryErrorCase> {};

TEST_P(MemoryCheckpointErrors, NameThePlace) {
  const Result<MemoryCheckpoint> read = ParseMemoryCheckpoint(GetParam().text);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error(), (Error{ErrorCode::kCorrupt, GetParam().message,
                                 std::string(RemedyOf(CheckpointKind::kMemory))}));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, MemoryCheckpointErrors,
    testing::Values(
        MemoryErrorCase{"NullNode", R"({"machineState":{"3":null}})",
                        R"(machineState."3": the node is null)"},
        MemoryErrorCase{"NullTable", R"({"machineState":{"3":{"memoryMap":{"memory":null}}}})",
                        R"(machineState."3": memoryMap."memory" is null)"},
        MemoryErrorCase{"NegativeNode", R"({"machineState":{"-1":{}}})",
                        R"(machineState."-1": -1 is neither a NUMA node id nor a count)"},
        MemoryErrorCase{
            "LargeCount", R"({"machineState":{"0":{"numberOfAssignments":2147483648}}})",
            R"(machineState."0": numberOfAssignments: 2147483648 is neither a NUMA node id )"
            "nor a count"},
        MemoryErrorCase{
            "LargeCell", R"({"machineState":{"0":{"cells":[2147483648]}}})",
            R"(machineState."0": cells: 2147483648 is neither a NUMA node id nor a count)"},
        MemoryErrorCase{
            "NegativeAffinity", R"({"entries":{"u":{"c":[{"numaAffinity":[-2]}]}}})",
            R"(entries."u"."c": numaAffinity: -2 is neither a NUMA node id nor a count)"}),
    [](const auto& test) { return test.param.name; });

TEST(RequirePolicy, ComparesWithTheConfiguredMemoryPolicy) {
  MemoryCheckpoint checkpoint;
  checkpoint.policy_name = "None";
  EXPECT_TRUE(RequirePolicy(checkpoint, "None").ok());
  const Result<Done> other = RequirePolicy(checkpoint, "Static");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(
      other.error().message,
      R"([memorymanager] configured policy "Static" differs from state checkpoint policy "None")");
}

}  // namespace
}  // namespace alignd::checkpoint
