// A change of the configuration that moves running containers with exclusive CPUs to other CPUs.
// The fixture checks after every change of a container that no container runs on exclusive CPUs of
// another.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "daemon/change_undo.h"
#include "daemon/moves_file.h"
#include "fake_cgroups.h"
#include "reload_fixture.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;

constexpr char kUpdateCall[] = "UpdateContainerResources";

class DaemonMoves : public DaemonReload {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonReload::DaemonOptions();
    options.may_move = may_move_;
    return options;
  }

  control::v1::ChangeRequest RequestFor(const std::string& config) const {
    control::v1::ChangeRequest request;
    request.set_config(config);
    request.set_may_move(true);
    return request;
  }

  // The number of the change; 0: it was refused.
  uint64_t Begin(const std::string& config) const {
    const auto change = Control().ApplyChange(RequestFor(config));
    EXPECT_TRUE(change.ok()) << change.error().Text();
    return change.ok() ? change->change() : 0;
  }
  std::string Apply(const std::string& config) const { return Outcome(Begin(config)); }

  std::string ConfigFile() const { return ReadText(tree_.root() / "config.yaml"); }
  bool IsRecorded() const {
    return fs::exists(StateDir() / ChangeUndo::kFileName) ||
           fs::exists(StateDir() / MovesFile::kFileName);
  }
  std::string Originals() const { return ReadText(StateDir() / "cpu_originals"); }
  bool Becomes(const Running& running, const std::string& cpus) const {
    return Eventually([&] { return CpusOf(running.container) == cpus; });
  }
  // The containers `a` on CPUs 1-3, `b` on 4-6 and `shared` on the others.
  void StartThree() {
    StartProcess();
    a_ = RunOne(PodConfig("a"), Pinned(3));
    b_ = RunOne(PodConfig("b"), Pinned(3));
    shared_ = RunOne(BurstablePod("shared"), Shared());
    ASSERT_EQ(CpusOf(a_.container) + " " + CpusOf(b_.container), "1-3 4-6");
    ASSERT_EQ(CpusOf(shared_.container), "0,7-27");
    state_ = State();
  }
  void ExpectAsBefore() {
    EXPECT_TRUE(Becomes(a_, "1-3")) << CpusOf(a_.container) << alignd_->Log();
    EXPECT_TRUE(Becomes(b_, "4-6")) << CpusOf(b_.container) << alignd_->Log();
    EXPECT_TRUE(Becomes(shared_, "0,7-27")) << CpusOf(shared_.container) << alignd_->Log();
    EXPECT_TRUE(Eventually([&] { return !IsRecorded(); })) << alignd_->Log();
    EXPECT_EQ(State(), state_);
    EXPECT_EQ(Control().GetStatus()->reserved_cpus(), "0");
  }
  void ExpectMoved() {
    EXPECT_TRUE(Becomes(a_, "2-3,7")) << CpusOf(a_.container) << alignd_->Log();
    EXPECT_TRUE(Becomes(b_, "5-6,8")) << CpusOf(b_.container) << alignd_->Log();
    EXPECT_TRUE(Becomes(shared_, "0-1,4,9-27")) << CpusOf(shared_.container) << alignd_->Log();
    EXPECT_TRUE(Eventually([&] { return !IsRecorded(); })) << alignd_->Log();
    // After a start, the containers are there before alignd has rebuilt what they have.
    for (const char* pod : {R"("a":{"app":"2-3,7"})", R"("b":{"app":"5-6,8"})"}) {
      EXPECT_TRUE(Eventually([&] { return State().find(pod) != std::string::npos; })) << State();
    }
    EXPECT_EQ(Originals().find("\"app\""), std::string::npos) << Originals();
    EXPECT_EQ(Control().GetStatus()->reserved_cpus(), "0-1,4");
  }

  std::string may_move_ = "if-needed";
  Running a_;
  Running b_;
  Running shared_;
  std::string state_;
};

TEST_F(DaemonMoves, ApplyMovesTwoContainersInOneChange) {
  StartThree();
  const std::string config = ConfigWith("0-1,4");
  const auto planned = Control().PlanChange(RequestFor(config));
  ASSERT_TRUE(planned.ok()) << planned.error().Text();
  EXPECT_TRUE(planned->admitted());
  ASSERT_EQ(planned->containers_size(), 2);
  EXPECT_EQ(planned->containers(0).fate(), "moves");
  EXPECT_EQ(State(), state_);

  EXPECT_EQ(Apply(config), "applied") << alignd_->Log();
  ExpectMoved();
  EXPECT_EQ(ConfigFile(), config);
  EXPECT_EQ(ReadText(tree_.root() / "config.yaml.previous"), ConfigWith("0"));
  // The container was updated to its new CPUs in one step, and to no others.
  std::vector<std::string> of_a;
  for (const auto& event : watch_.events()) {
    if (event.container.id == a_.container) {
      of_a.push_back(event.container.resources.cpuset_cpus());
    }
  }
  std::erase(of_a, "1-3");
  ASSERT_FALSE(of_a.empty());
  for (const std::string& cpus : of_a) EXPECT_EQ(cpus, "2-3,7");

  EXPECT_EQ(alignd_->Kill(SIGTERM), 0);
  StartProcess();
  ExpectMoved();
  EXPECT_EQ(CpusOf(RunOne(PodConfig("next"), Pinned(1)).container), "9");
}

TEST_F(DaemonMoves, HangupMovesIfTheFlagAllowsIt) {
  StartThree();
  Reload(ConfigWith("0-1,4"));
  ExpectMoved();
  // CPUs 1 and 4 are reserved until the change.
  Reload(ConfigWith("0,7-8"));
  EXPECT_TRUE(Becomes(a_, "2-3,9")) << CpusOf(a_.container) << alignd_->Log();
  EXPECT_TRUE(Becomes(b_, "5-6,10")) << CpusOf(b_.container) << alignd_->Log();
  EXPECT_TRUE(Becomes(shared_, "0-1,4,7-8,11-27")) << CpusOf(shared_.container);
  // Now they are free.
  Reload(ConfigWith("0,9-10"));
  EXPECT_TRUE(Becomes(a_, "1-3")) << CpusOf(a_.container) << alignd_->Log();
  EXPECT_TRUE(Becomes(b_, "4-6")) << CpusOf(b_.container) << alignd_->Log();
  EXPECT_TRUE(Becomes(shared_, "0,7-27")) << CpusOf(shared_.container);
}

// The only CPU that `a` could get is one that `b` leaves.
TEST_F(DaemonMoves, NoContainerGetsWhatAnotherOneLeaves) {
  StartThree();
  const Running all = RunOne(PodConfig("all"), Pinned(20));  // 7 to 27, one is free
  ASSERT_EQ(Begin(ConfigWith("0-1,4")), 0u);
  const auto planned = Control().PlanChange(RequestFor(ConfigWith("0-1,4")));
  ASSERT_TRUE(planned.ok());
  EXPECT_FALSE(planned->admitted());
  Reload(ConfigWith("0-1,4"), " not reloaded: ");
  EXPECT_NE(alignd_->Log().find("CPUs 4 become reserved; it fits nowhere else: "),
            std::string::npos)
      << alignd_->Log();
  EXPECT_EQ(CpusOf(a_.container) + " " + CpusOf(b_.container), "1-3 4-6");
  EXPECT_FALSE(IsRecorded());
}

TEST_F(DaemonMoves, IfTheRuntimeRefusesOneMoveAllGoBack) {
  StartThree();
  runtime_->SetFailure(kUpdateCall, {grpc::StatusCode::INTERNAL, "no such device"}, "5-6,8");
  const uint64_t change = Begin(ConfigWith("0-1,4"));
  ASSERT_TRUE(Control().GetChange(change).ok());  // begins it
  ASSERT_TRUE(Becomes(a_, "2-3,7")) << alignd_->Log();
  const std::string outcome = Outcome(change);
  EXPECT_NE(outcome.find("failed: a container could not be moved: the CPUs 5-6,8 of container app "
                         "of pod default/pod-b could not be applied"),
            std::string::npos)
      << outcome;
  EXPECT_NE(outcome.find("no such device"), std::string::npos) << outcome;
  ExpectAsBefore();
  EXPECT_EQ(ConfigFile(), ConfigWith("0"));
  EXPECT_EQ(Logged(") starts |"), 1u) << alignd_->Log();
  // The same change, now that the runtime works.
  runtime_->SetFailure(kUpdateCall, grpc::Status::OK);
  EXPECT_EQ(Apply(ConfigWith("0-1,4")), "applied") << alignd_->Log();
  ExpectMoved();
}

// Containers that cannot be moved back keep both until they can. alignd looks every half second
// here.
TEST_F(DaemonMoves, WhatCannotBeMovedBackKeepsBothUntilItCan) {
  wrapper_ = {"env", "WATCHDOG_USEC=1000000"};
  StartThree();
  runtime_->SetFailure(kUpdateCall, {grpc::StatusCode::INTERNAL, "frozen"}, b_.container);
  const std::string outcome = Apply(ConfigWith("0-1,4"));
  EXPECT_NE(outcome.find("are not back on their CPUs, and are assigned those of before and of "
                         "after"),
            std::string::npos)
      << outcome;
  EXPECT_TRUE(IsRecorded());
  EXPECT_NE(State().find(R"("b":{"app":"4-6,8"})"), std::string::npos) << State();
  EXPECT_EQ(CpusOf(RunOne(PodConfig("next"), Pinned(1)).container), "9");
  runtime_->SetFailure(kUpdateCall, grpc::Status::OK);
  EXPECT_TRUE(Becomes(a_, "1-3")) << CpusOf(a_.container) << alignd_->Log();
  EXPECT_TRUE(Becomes(b_, "4-6")) << CpusOf(b_.container) << alignd_->Log();
  EXPECT_TRUE(Becomes(shared_, "0,7-8,10-27")) << CpusOf(shared_.container);
  EXPECT_TRUE(Eventually([&] { return !IsRecorded(); })) << alignd_->Log();
}

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
  tree_.Write({"config.yaml", ConfigWith("0-1,4")});
  runtime_->SetDelay(kUpdateCall, kPatience, b_.container);
  ASSERT_TRUE(Control().GetChange(Begin("")).ok());
  ASSERT_TRUE(Becomes(a_, "2-3,7")) << alignd_->Log();
  alignd_->Kill(SIGKILL);
  runtime_->SetDelay(kUpdateCall, milliseconds(0));
  runtime_->EndDelays();
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

// The containers were moved, and then alignd cannot go on with the new configuration.
TEST_F(DaemonMoves, IfTheFilesCannotBeWrittenAllGoBack) {
  StartThree();
  runtime_->SetDelay(kUpdateCall, milliseconds(1'000), b_.container);
  const uint64_t change = Begin(ConfigWith("0-1,4"));
  ASSERT_TRUE(Control().GetChange(change).ok());
  ASSERT_TRUE(Becomes(a_, "2-3,7")) << alignd_->Log();
  fs::remove(tree_.root() / "config.yaml");
  fs::create_directory(tree_.root() / "config.yaml");
  const std::string outcome = Outcome(change);
  EXPECT_NE(outcome.find("failed: "), std::string::npos) << outcome;
  ExpectAsBefore();
}

// `alignctl apply --may-move if-needed` for a file that was changed before.
TEST_F(DaemonMoves, KilledWhileContainersMoveItKeepsThePermissionToMove) {
  may_move_ = "never";
  StartThree();
  tree_.Write({"config.yaml", ConfigWith("0-1,4")});
  runtime_->SetDelay(kUpdateCall, kPatience, b_.container);
  ASSERT_TRUE(Control().GetChange(Begin("")).ok());
  ASSERT_TRUE(Becomes(a_, "2-3,7")) << alignd_->Log();
  alignd_->Kill(SIGKILL);
  runtime_->SetDelay(kUpdateCall, milliseconds(0));
  StartProcess();
  ExpectMoved();
}

// systemd gives a stop less time than the moves and the way back take: they are left to the next
// start.
TEST_F(DaemonMoves, AStopDoesNotWaitForTheMoves) {
  StartThree();
  runtime_->SetDelay(kUpdateCall, kPatience, b_.container);
  ASSERT_TRUE(Control().GetChange(Begin(ConfigWith("0-1,4"))).ok());
  ASSERT_TRUE(Becomes(a_, "2-3,7")) << alignd_->Log();
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0);
  EXPECT_NE(alignd_->Log().find("a container could not be moved: alignd is about to stop"),
            std::string::npos)
      << alignd_->Log();
  EXPECT_TRUE(fs::exists(StateDir() / MovesFile::kFileName));
  EXPECT_TRUE(fs::exists(StateDir() / ChangeUndo::kFileName));
  runtime_->SetDelay(kUpdateCall, milliseconds(0));
  runtime_->EndDelays();
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

// Which containers run is not known: none of them counts as moved back.
TEST_F(DaemonMoves, UntilTheRuntimeIsListedNoContainerCountsAsBack) {
  wrapper_ = {"env", "WATCHDOG_USEC=1000000"};
  StartThree();
  runtime_->SetDelay(kUpdateCall, kPatience, b_.container);
  const uint64_t change = Begin(ConfigWith("0-1,4"));
  ASSERT_TRUE(Control().GetChange(change).ok());
  ASSERT_TRUE(Becomes(a_, "2-3,7")) << alignd_->Log();
  fs::remove(tree_.root() / "config.yaml");
  fs::create_directory(tree_.root() / "config.yaml");
  runtime_->SetFailure("ListContainers", {grpc::StatusCode::UNAVAILABLE, "busy"});
  runtime_->SetDelay(kUpdateCall, milliseconds(0));
  runtime_->EndDelays();
  const std::string outcome = Outcome(change);
  EXPECT_NE(outcome.find("are not back on their CPUs, and are assigned those of before and of "
                         "after: the runtime has not been listed"),
            std::string::npos)
      << outcome;
  EXPECT_TRUE(fs::exists(StateDir() / MovesFile::kFileName));
  EXPECT_TRUE(fs::exists(StateDir() / ChangeUndo::kFileName));
  EXPECT_NE(State().find(R"("a":{"app":"1-3,7"})"), std::string::npos) << State();
  EXPECT_NE(State().find(R"("b":{"app":"4-6,8"})"), std::string::npos) << State();
  runtime_->SetFailure("ListContainers", grpc::Status::OK);
  ExpectAsBefore();
}

// The pod of a container ends while it is moved.
TEST_F(DaemonMoves, AContainerThatEndsMeanwhileDoesNotHoldTheChange) {
  StartThree();
  runtime_->SetDelay(kUpdateCall, kPatience, b_.container);
  const uint64_t change = Begin(ConfigWith("0-1,4"));
  ASSERT_TRUE(Control().GetChange(change).ok());
  ASSERT_TRUE(Becomes(a_, "2-3,7")) << alignd_->Log();
  EXPECT_TRUE(StopSandbox(b_.sandbox).ok());
  EXPECT_TRUE(RemoveSandbox(b_.sandbox).ok());
  runtime_->EndDelays();
  EXPECT_EQ(Outcome(change), "applied") << alignd_->Log();
  EXPECT_TRUE(Becomes(a_, "2-3,7"));
  EXPECT_EQ(CpusOf(RunOne(PodConfig("next"), Pinned(1)).container), "5");
}

// Updates of a client while the containers move.
TEST_F(DaemonMoves, AResizeComesAfterTheMove) {
  StartThree();
  runtime_->SetDelay(kUpdateCall, kPatience, b_.container);
  const uint64_t change = Begin(ConfigWith("0-1,4"));
  ASSERT_TRUE(Control().GetChange(change).ok());
  ASSERT_TRUE(Becomes(a_, "2-3,7")) << alignd_->Log();
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(a_.container);
  *request.mutable_linux() = Pinned(3).linux().resources();
  const grpc::Status same = Update(request);
  EXPECT_TRUE(same.ok()) << same.error_message();
  EXPECT_EQ(CpusOf(a_.container), "2-3,7");
  *request.mutable_linux() = Pinned(4).linux().resources();
  const grpc::Status more = Update(request);
  EXPECT_EQ(more.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(more.error_message().find("is not resized: it is being moved to other CPUs"),
            std::string::npos)
      << more.error_message();
  EXPECT_EQ(CpusOf(a_.container), "2-3,7");
  const auto planned = Control().PlanChange(RequestFor(ConfigWith("0-1,4")));
  ASSERT_FALSE(planned.ok());
  EXPECT_NE(planned.error().Text().find("containers are being moved"), std::string::npos);
  runtime_->SetDelay(kUpdateCall, milliseconds(0));
  runtime_->EndDelays();
  EXPECT_EQ(Outcome(change), "applied") << alignd_->Log();
  ExpectMoved();
  AwaitListing();
  const grpc::Status resized = Update(request);
  EXPECT_TRUE(resized.ok()) << resized.error_message();
  EXPECT_EQ(CpusOf(a_.container), "2-3,7,9");
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

// Cgroups of version 1 or 2, whose parents an administrator has narrowed.
class DaemonMovesBelow : public DaemonMoves, public ::testing::WithParamInterface<bool> {
 protected:
  DaemonMovesBelow() : cgroups_(CgroupRoot(), GetParam(), "0-27") {
    watch_.OnEvent([this](const RuntimeModel::Event& event) { cgroups_.Apply(event); });
  }
  ~DaemonMovesBelow() override { watch_.OnEvent({}); }

  // The cgroup of the container's pod has these CPUs.
  void NarrowPodOf(const Running& running, const std::string& cpus) const {
    const std::string path =
        fs::path(runtime_->FindContainer(running.container)->cgroup).parent_path();
    const std::string of_pod = (GetParam() ? "cgroup" : "cgroup/cpuset") + path;
    for (const std::string name :
         {"/cpuset.cpus", GetParam() ? "/cpuset.cpus.effective" : "/cpuset.effective_cpus"}) {
      tree_.Write({of_pod + name, cpus + "\n"});
    }
    for (const std::string name :
         {"/cpuset.mems", GetParam() ? "/cpuset.mems.effective" : "/cpuset.effective_mems"}) {
      tree_.Write({of_pod + name, "0-1\n"});
    }
  }

  FakeCgroups cgroups_;
};
INSTANTIATE_TEST_SUITE_P(CgroupVersions, DaemonMovesBelow, ::testing::Values(false, true),
                         [](const auto& unified) { return unified.param ? "v2" : "v1"; });

// Of version 2, the kernel would run the container on the CPUs that both have: on fewer, or, if
// there are none, on all of the parent's.
TEST_P(DaemonMovesBelow, ACgroupAboveWithoutTheNewCpusRefusesTheMove) {
  StartThree();
  NarrowPodOf(b_, "0-7");
  const size_t updates = runtime_->Requests(kUpdateCall).size();
  const std::string outcome = Apply(ConfigWith("0-1,4"));
  EXPECT_NE(outcome.find("failed: a container could not be moved: container app of pod b: the "
                         "container is assigned CPUs 5-6,8, but cgroup /"),
            std::string::npos)
      << outcome;
  EXPECT_NE(outcome.find(" may use CPUs 0-7 only"), std::string::npos) << outcome;
  EXPECT_EQ(runtime_->Requests(kUpdateCall).size(), updates) << "a container was moved";
  EXPECT_EQ(outcome.find("back"), std::string::npos) << outcome;
  EXPECT_EQ(Logged("containers could not be moved, and none has been: "), 1u) << alignd_->Log();
  EXPECT_EQ(Logged("moved back"), 0u) << alignd_->Log();
  ExpectAsBefore();
  EXPECT_EQ(ConfigFile(), ConfigWith("0"));

  NarrowPodOf(b_, "0-8");
  EXPECT_EQ(Apply(ConfigWith("0-1,4")), "applied") << alignd_->Log();
  ExpectMoved();
}

}  // namespace
}  // namespace alignd::daemon
