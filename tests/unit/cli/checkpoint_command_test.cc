#include "cli/checkpoint_command.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "edge/fake_tree.h"
#include "edge/run_alignctl.h"

namespace alignd::cli {
namespace {

using testing::Printed;

constexpr const char* kCpu = R"({"policyName":"none","defaultCpuSet":"","checksum":1353318690})";
constexpr const char* kMemory = R"({"policyName":"None","machineState":{},"checksum":4236770233})";
constexpr const char* kDevice =
    R"({"Data":{"PodDeviceEntries":[{"PodUID":"u1","ContainerName":"app","ResourceName":"r/x",)"
    R"("DeviceIDs":{"0":["d1","d2"]},"AllocResp":"CgD/"}],)"
    R"("RegisteredDevices":{"r/x":["d1","d2"]}},"Checksum":229842288})";

// Runs `alignctl checkpoint verify` on files of the tree; its directory is removed from the output.
Printed Verify(const testing::FakeTree& tree, const std::vector<std::string>& files,
               const std::vector<std::string>& options = {}) {
  const std::string directory = tree.root().string() + "/";
  std::vector<std::string> arguments = {"checkpoint", "verify"};
  for (const std::string& file : files) arguments.push_back(directory + file);
  arguments.insert(arguments.end(), options.begin(), options.end());
  Printed outcome = testing::RunAlignctl({AddCheckpointCommand}, arguments);
  for (size_t at = 0; (at = outcome.out.find(directory)) != std::string::npos;) {
    outcome.out.erase(at, directory.size());
  }
  return outcome;
}

TEST(CheckpointCommand, SummarisesGoodFilesWhateverTheirNames) {
  const testing::FakeTree tree{
      {"cpu_manager_state", kCpu}, {"memory.txt", kMemory}, {"copy", kDevice}};
  const Printed outcome = Verify(tree, {"cpu_manager_state", "memory.txt", "copy"});
  EXPECT_EQ(outcome.status, kSuccess);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out,
            "cpu_manager_state: ok: cpu_manager_state version 2, policy \"none\", 0 containers, "
            "checksum 1353318690\n"
            "memory.txt: ok: memory_manager_state version 1, policy \"None\", 0 containers, "
            "checksum 4236770233\n"
            "copy: ok: kubelet_internal_checkpoint version 2, 1 allocation, checksum 229842288\n");
}

TEST(CheckpointCommand, SaysWhatIsWrongAndGoesOn) {
  const testing::FakeTree tree{{"cpu_manager_state", R"({"policyName":"none","checksum":5})"},
                               {"lists_cpu_manager_state", R"({"defaultCpuSet":"3-1"})"},
                               {"memory_manager_state", kMemory},
                               {"unknown", "{}"}};
  const Printed outcome = Verify(tree, {"cpu_manager_state", "lists_cpu_manager_state",
                                        "memory_manager_state", "unknown", "missing"});
  EXPECT_EQ(outcome.status, kFailure);
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(
      outcome.out.starts_with("cpu_manager_state: bad: checkpoint is corrupted\n"
                              "  its checksum is 5, its content has 1353318690; if it is "
                              "alignd's file: start alignd with --on-bad-state=rebuild (its "
                              "default), which rebuilds it from the running containers; do not "
                              "delete it, and drain nothing; if it is the kubelet's: drain this "
                              "node, and delete the file before the kubelet starts\n"
                              "lists_cpu_manager_state: bad: could not parse default cpu "
                              "set \"3-1\""))
      << outcome.out;
  EXPECT_NE(outcome.out.find("\nmemory_manager_state: ok: "), std::string::npos);
  EXPECT_NE(outcome.out.find("\nunknown: bad: neither its name nor its content shows which state "
                             "file it is\n  give --kind\n"),
            std::string::npos)
      << outcome.out;
  EXPECT_TRUE(outcome.out.ends_with(
      "missing: bad: read missing: No such file or directory\n  check the path\n"))
      << outcome.out;
}

// The kubelet's remedy for alignd's file would drain the node for nothing.
TEST(CheckpointCommand, TheRemedyIsThatOfTheReaderOfTheFile) {
  using checkpoint::CheckpointKind;
  const auto remedy = [](const std::string& path, CheckpointKind kind) {
    return RemedyForReader(path, kind, "why; " + std::string(checkpoint::RemedyOf(kind)));
  };
  for (const auto kind : {CheckpointKind::kCpu, CheckpointKind::kMemory, CheckpointKind::kDevice}) {
    const std::string own = remedy("/var/lib/alignd/x", kind);
    EXPECT_TRUE(own.starts_with("why; start alignd with --on-bad-state=rebuild")) << own;
    EXPECT_EQ(own.find("drain this node"), std::string::npos) << own;
    // alignd's device plugin directory can be there.
    const std::string kubelets = remedy("/var/lib/kubelet/device-plugins/x", kind);
    EXPECT_EQ(kubelets.find("alignd") != std::string::npos, kind == CheckpointKind::kDevice)
        << kubelets;
    EXPECT_NE(kubelets.find("drain this node, and delete the file"), std::string::npos) << kubelets;
    const std::string copy = remedy("/var/lib/alignd/../x", kind);
    EXPECT_NE(copy.find("if it is alignd's file"), std::string::npos) << copy;
    EXPECT_NE(copy.find("; if it is the kubelet's: drain"), std::string::npos) << copy;
  }
  EXPECT_EQ(RemedyForReader("/var/lib/alignd/x", CheckpointKind::kCpu, "give --kind"),
            "give --kind");
}

TEST(CheckpointCommand, ReportsAMissingChecksum) {
  const testing::FakeTree tree{{"state", R"({"policyName":"none","defaultCpuSet":""})"}};
  EXPECT_EQ(Verify(tree, {"state"}).out,
            "state: ok: cpu_manager_state version 2, policy \"none\", 0 containers, unchecked: it "
            "has no checksum (its content has 1353318690)\n");
}

TEST(CheckpointCommand, BelievesTheStatedKind) {
  const testing::FakeTree tree{{"cpu_manager_state", kMemory}};
  EXPECT_EQ(Verify(tree, {"cpu_manager_state"}).status, kFailure);
  EXPECT_EQ(Verify(tree, {"cpu_manager_state"}, {"--kind", "memory"}).status, kSuccess);
}

TEST(CheckpointCommand, ExplainsWrongUse) {
  const testing::FakeTree tree{{"state", kCpu}};
  EXPECT_EQ(Verify(tree, {}).status, kNoAnswer);
  EXPECT_EQ(Verify(tree, {"state"}, {"--kind", "disk"}).status, kNoAnswer);
}

}  // namespace
}  // namespace alignd::cli
