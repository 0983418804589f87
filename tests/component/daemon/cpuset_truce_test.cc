// Somebody else who keeps changing a cpuset back, and when he has given up. The guard alone, with
// short times.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>

#include "cgroup/cgroup_tree.h"
#include "cri/cpuset_guard.h"
#include "daemon_fixture.h"
#include "edge/allocation_node.h"
#include "fake_cgroups.h"

namespace alignd::daemon {
namespace {

using std::chrono::steady_clock;

class CpusetTruce : public DaemonTest {
 protected:
  static constexpr milliseconds kTruce{1'500};
  static constexpr milliseconds kCalm{1'000};  // window / repairs

  CpusetTruce()
      : node_(testing::MakeNode(CpusOnly())),
        cgroups_(CgroupRoot(), /*unified=*/true, "0-15"),
        tree_of_cgroups_(CgroupRoot()) {
    node_.Up();
    StartRuntime();
    watch_.OnEvent([this](const RuntimeModel::Event& event) { cgroups_.Apply(event); });
    client_ = *rpc::Dial(RuntimeEndpoint());
    v1::ContainerConfig config = Shared();
    config.mutable_linux()->mutable_resources()->set_cpuset_cpus("0-15");
    id_ = RunOne(BurstablePod("shared"), config).container;
    cgroup_ = runtime_->FindContainer(id_)->cgroup;
    registry_.AddContainer(id_, {"shared", "app"}, *CpuSet::Parse("0-15"));
    calls_.emplace(*rpc::Dial(RuntimeEndpoint()), kPatience);
    guard_.emplace(
        node_.node, *node_.manager, registry_, *calls_, tree_of_cgroups_, upkeep_,
        [this] { Tell(); },
        cri::CpusetGuard::Options{.round = milliseconds(50),
                                  .confirm = milliseconds(5),
                                  .repairs = 3,
                                  .window = 3 * kCalm,
                                  .truce = kTruce,
                                  .longest_truce = 0});
    guard_->Start();
  }
  ~CpusetTruce() override {
    calls_->Stop();
    guard_->Stop();
    watch_.OnEvent({});
  }

  static KubeletConfig CpusOnly() {
    KubeletConfig config = testing::StaticConfig();
    config.memory_manager_policy = MemoryManagerPolicy::kNone;
    config.reserved_memory.clear();
    return config;
  }
  // As the mover does.
  void Tell() {
    ++nudges_;
    if (registry_.ToldTo(id_)) return;
    const CpuSet all = *CpuSet::Parse("0-15");
    registry_.BeginTelling(id_, all);
    calls_->UpdateCpuSet(id_, all, {}, [this, all](const Result<Done>& told) {
      registry_.EndTelling(id_, all, told.ok());
    });
  }
  std::string Now() const { return cgroups_.CpusOf(cgroup_); }
  void FightUntilTheTruce() {
    ASSERT_TRUE(Eventually([&] {
      if (Now() == "0-15") cgroups_.SetCpus(cgroup_, "3");
      return registry_.KeptOn(id_).has_value();
    }));
    EXPECT_EQ(registry_.KeptOn(id_), CpuSet::Parse("3").value());
    ASSERT_EQ(Now(), "3");
  }

  testing::AllocationNode node_;
  FakeCgroups cgroups_;
  const cgroup::CgroupTree tree_of_cgroups_;
  cri::ContainerRegistry registry_;
  allocation::UpkeepLog upkeep_;
  std::optional<cri::RuntimeClient> calls_;
  std::string id_;
  std::string cgroup_;
  std::atomic<int> nudges_ = 0;
  std::optional<cri::CpusetGuard> guard_;
};

TEST_F(CpusetTruce, WhatHeWantsIsKeptInMindToTheEndAlsoWhereItIsRight) {
  FightUntilTheTruce();
  const auto began = steady_clock::now();
  const int nudges = nudges_;
  const uint64_t repairs = upkeep_.Report().repairs;
  cgroups_.SetCpus(cgroup_, "0-15");
  // It is told the same, and seen to be right.
  registry_.BeginTelling(id_, *CpuSet::Parse("0-15"));
  registry_.EndTelling(id_, *CpuSet::Parse("0-15"), true);
  ASSERT_TRUE(Eventually([&] { return upkeep_.Report().repairs > repairs; }));
  EXPECT_TRUE(registry_.KeptOn(id_));
  ASSERT_TRUE(Eventually([&] { return !registry_.KeptOn(id_); }));
  EXPECT_GE(steady_clock::now() - began, kTruce - milliseconds(300));
  // Who waits for its CPUs is looked at once more.
  EXPECT_TRUE(Eventually([&] { return nudges_ > nudges; }));
}

TEST_F(CpusetTruce, AfterTheRepairThatFollowsHeHasToHoldStillForAWhile) {
  FightUntilTheTruce();
  ASSERT_TRUE(Eventually([&] { return Now() == "0-15"; }));  // the truce is over
  const auto repaired = steady_clock::now();
  ASSERT_TRUE(Eventually([&] { return registry_.ToldTo(id_).has_value(); }));
  EXPECT_TRUE(registry_.KeptOn(id_));
  ASSERT_TRUE(Eventually([&] { return !registry_.KeptOn(id_); }));
  EXPECT_GE(steady_clock::now() - repaired, kCalm - milliseconds(300));
  EXPECT_EQ(Now(), "0-15");
}

}  // namespace
}  // namespace alignd::daemon
