// On which CPUs a container may be while calls change its CPU set.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "reconcile/container_registry.h"
#include "registry_fixture.h"

namespace alignd::reconcile {
namespace {

class RegistryUpdates : public RegistryTest {
 protected:
  // Of the only container, `c`.
  CpuSet Footprint() const { return registry_.Footprints().at(0).cpuset; }
  bool BeginNarrow(const char* cpus) { return registry_.BeginNarrow("c", Cpus(cpus)); }
  bool EndNarrow(const char* cpus) { return registry_.EndNarrow("c", Cpus(cpus), true); }
};

TEST_F(RegistryUpdates, UpdateCountsAsAppliedIfNoOtherCallWasUnderWay) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-7"));
  Apply("c", "0-3");
  EXPECT_EQ(AppliedTo("c"), "0-3");

  registry_.BeginApply("c", Cpus("0-1"));
  registry_.BeginContainerCall("c", /*changes_cpus=*/false);
  registry_.EndApply("c", Cpus("0-1"), true);
  EXPECT_EQ(AppliedTo("c"), "");  // a start was under way
  Apply("c", "0-1");
  EXPECT_EQ(AppliedTo("c"), "");  // it is still under way
  EXPECT_TRUE(registry_.EndContainerCall("c", false));
  Apply("c", "0-1");
  EXPECT_EQ(AppliedTo("c"), "0-1");

  registry_.BeginApply("c", Cpus("0"));
  registry_.BeginContainerCall("c", false);
  EXPECT_TRUE(registry_.EndContainerCall("c", false));
  registry_.EndApply("c", Cpus("0"), true);
  EXPECT_EQ(AppliedTo("c"), "");  // a start began and ended
}

TEST_F(RegistryUpdates, DuringAnUpdateAContainerMayBeOnTheOldAndOnTheNewCpus) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-3"));
  registry_.BeginApply("c", Cpus("2-5"));
  EXPECT_EQ(registry_.Footprints().at(0).cpuset, Cpus("0-5"));
  EXPECT_EQ(AppliedTo("c"), "");
  registry_.EndApply("c", Cpus("2-5"), /*taken=*/false);
  EXPECT_EQ(registry_.Footprints().at(0).cpuset, Cpus("0-5"));
  EXPECT_EQ(AppliedTo("c"), "");
  Apply("c", "2-5");
  EXPECT_EQ(registry_.Footprints().at(0).cpuset, Cpus("2-5"));
  EXPECT_EQ(AppliedTo("c"), "2-5");
}

TEST_F(RegistryUpdates, UpdateOfAnotherClientLeavesTheSetUnknown) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-7"));
  registry_.BeginContainerCall("c", /*changes_cpus=*/true);
  EXPECT_EQ(AppliedTo("c"), "");
  EXPECT_TRUE(registry_.EndContainerCall("c", true));
  EXPECT_EQ(AppliedTo("c"), "");
  registry_.BeginContainerCall("unknown", true);
  EXPECT_FALSE(registry_.EndContainerCall("unknown", true));
}

TEST_F(RegistryUpdates, CallWithKnownCpusMayHavePutTheContainerOnThem) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-3"));
  registry_.BeginContainerCall("c", /*changes_cpus=*/true, Cpus("2-5"));
  EXPECT_EQ(registry_.Footprints().at(0).cpuset, Cpus("0-5"));
  registry_.ContainerCallSets("c", Cpus("7"));
  EXPECT_TRUE(registry_.EndContainerCall("c", true));
  EXPECT_EQ(registry_.Footprints().at(0).cpuset, Cpus("0-5,7"));
  EXPECT_EQ(AppliedTo("c"), "");
  Apply("c", "2-5");
  EXPECT_EQ(registry_.Footprints().at(0).cpuset, Cpus("2-5"));
  registry_.BeginContainerCall("c", /*changes_cpus=*/true);
  EXPECT_TRUE(registry_.Footprints().at(0).cpuset.empty());
}

// Until an update of ours shows where it is, it may be on the exclusive CPUs of each such call.
TEST_F(RegistryUpdates, ExclusiveCpusOfACallAreAmongTheLastOnes) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-3"), /*is_exclusive=*/false);
  registry_.BeginContainerCall("c", /*changes_cpus=*/true, Cpus("2-3"));
  EXPECT_EQ(registry_.Footprints().at(0).last, Cpus("2-3"));
  EXPECT_EQ(registry_.Footprints().at(0).last_exclusive, true);
  EXPECT_TRUE(registry_.EndContainerCall("c", true));
  registry_.BeginContainerCall("c", /*changes_cpus=*/true, Cpus("2-4"));
  registry_.ContainerCallSets("c", Cpus("2-5"));
  EXPECT_EQ(registry_.Footprints().at(0).last, Cpus("2-5"));
  EXPECT_TRUE(registry_.EndContainerCall("c", true));
  registry_.BeginContainerCall("c", /*changes_cpus=*/true);
  EXPECT_EQ(registry_.Footprints().at(0).last, Cpus("2-5"));
  EXPECT_TRUE(registry_.EndContainerCall("c", true));
  Apply("c", "0-3");
  EXPECT_EQ(registry_.Footprints().at(0).last, Cpus("0-3"));
}

TEST_F(RegistryUpdates, ContainerThatBecomesKnownDuringACallMayBeAnywhere) {
  registry_.BeginContainerCall("c", /*changes_cpus=*/true, Cpus("2-5"));
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-3"));
  EXPECT_TRUE(registry_.EndContainerCall("c", true));
  EXPECT_TRUE(registry_.Footprints().at(0).cpuset.empty());
}

TEST_F(RegistryUpdates, CallUnderWayOutlivesAListing) {
  registry_.AddSandbox("s", "pod");
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-7"));
  registry_.BeginContainerCall("c", /*changes_cpus=*/false);
  Listed({{{"s", "pod", true}}, {{"c", {"pod", "app"}}}});
  Apply("c", "0-3");
  EXPECT_EQ(AppliedTo("c"), "");
}

TEST_F(RegistryUpdates, ContainerFoundElsewhereIsThereUntilTheNextUpdate) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("4-7"));
  EXPECT_EQ(registry_.AppliedTo("c"), Cpus("4-7"));
  registry_.FoundElsewhere("c", Cpus("0-1"));
  EXPECT_EQ(AppliedTo("c"), "");
  EXPECT_EQ(registry_.Footprints()[0].cpuset, Cpus("0-1,4-7"));
  registry_.FoundAsApplied("c");
  EXPECT_EQ(registry_.Footprints()[0].cpuset, Cpus("4-7"));

  registry_.FoundElsewhere("c", {});
  EXPECT_EQ(registry_.AppliedTo("c"), std::nullopt);
  EXPECT_EQ(AppliedTo("c"), "");
  EXPECT_EQ(registry_.Footprints()[0].cpuset, CpuSet());
  Apply("c", "4-7");
  EXPECT_EQ(registry_.AppliedTo("c"), Cpus("4-7"));
  EXPECT_EQ(registry_.Footprints()[0].cpuset, Cpus("4-7"));
}

TEST_F(RegistryUpdates, ContainerKeptElsewhereIsThereUntilItIsLeftAlone) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("4-7"));
  EXPECT_EQ(registry_.KeptOn("c"), std::nullopt);
  registry_.KeptElsewhere("c", Cpus("0-1"));
  EXPECT_EQ(registry_.AppliedTo("c"), Cpus("4-7"));  // it is not updated again
  EXPECT_EQ(registry_.Footprints()[0].cpuset, Cpus("0-1,4-7"));
  Apply("c", "1");
  registry_.FoundAsApplied("c");
  EXPECT_EQ(registry_.Footprints()[0].cpuset, Cpus("0-1"));
  registry_.KeptElsewhere("c", Cpus("2"));
  EXPECT_EQ(registry_.KeptOn("c"), Cpus("0-2"));
  EXPECT_EQ(registry_.Footprints()[0].cpuset, Cpus("0-2"));
  registry_.KeptElsewhere("c", {});
  EXPECT_EQ(registry_.KeptOn("c"), CpuSet());
  EXPECT_EQ(registry_.Footprints()[0].cpuset, CpuSet());
  registry_.AddSandbox("s", "pod");
  Listed({{{"s", "pod", true}}, {{"c", {"pod", "app"}}}});
  EXPECT_EQ(registry_.Footprints()[0].cpuset, CpuSet());
  registry_.LeftAlone("c");
  EXPECT_EQ(registry_.Footprints()[0].cpuset, Cpus("1"));
}

// The update that was under way may have been applied before the write of the other program.
TEST_F(RegistryUpdates, UpdateUnderWayWhenItWasFoundElsewhereIsNotCertain) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("4-7"));
  registry_.BeginApply("c", Cpus("4-7"));
  registry_.FoundElsewhere("c", Cpus("0-1"));
  registry_.EndApply("c", Cpus("4-7"), true);
  EXPECT_EQ(registry_.AppliedTo("c"), std::nullopt);
  EXPECT_TRUE(registry_.Footprints()[0].cpuset.Intersects(Cpus("0-1")));
}

TEST_F(RegistryUpdates, SetIsNotCertainDuringACallOfAnotherClient) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("4-7"));
  registry_.BeginContainerCall("c", /*changes_cpus=*/false);
  EXPECT_EQ(registry_.AppliedTo("c"), std::nullopt);
  registry_.EndContainerCall("c", /*changes_cpus=*/false);
  EXPECT_EQ(registry_.AppliedTo("c"), Cpus("4-7"));
}

TEST_F(RegistryUpdates, NarrowedContainerIsOnThoseCpusAndTheRecordIsOld) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-7"));
  ASSERT_TRUE(BeginNarrow("0-3"));
  EXPECT_EQ(Footprint(), Cpus("0-7"));  // until the cgroup has been read
  EXPECT_EQ(registry_.AppliedTo("c"), std::nullopt);
  EXPECT_TRUE(EndNarrow("0-3"));
  EXPECT_EQ(Footprint(), Cpus("0-3"));
  EXPECT_EQ(registry_.AppliedTo("c"), Cpus("0-3"));  // what the guard compares with
  EXPECT_EQ(AppliedTo("c"), "");                     // the runtime is to be updated
  ASSERT_TRUE(BeginNarrow("0"));
  EXPECT_TRUE(EndNarrow("0"));
  Apply("c", "0-1");
  EXPECT_EQ(Footprint(), Cpus("0-1"));
  EXPECT_EQ(AppliedTo("c"), "0-1");
}

TEST_F(RegistryUpdates, ExactUntilTheNextWriteOrCall) {
  using std::chrono::steady_clock;
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-7"));
  const auto before = steady_clock::now();
  const auto read = before + std::chrono::milliseconds(1);
  ASSERT_TRUE(BeginNarrow("0-3"));
  EXPECT_TRUE(registry_.IsWritten("c"));
  EXPECT_TRUE(registry_.EndNarrow("c", Cpus("0-3"), /*proved=*/true, read));
  EXPECT_FALSE(registry_.IsWritten("c"));
  EXPECT_EQ(registry_.ExactSince("c", before), Cpus("0-3"));
  EXPECT_EQ(registry_.ExactSince("c", read), std::nullopt);  // a write at that time is open
  EXPECT_EQ(registry_.ExactSince("d", before), std::nullopt);
  ASSERT_TRUE(BeginNarrow("0-2"));
  EXPECT_EQ(registry_.ExactSince("c", before), std::nullopt);
  EXPECT_TRUE(EndNarrow("0-2"));
  EXPECT_EQ(registry_.ExactSince("c", before), std::nullopt);  // fewer CPUs are applied
  ASSERT_TRUE(BeginNarrow("0-1"));
  EXPECT_TRUE(registry_.EndNarrow("c", Cpus("0-1"), /*proved=*/true, read));
  registry_.BeginApply("c", Cpus("0-7"));
  EXPECT_EQ(registry_.ExactSince("c", before), std::nullopt);
  registry_.EndApply("c", Cpus("0-7"), true);
  EXPECT_EQ(registry_.ExactSince("c", before), std::nullopt);
  ASSERT_TRUE(BeginNarrow("0-3"));
  EXPECT_TRUE(registry_.EndNarrow("c", Cpus("0-3"), /*proved=*/true, read));
  registry_.BeginContainerCall("c", /*changes_cpus=*/false);
  EXPECT_EQ(registry_.ExactSince("c", before), std::nullopt);
}

// The set was planned before the container left CPU 2, on which an exclusive container has started.
TEST_F(RegistryUpdates, WriteThatWouldGiveCpusDoesNotBegin) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-7"));
  Apply("c", "0-1,3");
  EXPECT_FALSE(BeginNarrow("0-3"));
  EXPECT_EQ(AppliedTo("c"), "0-1,3");
  EXPECT_TRUE(BeginNarrow("0-1"));
}

// The write may come after the update.
TEST_F(RegistryUpdates, WriteUnderWayCountsUntilItHasEnded) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-7"));
  ASSERT_TRUE(BeginNarrow("0-3"));
  Apply("c", "0-1");
  EXPECT_EQ(Footprint(), Cpus("0-3"));
  EXPECT_EQ(registry_.AppliedTo("c"), std::nullopt);
  EXPECT_FALSE(BeginNarrow("0"));  // one write at a time
  EXPECT_FALSE(EndNarrow("0-3"));
  EXPECT_EQ(Footprint(), Cpus("0-3"));
  EXPECT_EQ(AppliedTo("c"), "");
  Apply("c", "0-1");
  EXPECT_EQ(Footprint(), Cpus("0-1"));
}

TEST_F(RegistryUpdates, WriteThatProvesNothingLeavesTheSetUnknown) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-7"));
  ASSERT_TRUE(BeginNarrow("0-3"));
  EXPECT_FALSE(registry_.EndNarrow("c", Cpus("0-3"), /*proved=*/false));
  EXPECT_EQ(Footprint(), Cpus("0-7"));
  EXPECT_EQ(registry_.AppliedTo("c"), std::nullopt);  // the guard has nothing to compare with
  EXPECT_EQ(AppliedTo("c"), "");
}

TEST_F(RegistryUpdates, NarrowingIsNotCertainBesideAnyCall) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-7"));
  const auto disturbed = [this](const auto& begin, const auto& end) {
    ASSERT_TRUE(BeginNarrow("0"));
    begin();
    EXPECT_FALSE(EndNarrow("0"));
    EXPECT_FALSE(BeginNarrow("0"));  // the call is under way
    EXPECT_FALSE(registry_.Footprints()[0].may_narrow);
    end();
    EXPECT_TRUE(registry_.Footprints()[0].may_narrow);
  };
  disturbed([this] { registry_.BeginContainerCall("c", /*changes_cpus=*/false); },
            [this] { registry_.EndContainerCall("c", false); });
  disturbed([this] { registry_.BeginApply("c", Cpus("0-3")); },
            [this] { registry_.EndApply("c", Cpus("0-3"), true); });
  disturbed([this] { registry_.BeginApply("c", Cpus("0-2")); },
            [this] { registry_.DropApply("c"); });
  ASSERT_TRUE(BeginNarrow("0"));
  registry_.FoundElsewhere("c", Cpus("4"));
  EXPECT_FALSE(EndNarrow("0"));
  EXPECT_TRUE(Footprint().Contains(Cpus("0,4")));
}

TEST_F(RegistryUpdates, UpdateThatWasNotSentChangesNothing) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-3"));
  registry_.BeginApply("c", Cpus("0-7"));
  EXPECT_EQ(Footprint(), Cpus("0-7"));
  registry_.DropApply("c");
  EXPECT_EQ(Footprint(), Cpus("0-3"));
  EXPECT_EQ(AppliedTo("c"), "0-3");
  ASSERT_TRUE(BeginNarrow("0"));
  ASSERT_TRUE(EndNarrow("0"));
  registry_.BeginApply("c", Cpus("0-7"));
  registry_.DropApply("c");
  EXPECT_EQ(Footprint(), Cpus("0"));
  EXPECT_EQ(registry_.AppliedTo("c"), Cpus("0"));
}

TEST_F(RegistryUpdates, CallThatMayGoOnForbidsNarrowingUntilAnUpdateIsTaken) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-7"));
  const auto forbids = [this](const auto& call) {
    EXPECT_TRUE(registry_.Footprints()[0].may_narrow);
    call();
    EXPECT_FALSE(BeginNarrow("0"));
    Apply("c", "0-7");
    EXPECT_TRUE(registry_.Footprints()[0].may_narrow);
  };
  forbids([this] {  // a start
    registry_.BeginContainerCall("c", /*changes_cpus=*/false);
    registry_.EndContainerCall("c", false, /*may_go_on=*/true);
  });
  forbids([this] {  // an update of another client
    registry_.BeginContainerCall("c", /*changes_cpus=*/true);
    registry_.EndContainerCall("c", true);
  });
  forbids([this] {  // an update of alignd
    registry_.BeginApply("c", Cpus("0-7"));
    registry_.EndApply("c", Cpus("0-7"), /*taken=*/false);
  });
  registry_.KeptElsewhere("c", Cpus("1"));  // by another program
  EXPECT_FALSE(BeginNarrow("0"));
}

// The runtime starts it by its record.
TEST_F(RegistryUpdates, StartOfANarrowedContainerMayUndoTheWrite) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-7"));
  ASSERT_TRUE(BeginNarrow("0"));
  ASSERT_TRUE(EndNarrow("0"));
  registry_.BeginContainerCall("c", /*changes_cpus=*/false);
  EXPECT_EQ(Footprint(), CpuSet());
  EXPECT_TRUE(registry_.EndContainerCall("c", false));
  EXPECT_EQ(Footprint(), CpuSet());
}

// A call of an earlier alignd may be under way.
TEST_F(RegistryUpdates, ContainerThatWasFoundIsNarrowedOnlyAfterAnUpdate) {
  registry_.AddSandbox("s", "pod");
  Listed({{{"s", "pod", true}}, {{"c", {"pod", "app"}}}}, {}, /*at_start=*/true);
  EXPECT_FALSE(BeginNarrow("0"));
  Apply("c", "0-7");
  EXPECT_TRUE(BeginNarrow("0"));
  EXPECT_FALSE(registry_.BeginNarrow("unknown", Cpus("0")));
  EXPECT_FALSE(registry_.EndNarrow("unknown", Cpus("0"), true));
}

TEST_F(RegistryUpdates, FoundElsewhereEndsNarrowing) {
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-7"));
  ASSERT_TRUE(BeginNarrow("0-3"));
  ASSERT_TRUE(EndNarrow("0-3"));
  registry_.FoundElsewhere("c", Cpus("0-7"));
  EXPECT_EQ(registry_.AppliedTo("c"), std::nullopt);
  EXPECT_EQ(Footprint(), Cpus("0-7"));
  EXPECT_TRUE(registry_.Footprints()[0].was_moved);
  ASSERT_TRUE(BeginNarrow("0-3"));  // again
  ASSERT_TRUE(EndNarrow("0-3"));
  EXPECT_EQ(Footprint(), Cpus("0-3"));
  EXPECT_FALSE(registry_.Footprints()[0].was_moved);
}

TEST_F(RegistryUpdates, KnowsWhenTheLastCallEnded) {
  using Clock = std::chrono::steady_clock;
  registry_.AddContainer("c", {"pod", "app"}, Cpus("0-7"));
  const auto is_call = [this](const auto& begin, const auto& end) {
    const Clock::time_point before = Clock::now();
    EXPECT_LT(registry_.LastCall(), before);
    begin();
    EXPECT_GE(registry_.LastCall(), before);
    const Clock::time_point later = Clock::now();
    EXPECT_GE(registry_.LastCall(), later);  // it is under way
    end();
    EXPECT_GE(registry_.LastCall(), later);
    EXPECT_LE(registry_.LastCall(), Clock::now());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // until the clock has gone on
  };
  is_call([this] { registry_.BeginCall("pod"); }, [this] { registry_.EndCall("pod"); });
  is_call([this] { registry_.BeginContainerCall("c", false); },
          [this] {
            registry_.RemoveContainer("c");
            registry_.EndContainerCall("c", false);
          });
}

}  // namespace
}  // namespace alignd::reconcile
