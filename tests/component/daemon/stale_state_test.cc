// What valid state files that are not true change for running containers: nothing.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "alignd/checkpoint/device_checkpoint.h"
#include "stale_state_fixture.h"

namespace alignd::daemon {
namespace {

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

// The state files have nothing of `c`, so there is nothing to compare.
TEST_F(StaleState, AContainerThatWasResizedToSharedCpusIsNotNamedAsNotCompared) {
  Start();
  RunOne(PodConfig("a"), Pinned(3));
  RunOne(PodConfig("b"), Pinned(4));
  // Created without a mark.
  const auto sized = [](int64_t millis) {
    return podsource::Kubelet(millis, millis, 100 * podsource::kMi);
  };
  const Running c = RunOne(PodConfig("c"), sized(500));
  for (const int64_t millis : {1000, 500}) {
    v1::UpdateContainerResourcesRequest request;
    request.set_container_id(c.container);
    *request.mutable_linux() = sized(millis).linux().resources();
    ASSERT_TRUE(Update(request).ok());
  }
  StopDaemon();
  WriteState({{"a", {5, 6, 7}}, {"b", {1, 2, 3, 4}}});
  runtime_->SetFailure("ContainerStatus", {grpc::StatusCode::INTERNAL, "broken"}, c.container);
  StartDaemon();
  ASSERT_TRUE(Eventually([&] { return !ConditionsNow(ConditionType::kStateRebuilt).empty(); }));
  const std::string message = ConditionsNow(ConditionType::kStateRebuilt)[0].message();
  EXPECT_EQ(message.find("not compared"), std::string::npos) << message;
}

// `d` has a device and no CPUs of its own, so its mark is compared, and nothing else has to be.
TEST_F(StaleState, AfterALateAnswerOnlyContainersWithCpusAreNamed) {
  Start();
  StartGpus();
  RunOne(PodConfig("a"), Pinned(3));
  RunOne(PodConfig("b"), Pinned(4));
  const Running c = RunOne(PodConfig("c"), Pinned(1));
  RunOne(PodConfig("d", "",
                   R"({"app":{"limits":{"cpu":"1500m","memory":"100Mi","nvidia.com/gpu":1}}})"),
         podsource::Kubelet(1500, 1500, 100 * podsource::kMi, "app"));
  RunOne(PodConfig("e"), Pinned(1));
  StopDaemon();
  WriteState({{"a", {5, 6, 7}}, {"b", {1, 2, 3, 4}}, {"c", {8}}, {"e", {9}}});
  runtime_->SetFailure("ContainerStatus", {grpc::StatusCode::DEADLINE_EXCEEDED, "late"},
                       c.container);
  StartDaemon();
  ASSERT_TRUE(Eventually([&] { return !ConditionsNow(ConditionType::kStateRebuilt).empty(); }));
  const std::string message = ConditionsNow(ConditionType::kStateRebuilt)[0].message();
  EXPECT_NE(message.find("not compared with the runtime for 2 containers (container app of pod "
                         "default/pod-c: "),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("; container app of pod default/pod-e: not asked: an earlier answer came "
                         "too late)"),
            std::string::npos)
      << message;
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
