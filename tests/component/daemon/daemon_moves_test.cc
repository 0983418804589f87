// A change of the configuration that moves running containers with exclusive CPUs to other CPUs.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "fake_cgroups.h"
#include "moves_fixture.h"

namespace alignd::daemon {
namespace {

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

// As `systemctl reload` does.
TEST_F(DaemonMoves, AnApplyOfTheFileMovesIfTheFlagAllowsIt) {
  StartThree();
  tree_.Write({"config.yaml", ConfigWith("0-1,4")});
  control::v1::ChangeRequest never;
  never.set_may_move(false);
  const auto refused = Control().ApplyChange(never);
  ASSERT_TRUE(refused.ok()) << refused.error().Text();
  EXPECT_FALSE(refused->admitted());
  const auto change = Control().ApplyChange({});
  ASSERT_TRUE(change.ok()) << change.error().Text();
  EXPECT_EQ(Outcome(change->change()), "applied") << alignd_->Log();
  ExpectMoved();
  EXPECT_EQ(NotApplied(), "");
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

// The containers were moved, and then alignd cannot go on with the new configuration.
TEST_F(DaemonMoves, IfTheFilesCannotBeWrittenAllGoBack) {
  StartThree();
  const uint64_t change = BeginHalf(ConfigWith("0-1,4"), milliseconds(1'000));
  fs::remove(tree_.root() / "config.yaml");
  fs::create_directory(tree_.root() / "config.yaml");
  const std::string outcome = Outcome(change);
  EXPECT_NE(outcome.find("failed: "), std::string::npos) << outcome;
  ExpectAsBefore();
}

// Which containers run is not known: none of them counts as moved back.
TEST_F(DaemonMoves, UntilTheRuntimeIsListedNoContainerCountsAsBack) {
  wrapper_ = {"env", "WATCHDOG_USEC=1000000"};
  StartThree();
  const uint64_t change = BeginHalf(ConfigWith("0-1,4"));
  fs::remove(tree_.root() / "config.yaml");
  fs::create_directory(tree_.root() / "config.yaml");
  runtime_->SetFailure("ListContainers", {grpc::StatusCode::UNAVAILABLE, "busy"});
  EndHold();
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
  const uint64_t change = BeginHalf(ConfigWith("0-1,4"));
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
  const uint64_t change = BeginHalf(ConfigWith("0-1,4"));
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
  EndHold();
  EXPECT_EQ(Outcome(change), "applied") << alignd_->Log();
  ExpectMoved();
  AwaitListing();
  const grpc::Status resized = Update(request);
  EXPECT_TRUE(resized.ok()) << resized.error_message();
  EXPECT_EQ(CpusOf(a_.container), "2-3,7,9");
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
