// Random pods on crowded nodes with 24 to 64 NUMA nodes and three or four kinds of devices: nearly
// all searches of a decision end before their limit. Prints how long the decisions take.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "core/crowded_node.h"

namespace alignd::admission {
namespace {

constexpr int kPodsPerNode = 40;

// Of this thread, so that other programs disturb it little.
int64_t CpuNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

double Milliseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; }

// The decisions about containers on one kind of machine.
class DecisionCosts {
 public:
  void Add(int64_t nanoseconds, bool exact) {
    costs_.push_back(nanoseconds);
    if (!exact) ++ended_;
  }

  int64_t ended() const { return ended_; }
  int64_t decisions() const { return static_cast<int64_t>(costs_.size()); }

  void Print(const std::string& machine) {
    if (costs_.empty()) return;
    std::ranges::sort(costs_);
    const auto at = [&](double share) {
      return Milliseconds(
          costs_[static_cast<size_t>(share * static_cast<double>(costs_.size() - 1))]);
    };
    std::cout << machine << ": " << costs_.size() << " pods, median " << at(0.5) << " ms, 99.9 % "
              << at(0.999) << " ms, longest " << at(1) << " ms, " << ended_
              << " searches ended at their limit\n";
  }

 private:
  std::vector<int64_t> costs_;
  int64_t ended_ = 0;
};

bool IsExact(const topologymanager::Policy& policy, const ContainerDecision& decision) {
  return decision.memory_exact &&
         MergeWithin({}, policy.numa(), policy.Lists({decision.hints}), policy.rules()).exact;
}

// ALIGND_ITERATIONS is the number of nodes; each gets kPodsPerNode pods. Times are printed only:
// they depend on the machine. What ends at its limit does not.
TEST(DecisionCostProperty, SearchesSeldomEndAtTheirLimit) {
  Random random;
  const std::vector<std::pair<std::string, std::string>> shapes = {
      {"24 NUMA nodes", "socket:8 numa:3 core:4 thread:2"},
      {"32 NUMA nodes", "socket:8 numa:4 core:4 thread:2"},
      {"34 NUMA nodes, 2 with CPUs", "socket:2 numa:1 core:72 cpuless=32"},
      {"48 NUMA nodes", "socket:8 numa:6 core:4 thread:2"},
      {"64 NUMA nodes", "socket:8 numa:8 core:4 thread:2"}};
  std::vector<DecisionCosts> costs(2 * shapes.size());
  const int runs = Iterations(20);
  for (int run = 0; run < runs; ++run) {
    const size_t kind = static_cast<size_t>(run) % costs.size();
    const int device_kinds = 3 + static_cast<int>(kind % 2);
    CrowdedNode crowded =
        CrowdedNode::Make(MakeMachine(shapes[kind / 2].second), random, device_kinds);
    const topologymanager::Policy& policy = crowded.node.topology;
    for (int step = 0; step < kPodsPerNode; ++step) {
      const Pod pod = crowded.NextPod(step, random);
      const int64_t start = CpuNanoseconds();
      const Admission admission =
          Admit(crowded.node, crowded.state, pod, devicemanager::NoPreference);
      const int64_t cost = CpuNanoseconds() - start;
      const bool exact = std::ranges::all_of(
          admission.decisions, [&](const auto& decision) { return IsExact(policy, decision); });
      costs[kind].Add(cost, exact);
      if (admission.admitted()) crowded.state = admission.next;
    }
  }
  int64_t ended = 0;
  int64_t decisions = 0;
  for (size_t kind = 0; kind < costs.size(); ++kind) {
    ended += costs[kind].ended();
    decisions += costs[kind].decisions();
    costs[kind].Print(shapes[kind / 2].first + ", " + std::to_string(3 + kind % 2) +
                      " kinds of devices");
  }
  constexpr int64_t kPodsPerEnded = 25'000;
  constexpr int64_t kChance = 2;  // two on one unlucky machine
  EXPECT_LE(ended, kChance + decisions / kPodsPerEnded);
}

}  // namespace
}  // namespace alignd::admission
