#include "allocation/pod_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "edge/allocation_node.h"

namespace alignd::allocation {
namespace {

using admission::NodeState;
using testing::kGpu;
using testing::kNic;
using Ids = std::set<std::string>;

Container Wanting(const std::string& name, const testing::Amounts& devices) {
  testing::Amounts all = devices;
  all["cpu"] = "1";
  all["memory"] = "1Gi";
  return testing::Asking(name, all);
}

class PodCountsTest : public ::testing::Test {
 protected:
  PodCountsTest() {
    state_.devices.resources[kGpu] = testing::EightDevices("gpu");
    state_.devices.resources[kNic] = testing::EightDevices("nic");
  }

  // The names of those that are decided about when `app` is created.
  Ids Complete(BindingModes modes, TopologyManagerScope scope) {
    PodCounts counts(std::move(modes), scope);
    pod_ = testing::PodOf("p", {Wanting("app", {{kGpu, "1"}}), Wanting("plain", {}),
                                Wanting("gpus", {{kGpu, "2"}}), Wanting("nic", {{kNic, "1"}})});
    const QosClass qos = QosOf(pod_);
    counted_ = {{"app", {{kGpu, {"gpu7"}}}}};
    lacks_ = counts.Lacks(state_, wanted_, pod_, counted_);
    waits_ = counts.Complete(state_, wanted_, known_, pod_, counted_);
    EXPECT_EQ(QosOf(pod_), qos);
    Ids names;
    for (const Container& container : pod_.containers) names.insert(container.name);
    return names;
  }

  NodeState state_ = NodeState::Initial(testing::MakeNode());
  std::string wanted_ = "app";
  std::optional<Result<KubeletAllocatedPod>> known_ =
      KubeletAllocatedPod{{"app", {{kGpu, {"gpu0"}}}},
                          {"gpus", {{kGpu, {"gpu1", "gpu2"}}}},
                          {"nic", {{kNic, {"nic5"}}}}};
  Pod pod_;
  KubeletAllocatedPod counted_;
  std::optional<Error> waits_;
  bool lacks_ = false;
};

constexpr auto kContainer = TopologyManagerScope::kContainer;
constexpr auto kPod = TopologyManagerScope::kPod;

TEST_F(PodCountsTest, ContainersOfTheirOwnWaitUntilTheyAreCreated) {
  EXPECT_EQ(Complete(BindingMode::kPreferred, kContainer), (Ids{"app", "plain"}));
  EXPECT_EQ(Complete(BindingMode::kStrict, kContainer), (Ids{"app", "plain"}));
  EXPECT_FALSE(lacks_);
  // Unless it does not matter for them.
  EXPECT_EQ(Complete({BindingMode::kPreferred, {{kNic, BindingMode::kDeferred}}}, kContainer),
            (Ids{"app", "nic", "plain"}));
  EXPECT_TRUE(lacks_);
  EXPECT_EQ(counted_.at("nic").at(kNic), Ids{"nic5"});
  EXPECT_FALSE(counted_.contains("gpus"));
}

TEST_F(PodCountsTest, ResourceThatIsNotToldIsAwaitedBesideOneThatIs) {
  PodCounts counts(BindingModes{BindingMode::kPreferred, {{kNic, BindingMode::kStrict}}}, kPod);
  Pod pod = testing::PodOf(
      "p", {Wanting("app", {{kGpu, "1"}}), Wanting("both", {{kGpu, "1"}, {kNic, "1"}})});
  KubeletAllocatedPod counted = {{"app", {{kGpu, {"gpu7"}}}}};
  const std::optional<Error> waits = counts.Complete(
      state_, "app", KubeletAllocatedPod{{"both", {{kGpu, {"gpu1"}}, {kNic, {"vanished"}}}}}, pod,
      counted);
  ASSERT_TRUE(waits);
  EXPECT_EQ(waits->code, ErrorCode::kUnavailable);
  EXPECT_EQ(counted.at("both").at(kGpu), Ids{"gpu1"});
}

TEST_F(PodCountsTest, PodThatIsDecidedTogetherLearnsWhatWasCountedForAll) {
  for (const BindingMode mode :
       {BindingMode::kPreferred, BindingMode::kDeferred, BindingMode::kStrict}) {
    EXPECT_EQ(Complete(mode, kPod), (Ids{"app", "gpus", "nic", "plain"}));
    EXPECT_EQ(counted_,
              (KubeletAllocatedPod{{"app", {{kGpu, {"gpu7"}}}},  // its own word goes first
                                   {"gpus", {{kGpu, {"gpu1", "gpu2"}}}},
                                   {"nic", {{kNic, {"nic5"}}}}}));
    EXPECT_TRUE(lacks_);
    EXPECT_FALSE(waits_);
  }
}

TEST_F(PodCountsTest, WhereNobodyTellsOnlyThoseWaitThatMustHaveTheirOwn) {
  known_ = Error{ErrorCode::kIo, "no file"};
  EXPECT_EQ(Complete(BindingMode::kPreferred, kPod), (Ids{"app", "gpus", "nic", "plain"}));
  EXPECT_EQ(counted_.size(), 1U);
  EXPECT_FALSE(waits_);
  Complete({BindingMode::kPreferred, {{kNic, BindingMode::kStrict}}}, kPod);
  ASSERT_TRUE(waits_);
  EXPECT_EQ(waits_->code, ErrorCode::kUnavailable);
  EXPECT_TRUE(waits_->message.starts_with("container nic, which")) << waits_->message;
  EXPECT_TRUE(waits_->message.ends_with(": no file")) << waits_->message;
  EXPECT_NE(waits_->remedy.find("--kubelet-device-plugin-dir"), std::string::npos);
  // In a scope of its own it is decided about when it comes.
  EXPECT_EQ(Complete({BindingMode::kPreferred, {{kNic, BindingMode::kStrict}}}, kContainer),
            (Ids{"app", "plain"}));
  EXPECT_FALSE(waits_);
}

TEST_F(PodCountsTest, NobodyAsksForMoreThanWasCounted) {
  known_ = KubeletAllocatedPod{{"gpus", {{kGpu, {"gpu1", "gpu2"}}}},
                               {"plain", {{kGpu, {"gpu3"}}}}};  // asks for none
  for (const BindingMode mode :
       {BindingMode::kPreferred, BindingMode::kDeferred, BindingMode::kStrict}) {
    EXPECT_EQ(Complete(mode, kPod), (Ids{"app", "gpus", "nic", "plain"}));
    EXPECT_FALSE(waits_);
    EXPECT_EQ(counted_.size(), 2U);
    const auto nic = std::ranges::find(pod_.containers, "nic", &Container::name);
    EXPECT_FALSE(nic->resources.limits.contains(kNic));
    EXPECT_FALSE(nic->resources.requests.contains(kNic));
    EXPECT_TRUE(nic->resources.limits.contains("cpu"));
  }
  known_ = KubeletAllocatedPod{{"gpus", {{kGpu, {"gpu1"}}}}, {"nic", {{kNic, {"nic5"}}}}};
  Complete(BindingMode::kDeferred, kPod);
  ASSERT_TRUE(waits_);
  EXPECT_EQ(waits_->code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(waits_->message,
            std::string("gpus: limits.") + kGpu + " is 2, but the kubelet counted 1");
}

TEST_F(PodCountsTest, DeviceThatIsNotListedIsNotBound) {
  known_ =
      KubeletAllocatedPod{{"gpus", {{kGpu, {"gpu1", "gpu2"}}}}, {"nic", {{kNic, {"not-listed"}}}}};
  EXPECT_EQ(Complete(BindingMode::kDeferred, kPod), (Ids{"app", "gpus", "nic", "plain"}));
  EXPECT_FALSE(counted_.contains("nic"));
  EXPECT_FALSE(waits_);
  Complete(BindingMode::kStrict, kPod);
  ASSERT_TRUE(waits_);
  EXPECT_EQ(waits_->code, ErrorCode::kUnavailable);
}

TEST_F(PodCountsTest, NobodyIsAskedWhereNobodyIsToCome) {
  state_.devices.allocations[{"p", "gpus"}][kGpu].devices[0] = {"gpu1", "gpu2"};
  state_.devices.resources.erase(kNic);
  EXPECT_EQ(Complete(BindingMode::kPreferred, kPod), (Ids{"app", "gpus", "nic", "plain"}));
  EXPECT_FALSE(lacks_);
  wanted_ = "";  // the pod as a whole
  state_.devices.allocations.erase({"p", "gpus"});
  EXPECT_EQ(Complete(BindingMode::kStrict, kContainer), (Ids{"app", "gpus", "nic", "plain"}));
  EXPECT_FALSE(lacks_);
}

}  // namespace
}  // namespace alignd::allocation
