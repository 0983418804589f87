// The devices of a pod's claims, from the files of kubelet, drivers and kernel.
#include "dra/claimed_devices.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "edge/claims_tree.h"

namespace alignd::dra {
namespace {

class ClaimedDevicesTest : public ::testing::Test {
 protected:
  static Pod PodOf(const std::vector<std::string>& containers) {
    Pod pod;
    pod.uid = "p";
    pod.name_space = "ns";
    for (const std::string& name : containers) pod.containers.emplace_back().name = name;
    return pod;
  }

  const testing::ClaimsTree tree_;
  const Places places_ = tree_.places();
};

TEST_F(ClaimedDevicesTest, EachContainerHasTheDevicesOfItsClaims) {
  tree_.AddDevice("0", 0);
  tree_.AddDevice("1", 1);
  tree_.Prepare("p", {{"first", {"0"}}, {"second", {"1"}}});
  Pod pod = PodOf({"a", "b", "c"});
  const Result<Done> added =
      AddClaimed(places_, {{"a", {{"first", ""}}}, {"b", {{"first", ""}, {"second", ""}}}}, pod);
  ASSERT_TRUE(added.ok()) << added.error().Text();
  using Devices = std::vector<ClaimedDevice>;
  EXPECT_EQ(pod.containers[0].claimed_devices, (Devices{{"example.com/gpu=0", {0}}}));
  EXPECT_EQ(pod.containers[1].claimed_devices,
            (Devices{{"example.com/gpu=0", {0}}, {"example.com/gpu=1", {1}}}));
  EXPECT_EQ(pod.containers[2].claimed_devices, Devices());
}

TEST_F(ClaimedDevicesTest, WhatTheDriverSaysGoesBeforeTheKernelsView) {
  tree_.AddDevice("0", 0);
  tree_.AddMetadata("p_gpus", R"({"kind":"DeviceMetadata","requests":[{"devices":[)"
                              R"({"name":"0","attributes":{"numaNode":{"int":1}}}]}]})");
  Container container;
  const Result<Done> added =
      AddNamed(places_, {"example.com/metadata=p_gpus", "example.com/gpu=0"}, container);
  ASSERT_TRUE(added.ok()) << added.error().Text();
  for (const ClaimedDevice& device : container.claimed_devices) {
    EXPECT_EQ(device.numa, std::vector<int64_t>{1}) << device.name;
  }
  ASSERT_EQ(container.claimed_devices.size(), 2U);
}

// The driver describes two devices, and tells the place of one.
TEST_F(ClaimedDevicesTest, DriverThatDoesNotTellEveryPlaceTellsNone) {
  tree_.AddDevice("0", 0);
  tree_.AddMetadata("p_gpus",
                    R"({"kind":"DeviceMetadata","requests":[{"devices":[)"
                    R"({"name":"0","attributes":{"numaNode":{"int":1}}},{"name":"1"}]}]})");
  Container container;
  const Result<Done> added =
      AddNamed(places_, {"example.com/metadata=p_gpus", "example.com/gpu=0"}, container);
  ASSERT_TRUE(added.ok()) << added.error().Text();
  ASSERT_EQ(container.claimed_devices.size(), 2U);
  EXPECT_EQ(container.claimed_devices[0], (ClaimedDevice{"example.com/gpu=0", {0}}));
  EXPECT_EQ(container.claimed_devices[1].numa, std::vector<int64_t>());
}

TEST_F(ClaimedDevicesTest, WhatIsNotPreparedIsAnErrorWithTheContainer) {
  tree_.Prepare("other", {{"first", {"0"}}});
  Pod pod = PodOf({"a"});
  const Result<Done> added = AddClaimed(places_, {{"a", {{"first", ""}}}}, pod);
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(added.error().message,
            "container a: the kubelet has not prepared ResourceClaim ns/first for this pod");
}

TEST_F(ClaimedDevicesTest, DeviceWithoutSpecificationIsAnError) {
  tree_.Prepare("p", {{"first", {"7"}}});
  Pod pod = PodOf({"a"});
  const Result<Done> added = AddClaimed(places_, {{"a", {{"first", ""}}}}, pod);
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(added.error().message, "container a: no CDI specification describes example.com/gpu=7");
}

TEST_F(ClaimedDevicesTest, WithoutClaimsNothingIsRead) {
  Pod pod = PodOf({"a"});
  EXPECT_TRUE(AddClaimed(places_, {}, pod).ok());
  Container container;
  EXPECT_TRUE(AddNamed(places_, {}, container).ok());
}

TEST_F(ClaimedDevicesTest, PodIsKnownToHaveClaimsByTheKubeletsFile) {
  EXPECT_FALSE(*HasClaims(places_, "p"));  // a kubelet without DRA
  tree_.Prepare("p", {{"first", {"0"}}});
  EXPECT_TRUE(*HasClaims(places_, "p"));
  EXPECT_FALSE(*HasClaims(places_, "q"));
  tree_.Write({"kubelet/dra_manager_state", "{}"});
  const Result<bool> unreadable = HasClaims(places_, "p");
  ASSERT_FALSE(unreadable.ok());
  EXPECT_EQ(unreadable.error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace alignd::dra
