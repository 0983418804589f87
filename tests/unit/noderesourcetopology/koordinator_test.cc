// Koordinator's annotations: their text, and what its scheduler knows from them.
#include "alignd/noderesourcetopology/koordinator.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/noderesourcetopology/object.h"
#include "alignd/placement/topology_object.h"
#include "core/device_states.h"
#include "core/koordinator_view.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::noderesourcetopology {
namespace {

using nlohmann::json;

// CPU 0 is reserved.
KubeletConfig KoordinatorConfig() {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.cpu_manager_policy_options["full-pcpus-only"] = "true";
  return config;
}

admission::Node KoordinatorNode(const KubeletConfig& config, const Machine& machine) {
  Result<admission::Node> node = admission::Node::Make(machine, config);
  EXPECT_TRUE(node.ok()) << node.error().message;
  return *std::move(node);
}

// Two NUMA nodes of two cores with two CPUs each.
Machine KoordinatorMachine() { return MakeMachine("socket:2 numa:1 core:2 thread:2"); }

Annotations AnnotationsOf(const admission::Node& node, const admission::NodeState& state,
                          const KnownPods& pods = {}) {
  const Result<Annotations> made = KoordinatorAnnotations(node, state, pods);
  EXPECT_TRUE(made.ok()) << made.error().Text();
  return made.ok() ? *made : Annotations();
}

std::string KoordinatorObject(const admission::Node& node, const admission::NodeState& state,
                              const KnownPods& pods = {}) {
  return ObjectJson("w", node, state, std::nullopt, AnnotationsOf(node, state, pods));
}

TEST(Koordinator, WritesItsForms) {
  const Machine machine = KoordinatorMachine();
  const admission::Node node = KoordinatorNode(KoordinatorConfig(), machine);
  admission::NodeState state = admission::NodeState::Initial(node);
  const auto give = [&](const std::string& uid, const char* cpus) {
    state.cpu.assignments[uid]["app"] = *CpuSet::Parse(cpus);
    state.cpu.default_set -= *CpuSet::Parse(cpus);
  };
  const Annotations empty = AnnotationsOf(node, state);
  EXPECT_EQ(empty.at("node.koordinator.sh/pod-cpu-allocs"), "null");
  ASSERT_EQ(machine.cores()[1].cpus.ToString(), "2-3");
  give("uid-b", "2-3");
  give("uid-a", "6-7");
  const Annotations annotations =
      AnnotationsOf(node, state, {{"uid-b", {.name_space = "ns", .name = "train", .decided = {}}}});
  EXPECT_EQ(annotations.size(), 4U);
  EXPECT_EQ(annotations.at("kubelet.koordinator.sh/cpu-manager-policy"),
            R"({"policy":"static","options":{"full-pcpus-only":"true"},"reservedCPUs":"0"})");
  EXPECT_EQ(annotations.at("node.koordinator.sh/cpu-topology"),
            R"({"detail":[{"id":0,"core":0,"socket":0,"node":0},)"
            R"({"id":1,"core":0,"socket":0,"node":0},{"id":2,"core":1,"socket":0,"node":0},)"
            R"({"id":3,"core":1,"socket":0,"node":0},{"id":4,"core":2,"socket":1,"node":1},)"
            R"({"id":5,"core":2,"socket":1,"node":1},{"id":6,"core":3,"socket":1,"node":1},)"
            R"({"id":7,"core":3,"socket":1,"node":1}]})");
  // Of uid-a, neither name nor namespace is known.
  EXPECT_EQ(annotations.at("node.koordinator.sh/pod-cpu-allocs"),
            R"([{"uid":"uid-a","cpuset":"6-7","managedByKubelet":true},)"
            R"({"namespace":"ns","name":"train","uid":"uid-b","cpuset":"2-3",)"
            R"("managedByKubelet":true}])");
  EXPECT_EQ(annotations.at("node.koordinator.sh/cpu-shared-pools"),
            R"([{"socket":0,"node":0,"cpuset":"0-1"},{"socket":1,"node":1,"cpuset":"4-5"}])");
}

TEST(Koordinator, WithoutACpuManagerAllCpusAreInThePool) {
  const admission::Node node = KoordinatorNode(KubeletConfig{}, KoordinatorMachine());
  const Annotations annotations = AnnotationsOf(node, admission::NodeState::Initial(node));
  EXPECT_EQ(annotations.at(kCpuManagerPolicyAnnotation), R"({"policy":"none"})");
  EXPECT_EQ(annotations.at(kPodCpuAllocsAnnotation), "null");
  EXPECT_EQ(annotations.at(kCpuSharedPoolsAnnotation),
            R"([{"socket":0,"node":0,"cpuset":"0-3"},{"socket":1,"node":1,"cpuset":"4-7"}])");
}

// The scheduler does not know CPUs that are offline. A pod keeps its own.
TEST(Koordinator, LeavesOfflineCpusOut) {
  const admission::Node node = KoordinatorNode(KoordinatorConfig(), KoordinatorMachine());
  admission::NodeState state = admission::NodeState::Initial(node);
  state.cpu.assignments["p"]["app"] = *CpuSet::Parse("2-3");
  state.cpu.default_set -= *CpuSet::Parse("2-3");
  cpumanager::SetOffline(*CpuSet::Parse("3,6"), state.cpu);
  const KoordinatorView view = ViewOf(KoordinatorObject(node, state));
  EXPECT_EQ(view.cpus.ToString(), "0-2,4-5,7");
  EXPECT_EQ(view.allocs[0]["cpuset"], "2-3");
  EXPECT_EQ(view.pool.ToString(), "0-1,4-5,7");
  EXPECT_EQ(view.available.ToString(), "1,4-5,7");
  EXPECT_EQ(view.cpus_of_zone, (std::map<int, int64_t>{{0, 1}, {1, 3}}));
}

// The scheduler subtracts the CPUs of the pod itself, by its annotation resource-status.
TEST(Koordinator, LeavesOutWhatASchedulerHasDecided) {
  const admission::Node node = KoordinatorNode(KoordinatorConfig(), KoordinatorMachine());
  admission::NodeState state = admission::NodeState::Initial(node);
  state.cpu.assignments["p"]["app"] = *CpuSet::Parse("2-3");
  state.cpu.default_set -= *CpuSet::Parse("2-3");
  const auto allocs = [&](const char* decided) {
    const KnownPods pods = {
        {"p", {.name_space = "ns", .name = "p", .decided = *CpuSet::Parse(decided)}}};
    return ViewOf(KoordinatorObject(node, state, pods)).allocs;
  };
  EXPECT_EQ(allocs("2-3"), json());
  // It is on other CPUs than the scheduler believes.
  for (const char* other : {"4-5", "2", "2-4", ""}) {
    EXPECT_EQ(allocs(other).size(), 1U) << other;
  }
}

// CPUs that two containers claim are in no pool, and cannot be assigned.
TEST(Koordinator, NamesCpusThatAreWithheld) {
  const admission::Node node = KoordinatorNode(KoordinatorConfig(), KoordinatorMachine());
  admission::NodeState state = admission::NodeState::Initial(node);
  state.cpu.withheld[{"p", "app"}] = *CpuSet::Parse("4-5");
  state.cpu.default_set -= *CpuSet::Parse("4-5");
  const KoordinatorView view = ViewOf(KoordinatorObject(node, state));
  EXPECT_EQ(view.available.ToString(), "1-3,6-7");
  EXPECT_EQ(view.pool.ToString(), "0-3,6-7");
}

// Numbers of lscpu, in 16 bits, whatever the kernel's ids are.
TEST(Koordinator, NumbersCoresAndSocketsFromZero) {
  const Machine small = KoordinatorMachine();
  std::vector<Cpu> rows = small.cpu_rows();
  for (Cpu& row : rows) {
    row.core += 70'000;
    row.socket = row.socket * 36'000 + 1'000;
  }
  const Machine machine = MachineOrDie(Machine::Make(rows, small.numa()), "large ids");
  const admission::Node node = KoordinatorNode(KoordinatorConfig(), machine);
  const admission::NodeState state = admission::NodeState::Initial(node);
  const KoordinatorView view = ViewOf(KoordinatorObject(node, state));
  EXPECT_EQ(view.places.at(0), std::tuple(0, 0, 0));
  EXPECT_EQ(view.places.at(7), std::tuple(3, 1, 1));
}

// Names and UIDs come from outside.
TEST(Koordinator, WritesTextThatIsNoUtf8AsValidJson) {
  const admission::Node node = KoordinatorNode(KoordinatorConfig(), KoordinatorMachine());
  admission::NodeState state = admission::NodeState::Initial(node);
  state.cpu.assignments["u\xff\""]["app"] = *CpuSet::Parse("2-3");
  const json allocs = ViewOf(KoordinatorObject(node, state)).allocs;
  EXPECT_EQ(allocs[0]["uid"], "u\xef\xbf\xbd\"");
}

// The API server takes 256 KiB. All or none: with a part, assigned CPUs would look free.
TEST(Koordinator, RefusesWhatTheApiServerWouldNotTake) {
  const admission::Node fits =
      KoordinatorNode(KoordinatorConfig(), MakeMachine("socket:2 numa:4 core:256 thread:2"));
  const Annotations large = AnnotationsOf(fits, admission::NodeState::Initial(fits));
  EXPECT_LT(large.at(kCpuTopologyAnnotation).size(), kMaxAnnotationBytes - kOtherAnnotationBytes);
  const admission::Node node =
      KoordinatorNode(KoordinatorConfig(), MakeMachine("socket:8 numa:4 core:128 thread:2"));
  const Result<Annotations> made =
      KoordinatorAnnotations(node, admission::NodeState::Initial(node), {});
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().Text().find("of 8192 CPUs would have "), std::string::npos);
  EXPECT_NE(made.error().Text().find("262144"), std::string::npos) << made.error().Text();
  EXPECT_NE(made.error().Text().find("--koordinator-annotations"), std::string::npos);
}

// The reserved CPU of node 0 is allocatable for Koordinator, which subtracts it. alignd's own
// reader takes it out again.
TEST(Koordinator, ReservedCpusAreSubtractedOnce) {
  const admission::Node node = KoordinatorNode(KoordinatorConfig(), KoordinatorMachine());
  const admission::NodeState state = admission::NodeState::Initial(node);
  const std::string object = KoordinatorObject(node, state);
  const json zone = json::parse(object)["zones"][0];
  EXPECT_EQ(zone["resources"][0]["allocatable"], "4");
  EXPECT_EQ(zone["resources"][0]["available"], "3");
  EXPECT_EQ(ViewOf(object).cpus_of_zone.at(0), 3);
  const auto read = placement::ReadTopologyObject(object);
  ASSERT_TRUE(read.ok()) << read.error().Text();
  const auto plain = placement::ReadTopologyObject(ObjectJson("w", node, state, std::nullopt));
  ASSERT_TRUE(plain.ok()) << plain.error().Text();
  EXPECT_EQ(read->zones, plain->zones);
  // More than there can be is a fault of the object.
  std::string wrong = object;
  const std::string good = R"({"name":"alignd.io/reservedCpus","value":"1"})";
  ASSERT_NE(wrong.find(good), std::string::npos) << object;
  for (const char* value : {"2", "-1", "x"}) {
    wrong = object;
    wrong.replace(wrong.find(good), good.size(),
                  R"({"name":"alignd.io/reservedCpus","value":")" + std::string(value) + R"("})");
    const auto refused = placement::ReadTopologyObject(wrong);
    ASSERT_FALSE(refused.ok()) << value;
    EXPECT_NE(refused.error().Text().find("alignd.io/reservedCpus"), std::string::npos);
  }
}

}  // namespace
}  // namespace alignd::noderesourcetopology
