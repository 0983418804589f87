// The allocation manager with real files, real threads and plugins that answer at any time.
#include "allocation/allocation_manager.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "alignd/admission/node_state.h"
#include "allocation_fixture.h"
#include "edge/allocation_node.h"
#include "edge/allocation_outcome.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;

bool Answered(const std::future<Outcome>& later) {
  return later.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

TEST_F(AllocationTest, AssignsSavesPublishes) {
  const uint64_t before = world.manager->snapshot()->generation;
  const Outcome outcome = world.Admit(AppPod("pod", 2, {{kGpu, "1"}}));
  ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
  const admission::Assignment& assignment = AllocatedOf(outcome)->assignments.at("app");
  EXPECT_EQ(assignment.exclusive.Count(), 2);
  EXPECT_EQ(assignment.cpuset, assignment.exclusive);
  EXPECT_EQ(assignment.memory_nodes.size(), 1u);
  EXPECT_EQ(assignment.devices.at(kGpu).response, FakePlugins::AnswerTo(kGpu, {"gpu0"}));
  EXPECT_EQ(world.manager->snapshot()->generation, before + 1);
  EXPECT_EQ(admission::AssignmentOf(world.node, world.published(), {"pod", "app"}), assignment);
  EXPECT_EQ(world.saved(), Persistent(world.published()));
}

TEST_F(AllocationTest, RefusesAndChangesNothing) {
  const Outcome outcome = world.Admit(AppPod("pod", 99));
  ASSERT_TRUE(std::holds_alternative<Refusal>(outcome)) << TextOf(outcome);
  ExpectNothingAssigned();
}

TEST_F(AllocationTest, ReturnsTheSameAssignmentAgainWithoutAskingAPlugin) {
  const Pod pod = AppPod("pod", 2, {{kGpu, "1"}});
  const Outcome first = world.Admit(pod);
  const int asked = world.plugins->allocations();
  world.manager->RemoveResource(kGpu);  // even if the plugin is gone
  const Outcome second = world.Admit(pod);
  ASSERT_TRUE(AllocatedOf(first) && AllocatedOf(second)) << TextOf(second);
  EXPECT_EQ(AllocatedOf(second)->assignments, AllocatedOf(first)->assignments);
  EXPECT_EQ(world.plugins->allocations(), asked);
}

TEST_F(AllocationTest, ExplainsAPodThatIsAdmittedAgainFromAnotherSource) {
  const auto admit = [this](const std::string& source, const std::string& wanted) {
    std::promise<Outcome> answer;
    world.manager->Admit({.pod = AppPod("pod", 2), .source = source, .wanted = wanted},
                         [&answer](const Outcome& outcome) { answer.set_value(outcome); });
    EXPECT_TRUE(AllocatedOf(answer.get_future().get())) << source;
  };
  const auto sources = [this] {
    std::vector<std::string> names;
    for (const auto& one : world.manager->decisions().Newest("pod", 9))
      names.push_back(one->source);
    return names;
  };
  admit("Pods API", "");
  admit("Pods API", "");
  admit("annotation", "app");  // a container of it: no new admission
  EXPECT_EQ(sources(), std::vector<std::string>{"Pods API"});
  admit("annotation", "");
  EXPECT_EQ(sources(), (std::vector<std::string>{"annotation", "Pods API"}));
  const auto newest = world.manager->decisions().Newest("pod", 1).at(0);
  EXPECT_EQ(newest->assignments.at("app").exclusive.Count(), 2);
}

// No container may be moved onto CPUs that it would have to leave at once.
TEST_F(AllocationTest, ReassignsTheResourcesOfStoppedPodsInOneChange) {
  std::vector<CpuSet> pools;
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("stopped", 6, {{kGpu, "1"}}))));
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("stays", 8))));
  world.manager->OnChange([&pools](const std::shared_ptr<const Snapshot>& snapshot) {
    pools.push_back(snapshot->state.cpu.default_set);
  });
  const Outcome outcome = world.Admit(AppPod("next", 7), {"stopped", "unknown"});
  ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
  EXPECT_EQ(AllocatedOf(outcome)->assignments.at("app").exclusive.Count(), 7);
  EXPECT_EQ(pools, std::vector<CpuSet>{world.published().cpu.default_set});
  EXPECT_EQ(pools.at(0).Count(), 1);
  EXPECT_EQ(admission::PodsIn(world.saved()), (std::set<std::string>{"next", "stays"}));
  EXPECT_EQ(admission::PodsIn(world.published()), (std::set<std::string>{"next", "stays"}));
  EXPECT_FALSE(world.manager->KnownPods().contains("stopped"));
  const auto decisions = world.manager->decisions().Newest("next", 10);
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_FALSE(decisions[0]->refusal) << decisions[0]->refusal->message;
  EXPECT_FALSE(decisions[0]->error) << decisions[0]->error->Text();
  EXPECT_TRUE(decisions[0]->assignments.contains("app"));
}

TEST_F(AllocationTest, StoppedPodsAreNotReleasedIfThatDoesNotHelp) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("stopped", 4))));
  EXPECT_TRUE(AllocatedOf(world.Admit(AppPod("fits beside it", 4), {"stopped"})));
  EXPECT_FALSE(AllocatedOf(world.Admit(AppPod("too large", 99), {"stopped"})));
  EXPECT_NE(world.published().cpu.Find({"stopped", "app"}), nullptr);
}

TEST_F(AllocationTest, ResourcesOfStoppedPodsStayFreeIfAPluginFails) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("stopped", 6))));
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("stays", 8))));
  world.plugins->Fail(kGpu, Error{ErrorCode::kUnavailable, "plugin example.com/gpu: gone"});
  EXPECT_FALSE(AllocatedOf(world.Admit(AppPod("next", 7, {{kGpu, "1"}}), {"stopped"})));
  world.Settle();  // a refusal does not wait for the disk
  EXPECT_EQ(admission::PodsIn(world.published()), std::set<std::string>{"stays"});
  EXPECT_EQ(admission::PodsIn(world.saved()), std::set<std::string>{"stays"});
  EXPECT_EQ(world.published().cpu.default_set.Count(), 8);
  EXPECT_TRUE(AllocatedOf(world.Admit(AppPod("another", 7))));
}

TEST_F(AllocationTest, LetsSharedContainersRunOnTheDefaultSet) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("exclusive", 4))));
  const Outcome outcome = world.Admit(MakePod("shared", {App("app", {})}));
  ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
  const admission::Assignment& assignment = AllocatedOf(outcome)->assignments.at("app");
  EXPECT_TRUE(assignment.exclusive.empty());
  EXPECT_EQ(assignment.cpuset, world.published().cpu.default_set);
  EXPECT_EQ(assignment.cpuset.Count(), 12);
}

// A role may have been concluded wrongly.
TEST_F(AllocationTest, ReleasesNothingOfAnInitContainerThatRuns) {
  Container init = App("init", {{"cpu", "2"}, {"memory", "1Gi"}});
  init.kind = ContainerKind::kInit;
  ASSERT_TRUE(
      AllocatedOf(world.Admit(MakePod("pod", {init, App("app", {{"cpu", "2"}, {"memory", "1Gi"}}),
                                              App("late", {{"cpu", "1"}, {"memory", "1Gi"}})}))));
  world.Settle();
  const admission::NodeState before = world.published();
  world.manager->ContainerStarts({"pod", "app"}, {"init", "late"});
  world.Settle();
  EXPECT_EQ(world.published(), before);
  // `late` runs, too.
  world.manager->ContainerStarts({"pod", "app"}, {"late"});
  world.Settle();
  EXPECT_EQ(world.published().cpu.Find({"pod", "init"}), nullptr);
  EXPECT_EQ(world.published().memory.Find({"pod", "init"}), nullptr);
  EXPECT_NE(world.published().cpu.Find({"pod", "late"}), nullptr);
}

// The pod has a new sandbox, and the request about its init container shows that alone.
TEST_F(AllocationTest, ReleasesAnInitContainerWhenAnAppContainerWithoutOwnCpusStarts) {
  Container init = App("init", {{"cpu", "2"}, {"memory", "1Gi"}});
  init.kind = ContainerKind::kInit;
  const Pod pod = MakePod("pod", {init, App("app", {{"cpu", "500m"}, {"memory", "1Gi"}})});
  ASSERT_TRUE(AllocatedOf(world.Admit(pod)));
  world.manager->ContainerStarts({"pod", "app"});
  world.Settle();
  ASSERT_EQ(world.published().cpu.Find({"pod", "init"}), nullptr);
  Pod again = pod;
  again.stated_qos = QosOf(pod);
  again.containers.pop_back();
  again.is_complete = false;
  ASSERT_TRUE(AllocatedOf(world.Admit(again)));
  world.Settle();
  ASSERT_NE(world.published().cpu.Find({"pod", "init"}), nullptr);
  world.manager->ContainerStarts({"pod", "unknown"});
  world.Settle();
  ASSERT_NE(world.published().cpu.Find({"pod", "init"}), nullptr);
  world.manager->ContainerStarts({"pod", "app"});
  world.Settle();
  EXPECT_EQ(world.published().cpu.Find({"pod", "init"}), nullptr);
}

TEST_F(AllocationTest, ReleasesAllWithThePod) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 4, {{kGpu, "2"}, {kNic, "1"}}))));
  ASSERT_TRUE(world.Release("pod").ok());
  ExpectNothingAssigned();
}

TEST_F(AllocationTest, RefusalNamesThePluginsFault) {
  world.plugins->Fail(kNic, Error{ErrorCode::kUnavailable, "plugin example.com/nic: gone"});
  const Outcome outcome = world.Admit(AppPod("pod", 4, {{kGpu, "2"}, {kNic, "1"}}));
  ASSERT_TRUE(std::holds_alternative<Refusal>(outcome)) << TextOf(outcome);
  EXPECT_EQ(std::get<Refusal>(outcome), UnexpectedAdmissionError("plugin example.com/nic: gone"));
  ExpectNothingAssigned();
  world.plugins->Fail(kNic, std::nullopt);
  EXPECT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 4, {{kGpu, "2"}, {kNic, "1"}}))));
}

TEST_F(AllocationTest, ReservationIsNeitherSharedNorVisible) {
  const admission::NodeState before = world.published();
  world.plugins->Hold();
  std::future<Outcome> later = world.AdmitLater(AppPod("slow", 4, {{kGpu, "8"}}));
  world.plugins->AwaitHeld(1);
  EXPECT_EQ(world.published(), before);
  EXPECT_EQ(world.saved(), Persistent(before));

  const Outcome no_devices_left = world.Admit(AppPod("second", 2, {{kGpu, "1"}}));
  EXPECT_TRUE(std::holds_alternative<Refusal>(no_devices_left)) << TextOf(no_devices_left);
  const Outcome quick = world.Admit(AppPod("quick", 2));
  ASSERT_TRUE(AllocatedOf(quick)) << TextOf(quick);
  EXPECT_EQ(world.published().cpu.default_set.Count(), 14);
  EXPECT_EQ(world.saved().cpu.assignments.size(), 1u);
  EXPECT_FALSE(Answered(later));

  world.plugins->LetGo();
  const Outcome slow = later.get();
  ASSERT_TRUE(AllocatedOf(slow)) << TextOf(slow);
  EXPECT_FALSE(AllocatedOf(slow)->assignments.at("app").exclusive.Intersects(
      AllocatedOf(quick)->assignments.at("app").exclusive));
  EXPECT_EQ(world.published().cpu.default_set.Count(), 10);
  EXPECT_EQ(world.saved(), Persistent(world.published()));
}

TEST_F(AllocationTest, ReleasesAReservationWhileOthersStay) {
  world.plugins->Fail(kGpu, Error{ErrorCode::kDeadlineExceeded, "plugin example.com/gpu: slow"});
  world.plugins->Hold();
  std::future<Outcome> later = world.AdmitLater(AppPod("slow", 4, {{kGpu, "2"}}));
  world.plugins->AwaitHeld(1);
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("quick", 2))));
  const admission::NodeState before = world.published();
  world.plugins->LetGo();
  const Outcome slow = later.get();
  EXPECT_TRUE(std::holds_alternative<Refusal>(slow)) << TextOf(slow);
  world.Settle();
  EXPECT_EQ(world.published(), before);
  ASSERT_TRUE(world.Release("quick").ok());
  ExpectNothingAssigned();
}

TEST_F(AllocationTest, AsksThePluginOnceForCallersOfTheSameContainer) {
  world.plugins->Hold();
  const Pod pod = AppPod("pod", 2, {{kGpu, "1"}});
  std::future<Outcome> first = world.AdmitLater(pod);
  std::future<Outcome> second = world.AdmitLater(pod);
  world.Settle();
  world.plugins->LetGo();
  const Outcome one = first.get();
  const Outcome two = second.get();
  ASSERT_TRUE(AllocatedOf(one) && AllocatedOf(two));
  EXPECT_EQ(AllocatedOf(one)->assignments, AllocatedOf(two)->assignments);
  EXPECT_EQ(world.plugins->allocations(), 1);
}

TEST_F(AllocationTest, DecidesAboutMoreContainersOfAPodAfterItsFirst) {
  world.plugins->Hold();
  const Container a = App("a", {{"cpu", "2"}, {"memory", "1Gi"}, {kGpu, "1"}});
  const Container b = App("b", {{"cpu", "2"}, {"memory", "1Gi"}});
  std::future<Outcome> first = world.AdmitLater(MakePod("pod", {a}));
  std::future<Outcome> second = world.AdmitLater(MakePod("pod", {a, b}));
  world.Settle();
  EXPECT_FALSE(Answered(second));
  world.plugins->LetGo();
  const Outcome one = first.get();
  const Outcome two = second.get();
  ASSERT_TRUE(AllocatedOf(one) && AllocatedOf(two)) << TextOf(two);
  EXPECT_EQ(AllocatedOf(two)->assignments.at("a"), AllocatedOf(one)->assignments.at("a"));
  EXPECT_EQ(AllocatedOf(two)->assignments.at("b").exclusive.Count(), 2);
  EXPECT_EQ(world.plugins->allocations(), 1);
}

TEST_F(AllocationTest, AnswersCallersThatWaitForAReleasedPod) {
  world.plugins->Hold();
  const Pod pod = AppPod("pod", 2, {{kGpu, "1"}});
  std::future<Outcome> first = world.AdmitLater(pod);
  std::future<Outcome> second = world.AdmitLater(pod);
  world.plugins->AwaitHeld(1);
  ASSERT_TRUE(world.Release("pod").ok());
  EXPECT_TRUE(IsError(first.get(), ErrorCode::kUnavailable));
  EXPECT_TRUE(IsError(second.get(), ErrorCode::kUnavailable));
  world.plugins->LetGo();  // the answer comes too late
  ExpectNothingAssigned();
  EXPECT_TRUE(AllocatedOf(world.Admit(pod)));
}

TEST_F(AllocationTest, AnswersCallersThatWaitWhenItEnds) {
  world.plugins->Hold();
  std::future<Outcome> later = world.AdmitLater(AppPod("pod", 2, {{kGpu, "1"}}));
  world.plugins->AwaitHeld(1);
  world.manager.reset();
  EXPECT_TRUE(IsError(later.get(), ErrorCode::kUnavailable));
  world.plugins->LetGo();  // after the end
  EXPECT_TRUE(world.saved().cpu.assignments.empty());
}

TEST_F(AllocationTest, FollowsThePluginsPreference) {
  devicemanager::Resource gpus = EightDevices("gpu");
  gpus.prefers_allocation = true;
  world.manager->SetResource(kGpu, gpus);
  world.plugins->Prefer([](const devicemanager::PreferenceQuery& query) {
    return std::vector<std::string>{query.available.back()};
  });
  const Outcome outcome = world.Admit(MakePod("pod", {App("app", {{kGpu, "1"}})}));
  ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
  EXPECT_EQ(world.plugins->consultations(), 1);
  EXPECT_EQ(AllocatedOf(outcome)->assignments.at("app").devices.at(kGpu).Ids(),
            std::set<std::string>{"gpu3"});
}

TEST_F(AllocationTest, AsksAgainWhenTheFreeDevicesMovedAndThenGoesWithoutPreference) {
  devicemanager::Resource gpus = EightDevices("gpu");
  gpus.prefers_allocation = true;
  world.manager->SetResource(kGpu, gpus);
  // Each time the plugin is asked, one more free device turns unhealthy.
  int asked = 0;
  world.plugins->Prefer([&](const devicemanager::PreferenceQuery& query) {
    gpus.devices.at("gpu" + std::to_string(asked++)).healthy = false;
    world.manager->SetResource(kGpu, gpus);
    return std::vector<std::string>{query.available.back()};
  });
  const Outcome outcome = world.Admit(MakePod("pod", {App("app", {{kGpu, "1"}})}));
  ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(AllocatedOf(outcome)->assignments.at("app").devices.at(kGpu).Ids(),
            std::set<std::string>{"gpu3"});  // the lowest free one
}

// Half of the pods have no assignment: they were refused.
TEST_F(AllocationTest, KeepsNothingOfPodsThatWereReleased) {
  const std::set<std::string> at_first = world.manager->KnownPods();
  EXPECT_EQ(at_first, std::set<std::string>());
  std::set<std::string> asked;
  for (int i = 0; i < 100; ++i) {
    const std::string uid = "pod" + std::to_string(i);
    Pod pod = AppPod(uid, i % 2 == 0 ? 99 : 2);
    pod.containers.insert(pod.containers.begin(), Init("init", {{"cpu", "1"}, {"memory", "1Gi"}}));
    EXPECT_EQ(AllocatedOf(world.Admit(pod)) != nullptr, i % 2 == 1);
    asked.insert(uid);
    if (i % 2 == 1) {
      ASSERT_TRUE(world.Release(uid).ok());
    }
  }
  std::erase_if(asked, [](const std::string& uid) { return (uid.back() - '0') % 2 == 1; });
  EXPECT_EQ(world.manager->KnownPods(), asked);
  for (const std::string& uid : asked) ASSERT_TRUE(world.Release(uid).ok());
  EXPECT_EQ(world.manager->KnownPods(), std::set<std::string>());
  ExpectNothingAssigned();
}

TEST_F(AllocationTest, KnowsThePodsThatHadAnAssignmentBeforeTheStart) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("a", 2, {{kGpu, "1"}}))));
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("b", 2))));
  world.Down();
  world.Up();
  EXPECT_EQ(world.manager->KnownPods(), (std::set<std::string>{"a", "b"}));
}

TEST_F(AllocationTest, ContainerThatComesAgainForFewerCpusThanAtFirstIsRefused) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  for (const bool restarted : {false, true}) {
    SCOPED_TRACE(restarted);
    if (restarted) {
      world.Down();
      world.Up();
    }
    const Outcome outcome = world.Admit(AppPod("pod", 1));
    const Refusal* const refusal = std::get_if<Refusal>(&outcome);
    ASSERT_NE(refusal, nullptr) << TextOf(outcome);
    EXPECT_EQ(refusal->reason, "ResizeRefused");
    EXPECT_NE(refusal->message.find("has 2 exclusive CPUs"), std::string::npos) << refusal->message;
    EXPECT_EQ(world.published().cpu.Find({"pod", "app"})->Count(), 2);
    ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  }
}

TEST_F(AllocationTest, PublishesEveryChangeInOrder) {
  std::vector<uint64_t> generations;  // on the decision thread, read after its end
  world.manager->OnChange([&generations](std::shared_ptr<const Snapshot> snapshot) {
    generations.push_back(snapshot->generation);
  });
  const uint64_t start = world.manager->snapshot()->generation;
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2, {{kGpu, "1"}}))));
  world.manager->SetResource(kGpu, EightDevices("gpu"));  // nothing new
  world.manager->RemoveResource(kNic);
  ASSERT_TRUE(world.Release("pod").ok());
  world.manager.reset();
  EXPECT_EQ(generations, (std::vector<uint64_t>{start + 1, start + 2, start + 3}));
}

TEST_F(AllocationTest, AssignsDisjointThingsToManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 25;
  std::atomic<int> admitted = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t, &admitted] {
      for (int round = 0; round < kRounds; ++round) {
        const std::string uid = std::to_string(t) + "-" + std::to_string(round);
        // Together they ask for more than exists, so some are refused.
        const Outcome outcome =
            world.Admit(AppPod(uid, 2 + 2 * (round % 3),
                               round % 2 == 0 ? std::map<std::string, std::string>{{kGpu, "3"}}
                                              : std::map<std::string, std::string>{}));
        if (AllocatedOf(outcome)) ++admitted;
        EXPECT_FALSE(std::holds_alternative<Error>(outcome)) << TextOf(outcome);
        const std::shared_ptr<const Snapshot> snapshot = world.manager->snapshot();
        EXPECT_EQ(snapshot->state.cpu.assignments.contains(uid), AllocatedOf(outcome) != nullptr);
        EXPECT_TRUE(snapshot->state.BrokenInvariants(world.node).empty());
        EXPECT_TRUE(world.Release(uid).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(admitted.load(), 0);
  ExpectNothingAssigned();
}

}  // namespace
}  // namespace alignd::allocation
