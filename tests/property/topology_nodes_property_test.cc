// Random nodes with random pods, once as they are and once as the object that alignd publishes of
// them: the object's answer is that of the node, or it is undecided. It never differs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/pod_level.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/machine/node_json.h"
#include "alignd/noderesourcetopology/object.h"
#include "alignd/placement/score.h"
#include "alignd/placement/topology_nodes.h"
#include "alignd/scenario/simulation.h"
#include "core/crowded_node.h"
#include "core/random_planned.h"

namespace alignd::placement {
namespace {

std::string OneOfTexts(Random& random, const std::vector<std::string>& texts) {
  return random.OneOf(texts);
}

std::string NodeConfigText(const Machine& machine, Random& random) {
  CpuSet reserved;
  reserved.Add(machine.cpus().First());
  if (random.OnceIn(3)) reserved = reserved | (machine.cpus() - random.SomeOf(machine.cpus()));
  std::string text =
      R"({"reservedSystemCPUs":")" + reserved.ToString() +
      R"(","evictionHard":{"memory.available":"100Mi"},"systemReserved":)"
      R"({"memory":"412Mi"},"topologyManagerPolicy":")" +
      OneOfTexts(random, {"none", "best-effort", "restricted", "restricted", "single-numa-node",
                          "single-numa-node", "best-attainable"}) +
      R"(","topologyManagerScope":")" + OneOfTexts(random, {"container", "pod"}) + "\"";
  if (!random.OnceIn(8)) {
    text += R"(,"cpuManagerPolicy":"static")";
    text += OneOfTexts(random, {"", "", R"(,"cpuManagerPolicyOptions":{"full-pcpus-only":"true"})",
                                R"(,"cpuManagerPolicyOptions":{"full-pcpus-only":"true"})",
                                R"(,"cpuManagerPolicyOptions":{"strict-cpu-reservation":"true"})",
                                R"(,"cpuManagerPolicyOptions":{"align-by-socket":"true"})",
                                R"(,"cpuManagerPolicyOptions":{"distribute-cpus-across-numa":)"
                                R"("true","full-pcpus-only":"true"})",
                                R"(,"cpuManagerPolicyOptions":)"
                                R"({"prefer-align-cpus-by-uncorecache":"true"})"});
  }
  if (!random.OnceIn(4)) {
    text += R"(,"memoryManagerPolicy":"Static","reservedMemory":[{"numaNode":)" +
            std::to_string(machine.NumaId(0)) + R"(,"limits":{"memory":"512Mi"}}])";
  }
  if (random.OnceIn(3)) {
    text += R"(,"topologyManagerPolicyOptions":{"prefer-closest-numa-nodes":"true"})";
  }
  text += OneOfTexts(random, {"", "", R"(,"podPolicies":["numaTopologyPolicy"])",
                              R"(,"podPolicies":["numaTopologyPolicy","cpuBindPolicy",)"
                              R"("cpuExclusivePolicy","resourceStatus"])",
                              R"(,"podPolicies":["sharedNUMANode"])",
                              R"(,"podPolicies":["sharedNUMANode","qosClass",)"
                              R"("numaTopologyPolicy"])"});
  text += OneOfTexts(random, {"", R"(,"numaAllocateStrategy":"MostAllocated")"});
  text += OneOfTexts(random, {"", "",
                              R"(,"namespacePolicies":[{"namespaces":["team-a"],"podPolicies":)"
                              R"(["numaTopologyPolicy","cpuBindPolicy"]}])",
                              R"(,"namespacePolicies":[{"namespaces":["team-*"],"podPolicies":)"
                              R"([]}])",
                              R"(,"namespacePolicies":[{"namespaces":["team-*"],"podPolicies":)"
                              R"([],"defaults":{"numaTopologyPolicy":"SingleNUMANode"}}])",
                              R"(,"namespacePolicies":[{"namespaces":["team-*"],"podPolicies":)"
                              R"([],"defaults":{"preferredCPUBindPolicy":"FullPCPUs",)"
                              R"("prefer-shared-cpus":"true"}}])",
                              R"(,"namespacePolicies":[{"namespaces":["team-*"],"podPolicies":)"
                              R"([],"defaults":{"shared-cpus":"single-numa-node"}}])"});
  return text + "}";
}

// Devices on one NUMA node each, or of all kinds.
void AddRandomDevices(const Machine& machine, Random& random, FleetNode& node) {
  const bool is_plain = !random.OnceIn(3);
  for (const char* resource : {"a.com/dev", "b.com/dev"}) {
    const devicemanager::Resource devices = admission::RandomDevices(machine, random);
    for (const auto& [id, device] : devices.devices) {
      devicemanager::Device one = device;
      if (is_plain && one.numa.size() != 1) one.numa = {machine.NumaId(0)};
      node.input.description.devices[resource].emplace_back(id, one);
    }
  }
}

// Of those that are on no NUMA node.
void AddLooseDevice(Container& container, Random& random) {
  const Quantity amount(random.Number(1, 2));
  container.resources.limits["c.com/dev"] = container.resources.requests["c.com/dev"] = amount;
}

// `loose`: how many devices are on no NUMA node.
std::optional<PlannedNode> RandomNode(Random& random, int loose = 0) {
  FleetNode node;
  node.name = "w";
  const Machine machine = admission::WithRandomMemory(
      admission::WithRandomDistances(RandomMachine(random), random), random);
  node.input.description.machine = machine;
  AddRandomDevices(machine, random, node);
  for (int i = 0; i < loose; ++i) {
    node.input.description.devices["c.com/dev"].emplace_back("c-" + std::to_string(i),
                                                             devicemanager::Device{});
  }
  node.config = NodeConfigText(machine, random);
  Result<PlannedNode> made = MakePlannedNode(node);
  if (!made.ok()) return std::nullopt;  // for example align-by-socket on a machine that has no such
  return *std::move(made);
}

// On a node where pods can ask for shared CPUs of one NUMA node, often one that asks for nothing
// else by annotation.
PlannedPod RandomPodFor(const admission::Node& node, const std::string& name, Random& random) {
  PlannedPod pod = RandomPlanned(name, node.machine, random);
  pod.pod.name = pod.pod.uid = name;
  pod.undecided.clear();
  const bool may_share = PodPoliciesAnywhere(node.config).contains(PodPolicy::kSharedNumaNode);
  if (!may_share || !random.OnceIn(2)) return pod;
  pod.pod.policies = {};
  pod.pod.policies.shared_on_one_node = true;
  if (random.OnceIn(3)) return pod;
  for (Container& container : pod.pod.containers) {
    container.resources.limits.erase("cpu");
    container.resources.requests["cpu"] =
        Quantity::Parse(std::to_string(random.Number(0, 3000)) + "m").value();
  }
  pod.pod.stated_qos.reset();
  return pod;
}

// As the kubelet reports the node.
NodeObject NodeObjectOf(const PlannedNode& node) {
  NodeObject object{"w", {}, {}, node.allocatable().amounts, {}};
  object.allocatable["pods"] = Quantity(node.allocatable().pods);
  object.capacity["cpu"] = Quantity(node.node().machine.cpus().Count());
  return object;
}

// The node as its objects show it now. They do not have the pods that are starting.
PlannedNode FromObjects(const admission::Node& node, const admission::NodeState& state,
                        const NodeObject& as_node, const std::vector<BoundPod>& bound) {
  std::vector<noderesourcetopology::PodIdentity> names;
  for (const BoundPod& pod : bound) {
    if (!pod.is_starting)
      names.push_back({pod.pod.pod.name_space, pod.pod.pod.name, pod.pod.pod.uid});
  }
  // Every second one is for Koordinator too: that makes no difference here.
  noderesourcetopology::Annotations koordinator;
  if (bound.size() % 2 == 1) {
    koordinator = noderesourcetopology::KoordinatorAnnotations(node, state, {}).value();
  }
  const Result<TopologyObject> object =
      ReadTopologyObject(noderesourcetopology::ObjectJson("w", node, state, names, koordinator));
  EXPECT_TRUE(object.ok()) << object.error().Text();
  Result<FleetNode> made = NodeOfObjects(*object, as_node, bound, "");
  EXPECT_TRUE(made.ok()) << made.error().Text();
  Result<PlannedNode> planned = MakePlannedNode(*made);
  EXPECT_TRUE(planned.ok()) << planned.error().Text();
  return *std::move(planned);
}

// Whether the pod asks for more of its CPUs than their number, beyond the options of the node.
bool AsksForCpuNumbers(const admission::Node& node, const Pod& pod) {
  const PodPolicies& asked = pod.policies;
  const PodPolicies chosen = admission::ChosenPolicies(node, pod);
  const bool is_by_option = node.cpu && node.cpu->options.full_pcpus_only &&
                            chosen.required_bind == CpuBindPolicy::kFullPcpus;
  const bool is_decided = admission::MayChoose(node, pod, PodPolicy::kResourceStatus) &&
                          !(asked.cpuset.empty() && asked.numa_resources.empty());
  const bool is_apart = asked.keeps_numa_apart &&
                        admission::MayChoose(node, pod, PodPolicy::kNumaTopologyPolicy) &&
                        admission::TopologyOf(node, pod).kind() != TopologyManagerPolicy::kNone;
  // Several containers can fit on other NUMA nodes only.
  const bool prefers = chosen.exclusive && pod.containers.size() > 1;
  return (chosen.required_bind && !is_by_option) || prefers || is_decided || is_apart;
}

bool SharesANode(const admission::Node& node, const Pod& pod) {
  return node.cpu && std::ranges::any_of(pod.containers, [&](const Container& one) {
           return admission::AsksForOneNode(node, pod, one);
         });
}

// The same of a pod that asks for shared CPUs of one NUMA node.
bool SharesAreExact(const PlannedNode& node, const Pod& pod) {
  const TopologyManagerPolicy kind = admission::TopologyOf(node.node(), pod).kind();
  const bool has_exclusive = std::ranges::any_of(pod.containers, [&](const Container& one) {
    return admission::RequestsCpus(node.node(), pod, one);
  });
  if (has_exclusive && kind != TopologyManagerPolicy::kSingleNumaNode) return false;
  if (!node.node().cpu->options.full_pcpus_only) return true;
  const auto cores = noderesourcetopology::FreeCoresOf(node.node(), node.state());
  if (!cores) return false;
  const auto backing = noderesourcetopology::BackingOf(node.node(), node.state());
  return cores->cpus_per_core <= 2 || std::ranges::all_of(backing, [](const auto& entry) {
           return entry.second.cpus == entry.second.core_cpus;
         });
}

std::string Described(const PlannedNode& node, const PlannedPod& pod) {
  return admission::DescribeRequest(node.node(), node.state(),
                                    admission::OnThisNode(node.node(), pod.pod));
}

bool HasInitContainer(const PlannedPod& pod) {
  return std::ranges::any_of(pod.pod.containers,
                             [](const Container& one) { return one.kind == ContainerKind::kInit; });
}

// Where docs/fleet-planning.md says that the answer is exact.
bool IsExact(const PlannedNode& node, const PlannedPod& pod) {
  if (!pod.undecided.empty()) return false;
  if (AsksForCpuNumbers(node.node(), pod.pod)) return false;
  const Pod managed = admission::OnThisNode(node.node(), pod.pod);
  if (SharesANode(node.node(), managed) && !SharesAreExact(node, managed)) return false;
  const bool is_init = HasInitContainer(pod);
  const bool is_one = pod.pod.containers.size() == 1;
  const bool by_sockets =
      node.node().config.numa_allocate_strategy != NumaAllocateStrategy::kNone &&
      node.node().machine.numa_count() > 2;
  if (!is_one && by_sockets) return false;
  const TopologyManagerPolicy kind = admission::TopologyOf(node.node(), pod.pod).kind();
  const bool is_single = kind == TopologyManagerPolicy::kSingleNumaNode;
  const bool is_none = kind == TopologyManagerPolicy::kNone;
  const bool full_cores = node.node().cpu && node.node().cpu->options.full_pcpus_only;
  const bool is_whole = node.node().topology.scope() == TopologyManagerScope::kPod &&
                        kind != TopologyManagerPolicy::kBestAttainable && !full_cores;
  if (!is_one && (is_init || !(is_single || is_none || is_whole))) return false;
  if (!noderesourcetopology::DeviceGroups(node.node(), node.state()).empty()) return false;
  if (!node.node().cpu) return true;
  if (node.node().cpu->options.align_by_socket) return false;
  return !node.node().cpu->options.full_pcpus_only ||
         noderesourcetopology::FreeCoresOf(node.node(), node.state()).has_value();
}

TEST(TopologyNodesProperty, AnObjectNeverAnswersOtherwiseThanItsNode) {
  Random random;
  const int runs = Iterations(400);
  std::map<std::string, int> seen;
  for (int run = 0; run < runs; ++run) {
    std::optional<PlannedNode> node = RandomNode(random);
    if (!node) continue;
    std::vector<BoundPod> bound;
    std::optional<PlannedNode> object;
    int age = 0;              // pods since the object was made
    std::string placed;       // what they request
    bool may_differ = false;  // the init containers of one of them have ended in `node` alone
    for (int step = 0; step < 10; ++step) {
      if (!object || age > random.Number(0, 3)) {
        object = FromObjects(node->node(), node->state(), NodeObjectOf(*node), bound);
        age = 0;
        placed.clear();
        may_differ = false;
      }
      if (HasFailure()) return;
      const std::string name = "pod-" + std::to_string(step);
      const PlannedPod pod = RandomPodFor(node->node(), name, random);
      const Verdict truth = node->Ask(pod);
      const Verdict asked = object->Ask(pod);
      const std::string place = "run " + std::to_string(run) + " step " + std::to_string(step) +
                                " age " + std::to_string(age) + " " + placed +
                                Described(*node, pod) + "\n" +
                                MachineToNodeJson(node->node().machine);
      if (truth.outcome == Outcome::kUndecided) {
        // Otherwise, it depends on whether init containers have ended, which the object shows.
        EXPECT_TRUE(pod.undecided.empty() || asked.outcome != Outcome::kFits) << place;
        ++seen["after init containers"];
        continue;
      }
      if (asked.outcome == Outcome::kUndecided) {
        ++seen["undecided"];
        EXPECT_FALSE(age == 0 && IsExact(*node, pod)) << place << asked.refusal->message;
      } else {
        const bool shares = SharesANode(node->node(), admission::OnThisNode(node->node(), pod.pod));
        ++seen[std::string(ToString(asked.outcome)) + " " + std::string(ToString(asked.stage))];
        if (shares) ++seen["shared " + std::string(ToString(asked.outcome))];
        if (!shares && !node->state().cpu.shares.empty()) ++seen["beside shared ones"];
        EXPECT_EQ(asked.outcome, truth.outcome) << place;
        EXPECT_EQ(asked.stage, truth.stage) << place;
        if (may_differ) {
          ++seen["beside init containers"];
        } else if (asked.outcome == Outcome::kRefused) {
          EXPECT_EQ(asked.refusal->reason, truth.refusal->reason) << place;
        } else {
          EXPECT_EQ(Score(ScoreStrategy::kByLeastAllocated, *object, pod, asked),
                    Score(ScoreStrategy::kByLeastAllocated, *node, pod, truth))
              << place;
        }
      }
      EXPECT_EQ(object->Place(pod).outcome, asked.outcome);
      ++age;
      if (HasFailure()) return;
      placed += Described(*node, pod) + "\n";
      if (node->Place(pod).outcome == Outcome::kFits) {
        bound.push_back({.pod = pod});
        may_differ = may_differ || HasInitContainer(pod);
      }
    }
  }
  EXPECT_GT(seen["fits kubelet"], runs / 2);
  EXPECT_GT(seen["refused kubelet"], runs / 8);
  EXPECT_GT(seen["refused scheduler"], runs / 8);
  EXPECT_GT(seen["undecided"], 0);
  EXPECT_GT(seen["shared fits"], runs / 20);
  EXPECT_GT(seen["shared refused"], runs / 40);
  EXPECT_GT(seen["beside shared ones"], runs / 20);
  for (const auto& [what, count] : seen) RecordProperty(what, count);
}

// Some of them have an annotation that contradicts their spec, and the node can follow it.
PlannedPod RandomArriving(const PlannedNode& node, Random& random) {
  PlannedPod pod = RandomPodFor(node.node(), "arriving", random);
  pod.faults.clear();
  // Which CPUs it has is not in the object.
  if (random.OnceIn(2)) pod.pod.policies.required_bind = CpuBindPolicy::kSpreadByPcpus;
  if (!random.OnceIn(2)) return pod;
  pod.annotated.emplace();
  pod.annotation_conflict = "the annotation differs";
  if (random.OnceIn(4)) return pod;  // it cannot be read
  pod.annotated->containers = pod.pod.containers;
  Resources& resources = pod.annotated->containers.back().resources;
  std::string name = random.OneOf<std::string>({"cpu", "a.com/dev", "b.com/dev"});
  if (random.OnceIn(2)) name = "c.com/dev";
  resources.limits[name] = resources.requests[name] = Quantity(random.Number(1, 2));
  if (pod.annotated->containers == pod.pod.containers) pod.annotation_conflict.clear();
  return pod;
}

// The node has decided about it, or refuses it. The object does not have it yet.
TEST(TopologyNodesProperty, APodThatStartsLeavesOpenOnlyWhatDependsOnIt) {
  Random random;
  const int runs = Iterations(400);
  std::map<Outcome, int> seen;
  int beside_open = 0;
  for (int run = 0; run < runs; ++run) {
    std::optional<PlannedNode> node = RandomNode(random, random.Number(0, 2));
    if (!node) continue;
    std::vector<BoundPod> bound;
    for (int i = random.Number(0, 3); i > 0; --i) {
      const PlannedPod pod = RandomPodFor(node->node(), "pod-" + std::to_string(i), random);
      // The object shows whether its init containers have ended.
      if (HasInitContainer(pod)) continue;
      if (node->Place(pod).outcome == Outcome::kFits) bound.push_back({.pod = pod});
    }
    const PlannedPod arriving = RandomArriving(*node, random);
    const Verdict by_spec = node->Ask(arriving);
    if (by_spec.outcome == Outcome::kRefused && by_spec.stage == Stage::kScheduler) continue;
    bound.push_back({.pod = arriving, .is_starting = true});
    const PlannedNode object = FromObjects(node->node(), node->state(), NodeObjectOf(*node), bound);
    if (HasFailure()) return;
    if (!arriving.annotated || random.OnceIn(2)) {
      node->Place(arriving);
    } else if (!arriving.annotated->containers.empty()) {
      PlannedPod followed = arriving;
      followed.pod.containers = arriving.annotated->containers;
      followed.pod.stated_qos.reset();
      followed.annotated.reset();
      node->Place(followed);
    }
    node->CountRunning(arriving);  // in any case, as its spec has it
    bool is_open = false;
    bool is_decided = false;
    for (int step = 0; step < 6; ++step) {
      PlannedPod pod = RandomPodFor(node->node(), "asked-" + std::to_string(step), random);
      if (random.OnceIn(2)) AddLooseDevice(pod.pod.containers.back(), random);
      const Verdict asked = object.Ask(pod);
      ++seen[asked.outcome];
      if (asked.outcome == Outcome::kUndecided) {
        is_open = true;
        continue;
      }
      is_decided = is_decided || asked.stage == Stage::kKubelet;
      ASSERT_EQ(asked.outcome, node->Ask(pod).outcome)
          << "run " << run << " step " << step << " " << asked.cause << "\nafter "
          << Described(*node, arriving) << ": " << Described(*node, pod) << "\n"
          << MachineToNodeJson(node->node().machine);
    }
    beside_open += is_open && is_decided ? 1 : 0;
  }
  EXPECT_GT(seen[Outcome::kFits], runs / 12);
  EXPECT_GT(seen[Outcome::kRefused], runs / 12);
  EXPECT_GT(seen[Outcome::kUndecided], runs / 20);
  EXPECT_GT(beside_open, runs / 100);
}

// CPUs go offline and come back while pods run. The object is always a new one. Only the kubelet's
// answer is compared: the Node object says nothing of CPUs that are offline.
TEST(TopologyNodesProperty, AnObjectOfANodeWithOfflineCpusAnswersAsTheNode) {
  Random random;
  const int runs = Iterations(150);
  std::map<std::string, int> seen;
  for (int run = 0; run < runs; ++run) {
    FleetNode described;
    described.input.description.machine =
        admission::WithRandomMemory(RandomMachine(random), random);
    const Machine& machine = described.input.description.machine;
    AddRandomDevices(machine, random, described);
    described.config = NodeConfigText(machine, random);
    const Result<PlannedNode> planned = MakePlannedNode(described);
    if (!planned.ok() || !planned->node().cpu) continue;
    Result<scenario::Simulation> node =
        scenario::Simulation::Start(described.input.description, planned->node().config);
    ASSERT_TRUE(node.ok()) << node.error().Text();
    for (int step = 0; step < 10; ++step) {
      admission::NodeState state = node->state();
      cpumanager::SetOffline(machine.cpus() - random.SomeOf(machine.cpus()), state.cpu);
      node->SetState(state);
      const PlannedNode object =
          FromObjects(node->node(), node->state(), NodeObjectOf(*planned), {});
      if (HasFailure()) return;
      const std::string name = "pod-" + std::to_string(step);
      const PlannedPod pod = RandomPodFor(node->node(), name, random);
      const Verdict asked = object.Ask(pod);
      if (asked.stage != Stage::kKubelet) continue;
      Pod classed = pod.pod;
      classed.stated_qos = QosOf(classed);
      const scenario::Trial truth = node->Try(classed);
      const bool fits = truth.admission.admitted();
      const std::string place = "run " + std::to_string(run) + " step " + std::to_string(step) +
                                " offline " + state.cpu.offline.ToString() + " " +
                                MachineToNodeJson(machine) + "\n" + described.config;
      ++seen[std::string(ToString(asked.outcome))];
      if (asked.outcome != Outcome::kUndecided) {
        EXPECT_EQ(asked.outcome == Outcome::kFits, fits) << place;
      }
      if (asked.outcome == Outcome::kRefused && !fits) {
        EXPECT_EQ(asked.refusal->reason, truth.admission.refusal->reason) << place;
      }
      if (HasFailure()) return;
      if (fits) node->SetState(truth.after);
    }
  }
  EXPECT_GT(seen["fits"], runs / 2);
  EXPECT_GT(seen["refused"], runs / 8);
  for (const auto& [what, count] : seen) RecordProperty(what, count);
}

}  // namespace
}  // namespace alignd::placement
