// The queue of pods that do not fit, against a slow simulation that does what the rule says: tries
// every pod, in order, until nothing changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "allocation/exclusive_needs.h"
#include "allocation/wait_queue.h"
#include "edge/allocation_node.h"

namespace alignd::allocation {
namespace {

const Refusal kModelRefusal{"TopologyAffinityError", "full"};

// A pod that wants CPUs of one NUMA node and devices of the whole node.
struct ModelPod {
  int id = 0;
  int cpus = 0;
  int devices = 0;
  int32_t priority = 0;

  std::set<std::string> Needs() const {
    std::set<std::string> needs;
    if (cpus > 0) needs.insert("cpu");
    if (devices > 0) needs.insert("device");
    return needs;
  }
};

// First fit, so that what is free is in pieces.
class ModelNode {
 public:
  static constexpr int kCpus = 4;  // of each NUMA node

  bool Admit(const ModelPod& pod) {
    int numa = 0;
    while (numa < 2 && free_[numa] < pod.cpus) ++numa;
    if (numa == 2 || devices_ < pod.devices) return false;
    free_[numa] -= pod.cpus;
    devices_ -= pod.devices;
    running_[pod.id] = {numa, pod};
    return true;
  }
  // False: it does not run.
  bool Release(int id) {
    const auto entry = running_.find(id);
    if (entry == running_.end()) return false;
    const auto& [numa, pod] = entry->second;
    free_[numa] += pod.cpus;
    devices_ += pod.devices;
    running_.erase(entry);
    return true;
  }
  std::vector<int> Running() const {
    std::vector<int> ids;
    for (const auto& [id, pod] : running_) ids.push_back(id);
    return ids;
  }

 private:
  int free_[2] = {kCpus, kCpus};
  int devices_ = 3;
  std::map<int, std::pair<int, ModelPod>> running_;
};

// One step.
struct ModelEvent {
  std::optional<ModelPod> arrives;
  std::optional<int> ends;
};
using Admitted = std::vector<std::vector<int>>;  // the ids of each step

// As AllocationManager uses the queue.
class WithQueue {
 public:
  std::vector<int> Step(const ModelEvent& event) {
    std::vector<int> admitted;
    if (event.ends) {
      if (node_.Release(*event.ends)) queue_.Released();
      if (queue_.Find(std::to_string(*event.ends)) != nullptr) {
        queue_.Forget(std::to_string(*event.ends));
        pods_.erase(*event.ends);
      }
    }
    if (event.arrives) Arrive(*event.arrives, admitted);
    while (const auto uid =
               queue_.NextToTry(WaitQueue::Time(), [](const std::string&) { return true; })) {
      const int id = std::stoi(*uid);
      EXPECT_EQ(queue_.FirstBefore(Asking(pods_.at(id)), WaitQueue::Time()), nullptr);
      if (!node_.Admit(pods_.at(id))) continue;
      queue_.Leave(*uid, WaitEnd::kAdmitted);
      pods_.erase(id);
      admitted.push_back(id);
    }
    return admitted;
  }
  const ModelNode& node() const { return node_; }
  const WaitQueue& queue() const { return queue_; }

 private:
  static WaitingPod Asking(const ModelPod& pod) {
    const std::string uid = std::to_string(pod.id);
    return {.uid = uid, .name = uid, .priority = pod.priority, .needs = pod.Needs()};
  }
  void Arrive(const ModelPod& pod, std::vector<int>& admitted) {
    const bool must_wait = queue_.FirstBefore(Asking(pod), WaitQueue::Time()) != nullptr;
    if (!must_wait && node_.Admit(pod)) return admitted.push_back(pod.id);
    ASSERT_TRUE(queue_.Join(Asking(pod), kModelRefusal, WaitQueue::Time()));
    if (!must_wait) queue_.Tried(std::to_string(pod.id), "", queue_.generation());
    pods_.emplace(pod.id, pod);
  }

  ModelNode node_;
  WaitQueue queue_{WaitLimits{.places = 100'000}};
  std::map<int, ModelPod> pods_;
};

// The rule, as it is written down.
class Obvious {
 public:
  std::vector<int> Step(const ModelEvent& event) {
    if (event.ends) {
      node_.Release(*event.ends);
      std::erase_if(waiting_, [&](const ModelPod& pod) { return pod.id == *event.ends; });
    }
    if (event.arrives) {
      waiting_.push_back(*event.arrives);
      std::ranges::stable_sort(waiting_, std::greater<>(), &ModelPod::priority);
    }
    std::vector<int> admitted;
    while (const auto id = AdmitOne()) admitted.push_back(*id);
    return admitted;
  }

 private:
  std::optional<int> AdmitOne() {
    for (auto pod = waiting_.begin(); pod != waiting_.end(); ++pod) {
      const std::set<std::string> needs = pod->Needs();
      const bool must_wait = std::any_of(waiting_.begin(), pod, [&](const ModelPod& before) {
        return std::ranges::any_of(before.Needs(),
                                   [&](const std::string& kind) { return needs.contains(kind); });
      });
      if (must_wait || !node_.Admit(*pod)) continue;
      const int id = pod->id;
      waiting_.erase(pod);
      return id;
    }
    return std::nullopt;
  }

  ModelNode node_;
  std::vector<ModelPod> waiting_;  // in order
};

std::vector<ModelEvent> RandomEvents(std::mt19937& random, int steps, bool has_priorities) {
  const auto draw = [&random](int most) {
    return std::uniform_int_distribution<int>(0, most)(random);
  };
  WithQueue world;  // only so that most ends are those of running pods
  std::vector<ModelEvent> events;
  for (int step = 0; step < steps; ++step) {
    ModelEvent event;
    const std::vector<int> running = world.node().Running();
    if (!running.empty() && draw(1) > 0) {
      event.ends = running[static_cast<size_t>(draw(static_cast<int>(running.size()) - 1))];
    } else if (draw(9) == 0) {
      event.ends = draw(step);  // perhaps one that waits
    } else {
      event.arrives = ModelPod{.id = step,
                               .cpus = draw(3) == 0 ? 0 : 1 + draw(ModelNode::kCpus - 1),
                               .devices = draw(2) == 0 ? 1 + draw(2) : 0,
                               .priority = has_priorities && draw(4) == 0 ? draw(2) - 1 : 0};
    }
    world.Step(event);
    events.push_back(event);
  }
  return events;
}

template <typename World>
Admitted RunAll(const std::vector<ModelEvent>& events) {
  World world;
  Admitted admitted;
  for (const ModelEvent& event : events) admitted.push_back(world.Step(event));
  return admitted;
}

TEST(WaitQueueProperty, AdmitsWhatTheRuleSaysInEachStep) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const std::vector<ModelEvent> events = RandomEvents(random, 120, /*has_priorities=*/true);
    Admitted queued = RunAll<WithQueue>(events);
    Admitted obvious = RunAll<Obvious>(events);
    for (size_t step = 0; step < events.size(); ++step) {
      // Within a step, pods of different kinds come in any order.
      std::ranges::sort(queued[step]);
      std::ranges::sort(obvious[step]);
      ASSERT_EQ(queued[step], obvious[step]) << "seed " << seed << ", step " << step;
    }
  }
}

// The step in which the pod is admitted; -1: in none.
int StepOf(const Admitted& admitted, int id) {
  for (size_t step = 0; step < admitted.size(); ++step) {
    if (std::ranges::find(admitted[step], id) != admitted[step].end()) {
      return static_cast<int>(step);
    }
  }
  return -1;
}

// Each pod that waits is admitted in the same step as if the pods behind it had never come. (With
// priorities, a later pod can be before it, and be delayed by those that were behind.)
TEST(WaitQueueProperty, NoPodIsDelayedByThoseBehindIt) {
  int waited = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const std::vector<ModelEvent> events = RandomEvents(random, 80, /*has_priorities=*/false);
    const Admitted admitted = RunAll<WithQueue>(events);
    for (size_t came = 0; came < events.size(); ++came) {
      if (!events[came].arrives) continue;
      const ModelPod pod = *events[came].arrives;
      const int step = StepOf(admitted, pod.id);
      if (step == static_cast<int>(came)) continue;  // did not wait
      waited += step < 0 ? 0 : 1;                    // and was admitted later
      std::vector<ModelEvent> without = events;
      for (size_t later = came + 1; later < events.size(); ++later) {
        without[later].arrives.reset();
      }
      ASSERT_EQ(StepOf(RunAll<WithQueue>(without), pod.id), step)
          << "seed " << seed << ", pod " << pod.id;
    }
  }
  EXPECT_GT(waited, 300);
}

TEST(WaitQueueProperty, AFloodOfSmallPodsDoesNotStarveALargeOne) {
  constexpr int kLife = 7;  // steps that a small pod runs
  WithQueue world;
  int next = 1;
  std::map<int, int> ends;  // by id
  int large_since = -1;
  for (int step = 0; step < 400; ++step) {
    ModelEvent event;
    const auto ended =
        std::ranges::find_if(ends, [step](const auto& entry) { return entry.second <= step; });
    if (ended != ends.end()) {
      event.ends = ended->first;
      ends.erase(ended);
    }
    event.arrives = ModelPod{.id = next, .cpus = 1};
    if (step == 50) event.arrives = ModelPod{.id = 0, .cpus = ModelNode::kCpus};
    if (step == 50) large_since = step;
    ++next;
    for (const int id : world.Step(event)) {
      if (id == 0) {
        EXPECT_LE(step - large_since, 2 * ModelNode::kCpus * kLife);
        return;
      }
      ends[id] = step + kLife;
    }
  }
  FAIL() << "the large pod is never admitted";
}

TEST(WaitQueueProperty, FiftyPodsThatCompeteForEightPlacesAreServedInOrder) {
  WithQueue world;
  std::vector<int> served;
  const auto step = [&](const ModelEvent& event) {
    for (const int id : world.Step(event)) served.push_back(id);
  };
  for (int id = 0; id < 50; ++id) step({.arrives = ModelPod{.id = id, .cpus = 1}, .ends = {}});
  EXPECT_EQ(served.size(), 8U);
  EXPECT_EQ(world.queue().size(), 42U);
  std::mt19937 random(1);
  while (served.size() < 50) {
    const std::vector<int> running = world.node().Running();
    step({.arrives = {}, .ends = running[random() % running.size()]});
  }
  EXPECT_TRUE(std::ranges::is_sorted(served));
}

// The rule rests on this: whether a pod fits depends only on the state of the kinds that it needs.
TEST(WaitQueueProperty, PodsOfOtherKindsDoNotChangeWhetherAPodFits) {
  using testing::AppPod;
  using testing::kGpu;
  using testing::kNic;
  const auto any = [](const devicemanager::PreferenceQuery&) {
    return std::optional<std::vector<std::string>>();
  };
  int refused = 0;
  int compared = 0;
  for (const TopologyManagerPolicy policy :
       {TopologyManagerPolicy::kBestEffort, TopologyManagerPolicy::kRestricted,
        TopologyManagerPolicy::kSingleNumaNode}) {
    KubeletConfig config = testing::StaticConfig();
    config.topology_manager_policy = policy;
    const admission::Node node = testing::MakeNode(config);
    std::mt19937 random(17);
    const auto draw = [&random](int most) {
      return std::uniform_int_distribution<int>(0, most)(random);
    };
    const auto random_pod = [&](const std::string& uid) {
      std::map<std::string, std::string> limits;
      if (draw(1) == 0) limits[kGpu] = std::to_string(1 + draw(3));
      if (draw(1) == 0) limits[kNic] = std::to_string(1 + draw(3));
      if (draw(2) == 0) return alignd::AppPod(uid, limits);  // no exclusive CPUs, no memory
      return AppPod(uid, 1 + draw(5), limits);
    };
    for (int run = 0; run < 300; ++run) {
      admission::NodeState state = admission::NodeState::Initial(node);
      state.devices.resources[kGpu] = testing::EightDevices("gpu");
      state.devices.resources[kNic] = testing::EightDevices("nic");
      for (int i = 0; i < 6; ++i) {
        admission::Admission made =
            admission::Admit(node, state, random_pod("p" + std::to_string(i)), any);
        if (made.admitted()) state = std::move(made.next);
      }
      const Pod head = random_pod("head");
      const std::set<std::string> needs = ExclusiveNeeds(node, state, head);
      const bool fits = admission::Admit(node, state, head, any).admitted();
      for (int i = 0; i < 6; ++i) {
        const Pod other = random_pod("other" + std::to_string(i));
        const std::set<std::string> others = ExclusiveNeeds(node, state, other);
        const bool shares = std::ranges::any_of(
            others, [&](const std::string& kind) { return needs.contains(kind); });
        admission::Admission made = admission::Admit(node, state, other, any);
        if (shares || !made.admitted()) continue;
        state = std::move(made.next);
        ++compared;
        ASSERT_EQ(admission::Admit(node, state, head, any).admitted(), fits) << "run " << run;
      }
      refused += fits ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(compared, 300);
}

}  // namespace
}  // namespace alignd::allocation
