// The state files are whole and valid, and not true: a backup or a snapshot was restored while
// containers ran. The fixture checks after every change of a container that no container runs on
// exclusive CPUs of another.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/mark_annotation.h"
#include "daemon_fixture.h"
#include "edge/status_conditions.h"

namespace alignd::daemon {
namespace {

using control::v1::Condition;
using reconcile::ConditionType;

class StaleState : public DaemonTest {
 protected:
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
  std::map<std::string, std::string> CpusInState() const {
    std::map<std::string, std::string> pods;
    const auto read = checkpoint::ParseCpuCheckpoint(State());
    if (!read.ok()) return pods;
    for (const auto& [uid, containers] : read->state.assignments) {
      pods[uid] = containers.at("app").ToString();
    }
    return pods;
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

// A pod that is created again, with the same UID, gets other devices and other memory.
TEST_F(StaleState, ABackupOfBeforeAnotherAllocationChangesNothingForRunningContainers) {
  const std::string config = StaticConfig(
      "memoryManagerPolicy: Static\nreservedMemory:\n- numaNode: 0\n"
      "  limits: {memory: 1Gi}\nkubeReserved: {memory: 924Mi}\n"
      "topologyManagerPolicy: single-numa-node\n");
  const std::vector<std::string> names = {"cpu_manager_state", "memory_manager_state",
                                          "device-plugins/kubelet_internal_checkpoint"};
  const auto pod = [](const std::string& uid) { return PodConfig(uid, "", Annotation(3, 1)); };
  const auto files = [&] {
    std::vector<std::string> texts;
    for (const std::string& name : names) texts.push_back(ReadText(StateDir() / name));
    return texts;
  };
  const auto mems = [&](const Running& running) {
    return runtime_->FindContainer(running.container)->resources.cpuset_mems();
  };
  Start(config);
  StartGpus();
  const Running a = RunOne(pod("a"), Pinned(3));
  const Running b = RunOne(pod("b"), Pinned(3));
  ASSERT_EQ(mems(a) + " " + mems(b), "0 1");
  const std::vector<std::string> backup = files();
  ASSERT_TRUE(RemoveSandbox(a.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(b.sandbox).ok());
  ASSERT_TRUE(Eventually([&] { return CpusInState().empty(); }));
  const Running b_again = RunOne(pod("b"), Pinned(3));
  const Running a_again = RunOne(pod("a"), Pinned(3));
  ASSERT_EQ(mems(a_again) + " " + mems(b_again), "1 0");
  StopDaemon();
  const std::vector<std::string> now = files();
  for (size_t i = 0; i < names.size(); ++i) std::ofstream(StateDir() / names[i]) << backup[i];
  StartDaemon(config);
  EXPECT_TRUE(Eventually([&] { return files()[0] == now[0]; })) << files()[0];
  EXPECT_TRUE(Eventually([&] { return files()[1] == now[1]; })) << files()[1];
  const auto gpus = [](const std::string& text) {
    std::map<std::string, std::set<std::string>> ids;
    const auto read = checkpoint::ParseDeviceCheckpoint(text);
    EXPECT_TRUE(read.ok()) << text;
    if (!read.ok()) return ids;
    for (const auto& [key, resources] : read->allocations) {
      ids[key.pod_uid] = resources.at(kGpu).Ids();
    }
    return ids;
  };
  ASSERT_EQ(gpus(now[2]).size(), 2U);
  EXPECT_TRUE(Eventually([&] { return gpus(files()[2]) == gpus(now[2]); })) << files()[2];
  ASSERT_EQ(ConditionsNow(ConditionType::kStateRebuilt).size(), 1U);
  const std::string message = ConditionsNow(ConditionType::kStateRebuilt)[0].message();
  EXPECT_NE(message.find("for container app of pod default/pod-a, but it was created with"),
            std::string::npos)
      << message;
  EXPECT_EQ(ConditionsNow(ConditionType::kAssignmentUnknown).size(), 0U);
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
  EXPECT_EQ(condition.remedy(),
            "start alignd with --on-bad-state=rebuild, or with the right files");
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
