// Planning and the daemon agree. On random nodes, planning is asked about random pods as `alignctl
// simulate` is, and then a simulated kubelet runs them: what fits has to start wholly, and what the
// kubelet's stage refuses must not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/placement/manifest.h"
#include "alignd/placement/planned_node.h"
#include "alignd/pod/annotated_resources.h"
#include "alignd/pod/pod_policies.h"
#include "cli/plan_input.h"
#include "core/random_machine.h"
#include "daemon_fixture.h"
#include "random_manifests.h"
#include "simulator/kubelet.h"
#include "simulator/pod_manifest.h"
#include "simulator/pods_api.h"

namespace alignd::daemon {
namespace {

using Json = RandomManifests::Json;
using placement::Outcome;
using placement::PlannedPod;
using placement::Stage;
using placement::Verdict;

// What planning knows of the pods that run.
enum class Knows { kStateFiles, kRunningPods };

struct NodeKind {
  Json config;
  int cpus = 0;
  bool has_threads = false;  // two CPUs of each core
  bool has_pods_api = false;
  bool follows_devices = true;  // annotatedExtendedResources
};

NodeKind RandomNode(Random& random) {
  NodeKind kind;
  kind.cpus = random.OneOf<int>({8, 12, 16});
  kind.has_threads = random.OnceIn(2);
  kind.has_pods_api = random.OnceIn(4);
  kind.follows_devices = !random.OnceIn(4);
  kind.config = {
      {"apiVersion", "kubelet.config.k8s.io/v1beta1"},
      {"kind", "KubeletConfiguration"},
      {"cpuManagerPolicy", "static"},
      {"reservedSystemCPUs", "0"},
      {"topologyManagerPolicy",
       random.OneOf<std::string>({"none", "best-effort", "restricted", "restricted",
                                  "single-numa-node", "single-numa-node"})},
      {"topologyManagerScope", random.OnceIn(2) ? "pod" : "container"},
      {"annotatedExtendedResources", kind.follows_devices},
  };
  if (random.OnceIn(2)) {
    kind.config["memoryManagerPolicy"] = "Static";
    kind.config["reservedMemory"] = {{{"numaNode", 0}, {"limits", {{"memory", "100Mi"}}}}};
  }
  if (random.OnceIn(3)) kind.config["featureGates"] = {{"PodLevelResourceManagers", true}};
  if (random.OnceIn(3)) {
    const auto option = random.OneOf<std::string>(
        {"full-pcpus-only", "distribute-cpus-across-numa", "strict-cpu-reservation"});
    kind.config["cpuManagerPolicyOptions"] = {{option, "true"}};
  }
  if (random.OnceIn(3)) {
    kind.config["numaAllocateStrategy"] =
        random.OneOf<std::string>({"MostAllocated", "LeastAllocated", "DistributeEvenly"});
  }
  if (random.OnceIn(2)) {
    kind.config["podPolicies"] = {"numaTopologyPolicy", "cpuBindPolicy", "cpuExclusivePolicy"};
  }
  return kind;
}

// A pod that runs.
struct RunningPod {
  std::string uid;
  Json object;  // as the API server has it
  // Whether the node knew it in parts only, so that planning need not know where it is.
  bool is_apart = false;
};

// What the simulated kubelet saw.
struct PodRun {
  bool is_whole = false;                   // all containers run
  std::string text;                        // why not
  std::map<std::string, std::string> ids;  // by name
};

struct Counts {
  int asked = 0;
  int fits = 0;
  int refused = 0;
  int undecided = 0;
  int annotated = 0;    // decided ones with an annotation
  int by_policies = 0;  // decided ones with policies that the node follows
  int compared = 0;     // containers whose assignment is the planned one
};

class PlannedAsRunTest : public DaemonTest {
 protected:
  // Prints what is needed to repeat a disagreement.
  std::string Place(const Verdict& verdict, const PodRun& run, Knows knows) const {
    std::string text = "planning (";
    text += knows == Knows::kStateFiles ? "state files" : "running pods alone";
    text +=
        "): " + std::string(ToString(verdict.outcome)) + " " + std::string(ToString(verdict.stage));
    if (verdict.refusal) text += " " + verdict.refusal->reason + ": " + verdict.refusal->message;
    text += "\nthe daemon: " + (run.is_whole ? "runs all containers" : run.text);
    text += std::string("\nPods API: ") + (node_.has_pods_api ? "yes" : "no") + ", " +
            std::to_string(node_.cpus) + " CPUs\n" + node_.config.dump() +
            "\npod: " + asked_.dump();
    for (const RunningPod& running : running_) text += "\nruns: " + running.object.dump();
    return text + "\nstate before: " + before_ + "\nstate: " + State();
  }

  void StartNode(const NodeKind& kind) {
    node_ = kind;
    Json description = Json::parse(NodeJson(kind.cpus, 2));
    if (kind.has_threads) {
      for (Json& cpu : description["cpus"]) cpu[1] = cpu[0].get<int>() / 2;  // two of each core
    }
    tree_.Write({"node.json", description.dump()});
    Json& devices = description["devices"][kGpu];
    for (const simulator::SimulatedDevice& device : Gpus()) {
      devices.push_back({{"id", device.id}, {"numa", device.numa}});
    }
    tree_.Write({"planned-node.json", description.dump()});
    StartRuntime();
    if (kind.has_pods_api) {
      auto api = simulator::PodsApi::Start(PodsApiEndpoint());
      ASSERT_TRUE(api.ok()) << api.error().Text();
      api_ = *std::move(api);
    }
    StartDaemon(kind.config.dump());
    StartGpus();
    kubelet_ = std::make_unique<simulator::Kubelet>(
        client_, simulator::KubeletSettings{
                     .cgroup_root = {}, .log_directory = {}, .annotate_resources = false});
  }
  void StopNode() {
    kubelet_.reset();
    StopDaemon();
    gpus_.reset();
    api_.reset();
    runtime_.reset();
    watch_.Forget();
    running_.clear();
    std::filesystem::remove_all(StateDir());
  }

  std::string PathOf(const char* name) const { return (tree_.root() / name).string(); }

  Result<placement::PlannedNode> Planned(Knows knows) const {
    cli::PlanSources sources;
    sources.nodes = {PathOf("planned-node.json")};
    sources.config = PathOf("config.yaml");
    if (knows == Knows::kStateFiles) sources.state_dir = StateDir();
    Json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", Json::array()}};
    for (const RunningPod& pod : running_) list["items"].push_back(pod.object);
    tree_.Write({"running.json", list.dump()});
    sources.running = {PathOf("running.json")};
    return cli::ReadPlannedNode(sources);
  }

  PlannedPod Asked() const {
    tree_.Write({"pod.json", asked_.dump()});
    const auto manifests = cli::ReadManifests({PathOf("pod.json")});
    if (manifests.ok()) {
      const auto pods = placement::ExpandPods(*manifests, std::nullopt);
      if (pods.ok() && pods->size() == 1) return pods->front();
    }
    ADD_FAILURE() << asked_.dump();
    return {};
  }

  // With the calls of a kubelet, in its order. It starts no container after one that fails.
  PodRun RunPod(const simulator::PodManifest& manifest) {
    PodRun run;
    const Result<std::string> sandbox = kubelet_->RunSandbox(manifest);
    if (!sandbox.ok()) {
      run.text = sandbox.error().Text();
      return run;
    }
    for (const Container& container : manifest.pod.containers) {
      const Result<std::string> id = kubelet_->Create(manifest, *sandbox, container);
      const Result<Done> started = id.ok() ? kubelet_->Start(*id) : Result<Done>(id.error());
      if (!started.ok()) {
        run.text = container.name + ": " + started.error().Text();
        return run;
      }
      run.ids[container.name] = *id;
      if (container.kind != ContainerKind::kInit) continue;
      EXPECT_TRUE(runtime_->EndContainer(*id, 0));
      EXPECT_TRUE(kubelet_->Status(*id).ok());
    }
    run.is_whole = true;
    return run;
  }

  // When nothing is assigned to it any more.
  void EndPod(const std::string& uid) {
    const auto pods = kubelet_->List();
    ASSERT_TRUE(pods.ok()) << pods.error().Text();
    for (const simulator::ListedPod& pod : *pods) {
      if (pod.uid != uid) continue;
      const Result<Done> removed = kubelet_->Remove(pod, seconds(0));
      ASSERT_TRUE(removed.ok()) << removed.error().Text();
    }
    std::erase_if(running_, [&uid](const RunningPod& pod) { return pod.uid == uid; });
    const std::string quoted = '"' + uid + '"';
    ASSERT_TRUE(Eventually([&] {
      for (const char* const file : {"cpu_manager_state", "memory_manager_state",
                                     "device-plugins/kubelet_internal_checkpoint"}) {
        if (ReadText(StateDir() / file).find(quoted) != std::string::npos) return false;
      }
      return true;
    })) << uid;
  }

  bool IsAnnotated(std::string_view key) const {
    const Json& metadata = asked_["metadata"];
    return metadata.contains("annotations") && metadata["annotations"].contains(key);
  }

  // Whether the node knows of the pod what CRI shows of each container, and no more.
  bool IsKnownFromCriAlone(const PlannedPod& pod) const {
    if (node_.has_pods_api) return false;
    if (IsAnnotated(kResourcesAnnotation) || IsAnnotated(kIntelResourcesAnnotation)) return false;
    if (!IsAnnotated(kKoordinatorAnnotation)) return true;
    // "With Koordinator's annotation alone, a node decides only BestEffort pods as a whole."
    return !node_.follows_devices || QosOf(pod.pod) != QosClass::kBestEffort;
  }

  // Whether the spec has devices that Koordinator's annotation does not give the containers.
  bool LacksDevices(const PlannedPod& pod) const {
    Json given;
    if (node_.follows_devices && IsAnnotated(kKoordinatorAnnotation)) {
      const Json& annotations = asked_["metadata"]["annotations"];
      given =
          Json::parse(annotations.at(kKoordinatorAnnotation).get<std::string>(), nullptr, false);
    }
    return std::ranges::any_of(pod.pod.containers, [&](const Container& one) {
      if (!one.resources.limits.contains(kGpu)) return false;
      const auto place =
          Json::json_pointer("/containers/" + one.name + "/limits/" + "nvidia.com~1gpu");
      return !given.is_object() || !given.contains(place);
    });
  }

  // Whether planning says that its answer is not that of a node that knows pods from CRI alone.
  bool IsOfOtherNodes(const placement::PlannedNode& node, const PlannedPod& pod) const {
    if (!IsKnownFromCriAlone(pod)) return false;
    // "The answer is that of a node that knows the whole pod", and "if a pod that fits is one that
    // such a node can decide otherwise, the output names `resources known from CRI alone`".
    if (std::ranges::count(node.NotConsidered(pod), "resources known from CRI alone") > 0) {
      return true;
    }
    // "Devices on a node that knows pods from CRI alone and has no mirror: it assigns none." The
    // same is true of devices that Koordinator's annotation leaves out.
    return LacksDevices(pod);
  }

  void CompareAssignments(const Verdict& verdict, const PodRun& run, const std::string& uid,
                          Counts& counts) const {
    const auto state = checkpoint::ParseCpuCheckpoint(State());
    ASSERT_TRUE(state.ok()) << state.error().Text();
    for (const auto& [name, planned] : verdict.admission->assignments) {
      const auto container = runtime_->FindContainer(run.ids.at(name));
      ASSERT_TRUE(container);
      const CpuSet kept = planned.KeptFromOthers();
      const std::string place = "container " + name + " of " + uid;
      if (!kept.empty()) {
        EXPECT_EQ(container->resources.cpuset_cpus(), kept.ToString()) << place;
      } else {
        const auto pod = state->state.assignments.find(uid);
        EXPECT_TRUE(pod == state->state.assignments.end() || !pod->second.contains(name)) << place;
      }
      if (!planned.memory_nodes.empty()) {
        CpuSet nodes;
        for (const int node : planned.memory_nodes) nodes.Add(node);
        EXPECT_EQ(container->resources.cpuset_mems(), nodes.ToString()) << place;
      }
      std::set<std::string> expected;
      for (const auto& [resource, devices] : planned.devices) {
        for (const std::string& id : devices.Ids()) expected.insert(id);
      }
      std::set<std::string> ids;
      for (const v1::KeyValue& env : container->config.envs()) {
        if (env.key() != "NVIDIA_VISIBLE_DEVICES") continue;
        std::istringstream list(env.value());
        for (std::string id; std::getline(list, id, ',');) ids.insert(id);
      }
      EXPECT_EQ(ids, expected) << place;
      ++counts.compared;
    }
  }

  void Step(const std::string& name, RandomManifests& manifests, Counts& counts) {
    asked_ = manifests.Make(name);
    const PlannedPod pod = Asked();
    ASSERT_EQ(pod.faults, std::vector<std::string>()) << asked_.dump();
    before_ = State();
    std::vector<std::pair<Knows, Verdict>> verdicts;
    bool is_of_others = false;
    bool is_exact = false;  // what is shown is not one possibility of several
    for (const Knows knows : {Knows::kStateFiles, Knows::kRunningPods}) {
      auto node = Planned(knows);
      ASSERT_TRUE(node.ok()) << node.error().Text() << Place({}, {}, knows);
      if (knows == Knows::kStateFiles) {
        is_of_others = IsOfOtherNodes(*node, pod);
        is_exact = !node->has_guesses() && node->notes().empty();
      }
      verdicts.emplace_back(knows, node->Place(pod));
    }
    // No kubelet gets what the scheduler refuses.
    const auto is_held_back = [](const auto& one) {
      return one.second.outcome == Outcome::kRefused && one.second.stage != Stage::kKubelet;
    };
    if (std::ranges::any_of(verdicts, is_held_back)) return;

    Json object = asked_;
    object["metadata"]["uid"] = "uid-" + name;
    const auto manifest = simulator::ParsePodManifest(object.dump());
    ASSERT_TRUE(manifest.ok()) << manifest.error().Text();
    if (api_) api_->SetPod(manifest->pod);
    const PodRun run = RunPod(*manifest);

    const bool is_any_apart = std::ranges::any_of(running_, &RunningPod::is_apart);
    for (const auto& [knows, verdict] : verdicts) {
      if (is_of_others || (knows == Knows::kRunningPods && is_any_apart)) continue;
      ++counts.asked;
      const bool is_decided = verdict.outcome != Outcome::kUndecided;
      if (is_decided && asked_["metadata"].contains("annotations")) ++counts.annotated;
      const bool has_policies =
          IsAnnotated(kNumaTopologyAnnotation) || IsAnnotated(kResourceSpecAnnotation);
      if (is_decided && has_policies && node_.config.contains("podPolicies")) ++counts.by_policies;
      switch (verdict.outcome) {
        case Outcome::kFits:
          ++counts.fits;
          EXPECT_TRUE(run.is_whole) << Place(verdict, run, knows);
          break;
        case Outcome::kRefused:
          ++counts.refused;
          EXPECT_FALSE(run.is_whole) << Place(verdict, run, knows);
          break;
        case Outcome::kUndecided:
          ++counts.undecided;
          break;
      }
      // Of a pod that the node takes as its annotation has it, or without devices, what is shown is
      // that of the spec.
      // State files do not have the policies of pods that run, of whose CPUs it stays away.
      const bool is_by_spec = !pod.annotated && !pod.pod.policies.exclusive &&
                              (node_.follows_devices || !pod.without_devices);
      if (run.is_whole && verdict.outcome == Outcome::kFits && knows == Knows::kStateFiles &&
          is_by_spec && is_exact) {
        CompareAssignments(verdict, run, manifest->pod.uid, counts);
      }
      if (HasFailure()) FAIL() << Place(verdict, run, knows);
    }
    if (run.is_whole) {
      object["status"]["phase"] = "Running";
      running_.push_back({manifest->pod.uid, std::move(object), is_of_others});
    } else {
      EndPod(manifest->pod.uid);
    }
  }

  NodeKind node_;
  Json asked_;
  std::string before_;  // cpu_manager_state when planning was asked
  std::vector<RunningPod> running_;
  std::unique_ptr<simulator::PodsApi> api_;
  std::unique_ptr<simulator::Kubelet> kubelet_;
};

TEST_F(PlannedAsRunTest, PodsStartAsPlanned) {
  constexpr int kSteps = 9;
  Random random;
  Counts counts;
  const int nodes = Iterations(10);
  for (int run = 0; run < nodes; ++run) {
    const NodeKind kind = RandomNode(random);
    ASSERT_NO_FATAL_FAILURE(StartNode(kind)) << kind.config.dump();
    RandomManifests manifests({kGpu, kind.cpus / 2 + 1, !kind.has_pods_api}, random);
    for (int step = 0; step < kSteps; ++step) {
      while (!running_.empty() && (running_.size() > 4 || random.OnceIn(6))) {
        const std::string uid = random.OneOf(running_).uid;
        ASSERT_NO_FATAL_FAILURE(EndPod(uid));
      }
      SCOPED_TRACE("node " + std::to_string(run) + ", pod " + std::to_string(step));
      ASSERT_NO_FATAL_FAILURE(Step("pod-" + std::to_string(step), manifests, counts));
      if (HasFailure()) return;
    }
    StopNode();
  }
  std::cout << "asked " << counts.asked << ", fits " << counts.fits << ", refused "
            << counts.refused << ", undecided " << counts.undecided << ", annotated "
            << counts.annotated << ", by policies " << counts.by_policies << ", compared "
            << counts.compared << '\n';
  EXPECT_GT(3 * (counts.fits + counts.refused), 2 * counts.undecided);
  EXPECT_GT(counts.fits, nodes);
  EXPECT_GT(counts.refused + counts.undecided, 0);
  EXPECT_GT(counts.annotated, nodes);
  EXPECT_GT(counts.compared, nodes);
  EXPECT_GT(10 * counts.by_policies, nodes);
}

}  // namespace
}  // namespace alignd::daemon
