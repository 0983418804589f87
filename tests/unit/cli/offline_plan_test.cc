// `alignctl plan --state-dir`: the plan of a change from the state files of an alignd that does not
// run, and what refuses it.
#include <filesystem>
#include <string>
#include <vector>

#include "../moving/moving_node.h"
#include "cli/plan_command.h"
#include "cli/state_command.h"
#include "daemon/change_undo.h"
#include "host/durable_file.h"

namespace alignd::moving {
namespace {

class OfflinePlan : public ::testing::Test {
 protected:
  OfflinePlan() {
    const testing::Printed imported = testing::RunAlignctl(
        {cli::AddStateCommand}, {"state", "import", "--move", "--root", node_.root().string(),
                                 "--node", (node_.root() / "node.json").string()});
    EXPECT_EQ(imported.status, 0) << imported.err;
    files_ = node_.All();
  }
  ~OfflinePlan() override { EXPECT_EQ(node_.All(), files_); }

  testing::Printed Plan(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"plan",
                                          "--state-dir",
                                          StateDir().string(),
                                          "--root",
                                          node_.root().string(),
                                          "--node",
                                          (node_.root() / "node.json").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return testing::RunAlignctl({cli::AddPlanCommand}, arguments);
  }
  std::filesystem::path StateDir() const { return node_.root() / "var/lib/alignd"; }
  std::string CpusOf(const std::string& uid) const {
    return node_.CpusIn("/var/lib/alignd").assignments.at(uid).at("app").ToString();
  }
  // Of a refused plan: message and remedy.
  void ExpectRefused(const std::vector<std::string>& arguments, const std::string& expected,
                     int status = 1) {
    files_ = node_.All();
    const testing::Printed printed = Plan(arguments);
    EXPECT_EQ(printed.status, status) << printed.out << printed.err;
    EXPECT_TRUE(MovingNode::Has(printed.err, expected)) << printed.err;
  }

  MovingNode node_;
  std::map<std::string, std::string> files_;
};

TEST_F(OfflinePlan, ShowsWhatStaysAndWhatCannot) {
  const testing::Printed stays = Plan({"--policy", "restricted"});
  EXPECT_EQ(stays.status, 0) << stays.out << stays.err;
  EXPECT_TRUE(MovingNode::Has(stays.out, "+ topologyManagerPolicy: restricted\n")) << stays.out;
  EXPECT_TRUE(MovingNode::Has(stays.out, "pod uid-1 app: stays on CPUs " + CpusOf("uid-1")))
      << stays.out;
  EXPECT_TRUE(MovingNode::Has(stays.out, "note: planned from the state files")) << stays.out;
  const std::string reserved = "0," + CpusOf("uid-2");
  const testing::Printed refused = Plan({"--reserved-cpus", reserved});
  EXPECT_EQ(refused.status, 1) << refused.out << refused.err;
  EXPECT_TRUE(MovingNode::Has(refused.out, "! pod uid-2 app: cannot be satisfied: CPUs " +
                                               CpusOf("uid-2") + " become reserved"))
      << refused.out;
  const testing::Printed moves = Plan({"--reserved-cpus", reserved, "--may-move", "if-needed"});
  EXPECT_EQ(moves.status, 1) << moves.out;
  EXPECT_TRUE(
      MovingNode::Has(moves.out, "its memory would stay on another NUMA node than its CPUs "))
      << moves.out;
}

TEST_F(OfflinePlan, IsThatOfTheFile) {
  std::string text = kPolicies;
  text.replace(text.find("best-effort"), 11, "single-numa-node");
  node_.Write("/new.yaml", text);
  files_ = node_.All();
  const testing::Printed printed =
      Plan({"--config", (node_.root() / "new.yaml").string(), "-o", "json"});
  EXPECT_EQ(printed.status, 0) << printed.out << printed.err;
  EXPECT_TRUE(MovingNode::Has(printed.out, R"("after":"single-numa-node")")) << printed.out;
}

TEST_F(OfflinePlan, SaysThatTheFilesAreFromBeforeTheLastBoot) {
  node_.Write("/proc/sys/kernel/random/boot_id", "second\n");
  node_.Write("/var/lib/alignd/boot_id", "first\n");
  files_ = node_.All();
  const testing::Printed printed = Plan({});
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_TRUE(MovingNode::Has(printed.out, "note: the files are from before the last boot"))
      << printed.out;
}

TEST_F(OfflinePlan, IsRefusedWhereTheFilesDoNotSuffice) {
  node_.Write("/none.yaml", "kind: KubeletConfiguration\n");
  ExpectRefused({"--current-config", (node_.root() / "none.yaml").string()},
                "differs from state checkpoint policy");
  {
    const auto lock = host::LockDirectory(StateDir());
    ASSERT_TRUE(lock.ok());
    ExpectRefused({}, "leave out --state-dir", 2);
  }
  {
    const auto undo = daemon::ChangeUndo::Begin(StateDir(), {}, "kind: KubeletConfiguration\n");
    ASSERT_TRUE(undo.ok());
    ExpectRefused({}, "a change of the files was interrupted", 2);
    ASSERT_TRUE(undo->Commit().ok());
  }
  const std::string whole = node_.Read("/var/lib/alignd/cpu_manager_state");
  node_.Write("/var/lib/alignd/cpu_manager_state", whole.substr(0, whole.size() / 2));
  ExpectRefused({}, "which rebuilds it from the running containers");
  std::filesystem::remove(StateDir() / "cpu_manager_state");
  ExpectRefused({}, "is missing: what running containers are assigned");
  std::filesystem::remove_all(StateDir());
  ExpectRefused({}, "is not a directory that can be read");
}

TEST_F(OfflinePlan, OptionsOfFilesNeedTheDirectory) {
  const testing::Printed printed =
      testing::RunAlignctl({cli::AddPlanCommand}, {"plan", "--current-config", "/x"});
  EXPECT_EQ(printed.status, 2) << printed.out << printed.err;
  EXPECT_TRUE(MovingNode::Has(printed.err, "--state-dir")) << printed.err;
}

}  // namespace
}  // namespace alignd::moving
