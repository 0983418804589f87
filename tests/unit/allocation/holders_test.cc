#include "allocation/holders.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "edge/allocation_node.h"

namespace alignd::allocation {
namespace {

using testing::AppPod;
using testing::kGpu;
using testing::kNic;

class HoldersTest : public ::testing::Test {
 protected:
  HoldersTest() {
    state_.devices.resources[kGpu] = testing::EightDevices("gpu");
    state_.devices.resources[kNic] = testing::EightDevices("nic");
    state_.devices.allocations[{"old", "app"}][kGpu].devices[0] = {"gpu0"};
    state_.devices.allocations[{"old", "app"}][kNic].devices[0] = {"nic0"};
    state_.devices.allocations[{"beside", "app"}][kGpu].devices[0] = {"gpu1"};
    state_.cpu.assignments["old"]["app"] = CpuSet{2, 3};
    request_.pod = AppPod("new", 2, {{kGpu, "1"}});
    request_.describe = [this](const std::string& uid) {
      return PodStanding{"default/" + uid + "-pod", ending_.contains(uid)};
    };
  }

  admission::Node node_ = testing::MakeNode();
  admission::NodeState state_ = admission::NodeState::Initial(node_);
  AdmissionRequest request_;
  std::set<std::string> ending_;
};

TEST_F(HoldersTest, NamesThePodThatIsEndingWithWhatItHas) {
  ending_ = {"old"};
  EXPECT_EQ(DescribeHolders(node_, state_, request_, nullptr),
            ". Still assigned: pod default/old-pod (old), which is ending: container app has CPUs "
            "2-3, container app has example.com/gpu gpu0. A pod that is ending releases them when "
            "its last process has ended: wait, or end the processes that ignore SIGTERM");
}

TEST_F(HoldersTest, NamesThePodThatHasTheKubeletsDevice) {
  request_.pod = AppPod("new", 0, {{kGpu, "1"}});
  request_.kubelet_allocated = {{"app", {{kGpu, {"gpu1"}}}}};
  EXPECT_EQ(DescribeHolders(node_, state_, request_, nullptr),
            ". Still assigned: pod default/beside-pod (beside): container app has example.com/gpu "
            "gpu1. Wait until this pod ends, or delete it");
}

TEST_F(HoldersTest, NamesNoPodThatRunsOrHasNothingOfIt) {
  EXPECT_EQ(DescribeHolders(node_, state_, request_, nullptr), "");
  ending_ = {"old", "new", "gone"};
  request_.pod = MakePod("new", {App("app", {})});
  EXPECT_EQ(DescribeHolders(node_, state_, request_, nullptr), "");
  request_.describe = {};
  EXPECT_EQ(DescribeHolders(node_, state_, request_, nullptr), "");
}

TEST_F(HoldersTest, NamesAllPodsThatHaveAResourceThatIsShort) {
  request_.pod = AppPod("new", 2, {{kGpu, "1"}});
  state_.memory.assignments["beside"]["app"] = {{{0}, "hugepages-2Mi", 1 << 22},
                                                {{0}, "memory", 1 << 20}};
  const auto naming = [&](const std::set<std::string>& lacking) {
    return DescribeHolders(node_, state_, request_, &lacking);
  };
  const std::string remedy =
      ". Wait until this pod ends, or delete it. To see whether it must end, run \"alignctl "
      "why-not "
      "default/new\"";
  EXPECT_EQ(naming({"cpu"}),
            ". Still assigned: pod default/old-pod (old): container app has CPUs 2-3" + remedy);
  EXPECT_EQ(naming({"memory"}),
            ". Still assigned: pod default/beside-pod (beside): container app has 1Mi of memory" +
                remedy);
  // The pod that has both comes first.
  EXPECT_EQ(naming({"cpu", kGpu}),
            ". Still assigned: pod default/old-pod (old): container app has CPUs 2-3, container "
            "app has example.com/gpu gpu0; pod default/beside-pod (beside): container app has "
            "example.com/gpu gpu1. Wait until these pods end, or delete them. To see which of "
            "them must end, run \"alignctl why-not default/new\"");
  EXPECT_EQ(naming({}), "");
}

// Of 40 pods with CPUs, the one with the device is the first, whatever its UID.
TEST_F(HoldersTest, NamesThePodThatIsEndingFirst) {
  for (int i = 10; i < 50; ++i) {
    state_.cpu.assignments["pod" + std::to_string(i)]["app"] = CpuSet{i};
  }
  ending_ = {"pod42"};
  const std::set<std::string> cpus = {"cpu"};
  const std::string text = DescribeHolders(node_, state_, request_, &cpus);
  EXPECT_EQ(text.find(". Still assigned: pod default/pod42-pod (pod42), which is ending: "), 0U)
      << text;
  EXPECT_NE(text.find("; and 33 more pods. A pod that is ending "), std::string::npos) << text;
  const std::set<std::string> gpus = {kGpu};
  const std::string devices = DescribeHolders(node_, state_, request_, &gpus);
  EXPECT_EQ(devices.find("pod42"), std::string::npos) << devices;
  EXPECT_NE(devices.find("example.com/gpu gpu0"), std::string::npos) << devices;
}

// They leave fewer exclusive CPUs, and fewer shared ones of the NUMA node.
TEST_F(HoldersTest, NamesPodsThatStayOnOneNumaNode) {
  state_.cpu.assignments = {};
  state_.cpu.shares[{"old", "app"}] = {.numa_id = 1, .millis = 3500};
  ending_ = {"old"};
  const std::string expected =
      ". Still assigned: pod default/old-pod (old), which is ending: container app stays on NUMA "
      "node 1 with 3500m CPU. ";
  request_.pod = AppPod("new", 2);
  EXPECT_EQ(DescribeHolders(node_, state_, request_, nullptr).find(expected), 0U);
  request_.pod = MakePod("new", {App("app", {})});
  EXPECT_EQ(DescribeHolders(node_, state_, request_, nullptr), "");
  request_.pod.policies.shared_on_one_node = true;
  EXPECT_EQ(DescribeHolders(node_, state_, request_, nullptr), "");
  node_.config.pod_policies = {PodPolicy::kSharedNumaNode};
  EXPECT_EQ(DescribeHolders(node_, state_, request_, nullptr).find(expected), 0U);
}

TEST_F(HoldersTest, NamesALimitedNumber) {
  for (int i = 10; i < 30; ++i) {
    const std::string uid = "pod" + std::to_string(i);
    state_.devices.allocations[{uid, "app"}][kGpu].devices[0] = {"gpu" + std::to_string(i)};
    ending_.insert(uid);
  }
  const std::string text = DescribeHolders(node_, state_, request_, nullptr);
  EXPECT_NE(text.find("default/pod17-pod"), std::string::npos) << text;
  EXPECT_EQ(text.find("default/pod18-pod"), std::string::npos) << text;
  EXPECT_NE(text.find("; and 12 more pods"), std::string::npos) << text;
}

}  // namespace
}  // namespace alignd::allocation
