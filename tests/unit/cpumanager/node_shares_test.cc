// What containers of the shared pool request of a NUMA node on which they stay, and the CPUs that
// are held back for it.
#include "alignd/cpumanager/node_shares.h"

#include <gtest/gtest.h>

#include <string>

#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::cpumanager {
namespace {

// Two NUMA nodes of four cores with two CPUs each (0 and 1, 2 and 3, ...); CPU 0 is reserved.
class NodeShares : public testing::Test {
 protected:
  void Share(const std::string& pod, const std::string& container, int numa, int64_t millis,
             ContainerKind kind = ContainerKind::kApp) {
    state_.shares[{pod, container}] = {numa, millis, kind};
  }

  void Assign(const std::string& pod, const CpuSet& cpus) {
    state_.default_set -= cpus;
    state_.assignments[pod]["app"] = cpus;
  }

  std::string Held() const { return HeldBack(machine_, policy_, state_).ToString(); }

  bool Fits(int numa, int64_t millis, int64_t exclusive = 0) const {
    return FitsOn(machine_, policy_, state_, {"new", "app"}, {numa, millis}, exclusive);
  }

  const Machine machine_ = MakeMachine("socket:2 numa:1 core:4 thread:2");
  StaticPolicy policy_{.options = {}, .reserved = CpuSet{0}};
  CpuState state_ = InitialState(machine_, policy_);
};

TEST_F(NodeShares, AddUpByNumaNode) {
  EXPECT_EQ(SharesOn(state_, 0), 0);
  Share("a", "app", 0, 700);
  Share("a", "log", 0, 600);
  Share("b", "app", 1, 250);
  EXPECT_EQ(SharesOn(state_, 0), 1300);
  EXPECT_EQ(BackedOn(state_, 0), 2);
  EXPECT_EQ(SharesOn(state_, 1), 250);
  EXPECT_EQ(BackedOn(state_, 1), 1);
}

// An init container ends before the app containers start, and sidecars run beside both.
TEST_F(NodeShares, CountInitContainersAtTheirTime) {
  Share("a", "warm", 0, 2000, ContainerKind::kInit);
  Share("a", "load", 0, 1500, ContainerKind::kInit);
  Share("a", "app", 0, 1000);
  EXPECT_EQ(SharesOn(state_, 0), 2000);
  Share("a", "proxy", 0, 500, ContainerKind::kSidecar);
  EXPECT_EQ(SharesOn(state_, 0), 2500);
  Share("a", "log", 0, 4000);
  EXPECT_EQ(SharesOn(state_, 0), 5500);
  // Those of another pod are not at another time.
  Share("b", "warm", 0, 100, ContainerKind::kInit);
  EXPECT_EQ(SharesOn(state_, 0), 5600);
}

TEST_F(NodeShares, AreBackedByCpusThatAreNotReserved) {
  EXPECT_TRUE(Fits(0, 7000));
  EXPECT_FALSE(Fits(0, 7001));
  EXPECT_TRUE(Fits(1, 8000));
  EXPECT_TRUE(Fits(0, 4000, 3));
  EXPECT_FALSE(Fits(0, 4001, 3));
  EXPECT_FALSE(Fits(0, 0, 7));  // it needs a CPU to run on
  EXPECT_FALSE(Fits(2, 1));     // there is no such NUMA node
  Share("a", "app", 0, 6500);
  EXPECT_TRUE(Fits(0, 500));
  EXPECT_FALSE(Fits(0, 501));
  Assign("b", {8, 9, 10, 11, 12, 13, 14});
  EXPECT_TRUE(Fits(1, 1000));
  EXPECT_FALSE(Fits(1, 1001));
  // It has a share already: only the new one counts.
  EXPECT_TRUE(FitsOn(machine_, policy_, state_, {"a", "app"}, {0, 7000}));
}

TEST_F(NodeShares, HoldBackTheHighestCpusOfPartlyFreeCoresFirst) {
  EXPECT_EQ(Held(), "");
  Share("a", "app", 0, 0);
  EXPECT_EQ(Held(), "1");  // its core has the reserved CPU
  Share("a", "app", 0, 1001);
  EXPECT_EQ(Held(), "1,7");
  Assign("b", {4});
  EXPECT_EQ(Held(), "1,5");
  Share("c", "app", 1, 2000);
  EXPECT_EQ(Held(), "1,5,14-15");
  // What the policy avoids in any case costs nothing.
  policy_.avoided = {8, 9, 10};
  EXPECT_EQ(Held(), "1,5,9-10");
  EXPECT_EQ(WithHeldBack(machine_, policy_, state_).avoided.ToString(), "1,5,8-10");
}

// The option counts CPUs, and assigns whole cores.
TEST_F(NodeShares, HoldBackWholeCoresWithFullPcpusOnly) {
  policy_.options.full_pcpus_only = true;
  Share("a", "app", 0, 1500);
  Share("b", "app", 1, 2500);
  EXPECT_EQ(Held(), "1,6-7,12-15");
}

TEST_F(NodeShares, HoldBackWhatIsLeftIfCpusAreOffline) {
  Share("a", "app", 1, 7000);
  SetOffline({8, 9, 10, 11, 12}, state_);
  EXPECT_EQ(Held(), "13-15");
  EXPECT_FALSE(Fits(1, 1));
}

TEST_F(NodeShares, EndWithTheContainerAndThePod) {
  Share("a", "app", 0, 100);
  Share("a", "log", 0, 200);
  Share("b", "app", 0, 400);
  ReleaseContainer({"a", "log"}, state_);
  EXPECT_EQ(SharesOn(state_, 0), 500);
  ReleasePod("a", state_);
  EXPECT_EQ(SharesOn(state_, 0), 400);
  EXPECT_TRUE(BrokenInvariants(machine_, policy_, state_).empty());
}

TEST_F(NodeShares, AreOnlyOfContainersWithoutExclusiveCpus) {
  Share("a", "app", 0, 100);
  Assign("a", {2});
  EXPECT_EQ(BrokenInvariants(machine_, policy_, state_).size(), 1U);
  state_ = InitialState(machine_, policy_);
  Share("a", "app", 5, 100);
  EXPECT_EQ(BrokenInvariants(machine_, policy_, state_).size(), 1U);
}

}  // namespace
}  // namespace alignd::cpumanager
