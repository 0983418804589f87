#include "reconcile/container_registry.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "registry_fixture.h"

namespace alignd::reconcile {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

class Registry : public RegistryTest {};

TEST_F(Registry, PodIsGoneWithItsLastSandbox) {
  registry_.AddSandbox("s1", "pod");
  registry_.AddSandbox("s2", "pod");
  registry_.AddContainer("c", {"pod", "app"}, {});
  EXPECT_EQ(registry_.RemoveSandbox("s1"), std::nullopt);
  EXPECT_TRUE(registry_.KeyOf("c"));
  EXPECT_EQ(registry_.RemoveSandbox("s2"), "pod");
  EXPECT_FALSE(registry_.KeyOf("c"));
  EXPECT_EQ(registry_.RemoveSandbox("s2"), std::nullopt);
}

TEST_F(Registry, BeginningOfAnIdIsResolvedIfItIsUnique) {
  registry_.AddSandbox("ab1", "pod");
  registry_.AddSandbox("ab2", "pod");
  registry_.AddContainer("ab", {"pod", "short"}, {});
  registry_.AddContainer("abc1", {"pod", "app"}, {});
  EXPECT_EQ(registry_.ContainerNamed("abc1"), "abc1");
  EXPECT_EQ(registry_.ContainerNamed("abc"), "abc1");
  EXPECT_EQ(registry_.ContainerNamed("ab"), "ab");  // a full id
  EXPECT_EQ(registry_.ContainerNamed("a"), std::nullopt);
  EXPECT_EQ(registry_.ContainerNamed("abc12"), std::nullopt);
  EXPECT_EQ(registry_.ContainerNamed("zz"), std::nullopt);
  EXPECT_EQ(registry_.SandboxNamed("ab"), std::nullopt);
  EXPECT_EQ(registry_.SandboxNamed("ab2"), "ab2");
  registry_.RemoveContainer("ab");
  EXPECT_EQ(registry_.ContainerNamed("a"), "abc1");
  EXPECT_EQ(registry_.ContainerNamed(""),
            std::nullopt);  // the only container, but an empty name is no beginning
}

TEST_F(Registry, SandboxWithoutUidIsASeparatePod) {
  registry_.AddSandbox("s1", "");
  registry_.AddSandbox("s2", "");
  EXPECT_EQ(registry_.PodOfSandbox("s1"), "s1");
  EXPECT_EQ(registry_.RemoveSandbox("s2"), "s2");
}

TEST_F(Registry, KnowsPodsByNameFromTheirSandboxesAndFromListings) {
  using Names = std::map<std::string, std::string>;
  registry_.AddSandbox("s1", "pod", "default/first");
  registry_.AddSandbox("s2", "other");
  EXPECT_EQ(registry_.PodNames(), (Names{{"pod", "default/first"}}));
  Listed(
      {{{"s1", "pod", true, "first", "default"}, {"s3", "third", false, "of-three", "kube"}}, {}});
  EXPECT_EQ(registry_.PodNames(), (Names{{"pod", "default/first"}, {"third", "kube/of-three"}}));
}

TEST_F(Registry, KnowsWhatASchedulerHasDecidedFromCallsAndFromListings) {
  PodPolicies policies;
  policies.cpuset = *CpuSet::Parse("2-3");
  registry_.AddSandbox("s1", "pod", "default/first", "", policies);
  EXPECT_EQ(registry_.Pods()[0].decided.ToString(), "2-3");
  RuntimeListing listing{{{"s1", "pod", true, "first", "default"}}, {}};
  listing.sandboxes[0].decided = *CpuSet::Parse("4-5");
  Listed(listing);
  EXPECT_EQ(registry_.Pods()[0].decided.ToString(), "4-5");
}

TEST_F(Registry, KnowsHandlersFromCallsAndFromListings) {
  registry_.AddSandbox("s1", "pod", "default/first", "runsc");
  registry_.AddSandbox("s2", "other");
  EXPECT_EQ(registry_.HandlerOfSandbox("s1"), "runsc");
  EXPECT_EQ(registry_.HandlerOfPod("pod"), "runsc");
  EXPECT_EQ(registry_.HandlerOfSandbox("s2"), "");
  EXPECT_EQ(registry_.HandlerOfSandbox("unknown"), "");
  EXPECT_EQ(registry_.HandlerOfPod("unknown"), "");
  // A runtime that lists no handlers takes none away.
  Listed(
      {{{"s1", "pod", true, "first", "default"}, {"s3", "third", true, "of-three", "kube", "kata"}},
       {}});
  EXPECT_EQ(registry_.HandlerOfSandbox("s1"), "runsc");
  EXPECT_EQ(registry_.HandlerOfSandbox("s3"), "kata");
  EXPECT_EQ(registry_.HandlerOfPod("third"), "kata");
}

TEST_F(Registry, PodIsStoppedWhenAllItsSandboxesAreAndNoCallIsUnderWay) {
  registry_.AddSandbox("old", "pod");
  registry_.SandboxStopped("old");
  EXPECT_EQ(registry_.StoppedPods(), Pods{"pod"});
  registry_.BeginCall("pod");
  registry_.BeginCall("pod");
  EXPECT_EQ(registry_.StoppedPods(), Pods{});
  EXPECT_FALSE(registry_.EndCall("pod"));  // the other call is still under way
  EXPECT_TRUE(registry_.EndCall("pod"));
  EXPECT_EQ(registry_.StoppedPods(), Pods{"pod"});
  registry_.BeginCall("pod");
  registry_.AddSandbox("new", "pod");
  EXPECT_FALSE(registry_.EndCall("pod"));
  EXPECT_EQ(registry_.StoppedPods(), Pods{});
  registry_.SandboxStopped("new");
  EXPECT_EQ(registry_.StoppedPods(), Pods{"pod"});
  registry_.SandboxStopped("unknown");
}

TEST_F(Registry, StoppedPodIsReleasedSomeTimeAfterItsLastSandboxStopped) {
  const ContainerRegistry::Grace grace{milliseconds(100), hours(1)};
  using Clock = std::chrono::steady_clock;
  registry_.AddSandbox("first", "pod");
  registry_.AddSandbox("second", "pod");
  registry_.SandboxStopped("first");
  EXPECT_TRUE(registry_.ReleaseTimes(grace).empty());
  const Clock::time_point before = Clock::now();
  registry_.SandboxStopped("second");
  const Clock::time_point after = Clock::now();
  const Clock::time_point time = registry_.ReleaseTimes(grace).at("pod");
  EXPECT_GE(time, before + milliseconds(100));
  EXPECT_LE(time, after + milliseconds(100));
  registry_.SandboxStopped("second");  // a kubelet does so more than once
  EXPECT_EQ(registry_.ReleaseTimes(grace).at("pod"), time);
}

// It is not known when it stopped, nor whether the kubelet is about to replace it.
TEST_F(Registry, PodThatIsFoundStoppedHasTheLongerGracePeriod) {
  const ContainerRegistry::Grace grace{milliseconds(0), hours(1)};
  using Clock = std::chrono::steady_clock;
  const RuntimeListing not_ready{{{"s", "pod", /*ready=*/false}}, {}};
  Listed(not_ready);
  EXPECT_GT(registry_.ReleaseTimes(grace).at("pod"), Clock::now() + milliseconds(1));
  registry_.SandboxStopped("s");
  EXPECT_LE(registry_.ReleaseTimes(grace).at("pod"), Clock::now());
  Listed(not_ready);
  EXPECT_LE(registry_.ReleaseTimes(grace).at("pod"), Clock::now());
}

TEST_F(Registry, ListingAddsForgetsAndKeepsAppliedSets) {
  registry_.AddSandbox("s", "pod");
  registry_.AddContainer("kept", {"pod", "kept"}, Cpus("1-3"));
  registry_.AddContainer("vanished", {"pod", "vanished"}, Cpus("1-3"));
  Listed({{{"s", "pod", true}}, {{"kept", {"pod", "kept"}}, {"found", {"pod", "found"}}}});
  EXPECT_EQ(AppliedTo("kept"), "1-3");
  EXPECT_EQ(AppliedTo("found"), "");
  EXPECT_EQ(AppliedTo("vanished"), "unknown");
}

TEST_F(Registry, ContainersAddedWhileTheRuntimeListsAreKept) {
  registry_.BeginListing();
  registry_.AddSandbox("s", "pod");
  registry_.AddContainer("c", {"pod", "app"}, Cpus("1"));
  registry_.AddContainer("short", {"pod", "short"}, Cpus("1"));
  registry_.RemoveContainer("short");
  EXPECT_EQ(registry_.Resync({}, {"pod"}, /*at_start=*/true), Pods{});
  EXPECT_EQ(AppliedTo("c"), "1");
  EXPECT_EQ(AppliedTo("short"), "unknown");
  EXPECT_EQ(Listed({}, {"pod"}, /*at_start=*/true), Pods{"pod"});
}

TEST_F(Registry, SandboxThatIsRemovedWhileTheRuntimeListsDoesNotComeBack) {
  registry_.AddSandbox("s", "pod");
  registry_.AddContainer("c", {"pod", "app"}, Cpus("1-3"));
  registry_.BeginListing();
  EXPECT_EQ(registry_.RemoveSandbox("s"), "pod");
  registry_.Resync({{{"s", "pod", true}}, {{"c", {"pod", "app"}, "s"}}}, {"pod"}, false);
  EXPECT_FALSE(registry_.PodOfSandbox("s"));
  EXPECT_FALSE(registry_.KeyOf("c"));
  // Its release, which comes after the listing, is not dropped.
  EXPECT_TRUE(registry_.IsGone("pod"));
}

// At the first listing after the start, the registry does not know the sandbox yet.
TEST_F(Registry, UnknownSandboxThatIsRemovedWhileTheRuntimeListsIsNotAdopted) {
  registry_.BeginListing();
  EXPECT_EQ(registry_.RemoveSandbox("s"), std::nullopt);
  registry_.RemoveContainer("other");
  EXPECT_EQ(registry_.Resync({{{"s", "pod", true}, {"s2", "pod2", true}},
                              {{"c", {"pod", "app"}, "s"}, {"other", {"pod2", "app"}, "s2"}}},
                             {"pod", "pod2"}, /*at_start=*/true),
            Pods{"pod"});
  EXPECT_FALSE(registry_.KeyOf("other"));
}

TEST_F(Registry, ContainerThatIsRemovedWhileTheRuntimeListsDoesNotComeBack) {
  registry_.AddSandbox("s", "pod");
  registry_.AddContainer("c", {"pod", "app"}, Cpus("1-3"));
  registry_.BeginListing();
  registry_.RemoveContainer("c");
  const RuntimeListing listing = {{{"s", "pod", true}}, {{"c", {"pod", "app"}, "s"}}};
  registry_.Resync(listing, {}, false);
  EXPECT_FALSE(registry_.KeyOf("c"));
  // If the next listing still has it, it exists.
  Listed(listing);
  EXPECT_TRUE(registry_.KeyOf("c"));
}

TEST_F(Registry, PodsAreThoseWithARunningSandboxAndTheirContainers) {
  registry_.AddSandbox("old", "p1", "default/one");
  registry_.SandboxStopped("old");
  registry_.AddSandbox("new", "p1", "default/one");
  registry_.AddContainer("c1", {"p1", "app"}, {});
  registry_.AddContainer("c2", {"p1", "sidecar"}, {});
  registry_.AddSandbox("s2", "p2", "default/two");
  registry_.AddContainer("c3", {"p2", "app"}, {});
  registry_.SandboxStopped("s2");
  registry_.AddSandbox("s3", "p3", "system/three");
  const std::vector<ContainerRegistry::Pod> pods = registry_.Pods();
  ASSERT_EQ(pods.size(), 2U);
  EXPECT_EQ(pods[0].uid, "p1");
  EXPECT_EQ(pods[0].name, "one");
  EXPECT_EQ(pods[0].name_space, "default");
  EXPECT_EQ(pods[0].containers, (std::set<std::string>{"app", "sidecar"}));
  EXPECT_EQ(pods[1].uid, "p3");
  EXPECT_EQ(pods[1].name, "three");
  EXPECT_EQ(pods[1].name_space, "system");
  EXPECT_EQ(pods[1].containers, std::set<std::string>());
  EXPECT_EQ(pods[0].decided, CpuSet());
  // A pod whose sandbox has stopped may still hold something.
  const std::vector<ContainerRegistry::Pod> holding = registry_.Pods({"p2", "unknown"});
  ASSERT_EQ(holding.size(), 3U);
  EXPECT_EQ(holding[1].uid, "p2");
  EXPECT_EQ(holding[1].name, "two");
}

TEST_F(Registry, SandboxThatStopsWhileTheRuntimeListsStaysStopped) {
  registry_.AddSandbox("s", "pod");
  registry_.BeginListing();
  registry_.SandboxStopped("s");
  registry_.Resync({{{"s", "pod", /*ready=*/true}}, {}}, {}, false);
  EXPECT_EQ(registry_.StoppedPods(), Pods{"pod"});
}

TEST_F(Registry, SandboxThatIsListedAsNotReadyHasStopped) {
  Listed({{{"s", "pod", /*ready=*/false}}, {{"c", {"pod", "app"}, "s", /*runs=*/false}}});
  EXPECT_EQ(registry_.StoppedPods(), Pods{"pod"});
  EXPECT_EQ(AppliedTo("c"), "unknown");  // it never runs
}

TEST_F(Registry, SandboxThatDiedHasNotStoppedWhileItsContainersRun) {
  const auto listing = [](bool runs) {
    return RuntimeListing{{{"s", "pod", /*ready=*/false}}, {{"c", {"pod", "app"}, "s", runs}}};
  };
  registry_.AddSandbox("s", "pod");
  registry_.AddContainer("c", {"pod", "app"}, Cpus("1-3"));
  Listed(listing(true));
  EXPECT_EQ(registry_.StoppedPods(), Pods{});
  EXPECT_FALSE(registry_.IsGone("pod"));
  EXPECT_EQ(AppliedTo("c"), "1-3");
  Listed(listing(false));
  EXPECT_EQ(registry_.StoppedPods(), Pods{"pod"});
}

// A runtime may show a sandbox that it is creating, for a call of another client.
TEST_F(Registry, SandboxThatBecomesReadyHasNotStopped) {
  Listed({{{"s", "pod", /*ready=*/false}}, {}});
  Listed({{{"s", "pod", /*ready=*/true}}, {{"c", {"pod", "app"}, "s"}}});
  EXPECT_EQ(registry_.StoppedPods(), Pods{});
  EXPECT_EQ(AppliedTo("c"), "");
}

TEST_F(Registry, PodMustBeMissingTwiceExceptAtTheStart) {
  EXPECT_EQ(Listed({}, {"pod"}), Pods{});
  EXPECT_EQ(Listed({{{"s", "pod", true}}, {}}, {"pod"}), Pods{});
  EXPECT_EQ(Listed({}, {"pod"}), Pods{});  // missing for the first time again
  EXPECT_EQ(Listed({}, {"pod"}), Pods{"pod"});
  EXPECT_EQ(Listed({}, {"pod", "other"}, /*at_start=*/true), (Pods{"other", "pod"}));
}

TEST_F(Registry, PodWithACallUnderWayIsNotMissing) {
  registry_.BeginCall("pod");
  EXPECT_EQ(Listed({}, {"pod"}, /*at_start=*/true), Pods{});
  EXPECT_FALSE(registry_.IsGone("pod"));
  registry_.EndCall("pod");
  EXPECT_TRUE(registry_.IsGone("pod"));
  EXPECT_EQ(Listed({}, {"pod"}, /*at_start=*/true), Pods{"pod"});
}

TEST_F(Registry, ContainersOfAStoppedPodAreForgottenAlsoIfAnOldListingHasThem) {
  registry_.AddSandbox("s", "pod");
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-3"));
  registry_.BeginListing();
  registry_.SandboxStopped("s");
  EXPECT_EQ(AppliedTo("c"), "unknown");
  registry_.Resync({{{"s", "pod", true}}, {{"c", {"pod", "app"}}}}, {}, false);
  EXPECT_EQ(AppliedTo("c"), "unknown");
}

std::string Ids(const std::vector<ContainerRegistry::UnmanagedContainer>& containers) {
  std::string ids;
  for (const ContainerRegistry::UnmanagedContainer& container : containers)
    ids += container.id + " ";
  return ids;
}

TEST_F(Registry, UnmanagedContainersRunAndWereNotCreatedThroughAlignd) {
  const auto listing = [](std::vector<RuntimeListing::Container> containers) {
    return RuntimeListing{{{"s", "pod", true}}, std::move(containers)};
  };
  const RuntimeListing::Container old{"old", {"pod", "old"}, "s"};
  const RuntimeListing::Container ours{"ours", {"pod", "ours"}, "s"};
  const RuntimeListing::Container strange{"strange", {"pod", "strange"}, "s"};
  RuntimeListing::Container created = {"created", {"pod", "created"}, "s"};
  created.runs = false;
  Listed(listing({old}), {}, /*at_start=*/true);
  EXPECT_EQ(Ids(registry_.UnmanagedContainers()), "");
  registry_.AddContainer("ours", {"pod", "ours"}, {});
  Listed(listing({old, ours, strange, created}));
  EXPECT_EQ(Ids(registry_.UnmanagedContainers()), "strange ");
  created.runs = true;
  Listed(listing({old, ours, strange, created}));
  EXPECT_EQ(Ids(registry_.UnmanagedContainers()), "created strange ");
  Listed(listing({old, ours, created}));
  EXPECT_EQ(Ids(registry_.UnmanagedContainers()), "created ");
}

// The listing may show a container of a call that is under way.
TEST_F(Registry, ManagesWhatWasCreatedThroughAlignd) {
  Listed({{{"s", "pod"}}, {{"old", {"pod", "old"}, "s"}}}, {}, /*at_start=*/true);
  registry_.AddContainer("own", {"pod", "own"}, {});
  registry_.AddContainer("ended", {"pod", "ended"}, {});
  registry_.RemoveContainer("ended");
  Listed({{{"s", "pod"}},
          {{"old", {"pod", "old"}, "s"},
           {"own", {"pod", "own"}, "s"},
           {"ended", {"pod", "ended"}, "s"},
           {"strange", {"pod", "strange"}, "s", /*runs=*/false}}});
  for (const char* id : {"s", "old", "own", "ended"}) EXPECT_TRUE(registry_.Manages(id)) << id;
  for (const char* id : {"strange", "unknown"}) EXPECT_FALSE(registry_.Manages(id)) << id;
}

TEST_F(Registry, ContainersOfAPodWithACallUnderWayAreNotUnmanaged) {
  const RuntimeListing listing{{{"s", "pod", true}}, {{"c", {"pod", "app"}, "s"}}};
  registry_.BeginCall("pod");
  Listed(listing);
  EXPECT_EQ(Ids(registry_.UnmanagedContainers()), "");
  registry_.AddContainer("c", {"pod", "app"}, {});
  registry_.EndCall("pod");
  Listed(listing);
  EXPECT_EQ(Ids(registry_.UnmanagedContainers()), "");
  // Or of a call that began after the listing.
  Listed({{{"s", "pod", true}}, {{"c", {"pod", "app"}, "s"}, {"d", {"pod", "late"}, "s"}}});
  EXPECT_EQ(Ids(registry_.UnmanagedContainers()), "d ");
  registry_.AddContainer("d", {"pod", "late"}, {});
  EXPECT_EQ(Ids(registry_.UnmanagedContainers()), "");
}

// An old listing may show containers that were removed meanwhile.
TEST_F(Registry, ForgottenContainersAreNotUnmanaged) {
  registry_.AddSandbox("s", "pod");
  registry_.AddContainer("c", {"pod", "app"}, {});
  registry_.AddContainer("d", {"pod", "other"}, {});
  registry_.BeginListing();
  registry_.RemoveContainer("c");
  registry_.RemoveSandbox("s");
  const RuntimeListing listing{{{"s", "pod", true}},
                               {{"c", {"pod", "app"}, "s"}, {"d", {"pod", "other"}, "s"}}};
  registry_.Resync(listing, {}, false);
  EXPECT_EQ(Ids(registry_.UnmanagedContainers()), "");
  Listed({});
  Listed(listing);  // another client has created them again
  EXPECT_EQ(Ids(registry_.UnmanagedContainers()), "c d ");
}

TEST_F(Registry, PodIsEndingWhileItsSandboxIsStopped) {
  registry_.AddSandbox("s", "pod", "default/pod");
  registry_.AddContainer("c", {"pod", "app"}, Cpus("4-7"));
  registry_.BeginStop("unknown");
  EXPECT_FALSE(registry_.IsEnding("pod"));
  registry_.BeginStop("s");
  EXPECT_TRUE(registry_.IsEnding("pod"));
  EXPECT_FALSE(registry_.IsEnding("other"));
  Listed({{{"s", "pod", /*ready=*/true}}, {{"c", {"pod", "app"}}}}, {"pod"});
  EXPECT_TRUE(registry_.IsEnding("pod"));
  registry_.SandboxStopped("s");
  registry_.EndStop("s", /*may_go_on=*/false);
  EXPECT_FALSE(registry_.IsEnding("pod"));
}

// A kubelet stops single containers, whose liveness probe fails, of a pod that goes on.
TEST_F(Registry, PodIsEndingOnlyOnceAllItsContainersAreStopped) {
  registry_.AddSandbox("s", "pod", "default/pod");
  EXPECT_FALSE(registry_.IsEnding("pod"));
  registry_.AddContainer("c1", {"pod", "app"}, Cpus("4-7"));
  registry_.AddContainer("c2", {"pod", "sidecar"}, {});
  registry_.AddContainer("c3", {"other", "app"}, {});
  registry_.BeginStop("c1");
  EXPECT_FALSE(registry_.IsEnding("pod"));
  registry_.BeginStop("c2");
  EXPECT_TRUE(registry_.IsEnding("pod"));
  EXPECT_FALSE(registry_.IsEnding("other"));
  Listed({{{"s", "pod", true}}, {{"c1", {"pod", "app"}}, {"c2", {"pod", "sidecar"}}}}, {"pod"});
  EXPECT_TRUE(registry_.IsEnding("pod"));
  registry_.RemoveContainer("c2");  // it has ended
  EXPECT_TRUE(registry_.IsEnding("pod"));
  registry_.RemoveContainer("c1");
  EXPECT_FALSE(registry_.IsEnding("pod"));
}

TEST_F(Registry, PodIsNotEndingAfterAStopThatHasFailed) {
  registry_.AddSandbox("s", "pod", "default/pod");
  registry_.AddContainer("c", {"pod", "app"}, Cpus("4-7"));
  for (const char* const id : {"s", "c"}) {
    registry_.BeginStop(id);
    registry_.BeginStop(id);
    registry_.EndStop(id, /*may_go_on=*/false);
    EXPECT_TRUE(registry_.IsEnding("pod")) << id;  // the other call
    registry_.EndStop(id, /*may_go_on=*/true);
    EXPECT_TRUE(registry_.IsEnding("pod")) << id;
    registry_.BeginStop(id);
    registry_.EndStop(id, /*may_go_on=*/false);
    EXPECT_FALSE(registry_.IsEnding("pod")) << id;
  }
}

}  // namespace
}  // namespace alignd::reconcile
