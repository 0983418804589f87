#include "allocation/current_assignment.h"

#include <gtest/gtest.h>

#include "edge/allocation_node.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;

// What the container `app` of the pod `pod` is assigned.
struct Assigned {
  bool cpus = false;
  bool memory = false;
  bool devices = false;
  std::string response = {};
};

struct Case {
  std::string name;
  std::map<std::string, std::string> asks;
  Assigned assigned;
  bool expected;
};

admission::NodeState StateWith(const admission::Node& node, const Assigned& assigned) {
  admission::NodeState state = admission::NodeState::Initial(node);
  state.devices.resources[kGpu] = EightDevices("gpu");
  if (assigned.cpus) state.cpu.assignments["pod"]["app"] = Cpus("2-3");
  if (assigned.memory) state.memory.assignments["pod"]["app"] = {{{0}, "memory", 1 << 30}};
  if (assigned.devices) {
    state.devices.allocations[{"pod", "app"}][kGpu] = {{{0, {"gpu0"}}}, assigned.response};
  }
  return state;
}

TEST(HasAllItRequests, IsTrueOnlyIfNothingHasToBeDecided) {
  const std::map<std::string, std::string> cpus{{"cpu", "2"}, {"memory", "1Gi"}};
  const std::map<std::string, std::string> cpus_and_gpu{
      {"cpu", "2"}, {"memory", "1Gi"}, {kGpu, "1"}};
  const std::vector<Case> cases = {
      {"asks for nothing", {}, {}, true},
      {"shared CPUs and memory, pinned", {{"cpu", "1500m"}, {"memory", "1Gi"}}, {}, false},
      {"has CPUs and memory", cpus, {.cpus = true, .memory = true}, true},
      {"has nothing", cpus, {}, false},
      {"memory file not written before the crash", cpus, {.cpus = true}, false},
      {"CPU file not written before the crash", cpus, {.memory = true}, false},
      {"device file not written before the crash",
       cpus_and_gpu,
       {.cpus = true, .memory = true},
       false},
      {"plugin had not answered",
       cpus_and_gpu,
       {.cpus = true, .memory = true, .devices = true},
       false},
      {"has all",
       cpus_and_gpu,
       {.cpus = true, .memory = true, .devices = true, .response = "x"},
       true},
      {"no device of the resource", {{kGpu, "0"}}, {}, true},
      {"a resource of no plugin", {{"example.com/unknown", "1"}}, {}, true},
      {"devices without a guarantee of CPUs", {{kGpu, "1"}}, {}, false},
  };
  const admission::Node node = MakeNode();
  for (const Case& each : cases) {
    const Pod pod = MakePod("pod", {App("app", each.asks)});
    EXPECT_EQ(HasAllItRequests(node, StateWith(node, each.assigned), pod, pod.containers[0]),
              each.expected)
        << each.name;
  }
}

// A decision refuses the pod.
TEST(HasAllItRequests, IsFalseWithoutTheExclusiveCpusThatALabelAsksFor) {
  KubeletConfig config = StaticConfig();
  config.memory_manager_policy = MemoryManagerPolicy::kNone;
  for (const bool may_label : {false, true}) {
    if (may_label) config.pod_policies = {PodPolicy::kQosClass};
    const admission::Node node = MakeNode(config);
    Pod pod = MakePod("pod", {App("app", {{"cpu", "1500m"}, {"memory", "1Gi"}})});
    ReadSharingLabel(kQosClassLabel, "LSE", pod.policies.sharing);
    EXPECT_EQ(HasAllItRequests(node, StateWith(node, {}), pod, pod.containers[0]), !may_label);
    EXPECT_TRUE(HasAllItRequests(node, StateWith(node, {.cpus = true}), pod, pod.containers[0]));
  }
}

// Where no CPUs are assigned, a decision refuses the pod.
TEST(HasAllItRequests, IsFalseWithoutTheNumaNodeOnWhichThePodAsksToStay) {
  KubeletConfig config;
  for (const bool may_ask : {false, true}) {
    if (may_ask) config.pod_policies = {PodPolicy::kSharedNumaNode};
    const admission::Node node = MakeNode(config);
    const admission::NodeState state = admission::NodeState::Initial(node);
    Pod pod = MakePod("pod", {App("app", {{"cpu", "1500m"}, {"memory", "1Gi"}})});
    pod.policies.shared_on_one_node = true;
    EXPECT_EQ(HasAllItRequests(node, state, pod, pod.containers[0]), !may_ask);
    pod.policies.shared_on_one_node = false;
    EXPECT_TRUE(HasAllItRequests(node, state, pod, pod.containers[0]));
    pod.policies.shared_fault = "not a value";
    EXPECT_EQ(HasAllItRequests(node, state, pod, pod.containers[0]), !may_ask);
  }
}

TEST(HasAllItRequests, ExpectsNothingOfManagersThatAreOff) {
  const admission::Node node = MakeNode(KubeletConfig{});
  const Pod pod = AppPod("pod", 2);
  EXPECT_TRUE(HasAllItRequests(node, admission::NodeState::Initial(node), pod, pod.containers[0]));
}

}  // namespace
}  // namespace alignd::allocation
