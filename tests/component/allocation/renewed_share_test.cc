// A container that stays on one NUMA node is created again with another request: what is visible
// when, what the disk has, and what happens beside it.
#include <gtest/gtest.h>

#include <cerrno>
#include <future>
#include <string>
#include <utility>
#include <variant>

#include "alignd/admission/assignment.h"
#include "allocation/current_assignment.h"
#include "edge/allocation_node.h"
#include "edge/allocation_outcome.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;

admission::Node SharingNode() {
  KubeletConfig config = StaticConfig();
  config.topology_manager_policy = TopologyManagerPolicy::kNone;
  config.pod_policies = {PodPolicy::kSharedNumaNode};
  return MakeNode(std::move(config));
}

Pod Sharing(const std::string& uid, const std::string& cpu, const std::string& memory) {
  Container container = MakeContainer(ContainerKind::kApp, "app", {});
  container.resources.requests = {{"cpu", Amount(cpu)}, {"memory", Amount(memory)}};
  Pod pod = MakePod(uid, {std::move(container)});
  pod.policies.shared_on_one_node = true;
  return pod;
}

class RenewedShareTest : public ::testing::Test {
 protected:
  RenewedShareTest() {
    world.Up();
    world.AnnounceDevices();
  }

  // Thousandths of a CPU, and mebibytes.
  static std::pair<int64_t, uint64_t> In(const admission::NodeState& state) {
    const auto share = state.cpu.shares.find({"pod", "app"});
    const auto* const blocks = state.memory.Find({"pod", "app"});
    return {share == state.cpu.shares.end() ? 0 : share->second.millis,
            blocks == nullptr ? 0 : blocks->at(0).size >> 20};
  }
  std::future<Outcome> Begin(const Pod& pod) {
    world.disk.Hold();
    std::future<Outcome> later = world.AdmitLater(pod);
    world.disk.AwaitHeld();
    return later;
  }

  AllocationNode world{SharingNode()};
  using Sizes = std::pair<int64_t, uint64_t>;
};

TEST_F(RenewedShareTest, IsNotVisibleBeforeItIsOnTheDiskAndGoesToNoOtherPod) {
  ASSERT_TRUE(AllocatedOf(world.Admit(Sharing("pod", "2", "1Gi"))));
  std::future<Outcome> grown = Begin(Sharing("pod", "5", "2Gi"));
  EXPECT_EQ(In(world.published()), Sizes(2000, 1024));
  // Of 8 and 7 CPUs, 5 are taken on one NUMA node.
  std::future<Outcome> first = world.AdmitLater(Sharing("first", "6", "1Gi"));
  std::future<Outcome> second = world.AdmitLater(Sharing("second", "4", "1Gi"));
  EXPECT_TRUE(std::holds_alternative<Refusal>(second.get()));
  world.disk.LetGo();
  EXPECT_TRUE(AllocatedOf(grown.get()));
  EXPECT_TRUE(AllocatedOf(first.get()));
  EXPECT_EQ(In(world.published()), Sizes(5000, 2048));
  EXPECT_EQ(In(world.saved()), Sizes(5000, 2048));

  // What becomes free goes to no other pod before.
  std::future<Outcome> shrunk = Begin(Sharing("pod", "1", "1Gi"));
  EXPECT_EQ(In(world.published()), Sizes(5000, 2048));
  EXPECT_TRUE(std::holds_alternative<Refusal>(world.Admit(Sharing("second", "4", "1Gi"))));
  world.disk.LetGo();
  EXPECT_TRUE(AllocatedOf(shrunk.get()));
  EXPECT_EQ(In(world.saved()), Sizes(1000, 1024));
  EXPECT_TRUE(AllocatedOf(world.Admit(Sharing("second", "4", "1Gi"))));
}

TEST_F(RenewedShareTest, ThatCannotBeWrittenChangesNothing) {
  ASSERT_TRUE(AllocatedOf(world.Admit(Sharing("pod", "2", "1Gi"))));
  const admission::NodeState before = world.published();
  world.disk.FailAt(0, ENOSPC);
  const Outcome failed = world.Admit(Sharing("pod", "5", "2Gi"));
  const Error* const error = std::get_if<Error>(&failed);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->code, ErrorCode::kIo);
  EXPECT_EQ(world.published(), before);
  world.disk.Repair();
  EXPECT_TRUE(AllocatedOf(world.Admit(Sharing("pod", "5", "2Gi"))));
  EXPECT_EQ(In(world.saved()), Sizes(5000, 2048));
}

TEST_F(RenewedShareTest, OfAPodThatIsReleasedMeanwhileIsReleased) {
  ASSERT_TRUE(AllocatedOf(world.Admit(Sharing("pod", "2", "1Gi"))));
  std::future<Outcome> grown = Begin(Sharing("pod", "5", "2Gi"));
  std::promise<Result<Done>> released;
  world.manager->ReleasePod("pod", [&](const Result<Done>& done) { released.set_value(done); });
  const Outcome outcome = grown.get();
  world.disk.LetGo();
  EXPECT_TRUE(released.get_future().get().ok());
  const Error* const error = std::get_if<Error>(&outcome);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->code, ErrorCode::kUnavailable);
  EXPECT_EQ(In(world.published()), Sizes(0, 0));
  EXPECT_EQ(In(world.saved()), Sizes(0, 0));
}

// CRI shows at most 256 CPUs.
TEST(LargeShare, IsKeptIfCriShowsAsMuchAsItCan) {
  const admission::Node node = SharingNode();
  admission::NodeState state = admission::NodeState::Initial(node);
  state.cpu.shares[{"pod", "app"}] = {0, 300'000, ContainerKind::kApp};
  const auto asked = [&](const std::string& cpu) {
    Pod pod = Sharing("pod", cpu, "1Gi");
    KeepLargeShares(state, pod);
    return admission::ShareOf(pod.containers[0]).millis;
  };
  EXPECT_EQ(asked("256"), 300'000);
  EXPECT_EQ(asked("255999m"), 255'999);
  EXPECT_EQ(asked("4"), 4'000);
  state.cpu.shares[{"pod", "app"}].millis = 255'000;
  EXPECT_EQ(asked("256"), 256'000);
}

}  // namespace
}  // namespace alignd::allocation
