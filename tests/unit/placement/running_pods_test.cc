// Pods that run although the node would not admit them now, and pods with devices that their spec
// does not have: what is known of them counts, and what is not makes no wrong answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/shares_checkpoint.h"
#include "alignd/placement/planned_node.h"
#include "alignd/scenario/simulation.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::placement {
namespace {

KubeletConfig RunningConfig(TopologyManagerPolicy policy = TopologyManagerPolicy::kRestricted) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.topology_manager_policy = policy;
  return config;
}

// Two NUMA nodes of 20 CPUs, or another machine; two GPUs on each of two.
NodeInput RunningInput(const std::string& machine = "socket:2 numa:1 core:20",
                       const std::string& devices = "nvidia.com/gpu=2@0,2@1") {
  NodeInput input = {{MakeMachine(machine), {}, {}}, std::nullopt, {}, {}, {}};
  auto parsed = ParseDevices(devices);
  EXPECT_TRUE(parsed.ok()) << parsed.error().Text();
  const Result<Done> added = AddDevices(parsed->first, std::move(parsed->second), input);
  EXPECT_TRUE(added.ok()) << added.error().Text();
  return input;
}

PlannedNode RunningNode(const KubeletConfig& config, const NodeInput& input = RunningInput(),
                        const NodeFiles& files = {}) {
  Result<PlannedNode> node = PlannedNode::Make(input, config, 110, files);
  EXPECT_TRUE(node.ok()) << node.error().Text();
  return *std::move(node);
}

PlannedPod RunningPodOf(const std::string& name,
                        const std::map<std::string, std::string>& amounts) {
  PlannedPod planned;
  planned.pod = AppPod(name, amounts);
  return planned;
}

PlannedPod CpusOf(const std::string& name, const std::string& cpus) {
  return RunningPodOf(name, {{"cpu", cpus}, {"memory", "1Gi"}});
}

PlannedPod SharedOf(const std::string& name, const std::string& cpus) {
  PlannedPod planned = CpusOf(name, cpus);
  planned.pod.containers[0].resources.limits.clear();
  return planned;
}

// Pod `old` with 4 CPUs, 2 of each NUMA node: best-effort has placed it there.
NodeFiles FilesOfOldPod(const NodeInput& input) {
  auto before = scenario::Simulation::Start(input.description,
                                            RunningConfig(TopologyManagerPolicy::kBestEffort));
  for (const auto& [name, cpus] :
       {std::pair("a", "17"), std::pair("b", "18"), std::pair("old", "4")}) {
    EXPECT_TRUE(before->Run(scenario::AdmitPod{CpusOf(name, cpus).pod}).admission->admitted());
  }
  for (const char* const name : {"a", "b"}) before->Run(scenario::RemovePod{name});
  return {before->CpuManagerState(), "",
          checkpoint::FormatDeviceCheckpoint(before->state().devices)};
}

// restricted would not admit the pod on two NUMA nodes, and goes on running it.
TEST(RunningPods, CountWhatTheStateFilesHaveOfAPodThatANewPolicyRefuses) {
  for (const TopologyManagerPolicy policy :
       {TopologyManagerPolicy::kRestricted, TopologyManagerPolicy::kSingleNumaNode}) {
    const NodeInput input = RunningInput();
    PlannedNode node = RunningNode(RunningConfig(policy), input, FilesOfOldPod(input));
    const admission::NodeState before = node.state();
    ASSERT_EQ(before.cpu.HeldBy("old").Count(), 4);
    const Result<Done> added = node.AddRunning(CpusOf("old", "4"), IfRefused::kError);
    ASSERT_TRUE(added.ok()) << added.error().Text();
    EXPECT_EQ(node.state(), before);
    EXPECT_TRUE(node.notes().empty()) << node.notes()[0];
    EXPECT_EQ(node.requested().pods(), 1);
    // 17 and 18 CPUs are free.
    EXPECT_EQ(node.Ask(CpusOf("x", "18")).outcome, Outcome::kFits);
    EXPECT_EQ(node.Ask(CpusOf("x", "19")).stage, Stage::kKubelet);
    EXPECT_EQ(node.Ask(CpusOf("x", "19")).outcome, Outcome::kRefused);
  }
}

TEST(RunningPods, LeaveOpenWhatAPodHasThatTheNodeWouldRefuse) {
  for (const char* const machine : {"socket:2 numa:1 core:20", "socket:1 numa:1 core:40"}) {
    const KubeletConfig config = RunningConfig(TopologyManagerPolicy::kSingleNumaNode);
    const bool is_one = std::string(machine).starts_with("socket:1");
    const NodeInput input =
        is_one ? RunningInput(machine, "nvidia.com/gpu=4@0") : RunningInput(machine);
    PlannedNode node = RunningNode(config, input);
    const std::map<std::string, std::string> amounts =
        is_one ? std::map<std::string, std::string>{{"cpu", "40"}, {"memory", "1Gi"}}
               : std::map<std::string, std::string>{
                     {"cpu", "30"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "1"}};
    const Result<Done> added = node.AddRunning(RunningPodOf("wide", amounts));
    ASSERT_TRUE(added.ok()) << added.error().Text();
    ASSERT_EQ(node.notes().size(), 1U);
    EXPECT_TRUE(node.notes()[0].starts_with("pod default/wide, which runs: it does not fit now"))
        << node.notes()[0];
    if (is_one) {
      EXPECT_EQ(node.Ask(CpusOf("x", "2")).stage, Stage::kScheduler);
      continue;
    }
    EXPECT_EQ(node.Ask(CpusOf("x", "2")).outcome, Outcome::kUndecided);
    EXPECT_EQ(node.Ask(RunningPodOf("x", {{"nvidia.com/gpu", "1"}})).outcome, Outcome::kUndecided);
    EXPECT_EQ(node.Ask(SharedOf("x", "9")).outcome, Outcome::kFits);
    EXPECT_EQ(node.Ask(SharedOf("x", "10")).stage, Stage::kScheduler);
    // To compare configurations, it is one that the node cannot have.
    PlannedNode compared = RunningNode(config, input);
    EXPECT_FALSE(compared.AddRunning(RunningPodOf("wide", amounts), IfRefused::kError).ok());
  }
}

// Its CPUs are in the file, and its device is not.
TEST(RunningPods, LeaveOpenOnlyWhatNoStateFileHas) {
  const NodeInput input = RunningInput();
  PlannedNode node = RunningNode(RunningConfig(), input, FilesOfOldPod(input));
  PlannedPod old = CpusOf("old", "4");
  old.pod.containers[0].resources.limits["nvidia.com/gpu"] = Quantity(1);
  old.pod.containers[0].resources.requests["nvidia.com/gpu"] = Quantity(1);
  ASSERT_TRUE(node.AddRunning(old).ok());
  EXPECT_EQ(node.Ask(CpusOf("x", "18")).outcome, Outcome::kFits);
  EXPECT_EQ(node.Ask(CpusOf("x", "19")).outcome, Outcome::kRefused);
  // Of two on each NUMA node, none or one is taken.
  EXPECT_EQ(node.Ask(RunningPodOf("x", {{"nvidia.com/gpu", "1"}})).outcome, Outcome::kFits);
  EXPECT_EQ(node.Ask(RunningPodOf("x", {{"nvidia.com/gpu", "4"}})).stage, Stage::kScheduler);
  const auto both = [](const std::string& cpus) {
    return RunningPodOf("x", {{"cpu", cpus}, {"memory", "1Gi"}, {"nvidia.com/gpu", "2"}});
  };
  // Only one NUMA node has 18 free CPUs.
  EXPECT_EQ(node.Ask(both("18")).outcome, Outcome::kUndecided);
}

// A state file says that the pod that starts has nothing yet. It comes beside one that can be on
// either NUMA node.
TEST(RunningPods, ThatStartBesideAGuessAreGuesses) {
  const NodeInput input = RunningInput("socket:2 numa:1 core:4", "nvidia.com/gpu=1@0");
  const KubeletConfig config = RunningConfig(TopologyManagerPolicy::kSingleNumaNode);
  const auto empty = scenario::Simulation::Start(input.description, config);
  const NodeFiles files = {empty->CpuManagerState(), "", "",
                           checkpoint::FormatSharesCheckpoint({})};
  PlannedNode node = RunningNode(config, input, files);
  ASSERT_TRUE(node.AddRunning(CpusOf("runs", "3")).ok());
  PlannedPod starts = CpusOf("starts", "2");
  starts.is_pending = true;
  starts.node_name = "n";
  ASSERT_TRUE(node.AddRunning(starts).ok());
  EXPECT_EQ(node.Ask(CpusOf("q", "2")).outcome, Outcome::kUndecided);
  EXPECT_EQ(node.Ask(CpusOf("q", "1")).outcome, Outcome::kFits);
}

// The list does not have them in the order in which the node decides about them. NUMA nodes have 3
// and 4 CPUs: in one order, 1 is left on each, in the other one, 2 are left on one.
TEST(RunningPods, ThatStartInAnUnknownOrderAreGuesses) {
  const NodeInput input = RunningInput("socket:2 numa:1 core:4", "nvidia.com/gpu=1@0");
  const KubeletConfig config = RunningConfig(TopologyManagerPolicy::kSingleNumaNode);
  const auto empty = scenario::Simulation::Start(input.description, config);
  const NodeFiles files = {empty->CpuManagerState(), "", "",
                           checkpoint::FormatSharesCheckpoint({})};
  const auto starting = [](const std::string& name, const std::string& cpus) {
    PlannedPod pod = CpusOf(name, cpus);
    pod.is_pending = true;
    pod.node_name = "n";
    return pod;
  };
  const auto node_with = [&](const std::vector<PlannedPod>& pods) {
    PlannedNode node = RunningNode(config, input, files);
    for (const PlannedPod& pod : pods) EXPECT_TRUE(node.AddRunning(pod).ok());
    return node;
  };
  const PlannedPod two = starting("two", "2");
  const PlannedPod three = starting("three", "3");
  for (const PlannedNode& node :
       {node_with({two, three}), node_with({three, two}), node_with({two, CpusOf("runs", "3")})}) {
    EXPECT_EQ(node.Ask(CpusOf("q", "2")).outcome, Outcome::kUndecided);
    EXPECT_EQ(node.Ask(CpusOf("q", "1")).outcome, Outcome::kFits);
  }
  // Of pods that are alike, the order does not matter, nor of those without CPUs of their own.
  PlannedPod shared = starting("shared", "500m");
  const PlannedNode alike = node_with({two, shared, starting("also", "2")});
  EXPECT_EQ(alike.Ask(CpusOf("q", "2")).outcome, Outcome::kFits);
  EXPECT_EQ(alike.Ask(CpusOf("q", "3")).outcome, Outcome::kRefused);
  EXPECT_FALSE(alike.has_guesses());
}

// A node that knew it from CRI alone may have assigned its second container nothing.
TEST(RunningPods, MayHaveLessThanTheyRequestIfTheStateFilesHaveAPart) {
  const NodeInput input = RunningInput("socket:2 numa:1 core:4");
  auto before = scenario::Simulation::Start(input.description,
                                            RunningConfig(TopologyManagerPolicy::kSingleNumaNode));
  PlannedPod pod = CpusOf("a", "2");
  ASSERT_TRUE(before->Run(scenario::AdmitPod{pod.pod}).admission->admitted());
  pod.pod.containers.push_back(pod.pod.containers[0]);
  pod.pod.containers.back().name = "late";
  const auto answer = [&](TopologyManagerPolicy policy, const std::string& cpus) {
    PlannedNode node =
        RunningNode(RunningConfig(policy), input,
                    {before->CpuManagerState(), "", "", checkpoint::FormatSharesCheckpoint({})});
    EXPECT_TRUE(node.AddRunning(pod).ok());
    EXPECT_EQ(node.notes().size(), 1U);
    EXPECT_NE(node.notes().at(0).find("do not have all that it requests"), std::string::npos);
    return node.Ask(CpusOf("b", cpus)).outcome;
  };
  // It has 2 of NUMA node 0's 3 CPUs, and 2 more anywhere, or not.
  EXPECT_EQ(answer(TopologyManagerPolicy::kBestEffort, "3"), Outcome::kFits);
  EXPECT_EQ(answer(TopologyManagerPolicy::kSingleNumaNode, "2"), Outcome::kFits);
  EXPECT_EQ(answer(TopologyManagerPolicy::kSingleNumaNode, "3"), Outcome::kUndecided);
  EXPECT_EQ(answer(TopologyManagerPolicy::kBestEffort, "4"), Outcome::kRefused);  // by its request
}

// Nothing of it is in the state files: only its init container had CPUs. Devices stay with the pod.
TEST(RunningPods, HaveNothingOfInitContainersThatHaveEndedButDevices) {
  const NodeInput input = RunningInput("socket:2 numa:1 core:4");
  const KubeletConfig config = RunningConfig(TopologyManagerPolicy::kSingleNumaNode);
  const auto empty = scenario::Simulation::Start(input.description, config);
  const NodeFiles files = {empty->CpuManagerState(), "", "",
                           checkpoint::FormatSharesCheckpoint({})};
  const auto node_with = [&](bool has_devices) {
    PlannedPod pod = CpusOf("a", "500m");
    Container init = CpusOf("i", "1").pod.containers[0];
    init.name = "init";
    init.kind = ContainerKind::kInit;
    if (has_devices) {
      for (ResourceList* const list : {&init.resources.requests, &init.resources.limits}) {
        list->emplace("nvidia.com/gpu", Quantity(2));
      }
    }
    pod.pod.containers.insert(pod.pod.containers.begin(), init);
    PlannedNode node = RunningNode(config, input, files);
    EXPECT_TRUE(node.AddRunning(pod).ok());
    return node;
  };
  const PlannedNode node = node_with(false);
  EXPECT_TRUE(node.notes().empty()) << node.notes()[0];
  EXPECT_FALSE(node.has_guesses());
  EXPECT_EQ(node.Ask(CpusOf("b", "4")).outcome, Outcome::kFits);
  const PlannedPod gpus =
      RunningPodOf("g", {{"cpu", "1"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "3"}});
  EXPECT_EQ(node.Ask(gpus).stage, Stage::kKubelet);
  // Of four, two are taken.
  EXPECT_EQ(node_with(true).Ask(gpus).stage, Stage::kScheduler);
  const PlannedPod two =
      RunningPodOf("g", {{"cpu", "1"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "2"}});
  EXPECT_NE(node_with(true).Ask(two).outcome, Outcome::kRefused);
  EXPECT_EQ(node_with(true).Ask(CpusOf("b", "4")).outcome, Outcome::kFits);
}

// A refusal releases what a pod with CPUs as a whole has.
TEST(RunningPods, KeepTheCpusOfAPodAsAWhole) {
  KubeletConfig config = RunningConfig(TopologyManagerPolicy::kBestEffort);
  config.topology_manager_scope = TopologyManagerScope::kPod;
  config.feature_gates = {{"PodLevelResourceManagers", true}};
  const NodeInput input = RunningInput();
  auto before = scenario::Simulation::Start(input.description, config);
  PlannedPod whole = CpusOf("whole", "2");
  whole.pod.pod_level = Resources{Amounts({{"cpu", "4"}, {"memory", "2Gi"}}),
                                  Amounts({{"cpu", "4"}, {"memory", "2Gi"}})};
  for (const auto& [name, cpus] : {std::pair("a", "17"), std::pair("b", "18")}) {
    EXPECT_TRUE(before->Run(scenario::AdmitPod{CpusOf(name, cpus).pod}).admission->admitted());
  }
  ASSERT_TRUE(before->Run(scenario::AdmitPod{whole.pod}).admission->admitted());
  for (const char* const name : {"a", "b"}) before->Run(scenario::RemovePod{name});
  const NodeFiles files = {before->CpuManagerState(), "",
                           checkpoint::FormatDeviceCheckpoint(before->state().devices)};
  config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  PlannedNode node = RunningNode(config, input, files);
  const admission::NodeState state = node.state();
  ASSERT_EQ(state.cpu.HeldBy("whole").Count(), 4);
  const Result<Done> added = node.AddRunning(whole);
  ASSERT_TRUE(added.ok()) << added.error().Text();
  EXPECT_EQ(node.state().cpu, state.cpu);
  EXPECT_EQ(node.Ask(CpusOf("x", "18")).outcome, Outcome::kFits);
  EXPECT_EQ(node.Ask(CpusOf("x", "19")).outcome, Outcome::kRefused);
}

PlannedPod AnnotatedRunning(const std::string& annotation, std::string text,
                            const std::string& resources = "{}") {
  std::string quoted;
  for (const char c : text) quoted += c == '"' ? std::string("\\\"") : std::string(1, c);
  Manifests manifests;
  const Result<Done> read = ReadManifest(
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"hidden","uid":"u","annotations":{")" +
          annotation + R"(":")" + quoted +
          R"("}},"spec":{"nodeName":"n","containers":[{"name":"app","resources":)" + resources +
          R"(}]},"status":{"phase":"Running"}})",
      "f", manifests);
  EXPECT_TRUE(read.ok()) << read.error().Text();
  const auto pods = ExpandPods(manifests, std::nullopt);
  EXPECT_TRUE(pods.ok() && pods->size() == 1);
  return pods->at(0);
}

// Devices without NUMA nodes are open by their number, and beside others by which ones they are.
TEST(RunningPods, NameWhatIsOpenOfTheDevicesOfAnAnnotation) {
  const PlannedPod hidden =
      AnnotatedRunning("alignd.io/resources", R"({"app":{"limits":{"nvidia.com/gpu":2}}})");
  for (const auto& [devices, open] :
       {std::pair("nvidia.com/gpu=2@0,2@1", "the NUMA nodes that they are on;"),
        std::pair("nvidia.com/gpu=2@0,2", "which devices they are;"),
        std::pair("nvidia.com/gpu=4", "how many devices they are;")}) {
    PlannedNode node =
        RunningNode(RunningConfig(), RunningInput("socket:2 numa:1 core:20", devices));
    ASSERT_TRUE(node.AddRunning(hidden).ok());
    const Verdict verdict = node.Ask(RunningPodOf("x", {{"nvidia.com/gpu", "1"}}));
    ASSERT_EQ(verdict.outcome, Outcome::kUndecided) << devices;
    EXPECT_NE(
        verdict.refusal->message.find("whether this pod fits depends on " + std::string(open)),
        std::string::npos)
        << verdict.refusal->message;
  }
}

// A node that follows the annotation has given the pod two GPUs, and the spec has none.
TEST(RunningPods, LeaveOpenTheDevicesOfAnAnnotation) {
  const std::vector<std::pair<std::string, std::string>> annotations = {
      {"alignd.io/resources", R"({"app":{"limits":{"nvidia.com/gpu":2}}})"},
      {"intel.com/resources", R"({"containers":{"app":{"limits":{"nvidia.com/gpu":2}}}})"},
      {"node.koordinator.sh/extended-resource-spec",
       R"({"containers":{"app":{"limits":{"nvidia.com/gpu":2},"requests":{"nvidia.com/gpu":2}}}})"}};
  const PlannedPod gpus = RunningPodOf("x", {{"nvidia.com/gpu", "1"}});
  for (const auto& [annotation, text] : annotations) {
    const PlannedPod hidden = AnnotatedRunning(annotation, text);
    for (const char* const devices :
         {"nvidia.com/gpu=2@0,2@1", "nvidia.com/gpu=4", "nvidia.com/gpu=4@0"}) {
      for (const TopologyManagerPolicy policy :
           {TopologyManagerPolicy::kNone, TopologyManagerPolicy::kRestricted}) {
        const char* const machine = std::string(devices).ends_with("=4@0")
                                        ? "socket:1 numa:1 core:20"
                                        : "socket:2 numa:1 core:20";
        PlannedNode node = RunningNode(RunningConfig(policy), RunningInput(machine, devices));
        EXPECT_EQ(node.Ask(gpus).outcome, Outcome::kFits);
        ASSERT_TRUE(node.AddRunning(hidden).ok());
        ASSERT_EQ(node.notes().size(), 2U) << annotation;
        EXPECT_NE(node.notes()[0].find("an annotation has nvidia.com/gpu"), std::string::npos)
            << node.notes()[0];
        EXPECT_EQ(node.Ask(gpus).outcome, Outcome::kUndecided) << annotation << devices;
        EXPECT_EQ(node.Ask(CpusOf("y", "4")).outcome, Outcome::kFits) << annotation << devices;
      }
    }
  }
}

// Also if the node ignores them now, for a container that the spec does not have.
TEST(RunningPods, LeaveOpenTheDevicesOfAContainerThatOnlyAnAnnotationHas) {
  KubeletConfig config = RunningConfig();
  const PlannedPod hidden = AnnotatedRunning(
      "alignd.io/resources", R"({"app":{},"more":{"limits":{"nvidia.com/gpu":1}}})");
  for (const bool is_ignored : {false, true}) {
    config.annotated_extended_resources = !is_ignored;
    PlannedNode node = RunningNode(config);
    ASSERT_TRUE(node.AddRunning(hidden).ok());
    EXPECT_EQ(node.Ask(RunningPodOf("x", {{"nvidia.com/gpu", "4"}})).outcome, Outcome::kUndecided);
    EXPECT_EQ(node.Ask(CpusOf("y", "4")).outcome, Outcome::kFits);
  }
}

TEST(RunningPods, KnowTheDevicesOfAnAnnotationFromTheCheckpoint) {
  const NodeInput input = RunningInput();
  auto truth = scenario::Simulation::Start(input.description, RunningConfig());
  Pod pod = AppPod("u", {{"nvidia.com/gpu", "2"}});
  ASSERT_TRUE(truth->Run(scenario::AdmitPod{pod}).admission->admitted());
  const NodeFiles files = {truth->CpuManagerState(), "",
                           checkpoint::FormatDeviceCheckpoint(truth->state().devices)};
  PlannedNode node = RunningNode(RunningConfig(), input, files);
  const std::string two = R"({"app":{"limits":{"nvidia.com/gpu":2}}})";
  ASSERT_TRUE(node.AddRunning(AnnotatedRunning("alignd.io/resources", two)).ok());
  EXPECT_TRUE(node.notes().empty());
  EXPECT_EQ(node.Ask(RunningPodOf("x", {{"nvidia.com/gpu", "2"}})).outcome, Outcome::kFits);
  EXPECT_NE(node.Ask(RunningPodOf("x", {{"nvidia.com/gpu", "3"}})).outcome, Outcome::kFits);
  // It counts as its spec says where that has as many.
  PlannedNode other = RunningNode(RunningConfig());
  const std::string one = R"({"app":{"limits":{"nvidia.com/gpu":1}}})";
  ASSERT_TRUE(other
                  .AddRunning(AnnotatedRunning("alignd.io/resources", one,
                                               R"({"limits":{"nvidia.com/gpu":"2"}})"))
                  .ok());
  EXPECT_EQ(other.Ask(RunningPodOf("x", {{"nvidia.com/gpu", "2"}})).outcome, Outcome::kFits);
  // The node has no such devices.
  PlannedNode none = RunningNode(RunningConfig());
  ASSERT_TRUE(none.AddRunning(AnnotatedRunning("alignd.io/resources",
                                               R"({"app":{"limits":{"a.com/x":2}}})"))
                  .ok());
  EXPECT_TRUE(none.notes().empty());
}

// A resource of the Node object that no device plugin serves, such as a licence.
TEST(NotDevices, AreCountedByTheSchedulerAlone) {
  const std::string licence = "example.com/licence";
  NodeInput input = RunningInput();
  NodeObject& object = input.object.emplace();
  object.name = "w";
  object.allocatable = Amounts({{"cpu", "39"}, {"memory", "8Gi"}, {"pods", "110"}, {licence, "5"}});
  const auto answer = [&](const KubeletConfig& config, const NodeInput& described, int count) {
    return RunningNode(config, described)
        .Ask(
            RunningPodOf("x", {{"cpu", "2"}, {"memory", "1Gi"}, {licence, std::to_string(count)}}));
  };
  KubeletConfig config = RunningConfig();
  EXPECT_EQ(answer(config, input, 5).outcome, Outcome::kUndecided);
  config.not_devices = {licence};
  EXPECT_EQ(answer(config, input, 5).outcome, Outcome::kFits);
  EXPECT_EQ(answer(config, input, 6).outcome, Outcome::kRefused);
  EXPECT_EQ(answer(config, input, 6).stage, Stage::kScheduler);
  // With devices, a plugin serves it after all.
  NodeInput with_devices = input;
  auto parsed = ParseDevices(licence + "=3@0,2@1");
  ASSERT_TRUE(AddDevices(parsed->first, std::move(parsed->second), with_devices).ok());
  EXPECT_EQ(answer(config, with_devices, 3).outcome, Outcome::kFits);
  EXPECT_FALSE(answer(config, with_devices, 3).admission->assignments.at("app").devices.empty());
}

bool Names(const std::string& text, const PlannedNode& node, const Pod& pod) {
  PlannedPod planned;
  planned.pod = pod;
  const std::vector<std::string> texts = node.NotConsidered(planned);
  return std::ranges::find(texts, text) != texts.end();
}

bool NamesCri(const PlannedNode& node, const Pod& pod) {
  return Names("resources known from CRI alone", node, pod);
}

// CRI shows the limits of the pod as those of `b`, which would get exclusive CPUs.
TEST(NotConsidered, NamesPodsWithCpusAsAWholeWithoutTheFeatureGate) {
  const PlannedNode node = RunningNode(RunningConfig());
  Pod pod = MakePod("p", {App("a", {{"cpu", "2"}, {"memory", "1Gi"}}), App("b", {})});
  EXPECT_FALSE(NamesCri(node, pod));
  const auto all = Amounts({{"cpu", "3"}, {"memory", "2Gi"}});
  pod.pod_level = Resources{all, all};
  EXPECT_TRUE(NamesCri(node, pod));
  pod.pod_level->limits.clear();
  EXPECT_FALSE(NamesCri(node, pod));
}

// Of two GPUs on each NUMA node, which three a pod has is the choice of their plugin.
TEST(NotConsidered, NamesPreferencesOfDevicePlugins) {
  const auto names = [](TopologyManagerPolicy policy, const char* gpus) {
    return Names("preferences of device plugins", RunningNode(RunningConfig(policy)),
                 MakePod("p", {App("a", {{"nvidia.com/gpu", gpus}})}));
  };
  EXPECT_FALSE(names(TopologyManagerPolicy::kRestricted, "2"));
  EXPECT_TRUE(names(TopologyManagerPolicy::kRestricted, "3"));
  EXPECT_FALSE(names(TopologyManagerPolicy::kRestricted, "4"));
  EXPECT_FALSE(names(TopologyManagerPolicy::kNone, "3"));
}

// A node that knows pods from CRI alone decides container by container.
TEST(NotConsidered, NamesPodsThatANodeCanDecideOtherwiseFromCriAlone) {
  const std::map<std::string, std::string> two = {{"cpu", "2"}, {"memory", "1Gi"}};
  const Pod one = MakePod("p", {App("a", two)});
  const Pod several = MakePod("p", {App("a", two), App("b", two)});
  const Pod with_init = MakePod("p", {Init("i", two), App("a", two)});
  const Pod small = MakePod("p", {App("a", {{"cpu", "2500m"}, {"memory", "1Gi"}}),
                                  App("b", {{"cpu", "500m"}, {"memory", "1Gi"}})});
  for (const TopologyManagerPolicy policy :
       {TopologyManagerPolicy::kNone, TopologyManagerPolicy::kBestEffort,
        TopologyManagerPolicy::kRestricted, TopologyManagerPolicy::kSingleNumaNode,
        TopologyManagerPolicy::kBestAttainable}) {
    KubeletConfig config = RunningConfig(policy);
    const PlannedNode by_container = RunningNode(config);
    EXPECT_FALSE(NamesCri(by_container, one));
    EXPECT_EQ(NamesCri(by_container, several), policy == TopologyManagerPolicy::kBestAttainable);
    EXPECT_TRUE(NamesCri(by_container, with_init));
    EXPECT_FALSE(NamesCri(by_container, small));
    config.topology_manager_scope = TopologyManagerScope::kPod;
    const PlannedNode by_pod = RunningNode(config);
    EXPECT_FALSE(NamesCri(by_pod, one));
    EXPECT_EQ(NamesCri(by_pod, several), policy != TopologyManagerPolicy::kNone);
    EXPECT_FALSE(NamesCri(by_pod, small));
  }
  KubeletConfig config = RunningConfig();
  config.feature_gates = {{"PodLevelResourceManagers", true}};
  Pod whole = one;
  whole.pod_level = Resources{Amounts({{"cpu", "4"}, {"memory", "2Gi"}}),
                              Amounts({{"cpu", "4"}, {"memory", "2Gi"}})};
  EXPECT_TRUE(NamesCri(RunningNode(config), whole));
  // Without the gate, such a node takes its container for one of a pod without pod-level resources.
  EXPECT_TRUE(NamesCri(RunningNode(RunningConfig()), whole));
  whole.pod_level->requests = Amounts({{"cpu", "3"}, {"memory", "2Gi"}});
  EXPECT_FALSE(NamesCri(RunningNode(RunningConfig()), whole)) << "Burstable";
}

TEST(NotConsidered, NamesPodsThatANodeRefusesFromCriAlone) {
  KubeletConfig config = RunningConfig(TopologyManagerPolicy::kNone);
  config.pod_policies = {PodPolicy::kSharedNumaNode, PodPolicy::kResourceStatus};
  Pod burstable = SharedOf("p", "2").pod;
  burstable.policies.shared_on_one_node = true;
  EXPECT_FALSE(NamesCri(RunningNode(config), burstable)) << "no memory is assigned";
  // The counts of two NUMA nodes.
  Pod decided = AppPod("p", {{"cpu", "4"}, {"memory", "1Gi"}});
  decided.policies.numa_resources[0] = Amounts({{"cpu", "2"}});
  EXPECT_FALSE(NamesCri(RunningNode(config), decided));
  decided.policies.numa_resources[1] = Amounts({{"cpu", "2"}});
  EXPECT_TRUE(NamesCri(RunningNode(config), decided));
  // Also when it has them.
  PlannedNode node = RunningNode(config);
  PlannedPod planned;
  planned.pod = decided;
  ASSERT_EQ(node.Place(planned).outcome, Outcome::kFits);
  EXPECT_TRUE(NamesCri(node, decided));
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.eviction_hard_memory = "";
  config.system_reserved = Amounts({{"memory", "512Mi"}});
  config.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "512Mi"}})}};
  EXPECT_TRUE(NamesCri(RunningNode(config), burstable));
  burstable.policies.shared_on_one_node = false;
  EXPECT_FALSE(NamesCri(RunningNode(config), burstable));
}

// With policy none, another pod may be aligned; of devices on several NUMA nodes, those of one
// differ.
TEST(NotConsidered, NamesPreferencesThatMatterToLaterPods) {
  const auto names = [](const PlannedNode& node, int64_t amount) {
    const PlannedPod pod = RunningPodOf("p", {{"nvidia.com/gpu", std::to_string(amount)}});
    return std::ranges::count(node.NotConsidered(pod), "preferences of device plugins") > 0;
  };
  KubeletConfig config = RunningConfig(TopologyManagerPolicy::kNone);
  EXPECT_FALSE(names(RunningNode(config), 1));
  config.pod_policies = {PodPolicy::kNumaTopologyPolicy};
  EXPECT_TRUE(names(RunningNode(config), 1));
  EXPECT_FALSE(names(RunningNode(config), 4)) << "it gets all";
  config = RunningConfig(TopologyManagerPolicy::kBestEffort);
  EXPECT_FALSE(names(RunningNode(config), 1)) << "those of the NUMA node are alike";
  EXPECT_TRUE(names(RunningNode(config), 3));
  NodeInput input = RunningInput();
  input.description.devices["nvidia.com/gpu"][0].second.numa = {0, 1};
  EXPECT_TRUE(names(RunningNode(config, input), 1));
  // 2 of 3 that are left, of which one NUMA node has 1.
  PlannedNode node = RunningNode(config);
  ASSERT_EQ(node.Place(RunningPodOf("one", {{"nvidia.com/gpu", "1"}})).outcome, Outcome::kFits);
  ASSERT_EQ(node.Place(RunningPodOf("two", {{"nvidia.com/gpu", "1"}})).outcome, Outcome::kFits);
  EXPECT_FALSE(names(node, 2));
  EXPECT_FALSE(names(node, 1)) << "those that are left are of one NUMA node";
}

// Some containers of a pod go without what they wish for if the others do not fit then. A node that
// does not know the others cannot know.
TEST(NotConsidered, NamesCriForSeveralContainersThatAreChosenApart) {
  PlannedPod pod = CpusOf("p", "2");
  pod.pod.containers.push_back(pod.pod.containers[0]);
  pod.pod.containers[1].name = "second";
  KubeletConfig config = RunningConfig(TopologyManagerPolicy::kSingleNumaNode);
  EXPECT_FALSE(NamesCri(RunningNode(config), pod.pod));
  config.numa_allocate_strategy = NumaAllocateStrategy::kEmptiestNode;
  EXPECT_TRUE(NamesCri(RunningNode(config), pod.pod));
  EXPECT_FALSE(NamesCri(RunningNode(config), CpusOf("p", "2").pod));
  config = RunningConfig(TopologyManagerPolicy::kSingleNumaNode);
  config.pod_policies = {PodPolicy::kQosClass};
  PlannedPod labelled = CpusOf("p", "2");
  ReadSharingLabel(kQosClassLabel, "LSE", labelled.pod.policies.sharing);
  EXPECT_FALSE(NamesCri(RunningNode(config), labelled.pod));
  labelled.pod.containers.insert(labelled.pod.containers.begin(),
                                 Init("init", {{"cpu", "500m"}, {"memory", "64Mi"}}));
  EXPECT_TRUE(NamesCri(RunningNode(config), labelled.pod));
}

// On a node where refused pods wait, a later one that needs the same is served after them.
TEST(NotConsidered, NamesThePodThatWaitsForWhatALaterOneNeeds) {
  const std::vector<std::string> waits = {"pods that wait (default/a)"};
  const std::vector<std::string> none;
  PlannedNode node = RunningNode(RunningConfig(TopologyManagerPolicy::kSingleNumaNode));
  ASSERT_EQ(node.Place(CpusOf("x", "12")).outcome, Outcome::kFits);
  ASSERT_EQ(node.Place(CpusOf("y", "13")).outcome, Outcome::kFits);
  EXPECT_EQ(node.NotConsidered(CpusOf("b", "1")), none);
  const Verdict refused = node.Place(CpusOf("a", "10"));
  ASSERT_EQ(refused.outcome, Outcome::kRefused);
  ASSERT_EQ(refused.stage, Stage::kKubelet) << refused.refusal->message;
  EXPECT_EQ(node.NotConsidered(CpusOf("b", "1")), waits);
  EXPECT_EQ(node.NotConsidered(SharedOf("shared", "1")), none);
  // The first one is named.
  ASSERT_EQ(node.Place(CpusOf("c", "9")).outcome, Outcome::kRefused);
  EXPECT_EQ(node.NotConsidered(CpusOf("b", "1")), waits);
}

// It waits behind the first one, and others behind it.
TEST(NotConsidered, NamesAPodThatWaitsBehindOneThatWaits) {
  PlannedNode node = RunningNode(RunningConfig(TopologyManagerPolicy::kSingleNumaNode));
  ASSERT_EQ(node.Place(CpusOf("x", "12")).outcome, Outcome::kFits);
  ASSERT_EQ(node.Place(CpusOf("y", "13")).outcome, Outcome::kFits);
  ASSERT_EQ(node.Place(CpusOf("a", "10")).outcome, Outcome::kRefused);
  const PlannedPod gpu = RunningPodOf("gpu", {{"nvidia.com/gpu", "1"}});
  const auto waits_for = [&node](const PlannedPod& pod, const std::string& name) {
    return std::ranges::count(node.NotConsidered(pod), "pods that wait (default/" + name + ")") > 0;
  };
  const PlannedPod both =
      RunningPodOf("both", {{"cpu", "1"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "1"}});
  EXPECT_FALSE(waits_for(gpu, "both"));
  EXPECT_TRUE(waits_for(both, "a"));
  ASSERT_EQ(node.Place(both).outcome, Outcome::kFits);
  EXPECT_TRUE(waits_for(gpu, "both"));
  EXPECT_TRUE(waits_for(CpusOf("b", "1"), "a"));
}

// Such a pod gets no place in the queue.
TEST(NotConsidered, NamesNoPodThatTheEmptyNodeRefuses) {
  PlannedNode node = RunningNode(RunningConfig(TopologyManagerPolicy::kSingleNumaNode));
  const Verdict refused = node.Place(CpusOf("a", "25"));
  ASSERT_EQ(refused.outcome, Outcome::kRefused);
  ASSERT_EQ(refused.stage, Stage::kKubelet) << refused.refusal->message;
  EXPECT_EQ(node.NotConsidered(CpusOf("b", "1")), std::vector<std::string>{});
}

}  // namespace
}  // namespace alignd::placement
