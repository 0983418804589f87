// The configuration of alignd, as a process, is changed while containers run: by SIGHUP and through
// the control socket.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "daemon/change_undo.h"
#include "edge/status_conditions.h"
#include "reconcile/conditions.h"
#include "reload_fixture.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;

TEST_F(DaemonReload, HangupAppliesTheFileWhileContainersRun) {
  StartProcess();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  ASSERT_EQ(CpusOf(pinned.container), "1-3");
  ASSERT_EQ(CpusOf(shared.container), "0,4-27");
  const pid_t pid = alignd_->pid();

  Reload(ConfigWith("0,4", std::string(kStrict) + "topologyManagerPolicy: restricted\n"));
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "5-27"; }))
      << CpusOf(shared.container) << alignd_->Log();
  EXPECT_EQ(CpusOf(RunOne(PodConfig("next"), Pinned(2)).container), "5-6");
  EXPECT_EQ(alignd_->pid(), pid);
  const auto status = Control().GetStatus();
  ASSERT_TRUE(status.ok()) << status.error().Text();
  EXPECT_EQ(status->reserved_cpus(), "0,4");
  EXPECT_EQ(status->policies().topology_manager(), "restricted");

  Reload(ConfigWith("0"));
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0,4,7-27"; }))
      << CpusOf(shared.container);
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
  // The state of the last change is that of the next start.
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0);
  StartProcess();
  EXPECT_EQ(CpusOf(RunOne(PodConfig("last"), Pinned(1)).container), "4");
}

TEST_F(DaemonReload, ARefusedChangeLeavesEverythingAsItIs) {
  StartProcess();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const std::string state = State();
  Reload(ConfigWith("0-1"), " not reloaded: ");
  EXPECT_NE(
      alignd_->Log().find("default/pod-pinned app: CPUs 1 become reserved; running containers "
                          "do not move: delete or resize its pod"),
      std::string::npos)
      << alignd_->Log();
  EXPECT_EQ(State(), state);
  Reload("cpuManagerPolicy: nonsense\n", " not reloaded: ");
  Reload(ConfigWith("99"), " not reloaded: ");
  EXPECT_EQ(Logged(") starts |"), 1u) << alignd_->Log();  // not even interrupted
  EXPECT_EQ(CpusOf(RunOne(PodConfig("next"), Pinned(1)).container), "4");
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
}

TEST_F(DaemonReload, ApplyWritesTheFileAndKeepsTheFormerOne) {
  StartProcess();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const fs::path file = tree_.root() / "config.yaml";
  fs::permissions(file, fs::perms(0640));
  control::v1::ChangeRequest request;
  request.set_config("# kept\n" + ConfigWith("0,4-5", kStrict));
  const auto planned = Control().PlanChange(request);
  ASSERT_TRUE(planned.ok()) << planned.error().Text();
  EXPECT_TRUE(planned->admitted());
  EXPECT_EQ(planned->change(), 0u);
  EXPECT_EQ(planned->shared_after(), "6-27");
  ASSERT_EQ(planned->containers_size(), 1);
  EXPECT_EQ(planned->containers(0).pod(), "default/pod-pinned");
  EXPECT_EQ(planned->containers(0).fate(), "stays");
  EXPECT_EQ(ReadText(file), ConfigWith("0"));

  const auto change = Control().ApplyChange(request);
  ASSERT_TRUE(change.ok()) << change.error().Text();
  ASSERT_TRUE(change->admitted());
  EXPECT_EQ(Outcome(change->change()), "applied") << alignd_->Log();
  EXPECT_EQ(ReadText(file), "# kept\n" + ConfigWith("0,4-5", kStrict));
  EXPECT_EQ(ReadText(file.string() + ".previous"), ConfigWith("0"));
  EXPECT_EQ(fs::status(file).permissions(), fs::perms(0640));
  EXPECT_FALSE(fs::exists(StateDir() / ChangeUndo::kFileName));
  EXPECT_EQ(CpusOf(RunOne(PodConfig("next"), Pinned(2)).container), "6-7");
  EXPECT_EQ(CpusOf(pinned.container), "1-3");

  request.set_config(ConfigWith("0-1"));
  const auto refused = Control().ApplyChange(request);
  ASSERT_TRUE(refused.ok()) << refused.error().Text();
  EXPECT_FALSE(refused->admitted());
  EXPECT_EQ(refused->change(), 0u);
  EXPECT_EQ(Outcome(77), "unknown");
}

TEST_F(DaemonReload, SingleFieldsArePlanned) {
  StartProcess();
  control::v1::ChangeRequest request;
  request.set_fields(R"({"topologyManagerPolicy":"restricted","reservedSystemCPUs":"0-3"})");
  const auto planned = Control().PlanChange(request);
  ASSERT_TRUE(planned.ok()) << planned.error().Text();
  ASSERT_EQ(planned->settings_size(), 2);
  EXPECT_EQ(planned->settings(0).name(), "reservedSystemCPUs");
  EXPECT_EQ(planned->settings(0).after(), "\"0-3\"");
  EXPECT_EQ(planned->settings(1).after(), "restricted");
  EXPECT_FALSE(Control().ApplyChange(request).ok());
  request.set_fields(R"({"topologyManagerPolicy":"strictest"})");
  const auto wrong = Control().PlanChange(request);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(wrong.error().Text().find("strictest"), std::string::npos) << wrong.error().Text();
  EXPECT_NE(wrong.error().Text().find("given with the request, not in "), std::string::npos)
      << wrong.error().Text();
  // The text has its remedy; alignd's log says no more.
  EXPECT_EQ(wrong.error().Text().find("see in the log"), std::string::npos) << wrong.error().Text();
}

TEST_F(DaemonReload, NoContainerIsMovedWithoutAnOrder) {
  StartProcess();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const std::string state = State();
  control::v1::ChangeRequest request;
  request.set_config(ConfigWith("0-1"));
  const auto planned = Control().PlanChange(request);
  ASSERT_TRUE(planned.ok()) << planned.error().Text();
  EXPECT_FALSE(planned->admitted());
  ASSERT_EQ(planned->containers_size(), 1);
  EXPECT_EQ(planned->containers(0).fate(), "refused");
  ASSERT_EQ(planned->notes_size(), 1);
  EXPECT_EQ(planned->notes(0),
            "with --may-move if-needed, containers move, and the change can be applied");
  const auto change = Control().ApplyChange(request);
  ASSERT_TRUE(change.ok()) << change.error().Text();
  EXPECT_FALSE(change->admitted());
  EXPECT_EQ(change->change(), 0u);
  Reload(ConfigWith("0-1"), " not reloaded: ");  // --may-move is never by default
  tree_.Write({"config.yaml", ConfigWith("0")});
  EXPECT_EQ(State(), state);
  EXPECT_EQ(ReadText(tree_.root() / "config.yaml"), ConfigWith("0"));
  EXPECT_EQ(Logged(") starts |"), 1u) << alignd_->Log();
  // What the plan names as help.
  EXPECT_TRUE(StopSandbox(pinned.sandbox).ok());
  EXPECT_TRUE(RemoveSandbox(pinned.sandbox).ok());
  // The release follows the answer to the call.
  EXPECT_TRUE(Eventually([&] { return Logged("pod default/pod-pinned (pinned) has ended") > 0; }));
  Reload(ConfigWith("0-1"));
  EXPECT_EQ(CpusOf(RunOne(PodConfig("next"), Pinned(1)).container), "2");
}

// A call that takes 0.5 s is under way at each change; others come without pause.
TEST_F(DaemonReload, NoCallIsLostDuringChanges) {
  StartProcess();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  RestlessCallers callers(3, [this] { return Version(); });
  runtime_->SetDelay("CreateContainer", milliseconds(500));
  for (int round = 0; round < 4; ++round) {
    const std::string uid = "pod-" + std::to_string(round);
    const v1::PodSandboxConfig pod = PodConfig(uid);
    const std::string sandbox = Run(pod);
    ASSERT_NE(sandbox, "") << alignd_->Log();
    const size_t before = runtime_->Requests("CreateContainer").size();
    auto create = std::async(std::launch::async, [&] { return Create(sandbox, pod, Pinned(1)); });
    ASSERT_TRUE(Eventually([&] { return runtime_->Requests("CreateContainer").size() > before; }));
    Reload(round % 2 == 0 ? ConfigWith("0,27", kStrict) : ConfigWith("0"));
    const auto created = create.get();
    ASSERT_TRUE(created.status.ok()) << created.status.error_message() << alignd_->Log();
    EXPECT_TRUE(StartContainer(created.response.container_id()).ok());
    EXPECT_EQ(CpusOf(created.response.container_id()), std::to_string(4 + round));
  }
  EXPECT_EQ(callers.End(), std::vector<std::string>());
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
}

// Killed at any moment of a change, alignd starts again with the new configuration, and every
// container keeps its CPUs.
TEST_F(DaemonReload, KilledInTheMiddleOfAChangeItStartsAgain) {
  StartProcess();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  for (int round = 0; round < 8; ++round) {
    SCOPED_TRACE(round);
    tree_.Write({"config.yaml", round % 2 == 0 ? ConfigWith("0,27", kStrict) : ConfigWith("0")});
    ASSERT_EQ(kill(alignd_->pid(), SIGHUP), 0);
    ASSERT_TRUE(Eventually([&] {
      return fs::exists(StateDir() / ChangeUndo::kFileName) ||
             Logged("reloaded: the configuration applies") > 0;
    })) << alignd_->Log();
    std::this_thread::sleep_for(milliseconds(4 * round));
    alignd_->Kill(SIGKILL);
    StartProcess();
    if (HasFatalFailure()) return;
    EXPECT_FALSE(fs::exists(StateDir() / ChangeUndo::kFileName));
    const auto status = Control().GetStatus();
    ASSERT_TRUE(status.ok()) << status.error().Text();
    EXPECT_EQ(status->default_set(), round % 2 == 0 ? "4-26" : "0,4-27") << alignd_->Log();
    const Running next = RunOne(PodConfig("next-" + std::to_string(round)), Pinned(1));
    EXPECT_EQ(CpusOf(next.container), "4") << alignd_->Log();
    EXPECT_TRUE(StopSandbox(next.sandbox).ok());
    EXPECT_TRUE(RemoveSandbox(next.sandbox).ok());
  }
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
}

// alignd has ended in the middle of a change that it would refuse now.
TEST_F(DaemonReload, AnUnfinishedChangeThatIsRefusedEndsEveryStart) {
  StartProcess();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const std::string state = State();
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0);
  ASSERT_TRUE(
      ChangeUndo::Begin(StateDir(), {StateDir() / "cpu_manager_state"}, ConfigWith("0")).ok());
  std::ofstream(StateDir() / "cpu_manager_state") << "half of a ch";
  tree_.Write({"config.yaml", ConfigWith("0-1")});
  for (int start = 0; start < 3; ++start) {
    SCOPED_TRACE(start);
    LaunchAlignd(DaemonOptions());
    ASSERT_TRUE(alignd_->WaitForLog("cannot start: ")) << alignd_->Log();
    EXPECT_NE(alignd_->Log().find("pinned app: CPUs 1 become reserved"), std::string::npos)
        << alignd_->Log();
    EXPECT_NE(alignd_->Log().find("write the former configuration back to "), std::string::npos)
        << alignd_->Log();
    EXPECT_NE(alignd_->Kill(SIGTERM), 0);  // it has ended, or ends by itself
    EXPECT_EQ(State(), state);
    EXPECT_TRUE(fs::exists(StateDir() / ChangeUndo::kFileName));
  }
  tree_.Write({"config.yaml", ConfigWith("0")});
  StartProcess();
  EXPECT_FALSE(fs::exists(StateDir() / ChangeUndo::kFileName));
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
  EXPECT_EQ(CpusOf(RunOne(PodConfig("next"), Pinned(1)).container), "4");
}

// The next start would fail: the status says so until the file is right again.
TEST_F(DaemonReload, AFileThatCannotBeAppliedIsACondition) {
  StartProcess();
  EXPECT_EQ(NotApplied(), "");
  for (const std::string& repaired : {ConfigWith("0"), ConfigWith("0-1")}) {
    SCOPED_TRACE(repaired);
    tree_.Write({"config.yaml", "cpuManagerPolicy: [broken\n"});
    const size_t before = Logged("not reloaded: ");
    ASSERT_EQ(kill(alignd_->pid(), SIGHUP), 0);
    ASSERT_TRUE(Eventually([&] { return Logged("not reloaded: ") > before; })) << alignd_->Log();
    // The next reconcile is some seconds away.
    ASSERT_TRUE(Eventually([&] { return !NotApplied().empty(); })) << alignd_->Log();
    EXPECT_NE(NotApplied().find("config.yaml"), std::string::npos) << NotApplied();
    EXPECT_NE(NotApplied().find("the next start uses the file"), std::string::npos) << NotApplied();
    if (repaired == ConfigWith("0")) {
      tree_.Write({"config.yaml", repaired});  // without a reload
    } else {
      Reload(repaired);
    }
    EXPECT_TRUE(Eventually([&] { return NotApplied().empty(); })) << NotApplied();
  }
}

TEST_F(DaemonReload, AnApplyOfTheFileThatIsRefusedIsAConditionToo) {
  StartProcess();
  tree_.Write({"config.yaml", "cpuManagerPolicy: [broken\n"});
  const auto broken = Control().ApplyChange({});
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find("config.yaml"), std::string::npos) << broken.error().Text();
  EXPECT_TRUE(Eventually([&] { return !NotApplied().empty(); }));
  tree_.Write({"config.yaml", ConfigWith("0")});
  EXPECT_TRUE(Eventually([&] { return NotApplied().empty(); })) << NotApplied();

  // A running container would have to move.
  RunOne(PodConfig("pinned"), Pinned(3));
  tree_.Write({"config.yaml", ConfigWith("0-1")});
  const auto refused = Control().ApplyChange({});
  ASSERT_TRUE(refused.ok()) << refused.error().Text();
  EXPECT_FALSE(refused->admitted());
  EXPECT_TRUE(Eventually([&] { return NotApplied().find("reserved") != std::string::npos; }))
      << NotApplied();
}

TEST_F(DaemonReload, AHangupBeforeTheRuntimeIsListedIsNotLost) {
  runtime_->SetFailure("ListContainers", {grpc::StatusCode::UNAVAILABLE, "busy"});
  LaunchAlignd(DaemonOptions());
  ASSERT_TRUE(alignd_->WaitForLog("ready: ")) << alignd_->Log();
  tree_.Write({"config.yaml", ConfigWith("0-1")});
  ASSERT_EQ(kill(alignd_->pid(), SIGHUP), 0);
  ASSERT_TRUE(alignd_->WaitForLog("reloads once the runtime has been listed")) << alignd_->Log();
  EXPECT_EQ(Control().GetStatus()->reserved_cpus(), "0");
  runtime_->SetFailure("ListContainers", grpc::Status::OK);
  EXPECT_TRUE(alignd_->WaitForLog("reloaded: the configuration applies")) << alignd_->Log();
  EXPECT_EQ(Control().GetStatus()->reserved_cpus(), "0-1");
}

}  // namespace
}  // namespace alignd::daemon
