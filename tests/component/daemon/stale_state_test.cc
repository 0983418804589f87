// The state files are whole and valid, and not true: a backup or a snapshot was restored while
// containers ran. The fixture checks after every change of a container that no container runs on
// exclusive CPUs of another.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/mark_annotation.h"
#include "alignd/checkpoint/originals_checkpoint.h"
#include "daemon_fixture.h"
#include "edge/status_conditions.h"
#include "fake_cgroups.h"

namespace alignd::daemon {
namespace {

using control::v1::Condition;
using reconcile::ConditionType;

class StaleState : public DaemonTest {
 protected:
  ~StaleState() override {
    watch_.OnEvent({});
    watch_.ReadCpus({});
  }
  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.on_bad_state = on_bad_state_;
    return options;
  }
  std::vector<Condition> ConditionsNow(ConditionType type) const {
    return testing::ConditionsOf(DaemonOptions().ControlSocket(), type);
  }
  // The CPUs of the pods in the file of now; the rest of the file is that of now.
  void WriteState(const std::map<std::string, CpuSet>& pods) const {
    auto read = checkpoint::ParseCpuCheckpoint(State());
    ASSERT_TRUE(read.ok()) << read.error().Text();
    cpumanager::CpuState state = read->state;
    for (const auto& [uid, containers] : state.assignments) {
      for (const auto& [name, cpus] : containers) state.default_set |= cpus;
    }
    state.assignments.clear();
    for (const auto& [uid, cpus] : pods) {
      state.assignments[uid]["app"] = cpus;
      state.default_set -= cpus;
    }
    std::ofstream(StateDir() / "cpu_manager_state")
        << checkpoint::FormatCpuCheckpoint("static", state, checkpoint::StateForm::kData);
  }
  // The CPUs with which a container that has grown was created.
  void WriteOriginals(const std::string& uid, const CpuSet& cpus) const {
    checkpoint::Originals originals;
    originals[uid]["app"] = cpus;
    std::ofstream(StateDir() / "cpu_originals") << checkpoint::FormatOriginalsCheckpoint(originals);
  }
  std::map<std::string, std::string> CpusInState() const {
    std::map<std::string, std::string> pods;
    const auto read = checkpoint::ParseCpuCheckpoint(State());
    if (!read.ok()) return pods;
    for (const auto& [uid, containers] : read->state.assignments) {
      pods[uid] = containers.at("app").ToString();
    }
    return pods;
  }

  // The containers have cgroups, in which `watch_` sees where they are.
  void CreateCgroups() {
    cgroups_.emplace(CgroupRoot(), /*unified=*/true, "0-27");
    watch_.OnEvent([this](const RuntimeModel::Event& event) { cgroups_->Apply(event); });
    watch_.ReadCpus([this](const std::string& cgroup) {
      // A file that alignd just writes may be empty. A kernel's never is.
      std::string cpus;
      Eventually([&] { return !(cpus = cgroups_->CpusOf(cgroup)).empty(); });
      return cpus;
    });
  }

  // At the runtime's own socket.
  void MoveAtRuntime(const std::string& id, const CpuSet& cpus) {
    const std::shared_ptr<grpc::Channel> ours =
        std::exchange(client_, *rpc::Dial(RuntimeEndpoint()));
    v1::UpdateContainerResourcesRequest request;
    request.set_container_id(id);
    *request.mutable_linux() = runtime_->FindContainer(id)->resources;
    request.mutable_linux()->set_cpuset_cpus(cpus.ToString());
    EXPECT_TRUE(Update(request).ok());
    client_ = ours;
  }
  // A container that runs on these CPUs; with a mark, exclusively.
  Running RunAtRuntime(const std::string& uid, const CpuSet& cpus, bool is_marked) {
    const std::shared_ptr<grpc::Channel> ours =
        std::exchange(client_, *rpc::Dial(RuntimeEndpoint()));
    v1::ContainerConfig container = is_marked ? Pinned(static_cast<int>(cpus.Count())) : Shared();
    container.mutable_linux()->mutable_resources()->set_cpuset_cpus(cpus.ToString());
    if (is_marked) {
      admission::AssignmentMark mark;
      mark.cpus = cpus;
      (*container.mutable_annotations())[checkpoint::kMarkAnnotation] =
          checkpoint::FormatMark({uid, "app"}, "id", mark);
      (*container.mutable_labels())[checkpoint::kMarkLabel] = "id";
    }
    const Running running = RunOne(PodConfig(uid), container);
    client_ = ours;
    return running;
  }
  // The updates of the container that the runtime got since its start, in order.
  std::vector<std::string> PlacesOf(const std::string& id) const {
    std::vector<std::string> places;
    for (const RuntimeModel::Event& event : watch_.events()) {
      if (event.container.id != id || event.container.state != v1::CONTAINER_RUNNING) continue;
      const std::string& cpus = event.container.resources.cpuset_cpus();
      if (places.empty() || places.back() != cpus) places.push_back(cpus);
    }
    return places;
  }

  using Places = std::vector<std::string>;
  using Pods = std::map<std::string, std::string>;
  allocation::OnBadState on_bad_state_ = allocation::OnBadState::kRebuild;
  std::optional<FakeCgroups> cgroups_;
};

// `a` is moved after the backup, and `b` gets its CPUs.
TEST_F(StaleState, ABackupOfBeforeAMoveChangesNothingForRunningContainers) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  StopDaemon();
  MoveAtRuntime(shared.container, {0, 7, 8});
  MoveAtRuntime(a.container, {4, 5, 6});
  const Running b = RunAtRuntime("b", {1, 2, 3}, /*is_marked=*/true);
  StartDaemon();
  EXPECT_TRUE(Eventually([&] {
    return CpusInState() == Pods({{"a", "4-6"}, {"b", "1-3"}});
  })) << State();
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0,7-27"; }));
  EXPECT_EQ(PlacesOf(a.container), (Places{"1-3", "4-6"}));
  EXPECT_EQ(PlacesOf(b.container), Places{"1-3"});
  const auto rebuilt = ConditionsNow(ConditionType::kStateRebuilt);
  ASSERT_EQ(rebuilt.size(), 1U);
  EXPECT_EQ(
      rebuilt[0].message(),
      "the state files have CPUs 1-3 for container app of pod default/pod-a, but container "
      "app of pod default/pod-b runs exclusively on CPUs 1-3. The assignments of 2 containers "
      "were rebuilt from the runtime (container app of pod default/pod-a: CPUs 4-6; container "
      "app of pod default/pod-b: CPUs 1-3)");
  EXPECT_EQ(ConditionsNow(ConditionType::kAssignmentUnknown).size(), 0U);
}

TEST_F(StaleState, AFileOfAnotherHistoryChangesNothingForRunningContainers) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running b = RunOne(PodConfig("b"), Pinned(4));
  StopDaemon();
  WriteState({{"a", {5, 6, 7}}, {"b", {1, 2, 3, 4}}});
  StartDaemon();
  EXPECT_TRUE(Eventually([&] {
    return CpusInState() == Pods({{"a", "1-3"}, {"b", "4-7"}});
  })) << State();
  const Running next = RunOne(PodConfig("next"), Pinned(2));
  EXPECT_EQ(CpusOf(next.container), "8-9");
  EXPECT_EQ(PlacesOf(a.container), Places{"1-3"});
  EXPECT_EQ(PlacesOf(b.container), Places{"4-7"});
  EXPECT_EQ(ConditionsNow(ConditionType::kStateRebuilt).size(), 1U);
}

// Nothing proves that the file is not true, as the other container has no mark. It leaves the CPUs
// before `a` comes onto them, and does not come onto those of `a` before that has left.
TEST_F(StaleState, NoContainerComesOntoCpusOnWhichAnotherOneStillIs) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  StopDaemon();
  MoveAtRuntime(a.container, {4, 5, 6});
  const Running b = RunAtRuntime("b", {1, 2, 3}, /*is_marked=*/false);
  StartDaemon();
  EXPECT_TRUE(Eventually([&] { return CpusOf(b.container) == "0,4-27"; }));
  EXPECT_EQ(PlacesOf(a.container), (Places{"1-3", "4-6", "1-3"}));
  EXPECT_EQ(PlacesOf(b.container), (Places{"1-3", "0,7-27", "0,4-27"}));
}

// Each is assigned what the other one is on. As they are on other numbers of CPUs than they are
// assigned, nothing is refuted.
TEST_F(StaleState, ContainersOnTheCpusOfEachOtherChangePlaces) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running b = RunOne(PodConfig("b"), Pinned(4));
  StopDaemon();
  MoveAtRuntime(a.container, {8, 9, 10, 11});
  MoveAtRuntime(b.container, {1, 2, 3});
  MoveAtRuntime(a.container, {4, 5, 6, 7});
  StartDaemon();
  EXPECT_TRUE(Eventually([&] {
    return CpusOf(a.container) == "1-3" && CpusOf(b.container) == "4-7";
  })) << CpusOf(a.container)
      << ", " << CpusOf(b.container);
  EXPECT_EQ(PlacesOf(a.container), (Places{"1-3", "8-11", "4-7", "0,8-27", "1-3"}));
  EXPECT_EQ(PlacesOf(b.container), (Places{"4-7", "1-3", "4-7"}));
  const Running next = RunOne(PodConfig("next"), Pinned(2));
  EXPECT_EQ(CpusOf(next.container), "8-9");
  EXPECT_EQ(ConditionsNow(ConditionType::kCpusetUpdateFailed).size(), 0U);
}

// The only CPU of the shared pool is in use as well. A condition has said what waits for what
// before.
TEST_F(StaleState, WithoutOtherCpusOneOfTheContainersGoesFirst) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running b = RunOne(PodConfig("b"), Pinned(4));
  const Running rest = RunOne(PodConfig("rest"), Pinned(20));
  StopDaemon();
  // Two of them are on the same CPUs for a moment.
  watch_.ReadCpus([](const std::string& cgroup) {
    return cgroup.find("poda") != std::string::npos   ? "1"
           : cgroup.find("podb") != std::string::npos ? "2"
                                                      : "3";
  });
  MoveAtRuntime(rest.container, {0});
  MoveAtRuntime(a.container, {8, 9, 10, 11});
  MoveAtRuntime(b.container, {1, 2, 3});
  MoveAtRuntime(a.container, {4, 5, 6, 7});
  runtime_->SetFailure("UpdateContainerResources", {grpc::StatusCode::INTERNAL, "broken"},
                       rest.container);
  StartDaemon();
  EXPECT_TRUE(Eventually([&] {
    return CpusOf(a.container) == "1-3" && CpusOf(b.container) == "4-7";
  })) << CpusOf(a.container)
      << ", " << CpusOf(b.container);
  EXPECT_EQ(PlacesOf(a.container), (Places{"1-3", "8-11", "4-7", "1-3"}));
}

// `b` gets more CPUs; then, past alignd, it loses them, and `a` comes onto one of them. Where `b`
// is now, only the runtime's record says, which is no proof that it has left the others.
TEST_F(StaleState, AGrownContainerWaitsOnItsOriginalCpus) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running b = RunOne(PodConfig("b"), Pinned(4));
  StopDaemon();
  WriteState({{"a", {1, 2, 3}}, {"b", {4, 5, 6, 7, 8, 9}}});
  WriteOriginals("b", {4, 5, 6, 7});
  MoveAtRuntime(a.container, {8, 9, 10});
  StartDaemon();
  EXPECT_TRUE(Eventually([&] {
    return CpusOf(a.container) == "1-3" && CpusOf(b.container) == "4-9";
  })) << CpusOf(a.container)
      << ", " << CpusOf(b.container);
  EXPECT_EQ(PlacesOf(b.container), (Places{"4-7", "4-9"}));
  const Running next = RunOne(PodConfig("next"), Pinned(2));
  EXPECT_EQ(CpusOf(next.container), "10-11");
  EXPECT_EQ(ConditionsNow(ConditionType::kCpusetUpdateFailed).size(), 0U);
}

// The other one cannot leave. The wait is reported, and names it.
TEST_F(StaleState, AWaitThatLastsIsShown) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running b = RunOne(PodConfig("b"), Pinned(4));
  StopDaemon();
  MoveAtRuntime(b.container, {8, 9, 10});
  MoveAtRuntime(a.container, {4, 5, 6, 7});
  runtime_->SetFailure("UpdateContainerResources", {grpc::StatusCode::INTERNAL, "broken"},
                       a.container);
  StartDaemon();
  const std::string message =
      "not moved to CPUs 4-7: it waits until other containers have left its CPUs: container app "
      "of pod default/pod-a (on CPUs 1-7)";
  EXPECT_TRUE(Eventually([&] {
    return std::ranges::any_of(
        ConditionsNow(ConditionType::kCpusetUpdateFailed),
        [&](const Condition& condition) { return condition.message() == message; });
  }));
  EXPECT_EQ(CpusOf(b.container), "8-10");
  runtime_->SetFailure("UpdateContainerResources", grpc::Status::OK);
  EXPECT_TRUE(Eventually([&] {
    return CpusOf(a.container) == "1-3" && CpusOf(b.container) == "4-7";
  })) << CpusOf(a.container)
      << ", " << CpusOf(b.container);
  EXPECT_TRUE(
      Eventually([&] { return ConditionsNow(ConditionType::kCpusetUpdateFailed).empty(); }));
}

// `c` is on a CPU on which `a` is as well, and is assigned another one of those; `a` takes its
// time.
TEST_F(StaleState, AContainerThatSharesACpuWaitsAsWell) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running b = RunOne(PodConfig("b"), Pinned(4));
  const Running c = RunOne(PodConfig("c"), Pinned(1));
  ASSERT_EQ(CpusOf(c.container), "8");
  StopDaemon();
  MoveAtRuntime(c.container, {10});
  watch_.Forget();  // what happens past alignd: `c` is not seen again until its update
  MoveAtRuntime(a.container, {8, 9, 10});
  runtime_->SetDelay("UpdateContainerResources", milliseconds(200), a.container);
  StartDaemon();
  EXPECT_TRUE(Eventually([&] {
    return CpusOf(a.container) == "1-3" && CpusOf(c.container) == "8";
  })) << CpusOf(a.container)
      << ", " << CpusOf(c.container);
  EXPECT_EQ(CpusOf(b.container), "4-7");
}

// The runtime's record is right; another program has written to the cgroup.
TEST_F(StaleState, ACgroupThatAnotherProgramHasMovedIsWaitedFor) {
  CreateCgroups();
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running b = RunOne(PodConfig("b"), Pinned(4));
  StopDaemon();
  WriteState({{"a", {1, 2, 3}}, {"b", {4, 5, 6, 7, 8, 9}}});
  WriteOriginals("b", {4, 5, 6, 7});
  cgroups_->SetCpus(runtime_->FindContainer(a.container)->cgroup, "8-9");
  runtime_->SetDelay("UpdateContainerResources", milliseconds(200), a.container);
  StartDaemon();
  EXPECT_TRUE(Eventually([&] { return CpusOf(b.container) == "4-9"; })) << CpusOf(b.container);
  EXPECT_EQ(cgroups_->CpusOf(runtime_->FindContainer(a.container)->cgroup), "1-3");
}

TEST_F(StaleState, AContainerThatCouldNotBeComparedIsNamed) {
  Start();
  RunOne(PodConfig("a"), Pinned(3));
  RunOne(PodConfig("b"), Pinned(4));
  const Running c = RunOne(PodConfig("c"), Pinned(1));
  StopDaemon();
  WriteState({{"a", {5, 6, 7}}, {"b", {1, 2, 3, 4}}, {"c", {8}}});
  runtime_->SetFailure("ContainerStatus", {grpc::StatusCode::INTERNAL, "broken"}, c.container);
  StartDaemon();
  ASSERT_TRUE(Eventually([&] { return !ConditionsNow(ConditionType::kStateRebuilt).empty(); }));
  const std::string message = ConditionsNow(ConditionType::kStateRebuilt)[0].message();
  EXPECT_NE(message.find(". The state files were not compared with the runtime for 1 container "
                         "(container app of pod default/pod-c: "),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("broken"), std::string::npos) << message;
}

// Nothing is decided, and no container is moved, until an operator has said what to do.
TEST_F(StaleState, RefuseMovesNoContainerAndDecidesNothing) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running b = RunOne(PodConfig("b"), Pinned(4));
  StopDaemon();
  WriteState({{"a", {5, 6, 7}}, {"b", {1, 2, 3, 4}}});
  const std::string file = State();
  on_bad_state_ = allocation::OnBadState::kRefuse;
  StartDaemon();
  ASSERT_TRUE(Eventually([&] { return !ConditionsNow(ConditionType::kStateRebuilt).empty(); }));
  const Condition condition = ConditionsNow(ConditionType::kStateRebuilt)[0];
  EXPECT_EQ(condition.message(),
            "nothing was rebuilt, as alignd runs with --on-bad-state=refuse: the state files have "
            "CPUs 1-4 for container app of pod default/pod-b, but container app of pod "
            "default/pod-a runs exclusively on CPUs 1-3. New pods and containers wait, and no "
            "container is moved");
  EXPECT_EQ(
      condition.remedy(),
      "start alignd with --on-bad-state=rebuild, or with the right files; or delete the pod of "
      "one of these containers");
  EXPECT_EQ(ConditionsNow(ConditionType::kRuntimeUnavailable).size(), 0U);
  const v1::PodSandboxConfig next = PodConfig("next");
  EXPECT_FALSE(Create(Run(next), next, Pinned(2)).status.ok());
  EXPECT_EQ(PlacesOf(a.container), Places{"1-3"});
  EXPECT_EQ(PlacesOf(b.container), Places{"4-7"});
  EXPECT_EQ(State(), file);
  StopDaemon();
  on_bad_state_ = allocation::OnBadState::kRebuild;
  StartDaemon();
  EXPECT_TRUE(Eventually([&] {
    return CpusInState() == Pods({{"a", "1-3"}, {"b", "4-7"}});
  })) << State();
}

}  // namespace
}  // namespace alignd::daemon
