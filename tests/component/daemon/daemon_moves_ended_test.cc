// alignd ends while containers move for a change of the configuration, or after that without its
// files.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>

#include "fake_cgroups.h"
#include "moves_fixture.h"

namespace alignd::daemon {
namespace {

// Killed while one container has moved and another one has not.
TEST_F(DaemonMoves, KilledWhileContainersMoveItGoesOn) {
  for (const bool by_file : {false, true}) {
    SCOPED_TRACE(by_file);
    if (!by_file) StartThree();
    runtime_->SetDelay(kUpdateCall, kPatience, b_.container);
    if (by_file) {
      tree_.Write({"config.yaml", ConfigWith("0-1,4")});
      ASSERT_EQ(kill(alignd_->pid(), SIGHUP), 0);
    } else {
      ASSERT_TRUE(Control().GetChange(Begin(ConfigWith("0-1,4"))).ok());
    }
    ASSERT_TRUE(Becomes(a_, "2-3,7")) << alignd_->Log();
    EXPECT_EQ(CpusOf(b_.container), "4-6");
    EXPECT_NE(State().find(R"("a":{"app":"1-3,7"})"), std::string::npos) << State();
    EXPECT_NE(State().find(R"("b":{"app":"4-6,8"})"), std::string::npos) << State();
    alignd_->Kill(SIGKILL);
    runtime_->SetDelay(kUpdateCall, milliseconds(0));
    StartProcess();
    if (by_file) {  // the file asks for the change
      ExpectMoved();
    } else {
      ExpectAsBefore();
    }
  }
}

// After the kill, the runtime refuses the first attempt to move a container back.
TEST_F(DaemonMoves, KilledWhileContainersMoveItRepeatsTheChangeOnceTheyAreBack) {
  wrapper_ = {"env", "WATCHDOG_USEC=1000000"};
  may_move_ = "never";
  StartThree();
  KillInTheMiddle();
  runtime_->SetFailure(kUpdateCall, {grpc::StatusCode::INTERNAL, "frozen"}, a_.container);
  LaunchAlignd(DaemonOptions(), wrapper_);  // no change can be planned yet
  ASSERT_TRUE(alignd_->WaitForLog(" not reloaded: containers that were being moved are not back"))
      << alignd_->Log();
  // A request that is refused meanwhile does not take its place.
  EXPECT_FALSE(Control().ApplyChange(RequestFor(ConfigWith("0-1"))).ok());
  EXPECT_TRUE(IsRecorded());
  runtime_->SetFailure(kUpdateCall, grpc::Status::OK);
  ExpectMoved();
}

// `alignctl apply --may-move if-needed` for a file that was changed before.
TEST_F(DaemonMoves, KilledWhileContainersMoveItKeepsThePermissionToMove) {
  may_move_ = "never";
  StartThree();
  KillInTheMiddle();
  StartProcess();
  ExpectMoved();
}

// systemd gives a stop less time than the moves and the way back take: they are left to the next
// start.
TEST_F(DaemonMoves, AStopDoesNotWaitForTheMoves) {
  StartThree();
  BeginHalf(ConfigWith("0-1,4"));
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0);
  EXPECT_NE(alignd_->Log().find("a container could not be moved: alignd is about to stop"),
            std::string::npos)
      << alignd_->Log();
  EXPECT_TRUE(fs::exists(StateDir() / MovesFile::kFileName));
  EXPECT_TRUE(fs::exists(StateDir() / ChangeUndo::kFileName));
  EndHold();
  StartProcess();
  ExpectAsBefore();
}

// Nothing is said about containers that were moved: the runtime has not answered which cgroups they
// have.
TEST_F(DaemonMoves, AStopBeforeTheFirstMoveSaysThatNoneWasMoved) {
  StartThree();
  runtime_->SetDelay("ContainerStatus", kPatience);
  const size_t asked = runtime_->Requests("ContainerStatus").size();
  ASSERT_TRUE(Control().GetChange(Begin(ConfigWith("0-1,4"))).ok());
  ASSERT_TRUE(Eventually([&] { return runtime_->Requests("ContainerStatus").size() > asked; }))
      << alignd_->Log();
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0);
  const std::string log = alignd_->Log();
  EXPECT_NE(log.find("containers could not be moved, and none has been: alignd is about to stop"),
            std::string::npos)
      << log;
  EXPECT_EQ(log.find("not back on their CPUs"), std::string::npos) << log;
  EXPECT_EQ(State(), state_);
  runtime_->SetDelay("ContainerStatus", milliseconds(0));
  runtime_->EndDelays();
  StartProcess();
  ExpectAsBefore();
}

// The marks say where the containers were created.
TEST_F(DaemonMoves, TheNewCpusAreRebuiltIfTheFilesAreLost) {
  const FakeCgroups cgroups(CgroupRoot(), /*unified=*/true, "0-27");
  watch_.OnEvent([&](const RuntimeModel::Event& event) { cgroups.Apply(event); });
  StartThree();
  EXPECT_EQ(Apply(ConfigWith("0-1,4")), "applied") << alignd_->Log();
  ExpectMoved();
  alignd_->Kill(SIGKILL);
  fs::remove(StateDir() / "cpu_manager_state");
  StartProcess();
  ExpectMoved();
  alignd_.reset();
  watch_.OnEvent(nullptr);
}

}  // namespace
}  // namespace alignd::daemon
