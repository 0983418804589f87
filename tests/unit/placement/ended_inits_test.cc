// Planning beside pods whose init containers have more than their other containers reuse: before
// and after these have ended.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/init_containers.h"
#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/shares_checkpoint.h"
#include "alignd/placement/planned_node.h"
#include "alignd/scenario/simulation.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::placement {
namespace {

class EndedInits : public ::testing::Test {
 protected:
  using Sizes = std::map<std::string, std::string>;

  static Sizes Cpus(const std::string& count) { return {{"cpu", count}, {"memory", "64Mi"}}; }
  static PlannedPod Planned(const std::string& name, const std::vector<Container>& containers) {
    PlannedPod planned;
    planned.pod = MakePod(name, containers);
    planned.pod.name = name;
    planned.pod.name_space = "default";
    return planned;
  }
  static PlannedPod AppOf(const std::string& name, const std::string& cpus) {
    return Planned(name, {App("app", Cpus(cpus))});
  }
  static PlannedPod WithInit(const std::string& name, const std::string& init,
                             const std::string& app) {
    return Planned(name, {Init("init", Cpus(init)), App("app", Cpus(app))});
  }
  // CPU 0 is reserved; a GPU is on NUMA node 0.
  static PlannedNode NodeOf(const std::string& machine,
                            TopologyManagerPolicy policy = TopologyManagerPolicy::kSingleNumaNode,
                            const std::string& cpu_manager_state = "") {
    NodeFiles files;
    files.cpu_manager_state = cpu_manager_state;
    return NodeWith(machine, ConfigOf(policy), files);
  }
  static KubeletConfig ConfigOf(TopologyManagerPolicy policy) {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.topology_manager_policy = policy;
    return config;
  }
  static PlannedNode NodeWith(const std::string& machine, const KubeletConfig& config,
                              const NodeFiles& files = {}) {
    NodeInput input = {{MakeMachine(machine), {}, {}}, std::nullopt, {}, {}, {}};
    auto devices = ParseDevices("nvidia.com/gpu=1@0");
    EXPECT_TRUE(AddDevices(devices->first, std::move(devices->second), input).ok());
    Result<PlannedNode> node = PlannedNode::Make(input, config, 110, files);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return *std::move(node);
  }
  static std::string CpusIn(const Verdict& verdict) {
    return verdict.admission->assignments.at("app").exclusive.ToString();
  }
};

// Once the init container has ended, the second pod is on NUMA node 0 with the GPU, and leaves it
// no CPU. Before, it is on NUMA node 1.
TEST_F(EndedInits, LeaveOpenWhatDependsOnWhetherTheyHaveEnded) {
  PlannedNode node = NodeOf("socket:2 numa:1 core:5");
  EXPECT_EQ(node.Place(WithInit("first", "3", "1")).outcome, Outcome::kFits);
  ASSERT_EQ(node.notes().size(), 1U);
  EXPECT_NE(node.notes()[0].find("pod default/first has init containers"), std::string::npos);
  const Verdict second = node.Place(AppOf("second", "3"));
  ASSERT_EQ(second.outcome, Outcome::kFits);
  EXPECT_EQ(CpusIn(second), "2-4");
  Sizes with_gpu = Cpus("1");
  with_gpu["nvidia.com/gpu"] = "1";
  const Verdict third = node.Ask(Planned("third", {App("app", with_gpu)}));
  ASSERT_EQ(third.outcome, Outcome::kUndecided);
  EXPECT_NE(
      third.refusal->message.find("whether the init containers of pod default/first have ended"),
      std::string::npos)
      << third.refusal->message;
  EXPECT_EQ(node.Ask(AppOf("one", "1")).outcome, Outcome::kFits);
}

// What its app reuses makes no difference.
TEST_F(EndedInits, ThatHadNoMoreThanTheirAppChangeNothing) {
  PlannedNode node = NodeOf("socket:2 numa:1 core:5");
  EXPECT_EQ(node.Place(WithInit("first", "2", "3")).outcome, Outcome::kFits);
  EXPECT_TRUE(node.notes().empty());
  EXPECT_EQ(node.Ask(AppOf("five", "5")).outcome, Outcome::kFits);
}

// An app that reuses all memory of its init container leaves it a block of 0 bytes.
TEST_F(EndedInits, ThatHadNoMoreMemoryThanTheirAppChangeNothing) {
  KubeletConfig config = ConfigOf(TopologyManagerPolicy::kSingleNumaNode);
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.eviction_hard_memory = "";
  config.system_reserved = Amounts({{"memory", "512Mi"}});
  config.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "512Mi"}})}};
  PlannedNode node = NodeWith("socket:1 numa:1 core:16", config);
  for (const char* const name : {"a", "b", "c", "d"}) {
    EXPECT_EQ(node.Place(WithInit(name, "2", "3")).outcome, Outcome::kFits);
  }
  EXPECT_TRUE(node.notes().empty());
  // Of 1 MiB that the app does not reuse, it is noted.
  PlannedPod more = WithInit("more", "1", "1");
  more.pod.containers[0].resources.limits["memory"] = *Quantity::Parse("65Mi");
  more.pod.containers[0].resources.requests["memory"] = *Quantity::Parse("65Mi");
  EXPECT_EQ(node.Place(more).outcome, Outcome::kFits);
  ASSERT_EQ(node.notes().size(), 1U);
  EXPECT_NE(node.notes()[0].find("pod default/more has init containers"), std::string::npos);
}

// NUMA node 0 has 7 CPUs for others, of which the first pod has 6, and 1 later.
TEST_F(EndedInits, LeaveOpenWhatDependsOnTheirSharedCpus) {
  KubeletConfig config = ConfigOf(TopologyManagerPolicy::kSingleNumaNode);
  config.pod_policies = {PodPolicy::kSharedNumaNode};
  PlannedNode node = NodeWith("socket:2 numa:1 core:8", config);
  const auto shared = [](PlannedPod pod) {
    for (Container& container : pod.pod.containers) container.resources.limits.clear();
    pod.pod.policies.shared_on_one_node = true;
    return pod;
  };
  EXPECT_EQ(node.Place(shared(WithInit("first", "6", "1"))).outcome, Outcome::kFits);
  EXPECT_EQ(node.Place(AppOf("exclusive", "6")).outcome, Outcome::kFits);
  const Verdict third = node.Ask(shared(AppOf("third", "3")));
  ASSERT_EQ(third.outcome, Outcome::kUndecided);
  EXPECT_NE(third.refusal->message.find("init containers of pod default/first have ended"),
            std::string::npos)
      << third.refusal->message;
}

// There would be too many ways. On NUMA node 0, 4 of 8 CPUs are free once all have ended.
TEST_F(EndedInits, OfManyPodsLeaveOpenWhatTheyCanHave) {
  PlannedNode node = NodeOf("socket:2 numa:1 core:9");
  for (const char* const name : {"a", "b", "c", "d"}) {
    EXPECT_EQ(node.Place(WithInit(name, "2", "1")).outcome, Outcome::kFits);
  }
  EXPECT_FALSE(node.has_undecided());
  EXPECT_EQ(node.Ask(AppOf("eight", "8")).outcome, Outcome::kFits);  // on NUMA node 1
  const auto beside_gpu = [&](const std::string& cpus) {
    Sizes sizes = Cpus(cpus);
    sizes["nvidia.com/gpu"] = "1";
    return node.Ask(Planned("gpu", {App("app", sizes)}));
  };
  const Verdict four = beside_gpu("4");
  ASSERT_EQ(four.outcome, Outcome::kUndecided);
  EXPECT_NE(four.refusal->message.find("init containers of pod default/d"), std::string::npos)
      << four.refusal->message;
  EXPECT_EQ(beside_gpu("5").outcome, Outcome::kRefused);
}

// State files have no CPUs of the init container any more, and none are assigned to it again.
TEST_F(EndedInits, OfPodsThatTheStateFilesHaveGetNothingAgain) {
  PlannedPod pod = WithInit("runs", "3", "1");
  PlannedNode empty = NodeOf("socket:1 numa:1 core:8");
  auto truth = scenario::Simulation::Start({MakeMachine("socket:1 numa:1 core:8"), {}, {}},
                                           empty.node().config);
  ASSERT_TRUE(truth.ok()) << truth.error().Text();
  ASSERT_TRUE(truth->Run(scenario::AdmitPod{pod.pod}).admission->admitted());
  admission::NodeState started = truth->state();
  admission::ContainerStarts(truth->node(), pod.pod, "app", started);
  truth->SetState(started);
  PlannedNode node = NodeOf("socket:1 numa:1 core:8", TopologyManagerPolicy::kSingleNumaNode,
                            truth->CpuManagerState());
  ASSERT_TRUE(node.AddRunning(pod).ok());
  EXPECT_FALSE(node.has_guesses());
  EXPECT_TRUE(node.notes().empty());
  const Verdict next = node.Ask(AppOf("next", "4"));
  ASSERT_EQ(next.outcome, Outcome::kFits);
  EXPECT_EQ(CpusIn(next), "2-5");
}

// The files still have its devices, which the app reuses.
TEST_F(EndedInits, WithDevicesOfPodsThatTheStateFilesHaveGetNothingAgain) {
  Sizes init = Cpus("1");
  Sizes app = Cpus("2");
  init["nvidia.com/gpu"] = app["nvidia.com/gpu"] = "1";
  const PlannedPod pod = Planned("runs", {Init("init", init), App("app", app)});
  PlannedNode before = NodeOf("socket:1 numa:1 core:8");
  ASSERT_EQ(before.Place(pod).outcome, Outcome::kFits);
  admission::NodeState started = before.state();
  admission::ContainerStarts(before.node(), pod.pod, "app", started);
  ASSERT_EQ(started.cpu.Find({"runs", "init"}), nullptr);
  NodeFiles files;
  files.cpu_manager_state =
      checkpoint::FormatCpuCheckpoint("static", started.cpu, checkpoint::StateForm::kPlain);
  files.device_checkpoint = checkpoint::FormatDeviceCheckpoint(started.devices);
  PlannedNode node =
      NodeWith("socket:1 numa:1 core:8", ConfigOf(TopologyManagerPolicy::kSingleNumaNode), files);
  const admission::NodeState of_files = node.state();
  ASSERT_TRUE(node.AddRunning(pod).ok());
  EXPECT_FALSE(node.has_guesses());
  EXPECT_EQ(node.state().cpu, of_files.cpu);
  EXPECT_EQ(node.state().devices, of_files.devices);
  EXPECT_EQ(node.Ask(AppOf("five", "5")).outcome, Outcome::kFits);
}

// It is Burstable for its init container, which has ended, and has no CPUs of its own.
TEST_F(EndedInits, CountForTheQosClassOfPodsThatTheStateFilesHave) {
  PlannedPod pod = Planned("runs", {Init("init", {}), App("app", Cpus("2"))});
  pod.pod.containers[1].resources.limits["nvidia.com/gpu"] = Quantity(1);
  pod.pod.containers[1].resources.requests["nvidia.com/gpu"] = Quantity(1);
  PlannedNode before = NodeOf("socket:1 numa:1 core:8");
  ASSERT_EQ(before.Place(pod).outcome, Outcome::kFits);
  ASSERT_TRUE(before.state().cpu.HeldBy("runs").empty());
  NodeFiles files;
  files.device_checkpoint = checkpoint::FormatDeviceCheckpoint(before.state().devices);
  PlannedNode node =
      NodeWith("socket:1 numa:1 core:8", ConfigOf(TopologyManagerPolicy::kSingleNumaNode), files);
  ASSERT_TRUE(node.AddRunning(pod).ok());
  EXPECT_TRUE(node.state().cpu.HeldBy("runs").empty());
  EXPECT_EQ(node.state().devices.PodIds("runs", "nvidia.com/gpu").size(), 1U);
}

// It starts: what its init container has is free later.
TEST_F(EndedInits, OfPodsThatStartBesideStateFilesLeaveOpenWhatDependsOnThem) {
  NodeFiles files;
  files.cpu_shares = checkpoint::FormatSharesCheckpoint({});
  PlannedNode node =
      NodeWith("socket:2 numa:1 core:5", ConfigOf(TopologyManagerPolicy::kSingleNumaNode), files);
  PlannedPod pod = WithInit("starts", "3", "1");
  pod.is_pending = true;
  pod.node_name = "n";
  ASSERT_TRUE(node.AddRunning(pod).ok());
  EXPECT_EQ(node.Place(AppOf("second", "3")).outcome, Outcome::kFits);
  Sizes with_gpu = Cpus("1");
  with_gpu["nvidia.com/gpu"] = "1";
  const Verdict third = node.Ask(Planned("third", {App("app", with_gpu)}));
  ASSERT_EQ(third.outcome, Outcome::kUndecided);
  EXPECT_NE(third.refusal->message.find("init containers of pod default/starts have ended"),
            std::string::npos)
      << third.refusal->message;
}

}  // namespace
}  // namespace alignd::placement
