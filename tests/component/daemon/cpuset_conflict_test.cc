// Another program that keeps changing a cpuset, and when the guard sees that it has stopped. The
// guard alone, with short times.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cgroup/cgroup_tree.h"
#include "daemon_fixture.h"
#include "edge/allocation_node.h"
#include "fake_cgroups.h"
#include "host/event_loop.h"
#include "reconcile/cpuset_guard.h"
#include "service/client.h"
#include "sync/task_queue.h"

namespace alignd::daemon {
namespace {

using std::chrono::steady_clock;

class CpusetConflict : public DaemonTest {
 protected:
  static constexpr milliseconds kBackoff{1'500};
  static constexpr milliseconds kCalm{1'000};  // window / repairs

  CpusetConflict()
      : node_(testing::MakeNode(CpusOnly())),
        cgroups_(CgroupRoot(), /*unified=*/true, "0-15"),
        tree_of_cgroups_(CgroupRoot()) {
    node_.Up();
    StartRuntime();
    watch_.OnEvent([this](const RuntimeModel::Event& event) { cgroups_.Apply(event); });
    client_ = *simulator::Dial(RuntimeEndpoint());
    v1::ContainerConfig config = Shared();
    config.mutable_linux()->mutable_resources()->set_cpuset_cpus("0-15");
    id_ = RunOne(BurstablePod("shared"), config).container;
    cgroup_ = runtime_->FindContainer(id_)->cgroup;
    registry_.AddContainer(id_, {"shared", "app"}, *CpuSet::Parse("0-15"));
    calls_.emplace(*service::Client::Dial(RuntimeEndpoint()), kPatience);
    events_->Start();
    guard_.emplace(
        io_, events_, node_.node, *node_.manager, registry_, *calls_, tree_of_cgroups_, conditions_,
        /*pods=*/nullptr, [this] { Apply(); },
        reconcile::CpusetGuard::Options{.round = milliseconds(50),
                                        .confirm = milliseconds(5),
                                        .repairs = 3,
                                        .window = 3 * kCalm,
                                        .backoff = kBackoff,
                                        .longest_backoff = 0});
    guard_->Start();
  }
  ~CpusetConflict() override {
    calls_->Stop();
    guard_->Stop();
    events_->Stop();
    watch_.OnEvent({});
  }

  static KubeletConfig CpusOnly() {
    KubeletConfig config = testing::StaticConfig();
    config.memory_manager_policy = MemoryManagerPolicy::kNone;
    config.reserved_memory.clear();
    return config;
  }
  // As the updater does.
  void Apply() {
    ++nudges_;
    if (registry_.AppliedTo(id_)) return;
    const CpuSet all = *CpuSet::Parse("0-15");
    registry_.BeginApply(id_, all);
    calls_->UpdateCpuSet(id_, all, {}, [this, all](const Result<Done>& applied) {
      registry_.EndApply(id_, all, applied.ok());
    });
  }
  std::string Now() const { return cgroups_.CpusOf(cgroup_); }
  std::vector<reconcile::Condition> Reported(reconcile::ConditionType type) const {
    std::vector<reconcile::Condition> report = conditions_.Report();
    std::erase_if(report, [type](const auto& condition) { return condition.type != type; });
    return report;
  }
  uint64_t Repairs() const {
    const auto repaired = Reported(reconcile::ConditionType::kCpusetRepaired);
    return repaired.empty() ? 0 : repaired.front().times;
  }
  void ConflictUntilTheBackoff() {
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
  reconcile::ContainerRegistry registry_;
  reconcile::Conditions conditions_;
  std::optional<reconcile::RuntimeClient> calls_;
  std::string id_;
  std::string cgroup_;
  std::atomic<int> nudges_ = 0;
  TaskQueue io_{"io"};
  const std::shared_ptr<host::EventLoop> events_ = *host::EventLoop::Make();
  std::optional<reconcile::CpusetGuard> guard_;
};

TEST_F(CpusetConflict, OtherProgramsCpusStayInTheFootprintForTheWholeBackoff) {
  ConflictUntilTheBackoff();
  const auto began = steady_clock::now();
  const int nudges = nudges_;
  const uint64_t repairs = Repairs();
  cgroups_.SetCpus(cgroup_, "0-15");
  // The assigned set is the same, so the cpuset is correct.
  registry_.BeginApply(id_, *CpuSet::Parse("0-15"));
  registry_.EndApply(id_, *CpuSet::Parse("0-15"), true);
  ASSERT_TRUE(Eventually([&] { return Repairs() > repairs; }));
  EXPECT_TRUE(registry_.KeptOn(id_));
  ASSERT_TRUE(Eventually([&] { return !registry_.KeptOn(id_); }));
  EXPECT_GE(steady_clock::now() - began, kBackoff - milliseconds(300));
  // Containers that wait for its CPUs are checked again.
  EXPECT_TRUE(Eventually([&] { return nudges_ > nudges; }));
}

TEST_F(CpusetConflict, ConflictEndsSomeTimeAfterTheRepairThatFollows) {
  ConflictUntilTheBackoff();
  ASSERT_TRUE(Eventually([&] { return Now() == "0-15"; }));  // the backoff is over
  const auto repaired = steady_clock::now();
  ASSERT_TRUE(Eventually([&] { return registry_.AppliedTo(id_).has_value(); }));
  EXPECT_TRUE(registry_.KeptOn(id_));
  ASSERT_TRUE(Eventually([&] { return !registry_.KeptOn(id_); }));
  EXPECT_GE(steady_clock::now() - repaired, kCalm - milliseconds(300));
  EXPECT_EQ(Now(), "0-15");
}

TEST_F(CpusetConflict, IsReportedUntilItEnds) {
  ConflictUntilTheBackoff();
  const auto signs = Reported(reconcile::ConditionType::kConflictingCpuManager);
  ASSERT_EQ(signs.size(), 1U);
  EXPECT_NE(signs[0].message.find("container app of pod shared"), std::string::npos)
      << signs[0].message;
  ASSERT_TRUE(Eventually([&] { return Now() == "0-15"; }));  // the backoff is over
  EXPECT_EQ(Reported(reconcile::ConditionType::kConflictingCpuManager).size(), 1U);
  EXPECT_TRUE(Eventually(
      [&] { return Reported(reconcile::ConditionType::kConflictingCpuManager).empty(); }));
}

}  // namespace
}  // namespace alignd::daemon
