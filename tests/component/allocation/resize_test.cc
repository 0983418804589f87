// The resize of exclusive CPUs in place: what is visible when, what the disk has, and what happens
// beside it.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "allocation/allocation_manager.h"
#include "edge/allocation_node.h"
#include "edge/allocation_outcome.h"
#include "edge/process.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;
namespace fs = std::filesystem;

std::future<ResizeOutcome> ResizeLater(AllocationNode& world, const std::string& uid,
                                       int64_t count) {
  Pod pod;
  pod.uid = uid;
  pod.name = "name-" + uid;
  pod.name_space = "default";
  auto answer = std::make_shared<std::promise<ResizeOutcome>>();
  world.manager->Resize(pod, "app", count,
                        [answer](ResizeOutcome outcome) { answer->set_value(std::move(outcome)); });
  return answer->get_future();
}
ResizeOutcome ResizeNow(AllocationNode& world, const std::string& uid, int64_t count) {
  return ResizeLater(world, uid, count).get();
}
bool IsNotResized(const ResizeOutcome& outcome, ErrorCode code) {
  const Error* const error = std::get_if<Error>(&outcome);
  return error != nullptr && error->code == code;
}
std::string ResizeText(const ResizeOutcome& outcome) {
  if (const auto* cpus = std::get_if<CpuSet>(&outcome)) return cpus->ToString();
  if (const auto* refusal = std::get_if<Refusal>(&outcome)) return refusal->message;
  return std::get<Error>(outcome).Text();
}

class ResizeInPlace : public ::testing::Test {
 protected:
  ResizeInPlace() {
    world.Up();
    world.AnnounceDevices();
  }

  CpuSet Now(const std::string& uid = "pod") const {
    const admission::NodeState state = world.published();
    const CpuSet* const cpus = state.cpu.Find({uid, "app"});
    return cpus == nullptr ? CpuSet() : *cpus;
  }
  CpuSet Saved(const std::string& uid = "pod") const {
    const admission::NodeState state = world.saved();
    const CpuSet* const cpus = state.cpu.Find({uid, "app"});
    return cpus == nullptr ? CpuSet() : *cpus;
  }
  fs::path OriginalsFile() const { return world.paths().OriginalsFile(); }

  // Returns when the resize is being written; its fsync waits for LetGo.
  std::future<ResizeOutcome> Begin(int64_t count) {
    world.disk.Hold();
    std::future<ResizeOutcome> later = ResizeLater(world, "pod", count);
    world.disk.AwaitHeld();
    return later;
  }
  void Decide() { (void)world.manager->KnownPods(); }
  template <typename T>
  static bool IsReady(const std::future<T>& later) {
    return later.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  AllocationNode world;
};

TEST_F(ResizeInPlace, GrowsAndShrinksAndKeepsTheOriginalCpus) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  const CpuSet original = Now();
  EXPECT_FALSE(fs::exists(OriginalsFile()));
  const ResizeOutcome grown = ResizeNow(world, "pod", 4);
  ASSERT_TRUE(std::holds_alternative<CpuSet>(grown)) << ResizeText(grown);
  EXPECT_EQ(std::get<CpuSet>(grown), Now());
  EXPECT_EQ(Now().Count(), 4);
  EXPECT_TRUE(Now().Contains(original));
  EXPECT_FALSE(world.published().cpu.default_set.Intersects(Now()));
  EXPECT_EQ(world.saved(), Persistent(world.published()));
  EXPECT_EQ(world.saved().cpu.OriginalOf({"pod", "app"}), original);

  const ResizeOutcome same = ResizeNow(world, "pod", 4);
  EXPECT_EQ(ResizeText(same), Now().ToString());
  const ResizeOutcome shrunk = ResizeNow(world, "pod", 3);
  ASSERT_TRUE(std::holds_alternative<CpuSet>(shrunk)) << ResizeText(shrunk);
  EXPECT_EQ(Now().Count(), 3);
  EXPECT_EQ(world.saved(), Persistent(world.published()));

  // A restart later, the original CPUs are known.
  world.Down();
  world.Up();
  const ResizeOutcome refused = ResizeNow(world, "pod", 1);
  ASSERT_TRUE(std::holds_alternative<Refusal>(refused)) << ResizeText(refused);
  EXPECT_EQ(std::get<Refusal>(refused).reason, "ResizeRefused");
  EXPECT_TRUE(ResizeText(refused).starts_with("container app of pod default/name-pod has 3 "))
      << ResizeText(refused);
  EXPECT_NE(ResizeText(refused).find("Nothing was changed."), std::string::npos);
  EXPECT_EQ(Now().Count(), 3);
  EXPECT_EQ(ResizeText(ResizeNow(world, "pod", 2)), original.ToString());

  ASSERT_TRUE(world.Release("pod").ok());
  EXPECT_EQ(world.saved().cpu, admission::NodeState::Initial(world.node).cpu);
  EXPECT_TRUE(fs::exists(OriginalsFile()));  // without an entry
}

TEST_F(ResizeInPlace, IsRefusedWithoutChangeIfTooFewCpusAreFree) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("other", 10))));
  const admission::NodeState before = world.published();
  const ResizeOutcome refused = ResizeNow(world, "pod", 6);
  ASSERT_TRUE(std::holds_alternative<Refusal>(refused)) << ResizeText(refused);
  EXPECT_EQ(world.published(), before);
  EXPECT_FALSE(fs::exists(OriginalsFile()));
}

TEST_F(ResizeInPlace, GrowIsNotVisibleBeforeItIsOnTheDiskAndItsCpusGoToNoOtherContainer) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  const CpuSet before = Now();
  std::future<ResizeOutcome> grown = Begin(8);
  EXPECT_EQ(Now(), before);
  // Admissions of other pods go on; 15 CPUs, of which 8 are taken.
  std::future<Outcome> large = world.AdmitLater(AppPod("large", 8));
  std::future<Outcome> fits = world.AdmitLater(AppPod("fits", 7));
  EXPECT_TRUE(std::holds_alternative<Refusal>(large.get()));
  const Outcome shared = world.Admit(MakePod("shared", {App("app", {})}));
  ASSERT_TRUE(AllocatedOf(shared));
  EXPECT_FALSE(IsReady(grown));
  EXPECT_EQ(Now(), before);
  world.disk.LetGo();
  const ResizeOutcome written = grown.get();
  EXPECT_EQ(ResizeText(written), Now().ToString());
  const Outcome other = fits.get();
  ASSERT_TRUE(AllocatedOf(other)) << TextOf(other);
  EXPECT_FALSE(Now("fits").Intersects(Now()));
  EXPECT_EQ(Now().Count(), 8);
  EXPECT_EQ(world.saved(), Persistent(world.published()));
}

TEST_F(ResizeInPlace, WhatAShrinkTakesAwayGoesToNoOtherContainerBeforeItIsOnTheDisk) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  ASSERT_TRUE(std::holds_alternative<CpuSet>(ResizeNow(world, "pod", 10)));
  const CpuSet before = Now();
  std::future<ResizeOutcome> shrunk = Begin(2);
  EXPECT_EQ(Now(), before);
  EXPECT_TRUE(std::holds_alternative<Refusal>(world.Admit(AppPod("early", 6))));
  const Outcome shared = world.Admit(MakePod("shared", {App("app", {})}));
  ASSERT_TRUE(AllocatedOf(shared));
  EXPECT_FALSE(AllocatedOf(shared)->assignments.at("app").cpuset.Intersects(before));
  world.disk.LetGo();
  ASSERT_TRUE(std::holds_alternative<CpuSet>(shrunk.get()));
  EXPECT_EQ(Now().Count(), 2);
  EXPECT_TRUE(AllocatedOf(world.Admit(AppPod("later", 13))));
  EXPECT_EQ(world.saved(), Persistent(world.published()));
}

TEST_F(ResizeInPlace, FailedDiskGivesEverythingBack) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  ASSERT_TRUE(std::holds_alternative<CpuSet>(ResizeNow(world, "pod", 4)));
  const admission::NodeState before = world.published();
  for (const int64_t count : {6, 3}) {
    int index = 0;
    for (;; ++index) {
      SCOPED_TRACE(std::to_string(count) + " CPUs, call " + std::to_string(index));
      ASSERT_LT(index, 1000);
      world.disk.FailAt(index, ENOSPC);
      const ResizeOutcome outcome = ResizeNow(world, "pod", count);
      if (!world.disk.failed()) {
        EXPECT_TRUE(std::holds_alternative<CpuSet>(outcome)) << ResizeText(outcome);
        break;
      }
      ASSERT_TRUE(IsNotResized(outcome, ErrorCode::kIo)) << ResizeText(outcome);
      EXPECT_EQ(world.published(), before);
      world.disk.Repair();
      world.Settle();  // repairs the files
      EXPECT_EQ(world.saved(), Persistent(before));
      const Outcome rest = world.Admit(AppPod("rest", 11));  // all that is free
      ASSERT_TRUE(AllocatedOf(rest)) << TextOf(rest);
      ASSERT_TRUE(world.Release("rest").ok());
    }
    EXPECT_GE(index, 9);
    world.disk.Repair();
    ASSERT_TRUE(std::holds_alternative<CpuSet>(ResizeNow(world, "pod", 4)));
  }
}

// With it, the file of the original CPUs is written for the first time.
TEST_F(ResizeInPlace, FirstResizeWhoseWriteFailsLeavesNoOriginalCpus) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  const admission::NodeState before = world.published();
  for (int index = 0;; ++index) {
    SCOPED_TRACE(index);
    ASSERT_LT(index, 1000);
    world.disk.FailAt(index, ENOSPC);
    const ResizeOutcome outcome = ResizeNow(world, "pod", 4);
    if (!world.disk.failed()) {
      EXPECT_TRUE(std::holds_alternative<CpuSet>(outcome)) << ResizeText(outcome);
      EXPECT_GE(index, 18);  // two files, nine calls each
      break;
    }
    ASSERT_TRUE(IsNotResized(outcome, ErrorCode::kIo)) << ResizeText(outcome);
    EXPECT_EQ(world.published(), before);
    world.disk.Repair();
    world.Settle();
    EXPECT_EQ(world.saved(), Persistent(before));
  }
}

// The power fails at every call. Afterwards the container has the CPUs of before or of after, and
// its original ones are known.
TEST_F(ResizeInPlace, PowerFailureLeavesOneOfTheTwoSets) {
  for (const auto& [from, to] : {std::pair<int64_t, int64_t>{2, 6}, {6, 3}}) {
    bool all = false;
    for (int index = 0; !all; ++index) {
      for (const bool undo_renames : {false, true}) {
        SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to) + ", call " +
                     std::to_string(index) + (undo_renames ? ", renames undone" : ""));
        ASSERT_LT(index, 1000);
        AllocationNode node;
        node.Up();
        node.AnnounceDevices();
        ASSERT_TRUE(AllocatedOf(node.Admit(AppPod("pod", 2))));
        const CpuSet original = *node.published().cpu.Find({"pod", "app"});
        ASSERT_TRUE(std::holds_alternative<CpuSet>(ResizeNow(node, "pod", from)));
        const CpuSet before = *node.published().cpu.Find({"pod", "app"});
        node.disk.DieAt(index);
        const ResizeOutcome outcome = ResizeNow(node, "pod", to);
        all = std::holds_alternative<CpuSet>(outcome);
        node.Down();
        node.disk.LosePower(undo_renames);
        const Result<Done> up = node.TryUp();
        ASSERT_TRUE(up.ok()) << up.error().Text();
        const admission::NodeState restored = node.published();
        EXPECT_TRUE(restored.BrokenInvariants(node.node).empty());
        const CpuSet now = *restored.cpu.Find({"pod", "app"});
        if (all) {
          EXPECT_EQ(now, std::get<CpuSet>(outcome));
        } else {
          EXPECT_TRUE(now == before || now.Count() == to) << now.ToString();
        }
        if (now.Count() > 2) {
          EXPECT_EQ(restored.cpu.OriginalOf({"pod", "app"}), original);
        }
        // The kubelet repeats it.
        const ResizeOutcome again = ResizeNow(node, "pod", to);
        ASSERT_TRUE(std::holds_alternative<CpuSet>(again)) << ResizeText(again);
        EXPECT_EQ(node.saved(), Persistent(node.published()));
      }
    }
  }
}

// The same between exclusive and shared CPUs: it has the CPUs of before, none, or the new ones.
TEST_F(ResizeInPlace, PowerFailureLeavesExclusiveOrSharedCpus) {
  for (const bool to_shared : {true, false}) {
    bool all = false;
    for (int index = 0; !all; ++index) {
      for (const bool undo_renames : {false, true}) {
        SCOPED_TRACE(std::string(to_shared ? "to" : "from") + " shared CPUs, call " +
                     std::to_string(index) + (undo_renames ? ", renames undone" : ""));
        ASSERT_LT(index, 1000);
        AllocationNode node;
        node.Up();
        node.AnnounceDevices();
        const ContainerKey key{"pod", "app"};
        ASSERT_TRUE(AllocatedOf(node.Admit(AppPod("pod", 2))));
        const CpuSet first = *node.published().cpu.Find(key);
        if (!to_shared) {
          ASSERT_EQ(ResizeText(ResizeNow(node, "pod", 0)), "");
        }
        const int64_t count = to_shared ? 0 : 3;
        node.disk.DieAt(index);
        const ResizeOutcome outcome = ResizeNow(node, "pod", count);
        all = std::holds_alternative<CpuSet>(outcome);
        node.Down();
        node.disk.LosePower(undo_renames);
        const Result<Done> up = node.TryUp();
        ASSERT_TRUE(up.ok()) << up.error().Text();
        const admission::NodeState restored = node.published();
        EXPECT_TRUE(restored.BrokenInvariants(node.node).empty());
        const CpuSet* const now = restored.cpu.Find(key);
        if (all) {
          EXPECT_EQ(now == nullptr ? 0 : now->Count(), count);
        } else {
          EXPECT_TRUE(now == nullptr || (to_shared ? *now == first : now->Count() == count));
        }
        // Of one in the shared pool, it is known that its mark says nothing.
        EXPECT_TRUE((now != nullptr && *now == first) || restored.cpu.WasShared(key));
        const ResizeOutcome again = ResizeNow(node, "pod", count);
        ASSERT_TRUE(std::holds_alternative<CpuSet>(again)) << ResizeText(again);
        EXPECT_EQ(node.saved(), Persistent(node.published()));
      }
    }
  }
}

TEST_F(ResizeInPlace, CpusOfASharedContainerAreFreeOnlyWhenThatIsOnTheDisk) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  const CpuSet cpus = Now();
  std::future<ResizeOutcome> later = Begin(0);
  EXPECT_EQ(Now(), cpus);
  std::future<Outcome> rest = world.AdmitLater(AppPod("rest", 15));  // all but the reserved one
  Decide();
  world.disk.LetGo();
  EXPECT_EQ(ResizeText(later.get()), "");
  (void)rest.get();  // refused at once, or admitted after it has waited
  EXPECT_EQ(Now(), CpuSet());
  EXPECT_TRUE(AllocatedOf(world.Admit(AppPod("rest", 15))));
}

TEST_F(ResizeInPlace, FailedWriteLeavesASharedContainerInThePool) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  ASSERT_EQ(ResizeText(ResizeNow(world, "pod", 0)), "");
  const admission::NodeState before = world.published();
  world.disk.FailAt(0, ENOSPC);
  EXPECT_TRUE(IsNotResized(ResizeNow(world, "pod", 2), ErrorCode::kIo));
  EXPECT_EQ(world.published(), before);
  world.disk.Repair();
  EXPECT_TRUE(std::holds_alternative<CpuSet>(ResizeNow(world, "pod", 2)));
  ASSERT_TRUE(world.Release("pod").ok());
  EXPECT_TRUE(world.saved().cpu.originals.empty());
}

// A container that is created again with a number that is not whole.
TEST_F(ResizeInPlace, ContainerThatIsCreatedAgainWithSharedCpusIsResizedFirst) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  Pod pod = AppPod("pod", 2);
  pod.containers[0].resources.requests["cpu"] = Amount("1500m");
  pod.containers[0].resources.limits["cpu"] = Amount("1500m");
  ASSERT_TRUE(AllocatedOf(world.Admit(pod)));
  EXPECT_EQ(Now(), CpuSet());
  // Created again with a whole number, it has these CPUs since its creation.
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 3))));
  EXPECT_EQ(Now().Count(), 3);
  EXPECT_FALSE(world.published().cpu.WasShared({"pod", "app"}));
}

TEST_F(ResizeInPlace, SecondResizeOfThePodMeanwhileIsRepeatedByTheKubelet) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  std::future<ResizeOutcome> first = Begin(4);
  const ResizeOutcome second = ResizeNow(world, "pod", 6);
  EXPECT_TRUE(IsNotResized(second, ErrorCode::kUnavailable)) << ResizeText(second);
  EXPECT_NE(ResizeText(second).find("another resize of its pod is being written"),
            std::string::npos);
  world.disk.LetGo();
  ASSERT_TRUE(std::holds_alternative<CpuSet>(first.get()));
  EXPECT_TRUE(std::holds_alternative<CpuSet>(ResizeNow(world, "pod", 6)));
}

TEST_F(ResizeInPlace, PodThatIsBeingAdmittedIsNotResized) {
  Pod pod = AppPod("pod", 2);
  ASSERT_TRUE(AllocatedOf(world.Admit(pod)));
  pod.containers.push_back(App("more", {{"cpu", "2"}, {"memory", "1Gi"}}));
  world.disk.Hold();
  std::future<Outcome> admitted = world.AdmitLater(pod);
  world.disk.AwaitHeld();
  EXPECT_TRUE(IsNotResized(ResizeNow(world, "pod", 4), ErrorCode::kUnavailable));
  world.disk.LetGo();
  ASSERT_TRUE(AllocatedOf(admitted.get()));
  EXPECT_TRUE(std::holds_alternative<CpuSet>(ResizeNow(world, "pod", 4)));
}

TEST_F(ResizeInPlace, RequestForThePodWaitsForItsResize) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  std::future<ResizeOutcome> grown = Begin(4);
  std::future<Outcome> same = world.AdmitLater(AppPod("pod", 4));
  Decide();
  EXPECT_FALSE(IsReady(same));
  world.disk.LetGo();
  ASSERT_TRUE(std::holds_alternative<CpuSet>(grown.get()));
  const Outcome outcome = same.get();
  ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
  EXPECT_EQ(AllocatedOf(outcome)->assignments.at("app").exclusive, Now());
}

TEST_F(ResizeInPlace, ReleaseOfThePodEndsItsResize) {
  for (const int64_t count : {5, 3}) {
    ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
    ASSERT_TRUE(std::holds_alternative<CpuSet>(ResizeNow(world, "pod", 4)));
    std::future<ResizeOutcome> resized = Begin(count);
    std::promise<Result<Done>> released;
    world.manager->ReleasePod("pod",
                              [&](Result<Done> done) { released.set_value(std::move(done)); });
    EXPECT_TRUE(IsNotResized(resized.get(), ErrorCode::kUnavailable));
    world.disk.LetGo();
    EXPECT_TRUE(released.get_future().get().ok());
    EXPECT_EQ(world.published().cpu, admission::NodeState::Initial(world.node).cpu);
    EXPECT_EQ(world.saved().cpu, admission::NodeState::Initial(world.node).cpu);
  }
}

TEST_F(ResizeInPlace, EndAnswersTheResizeThatIsBeingWritten) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  std::future<ResizeOutcome> grown = Begin(4);
  world.disk.LetGo();
  world.manager.reset();
  EXPECT_TRUE(std::holds_alternative<CpuSet>(grown.get()));
  EXPECT_EQ(world.saved().cpu.Find({"pod", "app"})->Count(), 4);
}

// The kubelet restarts the container in the middle of a resize, with its new size.
TEST_F(ResizeInPlace, ContainerThatIsCreatedAgainWithAnotherNumberIsResizedFirst) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  const CpuSet original = Now();
  const Outcome grown = world.Admit(AppPod("pod", 5));
  ASSERT_TRUE(AllocatedOf(grown)) << TextOf(grown);
  EXPECT_EQ(AllocatedOf(grown)->assignments.at("app").exclusive, Now());
  EXPECT_EQ(Now().Count(), 5);
  EXPECT_TRUE(Now().Contains(original));
  EXPECT_EQ(Saved(), Now());
  const Outcome below = world.Admit(AppPod("pod", 1));
  ASSERT_TRUE(std::holds_alternative<Refusal>(below)) << TextOf(below);
  EXPECT_TRUE(TextOf(below).starts_with("ResizeRefused: ")) << TextOf(below);
  const Outcome large = world.Admit(AppPod("pod", 16));
  EXPECT_TRUE(std::holds_alternative<Refusal>(large)) << TextOf(large);
  EXPECT_EQ(Now().Count(), 5);
  world.disk.DieAt(0);
  EXPECT_TRUE(IsError(world.Admit(AppPod("pod", 6)), ErrorCode::kIo));
  world.disk.Repair();
  EXPECT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 6))));
}

TEST_F(ResizeInPlace, IsExplained) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  ASSERT_TRUE(std::holds_alternative<CpuSet>(ResizeNow(world, "pod", 4)));
  const auto newest = world.manager->decisions().Newest("pod", 1);
  ASSERT_EQ(newest.size(), 1U);
  EXPECT_EQ(newest[0]->source, "in-place resize");
  EXPECT_EQ(newest[0]->asked, "app: 4 exclusive CPUs");
  EXPECT_EQ(newest[0]->assignments.at("app").exclusive, Now());
}

TEST_F(ResizeInPlace, OldEntriesOfTheOriginalsFileAreDropped) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  ASSERT_TRUE(std::holds_alternative<CpuSet>(ResizeNow(world, "pod", 4)));
  const std::string resized = ReadText(OriginalsFile());
  ASSERT_TRUE(world.Release("pod").ok());
  world.Down();
  // As after a crash before the file was written again.
  std::ofstream(OriginalsFile()) << resized;
  world.Up();
  EXPECT_TRUE(world.published().cpu.originals.empty());
  EXPECT_EQ(ReadText(OriginalsFile()), "{\"entries\":{},\"checksum\":2824722206}");
  world.Down();
  std::ofstream(OriginalsFile()) << "{";
  const Result<Done> up = world.TryUp();
  ASSERT_FALSE(up.ok());
  EXPECT_EQ(up.error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(up.error().message.starts_with("load " + OriginalsFile().string()))
      << up.error().Text();
  EXPECT_TRUE(up.error().remedy == allocation::RebuildRemedy(OriginalsFile())) << up.error().Text();
}

TEST(ResizeTurnedOff, AnotherNumberOfExclusiveCpusIsRefused) {
  AllocationNode world;
  world.Up();
  world.manager = std::make_unique<AllocationManager>(
      world.node, world.saved(), *world.store, *world.plugins, NoKubeletAllocation(),
      /*boot=*/nullptr, std::set<std::string>(), NoAllocationEvents(), CpuResizes::kNone);
  EXPECT_EQ(world.manager->allowed_resizes(), CpuResizes::kNone);
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  const Outcome refused = world.Admit(AppPod("pod", 4));
  ASSERT_TRUE(std::holds_alternative<Refusal>(refused)) << TextOf(refused);
  EXPECT_NE(TextOf(refused).find("their number cannot change while its pod lives"),
            std::string::npos)
      << TextOf(refused);
}

}  // namespace
}  // namespace alignd::allocation
