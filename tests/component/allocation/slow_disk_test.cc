// A disk that takes its time: what needs no write does not wait for it, what waits is written
// together, and a write that fails drops what it had.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/checkpoint/cpu_checkpoint.h"
#include "allocation/allocation_manager.h"
#include "allocation/state_limits.h"
#include "edge/allocation_node.h"
#include "edge/allocation_outcome.h"
#include "host/file.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;
namespace fs = std::filesystem;

class SlowDisk : public ::testing::Test {
 protected:
  SlowDisk() {
    world.Up();
    world.AnnounceDevices();
  }

  // Returns when this pod is being written; its fsync waits for LetGo.
  std::future<Outcome> Begin(const Pod& pod) {
    world.disk.Hold();
    std::future<Outcome> later = world.AdmitLater(pod);
    world.disk.AwaitHeld();
    return later;
  }
  // Returns when all that was asked before is decided.
  void Decide() { (void)world.manager->KnownPods(); }

  static bool IsAnswered(const std::future<Outcome>& later) {
    return later.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  AllocationNode world;
};

TEST_F(SlowDisk, SharedPodIsAnsweredWhileOthersAreWritten) {
  std::future<Outcome> exclusive = Begin(AppPod("exclusive", 4));
  const Outcome shared = world.Admit(MakePod("shared", {App("app", {})}));
  ASSERT_TRUE(AllocatedOf(shared)) << TextOf(shared);
  EXPECT_FALSE(IsAnswered(exclusive));
  // Nothing of the other pod is visible yet.
  EXPECT_EQ(AllocatedOf(shared)->assignments.at("app").cpuset.Count(), 16);
  EXPECT_EQ(world.published().cpu.Find({"exclusive", "app"}), nullptr);
  const Outcome refused = world.Admit(AppPod("too large", 15));
  EXPECT_TRUE(std::holds_alternative<Refusal>(refused)) << TextOf(refused);
  world.disk.LetGo();
  EXPECT_TRUE(AllocatedOf(exclusive.get()));
  EXPECT_EQ(world.saved(), Persistent(world.published()));
}

TEST_F(SlowDisk, PodThatIsSavedIsAnsweredWhileOthersAreWritten) {
  const Pod first = AppPod("first", 4);
  ASSERT_TRUE(AllocatedOf(world.Admit(first)));
  std::future<Outcome> second = Begin(AppPod("second", 4));
  EXPECT_TRUE(AllocatedOf(world.Admit(first)));
  EXPECT_FALSE(IsAnswered(second));
  world.disk.LetGo();
  EXPECT_TRUE(AllocatedOf(second.get()));
}

// What is on the disk is about to be replaced, or was by a write that failed later.
TEST_F(SlowDisk, PodWhoseEntryIsBeingRemovedIsNotSaved) {
  const admission::NodeState initial = world.published();
  FaultyFile disk;
  CheckpointStore store({world.tree.root() / "other", world.tree.root() / "other"}, disk);
  ASSERT_TRUE(store.Load(world.node).ok());
  TaskQueue owner("owner");
  StateWriter writer(world.node, store, NoKubeletAllocation(),
                     [&](auto task) { owner.Post(std::move(task)); });
  Ledger ledger(world.node, initial, writer);
  const auto run = [&](const std::function<void()>& task) {
    std::promise<void> done;
    owner.Post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  };
  const auto save = [&] {
    std::promise<bool> saved;
    run([&] { ledger.Save([&](const Result<Done>& result) { saved.set_value(result.ok()); }); });
    return saved.get_future().get();
  };
  const admission::Admission admission =
      admission::Admit(world.node, initial, AppPod("pod", 2), {});
  ASSERT_TRUE(admission.admitted());
  run([&] { ledger.Keep(admission.next); });
  run([&] { EXPECT_FALSE(ledger.IsSaved("pod")); });
  EXPECT_TRUE(save());
  run([&] { EXPECT_TRUE(ledger.IsSaved("pod")); });
  for (const bool fails : {false, true}) {
    SCOPED_TRACE(fails);
    disk.Hold();
    run([&] {
      ledger.Keep(initial);
      ledger.Save(nullptr);
    });
    disk.AwaitHeld();
    run([&] {
      ledger.Keep(admission.next);  // as it was
      EXPECT_FALSE(ledger.IsSaved("pod"));
      EXPECT_TRUE(ledger.IsSaved("another"));
    });
    if (fails) disk.FailAt(0);
    disk.LetGo();
    EXPECT_TRUE(save() || fails);
    disk.Repair();
    EXPECT_TRUE(save());
    run([&] { EXPECT_TRUE(ledger.IsSaved("pod")); });
  }
  writer.Stop();
}

// Another program replaces a file after this write has written it, and before the ledger knows.
TEST_F(SlowDisk, SaveAgainDuringAWriteWritesOnceMore) {
  const fs::path directory = world.tree.root() / "other";
  FaultyFile disk;
  CheckpointStore store({directory, directory}, disk);
  ASSERT_TRUE(store.Load(world.node).ok());
  std::promise<std::function<void()>> written;
  std::promise<std::function<void()>> written_again;
  int replies = 0;
  StateWriter writer(world.node, store, NoKubeletAllocation(), [&](auto task) {
    (replies++ == 0 ? written : written_again).set_value(std::move(task));
  });
  Ledger ledger(world.node, world.published(), writer);
  const admission::Admission admission =
      admission::Admit(world.node, world.published(), AppPod("pod", 2), {});
  ASSERT_TRUE(admission.admitted());
  ledger.Keep(admission.next);
  ledger.Save(nullptr);
  const std::function<void()> reply = written.get_future().get();
  const fs::path file = directory / "cpu_manager_state";
  std::ofstream(file) << "foreign";
  EXPECT_EQ(store.FindForeignFiles().size(), 1U);
  bool is_saved = false;
  ledger.SaveAgain([&](const Result<Done>& result) { is_saved = result.ok(); });
  reply();
  EXPECT_FALSE(is_saved);
  written_again.get_future().get()();
  EXPECT_TRUE(is_saved);
  EXPECT_EQ(*host::ReadFile(file), checkpoint::FormatCpuCheckpoint("static", admission.next.cpu,
                                                                   checkpoint::StateForm::kData));
  writer.Stop();
}

TEST_F(SlowDisk, WaitingPodsAreWrittenTogether) {
  std::vector<std::future<Outcome>> later;
  const auto writes = [this] { return std::ranges::count(world.disk.log(), "rename"); };
  const auto before = writes();
  later.push_back(Begin(AppPod("0", 2)));
  for (int i = 1; i < 6; ++i) later.push_back(world.AdmitLater(AppPod(std::to_string(i), 2)));
  Decide();
  world.disk.LetGo();
  CpuSet assigned;
  for (std::future<Outcome>& one : later) {
    const Outcome outcome = one.get();
    ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
    const CpuSet cpus = AllocatedOf(outcome)->assignments.at("app").exclusive;
    EXPECT_FALSE(assigned.Intersects(cpus));
    assigned |= cpus;
  }
  EXPECT_EQ(world.saved(), Persistent(world.published()));
  EXPECT_EQ(writes() - before, 4);  // two files, twice
}

// The write that is under way, or the next one, fails at each of its calls.
TEST_F(SlowDisk, FailedWriteDropsWhatItHadAndNothingElse) {
  for (int index = 0, failures = 1; failures > 0; ++index) {
    SCOPED_TRACE(index);
    ASSERT_LT(index, 1000);
    AllocationNode node;
    node.Up();
    node.AnnounceDevices();
    ASSERT_TRUE(AllocatedOf(node.Admit(AppPod("old", 2, {{kGpu, "1"}}))));
    node.disk.Hold();
    std::map<std::string, std::future<Outcome>> later;
    later["a"] = node.AdmitLater(AppPod("a", 2));
    node.disk.AwaitHeld();
    later["b"] = node.AdmitLater(AppPod("b", 4, {{kGpu, "2"}}));
    later["c"] = node.AdmitLater(AppPod("c", 2));
    (void)node.manager->KnownPods();
    node.disk.FailAt(index, ENOSPC);
    node.disk.LetGo();
    failures = 0;
    for (auto& [uid, one] : later) {
      const Outcome outcome = one.get();
      const bool is_assigned = AllocatedOf(outcome) != nullptr;
      if (!is_assigned) ++failures;
      EXPECT_TRUE(is_assigned || IsError(outcome, ErrorCode::kIo)) << TextOf(outcome);
      EXPECT_EQ(node.published().cpu.Find({uid, "app"}) != nullptr, is_assigned) << uid;
    }
    node.disk.Repair();
    node.Settle();
    EXPECT_NE(node.published().cpu.Find({"old", "app"}), nullptr);
    EXPECT_EQ(node.saved(), Persistent(node.published()));
    const int free = 15 - 2 - (failures == 0 ? 8 : 0);
    if (failures == 0 || failures == 3) {
      EXPECT_TRUE(AllocatedOf(node.Admit(AppPod("rest", free))));
    }
  }
}

// As AllocationCrash, with several pods in one write.
TEST_F(SlowDisk, PowerFailureLosesNothingThatWasAnswered) {
  for (int index = 0, unanswered = 1; unanswered > 0; ++index) {
    for (const bool undo_renames : {false, true}) {
      SCOPED_TRACE(std::to_string(index) + (undo_renames ? ", renames undone" : ""));
      ASSERT_LT(index, 1000);
      AllocationNode node;
      node.Up();
      node.AnnounceDevices();
      node.disk.Hold();
      std::map<std::string, std::future<Outcome>> later;
      later["a"] = node.AdmitLater(AppPod("a", 2));
      node.disk.AwaitHeld();
      later["b"] = node.AdmitLater(AppPod("b", 4, {{kGpu, "2"}}));
      later["c"] = node.AdmitLater(AppPod("c", 2));
      (void)node.manager->KnownPods();
      node.disk.DieAt(index);
      node.disk.LetGo();
      std::map<std::string, Allocated> running;
      unanswered = 0;
      for (auto& [uid, one] : later) {
        const Outcome outcome = one.get();
        if (AllocatedOf(outcome)) {
          running[uid] = *AllocatedOf(outcome);
        } else {
          ++unanswered;
        }
      }
      node.Down();
      node.disk.LosePower(undo_renames);
      const Result<Done> up = node.TryUp();
      ASSERT_TRUE(up.ok()) << up.error().Text();
      const admission::NodeState restored = node.published();
      EXPECT_TRUE(restored.BrokenInvariants(node.node).empty());
      for (const auto& [uid, allocated] : running) {
        EXPECT_EQ(admission::AssignmentOf(node.node, restored, {uid, "app"}),
                  allocated.assignments.at("app"))
            << uid;
      }
    }
  }
}

TEST_F(SlowDisk, PodThatIsReleasedWhileItIsWrittenMayComeAgain) {
  std::future<Outcome> first = Begin(AppPod("pod", 2, {{kGpu, "1"}}));
  std::promise<Result<Done>> released;
  world.manager->ReleasePod("pod", [&](Result<Done> done) { released.set_value(std::move(done)); });
  EXPECT_TRUE(IsError(first.get(), ErrorCode::kUnavailable));
  std::future<Outcome> again = world.AdmitLater(AppPod("pod", 4));
  Decide();
  world.disk.LetGo();
  EXPECT_TRUE(released.get_future().get().ok());
  const Outcome outcome = again.get();
  ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
  EXPECT_EQ(AllocatedOf(outcome)->assignments.at("app").exclusive.Count(), 4);
  world.Settle();
  EXPECT_EQ(world.saved(), Persistent(world.published()));
  EXPECT_TRUE(world.saved().devices.allocations.empty());
}

TEST_F(SlowDisk, EndAnswersWhatIsBeingWritten) {
  std::future<Outcome> first = Begin(AppPod("first", 2));
  std::future<Outcome> second = world.AdmitLater(AppPod("second", 2));
  Decide();
  world.disk.LetGo();
  world.manager.reset();
  EXPECT_TRUE(AllocatedOf(first.get()));
  EXPECT_TRUE(AllocatedOf(second.get()));
  EXPECT_EQ(world.saved().cpu.assignments.size(), 2u);
}

// Its file would end the next start.
TEST_F(SlowDisk, AssignmentThatCouldNotBeReadBackIsNotMade) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("small", 2, {{kGpu, "1"}}))));
  world.plugins->Pad(kMaxAnswerBytes - 1000);
  std::vector<Container> containers;  // 13 answers of four thirds of a MiB each
  for (int i = 0; i < 13; ++i) {
    containers.push_back(App("c" + std::to_string(i), {{i < 6 ? kGpu : kNic, "1"}}));
  }
  const Outcome outcome = world.Admit(MakePod("large", containers));
  ASSERT_TRUE(IsError(outcome, ErrorCode::kInvalidArgument)) << TextOf(outcome).substr(0, 200);
  EXPECT_NE(TextOf(outcome).find("more than the 16777216 that alignd reads after a restart; "
                                 "configure the device plugins"),
            std::string::npos)
      << TextOf(outcome);
  world.plugins->Pad(0);
  EXPECT_TRUE(AllocatedOf(world.Admit(AppPod("next", 2, {{kGpu, "7"}, {kNic, "8"}}))));
  world.Down();
  const Result<Done> up = world.TryUp();
  ASSERT_TRUE(up.ok()) << up.error().Text();
  EXPECT_EQ(admission::PodsIn(world.published()), (std::set<std::string>{"next", "small"}));
}

TEST_F(SlowDisk, TooLongNamesAreRefused) {
  const Outcome outcome = world.Admit(AppPod(std::string(3 << 20, 'u'), 2));
  ASSERT_TRUE(IsError(outcome, ErrorCode::kInvalidArgument)) << TextOf(outcome).substr(0, 200);
  EXPECT_EQ(TextOf(outcome),
            "error: a pod UID of 3145728 bytes, more than the 253 that alignd keeps; shorten it");
  EXPECT_TRUE(world.manager->KnownPods().empty());
  EXPECT_TRUE(world.manager->decisions().Newest("", 10).empty());
}

TEST_F(SlowDisk, InventoryThatCouldNotBeReadBackIsNotOffered) {
  devicemanager::Resource large;
  large.registered = true;
  for (int i = 0; i < 20; ++i) {
    large.devices[std::to_string(i) + std::string(1 << 20, 'd')] = {true, {0}};
  }
  world.manager->SetResource("example.com/large", large);
  world.Settle();
  EXPECT_TRUE(world.published().devices.resources.at("example.com/large").devices.empty());
  EXPECT_EQ(world.published().devices.resources.at(kGpu).devices.size(), 8u);
  EXPECT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2, {{kGpu, "1"}}))));
  world.Down();
  EXPECT_TRUE(world.TryUp().ok());
}

// The plugins' answers are kept as long as their pods, and not by the log of decisions.
TEST_F(SlowDisk, PodsThatAreGoneLeaveNoAnswers) {
  constexpr size_t kAnswer = 50'000;
  constexpr int kPods = 30;
  world.plugins->Pad(kAnswer);
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("first", 2, {{kGpu, "1"}}))));
  ASSERT_TRUE(world.Release("first").ok());
  const size_t before = mallinfo2().uordblks;
  for (int i = 0; i < kPods; ++i) {
    const std::string uid = std::to_string(i);
    ASSERT_TRUE(AllocatedOf(world.Admit(AppPod(uid, 2, {{kGpu, "1"}}))));
    ASSERT_TRUE(world.Release(uid).ok());
  }
  world.Settle();
  EXPECT_LT(mallinfo2().uordblks, before + 10 * kAnswer);
  EXPECT_EQ(world.manager->decisions().Newest("", 100).size(), size_t{kPods} + 1);
}

}  // namespace
}  // namespace alignd::allocation
