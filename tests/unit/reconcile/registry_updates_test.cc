// On which CPUs a container may be while calls change its CPU set.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "reconcile/container_registry.h"
#include "registry_fixture.h"

namespace alignd::reconcile {
namespace {

class RegistryUpdates : public RegistryTest {};

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

}  // namespace
}  // namespace alignd::reconcile
