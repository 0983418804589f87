// Random nodes on which pods have come and gone, known without state files: what is answered about
// a pod is what the node itself decides, or left open.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/shares_checkpoint.h"
#include "alignd/placement/fleet_node.h"
#include "alignd/scenario/simulation.h"
#include "core/admitted_pods.h"
#include "core/crowded_node.h"
#include "core/placement/numa_search.h"
#include "core/random_fleet.h"
#include "core/random_planned.h"

namespace alignd::placement {
namespace {

// Half of them fit on a NUMA node together with others, so that it matters where they are.
PlannedPod SmallPod(const std::string& uid, const Machine& machine, Random& random) {
  if (random.OnceIn(3)) return RandomPlanned(uid, machine, random);
  const auto amounts = [&] {
    std::map<std::string, std::string> all = {{"cpu", std::to_string(random.Number(1, 3))},
                                              {"memory", "64Mi"}};
    if (random.OnceIn(3)) all["a.com/dev"] = std::to_string(random.Number(1, 2));
    return all;
  };
  PlannedPod planned;
  planned.pod = MakePod(uid, {App("app", amounts())});
  if (random.OnceIn(5)) AddPodLevel(planned.pod, random);
  if (random.OnceIn(5)) {  // of shared CPUs
    Resources& app = planned.pod.containers[0].resources;
    app.requests["cpu"] = app.limits["cpu"] = Amounts({{"cpu", "1500m"}})["cpu"];
    planned.pod.policies.shared_on_one_node = true;
  }
  if (random.OnceIn(4)) planned.pod.containers.push_back(App("more", amounts()));
  if (random.OnceIn(6))
    planned.pod.containers.insert(planned.pod.containers.begin(), Init("init", amounts()));
  return planned;
}

// Moves the devices of the pod from its spec to its annotation. False: it has none.
bool HideDevices(PlannedPod& pod, Random& random) {
  const AnnotatedPod with_devices = {pod.pod.containers, pod.pod.pod_level};
  for (Container& container : pod.pod.containers) {
    const Quantity* const devices = Find(container.resources.limits, "a.com/dev");
    if (devices == nullptr || devices->IsZero()) continue;
    pod.annotated_devices[container.name]["a.com/dev"] = *devices;
    container.resources.limits.erase("a.com/dev");
    container.resources.requests.erase("a.com/dev");
  }
  if (pod.annotated_devices.empty()) return false;
  if (random.OnceIn(2)) {
    pod.annotation_conflict = "annotation x contradicts the spec";
    pod.annotated = with_devices;
    pod.without_devices = {"", WithoutDevices(with_devices)};
  }
  return true;
}

// The node as before a change of its topology policy, in that state.
scenario::Simulation BeforeChange(const FleetNode& node, KubeletConfig config,
                                  const admission::NodeState& state) {
  config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
  config.topology_manager_policy_options.clear();
  config.topology_manager_scope = TopologyManagerScope::kContainer;
  for (NamespacePolicies& entry : config.namespace_policies) entry.defaults.numa_topology.reset();
  auto before = scenario::Simulation::Start(node.input.description, config);
  EXPECT_TRUE(before.ok()) << before.error().Text();
  before->SetState(state);
  return *std::move(before);
}

TEST(GuessedPlacesProperty, AnswersAsTheNodeItselfOrLeavesItOpen) {
  Random random;
  const int runs = Iterations(400);
  int fitting = 0;
  int refused = 0;
  int open = 0;
  int guessed = 0;
  int of_before = 0;  // pods that the node runs and would refuse
  int hidden = 0;     // pods with devices that their spec does not have
  int ignored = 0;    // these, on nodes that do not give any pod such devices now
  int resized = 0;
  int whole = 0;          // pods with CPUs and memory as a whole, which run
  int asked_whole = 0;    // and those that are decided
  int starting = 0;       // pods that are bound to the node and have not started
  int beside_shares = 0;  // these, beside a file with CPU shares
  for (int run = 0; run < runs; ++run) {
    FleetNode node = RandomFleetNode("n", random);
    node.running.clear();
    node.input.unlocated_devices.clear();
    const Machine& machine = node.input.description.machine;
    const Result<KubeletConfig> config = ParseKubeletConfig(node.config);
    ASSERT_TRUE(config.ok()) << config.error().Text();
    auto truth = scenario::Simulation::Start(node.input.description, *config);
    if (!truth.ok()) continue;
    const auto admit = [&](const PlannedPod& pod) {
      return AdmitsWithDevices(*truth, PodOn(*config, pod));
    };
    const auto is_whole = [&](const PlannedPod& pod) {
      return IsWhole(*truth, PodOn(*config, pod));
    };
    // Whether an earlier configuration has admitted a pod that this one would refuse even alone.
    const auto admitted_before = [&](const PlannedPod& pod) {
      auto empty = scenario::Simulation::Start(node.input.description, *config);
      const Pod on_node = PodOn(*config, pod);
      if (AdmitsWithDevices(*empty, on_node)) return false;
      auto before = BeforeChange(node, *config, truth->state());
      if (!AdmitsWithDevices(before, on_node)) return false;
      truth->SetState(before.state());
      return true;
    };
    const bool may_change = random.OnceIn(3);
    for (int step = 0; step < 8; ++step) {
      if (!node.running.empty() && random.OnceIn(3)) {
        const auto gone =
            node.running.begin() + random.Number(0, static_cast<int>(node.running.size()) - 1);
        admission::NodeState without = truth->state();
        admission::ReleasePod(gone->pod.uid, without);
        truth->SetState(std::move(without));
        node.running.erase(gone);
        continue;
      }
      PlannedPod pod = SmallPod("run-" + std::to_string(step), machine, random);
      if (!pod.faults.empty() || !pod.undecided.empty() || !pod.gates.empty()) continue;
      const PlannedPod as_admitted = pod;
      // By its annotation alone, the pod has the devices that it is admitted with. A node that
      // ignores them has followed it before a restart.
      const bool hides = random.OnceIn(5) && HideDevices(pod, random);
      const bool resizes = !hides && random.OnceIn(6) && ShowResized(pod, random);
      const bool fits = admit(as_admitted);
      if (!fits && !(may_change && admitted_before(as_admitted))) continue;
      node.running.push_back(pod);
      of_before += fits ? 0 : 1;
      hidden += hides ? 1 : 0;
      ignored += hides && !config->annotated_extended_resources ? 1 : 0;
      resized += resizes ? 1 : 0;
      whole += is_whole(as_admitted) ? 1 : 0;
    }
    if (node.running.size() > 1 && random.OnceIn(2)) std::swap(node.running[0], node.running[1]);
    const bool may_share =
        PodPoliciesAnywhere(*config).contains(PodPolicy::kSharedNumaNode) && !random.OnceIn(3);
    if (may_share || random.OnceIn(4)) {  // then, no place is a guess
      node.files = {truth->CpuManagerState(), truth->MemoryManagerState(),
                    checkpoint::FormatDeviceCheckpoint(truth->state().devices)};
      if (may_share || random.OnceIn(2)) {
        node.files.cpu_shares = checkpoint::FormatSharesCheckpoint(truth->state().cpu.shares);
      }
    }
    // The list of pods does not have them in the order in which the node decides about them.
    std::vector<PlannedPod> bound;
    for (int i = may_share || random.OnceIn(2) ? random.Number(1, 2) : 0; i > 0; --i) {
      PlannedPod& pod =
          bound.emplace_back(SmallPod("starts-" + std::to_string(i), machine, random));
      pod.faults.clear();
      pod.undecided.clear();
      pod.is_pending = true;
      pod.node_name = "n";
      beside_shares += truth->state().cpu.shares.empty() || node.files.cpu_shares.empty() ? 0 : 1;
      starting += admit(pod) ? 1 : 0;  // one that is refused can stay bound for some time
    }
    if (random.OnceIn(2)) std::ranges::reverse(bound);
    std::ranges::copy(bound, std::back_inserter(node.running));
    Result<PlannedNode> planned = MakePlannedNode(node);
    ASSERT_TRUE(planned.ok()) << planned.error().Text();
    for (int step = 0; step < 4; ++step) {
      const PlannedPod pod = SmallPod("pod-" + std::to_string(step), machine, random);
      const Verdict verdict = planned->Place(pod);
      if (verdict.outcome == Outcome::kUndecided) {
        ++open;
        break;
      }
      if (verdict.stage != Stage::kKubelet) continue;
      const bool fits = verdict.outcome == Outcome::kFits;
      ASSERT_EQ(admit(pod), fits) << "run " << run << " step " << step << " " << verdict.cause
                                  << "\n"
                                  << node.config;
      guessed += planned->has_guesses() ? 1 : 0;
      asked_whole += is_whole(pod) ? 1 : 0;
      ++(fits ? fitting : refused);
    }
  }
  EXPECT_GT(fitting, runs / 4);
  EXPECT_GT(guessed, runs / 16);
  EXPECT_GT(refused, 0);
  EXPECT_GT(open, 0);
  EXPECT_GT(of_before, runs / 100);
  EXPECT_GT(hidden, runs / 100);
  EXPECT_GT(ignored, 0);
  EXPECT_GT(resized, runs / 20);
  EXPECT_GT(whole, runs / 20);
  EXPECT_GT(asked_whole, 0);
  EXPECT_GT(starting, runs / 20);
  EXPECT_GT(beside_shares, 0);
}

AmountRow RandomRow(size_t length, int most, Random& random) {
  AmountRow row(length);
  for (int64_t& amount : row) amount = random.Number(0, most);
  return row;
}

bool Holds(const AmountRow& free, const AmountRow& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (free[i] < wanted[i]) return false;
  }
  return true;
}

// All choices of a NUMA node for each of `count` rows.
std::vector<std::vector<size_t>> AllChoices(size_t count, size_t nodes) {
  std::vector<std::vector<size_t>> all = {{}};
  for (size_t i = 0; i < count; ++i) {
    std::vector<std::vector<size_t>> longer;
    for (const auto& choice : all) {
      for (size_t node = 0; node < nodes; ++node) {
        longer.push_back(choice);
        longer.back().push_back(node);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// Each combination of places, one after the other.
TEST(GuessedPlacesProperty, SearchesAsAllCombinationsDo) {
  Random random;
  int none = 0;
  int all = 0;
  const int runs = Iterations(2000);
  for (int run = 0; run < runs; ++run) {
    const auto length = static_cast<size_t>(random.Number(1, 3));
    const auto nodes = static_cast<size_t>(random.Number(1, 3));
    NumaQuestion question;
    for (size_t i = 0; i < nodes; ++i) question.free.push_back(RandomRow(length, 8, random));
    for (int i = random.Number(0, 3); i > 0; --i) {
      question.items.push_back(RandomRow(length, 4, random));
    }
    for (int i = random.Number(1, 2); i > 0; --i) {
      question.parts.push_back(RandomRow(length, 6, random));
    }
    question.split = AmountRow(length);
    bool can_find_none = false;
    bool can_find_all = false;
    bool has_places = false;
    for (const auto& choice : AllChoices(question.items.size() + question.parts.size(), nodes)) {
      std::vector<AmountRow> free = question.free;
      bool is_whole = true;
      for (size_t i = 0; i < choice.size() && is_whole; ++i) {
        const bool is_part = i >= question.items.size();
        const AmountRow& row =
            is_part ? question.parts[i - question.items.size()] : question.items[i];
        has_places = has_places || is_part;
        const auto holds = [&row](const AmountRow& one) { return Holds(one, row); };
        can_find_none = can_find_none || (is_part && std::ranges::none_of(free, holds));
        is_whole = Holds(free[choice[i]], row);
        for (size_t r = 0; r < length; ++r) free[choice[i]][r] -= row[r];
      }
      can_find_all = can_find_all || is_whole;
    }
    if (!has_places) continue;
    ASSERT_EQ(CanFindNone(question), can_find_none) << "run " << run;
    ASSERT_EQ(CanFindAll(question), can_find_all) << "run " << run;
    none += can_find_none ? 1 : 0;
    all += can_find_all ? 1 : 0;
    // What is split takes from each NUMA node what it may take. (Of several parts, the first ones
    // could go where items are, and leave nothing to the last one.)
    question.split = RandomRow(length, 2, random);
    if (question.parts.size() == 1 && !CanFindNone(question)) {
      NumaQuestion less = question;
      for (AmountRow& row : less.free) {
        for (size_t r = 0; r < length; ++r) {
          row[r] = std::max<int64_t>(0, row[r] - question.split[r]);
        }
      }
      less.split = AmountRow(length);
      less.items.clear();
      ASSERT_FALSE(CanFindNone(less)) << "run " << run;
    }
  }
  EXPECT_GT(none, runs / 10);
  EXPECT_GT(all, runs / 10);
}

}  // namespace
}  // namespace alignd::placement
