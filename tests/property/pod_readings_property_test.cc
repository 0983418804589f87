// Random nodes, and pods of which some have an annotation that contradicts their spec: other pods
// are answered what holds however the node takes those, and only if something does.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/placement/fleet_node.h"
#include "alignd/pod/pod_requests.h"
#include "alignd/scenario/simulation.h"
#include "core/crowded_node.h"
#include "core/random_fleet.h"
#include "core/random_planned.h"

namespace alignd::placement {
namespace {

// One way in which the node can take the pods.
class Truth {
 public:
  Truth(scenario::Simulation simulation, const KubeletConfig& config, Allocatable allocatable)
      : simulation_(std::move(simulation)), config_(config), allocatable_(std::move(allocatable)) {}

  void Count(const PlannedPod& pod) { requested_.Add(pod.pod.uid, RequestsOf(pod)); }

  // Whether the scheduler, which knows the spec, and the node admit the pod.
  bool Admit(const PlannedPod& pod, const PlannedPod& as_taken) {
    if (!requested_.ShortagesOf(allocatable_, pod.pod.uid, RequestsOf(pod)).empty()) return false;
    if (!Arrive(as_taken)) return false;
    Count(pod);
    return true;
  }

  // Whether the node admits a pod that is bound to it.
  bool Arrive(const PlannedPod& as_taken) {
    const scenario::AdmitPod step{PodOn(config_, as_taken)};
    return simulation_.Run(step).admission->admitted();
  }

 private:
  static ResourceList RequestsOf(const PlannedPod& pod) {
    return RequestsOfPod(pod.pod, pod.overhead);
  }

  scenario::Simulation simulation_;
  KubeletConfig config_;
  Allocatable allocatable_;
  RequestedResources requested_;
};

PlannedPod AsAnnotated(PlannedPod pod) {
  pod.pod.containers = pod.annotated->containers;
  pod.pod.stated_qos.reset();
  return pod;
}

void Set(Container& container, const std::string& resource, int64_t amount) {
  container.resources.limits[resource] = container.resources.requests[resource] = Quantity(amount);
}

void Contradict(PlannedPod& pod, Random& random) {
  pod.annotation_conflict = "annotation x contradicts the spec";
  pod.annotated.emplace();
  if (random.OnceIn(4)) return;  // it cannot be read
  pod.annotated->containers = pod.pod.containers;
  Container& container = pod.annotated->containers.back();
  const bool has_cpus = !random.OnceIn(3);
  if (has_cpus) Set(container, "cpu", random.Number(1, 4));
  if (!has_cpus || random.OnceIn(2)) Set(container, "a.com/dev", random.Number(1, 2));
}

// As each of these nodes, in each way that there is.
std::vector<Truth> InAllWays(const std::vector<Truth>& truths, const PlannedPod& pod, bool is_bound,
                             bool& may_fit) {
  std::vector<Truth> after;
  for (const Truth& truth : truths) {
    for (const bool by_spec : {true, false}) {
      if (!by_spec && pod.annotated->containers.empty()) continue;
      const PlannedPod as_taken = by_spec ? pod : AsAnnotated(pod);
      Truth taken = truth;
      if (is_bound) taken.Count(pod);
      const bool is_admitted = is_bound ? taken.Arrive(as_taken) : taken.Admit(pod, as_taken);
      may_fit = may_fit || is_admitted;
      after.push_back(std::move(taken));
    }
    after.push_back(truth);
    if (is_bound) after.back().Count(pod);
  }
  return after;
}

TEST(PodReadingsProperty, AnswersWhatHoldsInAllWays) {
  Random random;
  const int runs = Iterations(300);
  int fitting = 0;
  int refused = 0;
  int open = 0;
  int of_arriving = 0;
  for (int run = 0; run < runs; ++run) {
    FleetNode node = RandomFleetNode("n", random);
    node.running.clear();
    node.input.unlocated_devices.clear();
    const Machine& machine = node.input.description.machine;
    const Result<KubeletConfig> config = ParseKubeletConfig(node.config);
    ASSERT_TRUE(config.ok()) << config.error().Text();
    auto simulation = scenario::Simulation::Start(node.input.description, *config);
    if (!simulation.ok()) continue;  // NUMA node 0 can be too small
    const Result<PlannedNode> empty = MakePlannedNode(node);
    ASSERT_TRUE(empty.ok()) << empty.error().Text();
    std::vector<Truth> truths = {{*simulation, *config, empty->allocatable()}};
    const auto random_pod = [&](const std::string& uid) {
      PlannedPod pod = RandomPlanned(uid, machine, random);
      pod.faults.clear();
      pod.undecided.clear();
      return pod;
    };
    int contradicted = 0;
    // What the node does with a pod that it would refuse by what is known is left open.
    bool is_exact = true;
    if (random.OnceIn(3)) {
      PlannedPod pod = random_pod("arriving");
      Contradict(pod, random);
      pod.annotation_conflict.clear();
      bool may_fit = false;
      truths = InAllWays(truths, pod, true, may_fit);
      is_exact = empty->Ask(pod).outcome == Outcome::kFits &&
                 (pod.annotated->containers.empty() ||
                  empty->Ask(AsAnnotated(pod)).outcome == Outcome::kFits);
      node.arriving.push_back(pod);
      ++contradicted;
      ++of_arriving;
    }
    Result<PlannedNode> planned = MakePlannedNode(node);
    ASSERT_TRUE(planned.ok()) << planned.error().Text();
    for (int step = 0; step < 6; ++step) {
      PlannedPod pod = random_pod("pod-" + std::to_string(step));
      const bool contradicts = contradicted < 2 && random.OnceIn(3);
      if (contradicts) {
        Contradict(pod, random);
        ++contradicted;
      }
      const Outcome asked = planned->Ask(pod).outcome;
      const Verdict verdict = planned->Place(pod);
      ASSERT_EQ(asked, verdict.outcome) << "run " << run << " step " << step;
      bool some_fit = false;
      bool all_fit = true;
      if (contradicts) {
        truths = InAllWays(truths, pod, false, some_fit);
        all_fit = false;  // a node can refuse it for its annotation
      } else {
        for (Truth& truth : truths) {
          const bool fits = truth.Admit(pod, pod);
          some_fit = some_fit || fits;
          all_fit = all_fit && fits;
        }
      }
      const auto place = [&] {
        return "run " + std::to_string(run) + " step " + std::to_string(step) + " " +
               verdict.cause + "\n" + node.config;
      };
      switch (verdict.outcome) {
        case Outcome::kFits:
          ASSERT_TRUE(all_fit) << place();
          fitting += contradicted > 0 ? 1 : 0;
          break;
        case Outcome::kRefused:
          ASSERT_FALSE(some_fit) << place();
          refused += contradicted > 0 ? 1 : 0;
          break;
        case Outcome::kUndecided:
          ASSERT_TRUE(!is_exact || (some_fit && !all_fit)) << place();
          ++open;
      }
    }
  }
  EXPECT_GT(fitting, runs / 4);
  EXPECT_GT(refused, runs / 4);
  EXPECT_GT(open, runs / 8);
  EXPECT_GT(of_arriving, runs / 8);
}

}  // namespace
}  // namespace alignd::placement
