// `alignctl plan --state-dir`: the plan of a change from the state files of an alignd that does not
// run, and what refuses it.
#include <filesystem>
#include <string>
#include <vector>

#include "../moving/moving_node.h"
#include "alignd/checkpoint/shares_checkpoint.h"
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
  void ExpectRefused(const std::vector<std::string>& arguments, const std::string& expected) {
    files_ = node_.All();
    const testing::Printed printed = Plan(arguments);
    EXPECT_EQ(printed.status, 2) << printed.out << printed.err;
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
    ExpectRefused({}, "leave out --state-dir");
  }
  {
    const auto undo = daemon::ChangeUndo::Begin(StateDir(), {}, "kind: KubeletConfiguration\n");
    ASSERT_TRUE(undo.ok());
    ExpectRefused({}, "a change of the files was interrupted");
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

// A node without a policy of its own. The files do not say what its pods ask for by annotation.
class OfflinePlanOfPods : public OfflinePlan {
 protected:
  static constexpr char kChoosing[] =
      "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\npodPolicies: [numaTopologyPolicy]\n";

  // Of the pods: `p` app and log; `q` app.
  void Assign(const std::string& app, const std::string& log, const std::string& other) {
    cpumanager::CpuState state;
    state.default_set = *CpuSet::Parse("0-5");
    const auto assign = [&state](const char* uid, const char* name, const std::string& cpus) {
      if (cpus.empty()) return;
      state.assignments[uid][name] = *CpuSet::Parse(cpus);
      state.default_set -= *CpuSet::Parse(cpus);
    };
    assign("p", "app", app);
    assign("p", "log", log);
    assign("q", "app", other);
    node_.Write("/var/lib/alignd/cpu_manager_state",
                checkpoint::FormatCpuCheckpoint("static", state, checkpoint::StateForm::kPlain));
    std::filesystem::remove(StateDir() / "memory_manager_state");
    files_ = node_.All();
  }
  testing::Printed PlanFrom(const std::string& config, std::vector<std::string> more) {
    node_.Write("/current.yaml", config);
    files_ = node_.All();
    more.insert(more.end(), {"--current-config", (node_.root() / "current.yaml").string(),
                             "--config", (node_.root() / "current.yaml").string()});
    return Plan(std::move(more));
  }
};

TEST_F(OfflinePlanOfPods, AMoveThatDependsOnAPolicyIsUndecided) {
  Assign("3-4", "", "2");
  const std::vector<std::string> change = {"--reserved-cpus", "0,3", "--may-move", "if-needed"};
  const std::string none = "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n";
  const testing::Printed moves = PlanFrom(none, change);
  EXPECT_EQ(moves.status, 0) << moves.out << moves.err;
  EXPECT_TRUE(MovingNode::Has(moves.out, "+ pod p app: CPUs 1,4\n")) << moves.out;
  // With each of the policies, both of its CPUs come from one NUMA node.
  const testing::Printed undecided = PlanFrom(kChoosing, change);
  EXPECT_EQ(undecided.status, 1) << undecided.out << undecided.err;
  EXPECT_TRUE(MovingNode::Has(
      undecided.out, "! pod p app: cannot be satisfied: undecided: the files do not say whether"))
      << undecided.out;
  EXPECT_TRUE(
      MovingNode::Has(undecided.out, "asks for numaTopologyPolicy BestEffort by annotation"))
      << undecided.out;
  EXPECT_TRUE(MovingNode::Has(undecided.out, "start alignd")) << undecided.out;
  EXPECT_TRUE(MovingNode::Has(undecided.out, "pod q app: stays on CPUs 2")) << undecided.out;
  // The flag of the unit says the same.
  node_.Write("/usr/lib/systemd/system/alignd.service",
              "[Service]\nExecStart=/usr/bin/alignd --config /etc/alignd/kubelet-config.yaml "
              "--pod-policies numaTopologyPolicy\n");
  EXPECT_EQ(PlanFrom(none, change).status, 1);
}

TEST_F(OfflinePlanOfPods, AMoveIsUndecidedWherePodsMayChooseHowTheirCpusLie) {
  Assign("3-4", "", "2");
  const std::vector<std::string> change = {"--reserved-cpus", "0,3", "--may-move", "if-needed"};
  for (const std::string policy : {"cpuBindPolicy", "cpuExclusivePolicy"}) {
    const std::string config =
        "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\npodPolicies: [" + policy + "]\n";
    const testing::Printed undecided = PlanFrom(config, change);
    EXPECT_EQ(undecided.status, 1) << undecided.out << undecided.err;
    EXPECT_TRUE(MovingNode::Has(undecided.out,
                                "undecided: the files do not say which " + policy + " the pods"))
        << undecided.out;
    EXPECT_TRUE(MovingNode::Has(undecided.out, "pod q app: stays on CPUs 2")) << undecided.out;
    EXPECT_EQ(PlanFrom(config, {"--reserved-cpus", "0,1"}).status, 0) << "nothing moves";
  }
}

// The files do not have the namespaces of pods either.
TEST_F(OfflinePlanOfPods, IsUndecidedWherePodsOfOneNamespaceMayChoose) {
  const std::string base = "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n";
  const auto choosing_in_one = [&](const std::string& policy) {
    return base + "namespacePolicies: [{namespaces: [team-a], podPolicies: [" + policy + "]}]\n";
  };
  Assign("3-4", "", "2");
  const std::vector<std::string> change = {"--reserved-cpus", "0,3", "--may-move", "if-needed"};
  EXPECT_EQ(PlanFrom(choosing_in_one("cpuBindPolicy"), change).status, 1);
  EXPECT_EQ(PlanFrom(base, change).status, 0);
  Assign("1", "3", "4-5");
  EXPECT_EQ(PlanFrom(choosing_in_one("numaTopologyPolicy"), {"--scope", "pod"}).status, 1);
  EXPECT_EQ(PlanFrom(base, {"--scope", "pod"}).status, 0);
}

TEST_F(OfflinePlanOfPods, WhatTakesCpusIsUndecidedWherePodsMayShareThoseOfOneNode) {
  Assign("3-4", "", "2");
  const std::string config =
      "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\npodPolicies: [sharedNUMANode]\n";
  const testing::Printed taken = PlanFrom(config, {"--reserved-cpus", "0,1"});
  EXPECT_EQ(taken.status, 1) << taken.out << taken.err;
  EXPECT_TRUE(MovingNode::Has(
      taken.out,
      "undecided: the change takes CPUs 1 from the shared pool, and podPolicies has "
      "sharedNUMANode, and there is no file cpu_shares that fits"))
      << taken.out;
  EXPECT_TRUE(MovingNode::Has(taken.out, "start alignd")) << taken.out;
  const testing::Printed moves =
      PlanFrom(config, {"--reserved-cpus", "0,3", "--may-move", "if-needed"});
  EXPECT_EQ(moves.status, 1) << moves.out << moves.err;
  EXPECT_TRUE(MovingNode::Has(
      moves.out, "! pod p app: cannot be satisfied: undecided: podPolicies has sharedNUMANode"))
      << moves.out;
  EXPECT_EQ(PlanFrom(config, {"--policy", "restricted"}).status, 0) << "no CPU is taken";
}

TEST_F(OfflinePlanOfPods, TheFileOfSharesSaysWhichCpusCanBeTaken) {
  Assign("3-4", "", "2");
  const std::string config =
      "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\npodPolicies: [sharedNUMANode]\n";
  const auto plan = [&](const checkpoint::Shares& shares) {
    node_.Write("/var/lib/alignd/cpu_shares", checkpoint::FormatSharesCheckpoint(shares));
    return PlanFrom(config, {"--reserved-cpus", "0,1"});
  };
  EXPECT_EQ(plan({}).status, 0) << plan({}).out;
  checkpoint::Shares shares;
  shares[{"s", "app"}] = {.numa_id = 0, .millis = 500};
  const testing::Printed needed = plan(shares);
  EXPECT_EQ(needed.status, 1) << needed.out;
  EXPECT_TRUE(MovingNode::Has(needed.out, "containers of the shared pool that stay on NUMA node 0"))
      << needed.out;
  // Left behind by a change of the CPU file, also without an entry.
  node_.Write("/var/lib/alignd/cpu_shares",
              checkpoint::FormatSharesCheckpoint({}, {checkpoint::CpuFileChecksum("other")}));
  const testing::Printed outdated = PlanFrom(config, {"--reserved-cpus", "0,1"});
  EXPECT_EQ(outdated.status, 1) << outdated.out;
  EXPECT_TRUE(MovingNode::Has(outdated.out, "there is no file cpu_shares that fits"))
      << outdated.out;
  // The CPU file does not leave that much.
  shares[{"s", "app"}].millis = 5000;
  const testing::Printed misfit = plan(shares);
  EXPECT_EQ(misfit.status, 1) << misfit.out;
  EXPECT_TRUE(MovingNode::Has(misfit.out, "there is no file cpu_shares that fits")) << misfit.out;
}

TEST_F(OfflinePlanOfPods, AScopeUnderWhichAPodMayNotStayIsUndecided) {
  Assign("1", "3", "4-5");
  const testing::Printed undecided = PlanFrom(kChoosing, {"--scope", "pod"});
  EXPECT_EQ(undecided.status, 1) << undecided.out << undecided.err;
  for (const char* const name : {"app", "log"}) {
    EXPECT_TRUE(MovingNode::Has(
        undecided.out, std::string("! pod p ") + name + ": cannot be satisfied: undecided: "))
        << undecided.out;
  }
  // A pod across NUMA nodes was admitted under none of these policies.
  Assign("1,3", "", "4-5");
  EXPECT_EQ(PlanFrom(kChoosing, {"--scope", "pod"}).status, 0);
}

TEST_F(OfflinePlanOfPods, WithScopePodTheOrderOfMovesIsUndecided) {
  Assign("1", "", "2");
  const std::vector<std::string> change = {"--reserved-cpus", "0-2",     "--may-move",
                                           "if-needed",       "--scope", "pod"};
  const testing::Printed undecided = PlanFrom(kChoosing, change);
  EXPECT_EQ(undecided.status, 1) << undecided.out << undecided.err;
  EXPECT_TRUE(MovingNode::Has(undecided.out, "on which the order of the moves depends"))
      << undecided.out;
  Assign("1", "", "");
  EXPECT_EQ(PlanFrom(kChoosing, change).status, 0);
}

TEST_F(OfflinePlanOfPods, WhatNoPolicyChangesIsDecided) {
  Assign("3-4", "", "2");
  EXPECT_EQ(PlanFrom(kChoosing, {"--cpu-policy-option", "strict-cpu-reservation=true"}).status, 0);
  EXPECT_EQ(PlanFrom(kChoosing, {"--scope", "pod"}).status, 0);
}

TEST_F(OfflinePlan, OptionsOfFilesNeedTheDirectory) {
  const testing::Printed printed =
      testing::RunAlignctl({cli::AddPlanCommand}, {"plan", "--current-config", "/x"});
  EXPECT_EQ(printed.status, 2) << printed.out << printed.err;
  EXPECT_TRUE(MovingNode::Has(printed.err, "--state-dir")) << printed.err;
}

}  // namespace
}  // namespace alignd::moving
