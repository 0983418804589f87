#include "mirror/pod_completion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "edge/allocation_node.h"

namespace alignd::mirror {
namespace {

using admission::NodeState;
using testing::kGpu;
using testing::kNic;
using Ids = std::set<std::string>;

Container Wanting(const std::string& name, const std::map<std::string, std::string>& devices) {
  std::map<std::string, std::string> all = devices;
  all["cpu"] = "1";
  all["memory"] = "1Gi";
  return App(name, all);
}

class PodCompletionTest : public ::testing::Test {
 protected:
  PodCompletionTest() {
    state_.devices.resources[kGpu] = testing::EightDevices("gpu");
    state_.devices.resources[kNic] = testing::EightDevices("nic");
  }

  // The names of the containers that are decided when `app` is created.
  Ids Complete(BindingModes modes, TopologyManagerScope scope) {
    PodCompletion completion(std::move(modes), scope);
    request_.pod = MakePod("p", {Wanting("app", {{kGpu, "1"}}), Wanting("plain", {}),
                                 Wanting("gpus", {{kGpu, "2"}}), Wanting("nic", {{kNic, "1"}})});
    const QosClass qos = QosOf(request_.pod);
    request_.kubelet_allocated = {{"app", {{kGpu, {"gpu7"}}}}};
    must_learn_ = completion.MustLearn(state_, request_);
    complete_ = completion.Complete(state_, learned_, request_);
    EXPECT_EQ(QosOf(request_.pod), qos);
    Ids names;
    for (const Container& container : request_.pod.containers) names.insert(container.name);
    return names;
  }

  NodeState state_ = NodeState::Initial(testing::MakeNode());
  std::optional<Result<KubeletAllocatedPod>> learned_ =
      KubeletAllocatedPod{{"app", {{kGpu, {"gpu0"}}}},
                          {"gpus", {{kGpu, {"gpu1", "gpu2"}}}},
                          {"nic", {{kNic, {"nic5"}}}}};
  allocation::AdmissionRequest request_ = {.pod = {}, .wanted = "app"};
  Result<Done> complete_ = Done{};
  bool must_learn_ = false;
};

constexpr auto kContainer = TopologyManagerScope::kContainer;
constexpr auto kPod = TopologyManagerScope::kPod;

TEST_F(PodCompletionTest, ContainerScopeLeavesOtherContainersToTheirCreation) {
  EXPECT_EQ(Complete(BindingMode::kPreferred, kContainer), (Ids{"app", "plain"}));
  EXPECT_EQ(Complete(BindingMode::kStrict, kContainer), (Ids{"app", "plain"}));
  EXPECT_FALSE(must_learn_);
  // Unless all their resources are deferred.
  EXPECT_EQ(Complete({BindingMode::kPreferred, {{kNic, BindingMode::kDeferred}}}, kContainer),
            (Ids{"app", "nic", "plain"}));
  EXPECT_TRUE(must_learn_);
  EXPECT_EQ(request_.kubelet_allocated.at("nic").at(kNic), Ids{"nic5"});
  EXPECT_FALSE(request_.kubelet_allocated.contains("gpus"));
}

TEST_F(PodCompletionTest, ResourceWithoutIdsIsAwaitedBesideOneWithIds) {
  PodCompletion completion(BindingModes{BindingMode::kPreferred, {{kNic, BindingMode::kStrict}}},
                           kPod);
  request_.pod =
      MakePod("p", {Wanting("app", {{kGpu, "1"}}), Wanting("both", {{kGpu, "1"}, {kNic, "1"}})});
  request_.kubelet_allocated = {{"app", {{kGpu, {"gpu7"}}}}};
  learned_ = KubeletAllocatedPod{{"both", {{kGpu, {"gpu1"}}, {kNic, {"vanished"}}}}};
  const Result<Done> complete = completion.Complete(state_, learned_, request_);
  ASSERT_FALSE(complete.ok());
  EXPECT_EQ(complete.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(request_.kubelet_allocated.at("both").at(kGpu), Ids{"gpu1"});
}

TEST_F(PodCompletionTest, PodScopeLearnsTheIdsOfAllContainers) {
  for (const BindingMode mode :
       {BindingMode::kPreferred, BindingMode::kDeferred, BindingMode::kStrict}) {
    EXPECT_EQ(Complete(mode, kPod), (Ids{"app", "gpus", "nic", "plain"}));
    EXPECT_EQ(request_.kubelet_allocated,
              (KubeletAllocatedPod{{"app", {{kGpu, {"gpu7"}}}},  // from its own creation
                                   {"gpus", {{kGpu, {"gpu1", "gpu2"}}}},
                                   {"nic", {{kNic, {"nic5"}}}}}));
    EXPECT_TRUE(must_learn_);
    EXPECT_TRUE(complete_.ok());
  }
}

TEST_F(PodCompletionTest, WithoutACheckpointOnlyStrictContainersWait) {
  learned_ = Error{ErrorCode::kIo, "no file"};
  EXPECT_EQ(Complete(BindingMode::kPreferred, kPod), (Ids{"app", "gpus", "nic", "plain"}));
  EXPECT_EQ(request_.kubelet_allocated.size(), 1U);
  EXPECT_TRUE(complete_.ok());
  Complete({BindingMode::kPreferred, {{kNic, BindingMode::kStrict}}}, kPod);
  ASSERT_FALSE(complete_.ok());
  EXPECT_EQ(complete_.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(complete_.error().message.starts_with("container nic is decided"))
      << complete_.error().message;
  EXPECT_TRUE(complete_.error().message.ends_with(": no file")) << complete_.error().message;
  EXPECT_NE(complete_.error().remedy.find("--kubelet-device-plugin-dir"), std::string::npos);
  // In container scope it is decided when it is created.
  EXPECT_EQ(Complete({BindingMode::kPreferred, {{kNic, BindingMode::kStrict}}}, kContainer),
            (Ids{"app", "plain"}));
  EXPECT_TRUE(complete_.ok());
}

TEST_F(PodCompletionTest, DevicesThatWereNotAllocatedAreDropped) {
  learned_ = KubeletAllocatedPod{{"gpus", {{kGpu, {"gpu1", "gpu2"}}}},
                                 {"plain", {{kGpu, {"gpu3"}}}}};  // asks for none
  for (const BindingMode mode :
       {BindingMode::kPreferred, BindingMode::kDeferred, BindingMode::kStrict}) {
    EXPECT_EQ(Complete(mode, kPod), (Ids{"app", "gpus", "nic", "plain"}));
    EXPECT_TRUE(complete_.ok());
    EXPECT_EQ(request_.kubelet_allocated.size(), 2U);
    const auto nic = std::ranges::find(request_.pod.containers, "nic", &Container::name);
    EXPECT_FALSE(nic->resources.limits.contains(kNic));
    EXPECT_FALSE(nic->resources.requests.contains(kNic));
    EXPECT_TRUE(nic->resources.limits.contains("cpu"));
  }
  learned_ = KubeletAllocatedPod{{"gpus", {{kGpu, {"gpu1"}}}}, {"nic", {{kNic, {"nic5"}}}}};
  Complete(BindingMode::kDeferred, kPod);
  ASSERT_FALSE(complete_.ok());
  EXPECT_EQ(complete_.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(complete_.error().message,
            std::string("gpus: limits.") + kGpu + " is 2, but the kubelet allocated 1");
}

TEST_F(PodCompletionTest, DeviceThatIsNotListedIsNotBound) {
  learned_ =
      KubeletAllocatedPod{{"gpus", {{kGpu, {"gpu1", "gpu2"}}}}, {"nic", {{kNic, {"not-listed"}}}}};
  EXPECT_EQ(Complete(BindingMode::kDeferred, kPod), (Ids{"app", "gpus", "nic", "plain"}));
  EXPECT_FALSE(request_.kubelet_allocated.contains("nic"));
  EXPECT_TRUE(complete_.ok());
  Complete(BindingMode::kStrict, kPod);
  ASSERT_FALSE(complete_.ok());
  EXPECT_EQ(complete_.error().code, ErrorCode::kUnavailable);
}

TEST_F(PodCompletionTest, NothingIsLearntIfNoDeviceIsToBeAssigned) {
  state_.devices.allocations[{"p", "gpus"}][kGpu].devices[0] = {"gpu1", "gpu2"};
  state_.devices.resources.erase(kNic);
  EXPECT_EQ(Complete(BindingMode::kPreferred, kPod), (Ids{"app", "gpus", "nic", "plain"}));
  EXPECT_FALSE(must_learn_);
  request_.wanted = "";  // the pod as a whole
  state_.devices.allocations.erase({"p", "gpus"});
  EXPECT_EQ(Complete(BindingMode::kStrict, kContainer), (Ids{"app", "gpus", "nic", "plain"}));
  EXPECT_FALSE(must_learn_);
}

}  // namespace
}  // namespace alignd::mirror
