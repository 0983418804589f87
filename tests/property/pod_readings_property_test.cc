// Random nodes, and pods of which some have an annotation that contradicts their spec, or of which
// the node ignores the devices of the annotation: other pods are answered what holds however the
// node takes those, and only if something does.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/admission/pod_level.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/shares_checkpoint.h"
#include "alignd/placement/fleet_node.h"
#include "alignd/pod/pod_requests.h"
#include "alignd/scenario/simulation.h"
#include "core/admitted_pods.h"
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
    if (HasShortage(pod)) return false;
    if (!Arrive(as_taken)) return false;
    Count(pod);
    return true;
  }

  // Whether the node admits a pod that is bound to it.
  bool Arrive(const PlannedPod& as_taken) {
    return AdmitsWithDevices(simulation_, PodOn(config_, as_taken));
  }

  // The node decides about the first `count` containers, each alone, when they are created. Whether
  // it admits all of the pod.
  bool ArriveInParts(const PlannedPod& as_taken, size_t count) {
    const Pod whole = PodOn(config_, as_taken);
    bool is_admitted = count == whole.containers.size();
    for (size_t i = 0; i < count; ++i) {
      Pod part = whole;
      part.uid += "-" + std::to_string(i);
      part.containers = {whole.containers[i]};
      part.is_complete = false;
      if (!simulation_.Run(scenario::AdmitPod{part}).admission->admitted()) is_admitted = false;
    }
    return is_admitted;
  }

  // A pod of which only one container needs something of the node is admitted with that one.
  bool HasParts(const PlannedPod& as_taken) const {
    const Pod pod = admission::OnThisNode(simulation_.node(), PodOn(config_, as_taken));
    return std::ranges::count_if(pod.containers, [&](const Container& one) {
             return admission::RequestsAssignment(simulation_.node(), simulation_.state(), pod,
                                                  one);
           }) > 1;
  }

  bool HasShortage(const PlannedPod& pod) const {
    return !requested_.ShortagesOf(allocatable_, pod.pod.uid, RequestsOf(pod)).empty();
  }

  bool IsWholePod(const PlannedPod& pod) const { return IsWhole(simulation_, PodOn(config_, pod)); }

  NodeFiles Files() const {
    return {simulation_.CpuManagerState(), simulation_.MemoryManagerState(),
            checkpoint::FormatDeviceCheckpoint(simulation_.state().devices),
            checkpoint::FormatSharesCheckpoint(simulation_.state().cpu.shares)};
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
  pod.pod.pod_level = pod.annotated->pod_level;
  pod.pod.stated_qos.reset();
  return pod;
}

// Whether the node may take the pod, as its annotation has it, container by container.
bool IsInParts(const PlannedPod& pod) { return pod.annotated->is_partial; }

// Of some of the pods, the annotation does not name all containers.
void Annotate(PlannedPod& pod, Random& random) {
  AddAnnotation(pod, random);
  if (!random.OnceIn(3)) return;
  if (pod.annotated) pod.annotated->is_partial = !pod.annotated->containers.empty();
  if (pod.without_devices->text.empty() || pod.annotated) {
    AnnotatedPod& annotated = pod.without_devices->annotated;
    annotated.is_partial = !annotated.containers.empty();
  }
}

PlannedPod Unannotated(PlannedPod pod) {
  pod.annotation_conflict.clear();
  pod.annotated.reset();
  pod.without_devices.reset();
  return pod;
}

// The pod as a node of that configuration has it.
PlannedPod AsHere(const KubeletConfig& config, PlannedPod pod) {
  if (config.annotated_extended_resources) return pod;
  const std::optional<AnnotationConflict> followed = pod.without_devices;
  pod = Unannotated(std::move(pod));
  if (!followed) return pod;
  pod.annotation_conflict = followed->text;
  pod.annotated = followed->annotated;
  return pod;
}

// As each of these nodes, in each way that there is, and how often it fits.
struct Ways {
  std::vector<Truth> after;
  bool some_fit = false;
  bool all_fit = true;

  void Add(Truth truth, bool fits) {
    after.push_back(std::move(truth));
    some_fit = some_fit || fits;
    all_fit = all_fit && fits;
  }
};

Ways InAllWays(const std::vector<Truth>& truths, const PlannedPod& pod, bool is_bound) {
  Ways ways;
  for (const Truth& truth : truths) {
    for (const bool by_spec : {true, false}) {
      if (!by_spec && pod.annotated->containers.empty()) continue;
      const PlannedPod as_taken = by_spec ? pod : AsAnnotated(pod);
      if (!by_spec && IsInParts(pod) && truth.HasParts(as_taken)) {
        for (size_t count = 0; count <= as_taken.pod.containers.size(); ++count) {
          Truth taken = truth;
          const bool is_there = is_bound || !taken.HasShortage(pod);
          if (is_there) taken.Count(pod);
          const bool fits = is_there && taken.ArriveInParts(as_taken, count);
          ways.Add(std::move(taken), fits);
        }
        continue;
      }
      Truth taken = truth;
      if (is_bound) taken.Count(pod);
      const bool fits = is_bound ? taken.Arrive(as_taken) : taken.Admit(pod, as_taken);
      ways.Add(std::move(taken), fits);
    }
    if (pod.annotation_conflict.empty()) continue;
    Truth refused = truth;
    if (is_bound) refused.Count(pod);
    ways.Add(std::move(refused), false);
  }
  return ways;
}

// What a pod that runs can have: it was admitted in one of the ways, also in one of before a
// restart of alignd. `shown`: the pod as the scheduler has it.
std::vector<Truth> RunningInAllWays(const Truth& truth, const PlannedPod& pod,
                                    const PlannedPod& here, const PlannedPod& shown) {
  std::vector<Truth> after;
  std::vector<PlannedPod> ways = {pod, AsAnnotated(pod)};
  if (here.annotated) ways.push_back(AsAnnotated(here));
  for (const PlannedPod& way : ways) {
    Truth taken = truth;
    taken.Count(shown);
    const bool fits = IsInParts(pod) && taken.HasParts(way)
                          ? taken.ArriveInParts(way, way.pod.containers.size())
                          : taken.Arrive(way);
    if (fits) after.push_back(std::move(taken));
  }
  return after;
}

constexpr char kMore[] = "more";

// The pod with an annotation that has other devices than its spec, and can have a container that
// the spec does not have, or can leave one out.
void AnnotateOtherDevices(PlannedPod& pod, Random& random) {
  pod.annotated = {pod.pod.containers, pod.pod.pod_level};
  pod.annotation_conflict = "annotation x contradicts the spec";
  for (size_t i = 0; i < pod.pod.containers.size(); ++i) {
    const int64_t devices = random.Number(0, 2);
    Container& container = pod.annotated->containers[i];
    SetAmount(container, "a.com/dev", devices);
    const Quantity* const own = Find(pod.pod.containers[i].resources.limits, "a.com/dev");
    if ((own == nullptr ? Quantity() : *own) < Quantity(devices)) {
      pod.annotated_devices[container.name]["a.com/dev"] = Quantity(devices);
    }
  }
  std::vector<Container>& containers = pod.annotated->containers;
  if (random.OnceIn(3)) {
    Container more = containers.back();
    more.name = kMore;
    const int64_t devices = random.Number(0, 2);
    SetAmount(more, "a.com/dev", devices);
    if (devices > 0) pod.annotated_devices[kMore]["a.com/dev"] = Quantity(devices);
    containers.push_back(std::move(more));
  } else if (random.OnceIn(3)) {
    pod.annotated->is_partial = true;
    pod.annotated_devices.erase(containers.back().name);
    SetAmount(containers.back(), "a.com/dev", 0);
    SetAmount(containers.back(), "b.com/dev", 0);
  }
  pod.without_devices = {"", WithoutDevices(*pod.annotated)};
}

bool HasMore(const PlannedPod& pod) { return pod.annotated->containers.back().name == kMore; }

TEST(PodReadingsProperty, AnswersWhatHoldsInAllWays) {
  Random random;
  const int runs = Iterations(300);
  int fitting = 0;
  int refused = 0;
  int open = 0;
  int of_arriving = 0;
  int of_running = 0;
  int of_resized = 0;
  int of_more = 0;  // with a container that only the annotation has
  int of_starting = 0;
  int of_whole = 0;    // pods with CPUs as a whole that are answered
  int in_parts = 0;    // decided beside a pod of which this is so
  int by_devices = 0;  // pods that fit with and without devices
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
    // What the node does with a pod that it would refuse by what is known is left open, and where
    // pods are that run.
    bool is_exact = true;
    const int before = random.Number(0, 7);
    if (before < 2) {
      PlannedPod pod = random_pod("arriving");
      Annotate(pod, random);
      const PlannedPod here = AsHere(*config, pod);
      if (here.annotated) {
        truths = InAllWays(truths, here, true).after;
        is_exact = !IsInParts(here) && empty->Ask(Unannotated(here)).outcome == Outcome::kFits &&
                   (here.annotated->containers.empty() ||
                    empty->Ask(Unannotated(AsAnnotated(here))).outcome == Outcome::kFits);
        node.arriving.push_back(pod);
        ++contradicted;
        ++of_arriving;
      }
    } else if (before == 2) {
      PlannedPod pod = random_pod("running");
      AnnotateOtherDevices(pod, random);
      PlannedPod shown = pod;
      const bool is_resized = random.OnceIn(2) && ShowResized(shown, random);
      std::vector<Truth> running = RunningInAllWays(truths[0], pod, AsHere(*config, pod), shown);
      if (running.empty()) continue;
      if (random.OnceIn(2) && !IsInParts(pod)) {
        running = {random.OneOf(running)};
        node.files = running[0].Files();
      }
      truths = std::move(running);
      is_exact = false;
      node.running.push_back(shown);
      ++contradicted;
      ++of_running;
      of_resized += is_resized ? 1 : 0;
      of_more += HasMore(pod) ? 1 : 0;
    } else if (before == 3) {
      for (int i = random.Number(0, 2); i > 0; --i) {
        const PlannedPod other = random_pod("runs-" + std::to_string(i));
        if (truths[0].Admit(other, other)) node.running.push_back(other);
      }
      if (random.OnceIn(2)) node.files = truths[0].Files();
      is_exact = false;
      // An annotation with other sizes than CRI shows, the node refuses.
      PlannedPod pod = random_pod("starts");
      if (random.OnceIn(3)) {
        AddEqualAnnotation(pod);
      } else {
        AnnotateOtherDevices(pod, random);
      }
      pod.is_pending = true;
      pod.node_name = "n";
      node.running.push_back(pod);
      const PlannedPod here = AsHere(*config, pod);
      if (here.annotated) {
        truths = InAllWays(truths, here, true).after;
        ++contradicted;
        ++of_starting;
      } else {
        truths[0].Count(pod);
        truths[0].Arrive(pod);
      }
    }
    Result<PlannedNode> planned = MakePlannedNode(node);
    ASSERT_TRUE(planned.ok()) << planned.error().Text();
    bool has_parts = false;
    for (int step = 0; step < 6; ++step) {
      PlannedPod pod = random_pod("pod-" + std::to_string(step));
      const bool is_annotated = contradicted < 2 && random.OnceIn(3);
      if (is_annotated) Annotate(pod, random);
      const PlannedPod here = AsHere(*config, pod);
      const Outcome asked = planned->Ask(pod).outcome;
      const Verdict verdict = planned->Place(pod);
      ASSERT_EQ(asked, verdict.outcome) << "run " << run << " step " << step;
      bool some_fit = false;
      bool all_fit = true;
      if (here.annotated) {
        ++contradicted;
        Ways ways = InAllWays(truths, here, false);
        some_fit = ways.some_fit;
        all_fit = ways.all_fit;
        truths = std::move(ways.after);
        if (IsInParts(here)) {
          has_parts = true;
          is_exact = false;
        }
      } else {
        for (Truth& truth : truths) {
          const bool fits = truth.Admit(pod, pod);
          some_fit = some_fit || fits;
          all_fit = all_fit && fits;
        }
      }
      of_whole += truths[0].IsWholePod(pod) && verdict.outcome != Outcome::kUndecided ? 1 : 0;
      if (has_parts && !here.annotated && verdict.outcome != Outcome::kUndecided) ++in_parts;
      if (here.annotated && verdict.outcome == Outcome::kFits) ++by_devices;
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
      // Once they have ended, what they had can be free, which is none of these ways.
      if (std::ranges::any_of(here.pod.containers, [](const Container& one) {
            return one.kind == ContainerKind::kInit;
          })) {
        is_exact = false;
      }
    }
  }
  EXPECT_GT(fitting, runs / 10);
  EXPECT_GT(refused, runs / 8);
  EXPECT_GT(open, runs / 16);
  EXPECT_GT(of_arriving, runs / 16);
  EXPECT_GT(of_running, runs / 60);
  EXPECT_GT(of_resized + of_more, 0);  // each is rare
  EXPECT_GT(of_starting, runs / 40);
  EXPECT_GT(of_whole, 0);
  EXPECT_GT(in_parts, runs / 40);
  EXPECT_GT(by_devices, 0);
}

}  // namespace
}  // namespace alignd::placement
