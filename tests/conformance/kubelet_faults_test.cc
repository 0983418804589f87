// Scenarios in which the kubelet has a fault: it assigns a resource twice, hangs, panics, or
// refuses a running pod. alignd's result differs. Each difference is marked `Differs:` in a header.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "alignd/scenario/report.h"
#include "alignd/scenario/scenario.h"
#include "alignd/scenario/simulation.h"

namespace alignd::scenario {
namespace {

// tests/vectors/kubelet-bugs.jsonl, by name.
std::map<std::string, Scenario> Faults() {
  std::map<std::string, Scenario> faults;
  std::ifstream file(std::string(ALIGND_SOURCE_DIR) + "/tests/vectors/kubelet-bugs.jsonl");
  for (std::string line; std::getline(file, line);) {
    Result<Scenario> scenario = ParseScenario(line);
    EXPECT_TRUE(scenario.ok()) << scenario.error().message;
    if (scenario.ok()) faults[scenario->name] = *std::move(scenario);
  }
  return faults;
}

// A line for each admission: "app=1-3 init=1", or the reason of the refusal. For a refused start,
// its text.
std::vector<std::string> Outcome(const Scenario& scenario) {
  Result<Simulation> simulation = Simulation::Start(scenario.node, scenario.config);
  if (!simulation.ok()) return {simulation.error().message};
  std::vector<std::string> outcome;
  for (const Step& step : scenario.steps) {
    const StepResult result = simulation->Run(step);
    if (!result.admission) continue;
    std::string line;
    if (result.admission->refusal) line = result.admission->refusal->reason;
    for (const auto& [container, assignment] : result.admission->assignments) {
      if (!line.empty()) line += ' ';
      line += container + "=" + assignment.exclusive.ToString();
    }
    outcome.push_back(line);
  }
  return outcome;
}

struct Case {
  std::string_view scenario;
  std::string_view right;  // the part of alignd's result that differs
  std::vector<std::string> outcome;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.scenario; }

class KubeletFaults : public testing::TestWithParam<Case> {};

TEST_P(KubeletFaults, AreNotCopied) {
  const std::map<std::string, Scenario> faults = Faults();
  const auto fault = faults.find(std::string(GetParam().scenario));
  ASSERT_NE(fault, faults.end());
  EXPECT_EQ(Outcome(fault->second), GetParam().outcome) << GetParam().right;
}

const Case kCases[] = {
    {"distribute: four of six nodes", "the NUMA nodes 1 to 4, which were chosen", {"app=4-19"}},
    {"distribute: four of eight nodes", "the NUMA nodes that were chosen", {"app=4-19"}},
    {"uneven cores: reserved CPU handed out", "not the reserved CPU 0", {"app=3-4"}},
    {"uneven cores: one CPU exclusive to two pods",
     "each CPU once",
     {"app=3", "app=4", "app=1", "app=2,5"}},
    {"prefer-closest with a gap in the node ids", "an answer", {"app=1"}},
    {"memory: a huge page size that the node lacks", "an answer", {"UnexpectedAdmissionError"}},
    {"distribute + full-pcpus-only with half-reserved cores on two nodes",
     "an answer, of whole cores",
     {"app=16-21,24-29,48-53,56-61", "app=1-7,9-14,22-23,30-31,33-39,41-46,54-55,62-63",
      "app=1-5,16-21,24-29,33-37,48-53,56-61", "app=9-13,41-45",
      "app=6-7,14-15,22-23,30,38-39,46-47,54-55,62"}},
    {"cpu-double cpu-701741", "c0 and c1 run at the same time", {"c0=0 c1=1-2"}},
    {"cpu-double topology-700418", "c0 and c1 run at the same time", {"c0=0-1 c1=2,6"}},
    {"cpu-in-shared-pool cpu-900332",
     "no CPU of the first pod for the second",
     {"app=4", "app=1,3,5,10,12", "SMTAlignmentError"}},
    {"cpu-reserved cpu-903038", "no reserved CPU", {"app=0,3-4,8"}},
    {"memory: reservation plus huge pages exceed the node",
     "no start, where the kubelet finds 18 exabytes",
     {"NUMA node 2 has 531486720 bytes of type \"memory\", less than the 586317824 bytes reserved "
      "on it"}},
};
INSTANTIATE_TEST_SUITE_P(Vectors, KubeletFaults, testing::ValuesIn(kCases));

// No line of the file breaks an invariant. A restart changes nothing and refuses no pod.
TEST(KubeletFaultsTest, LeaveTheStateSoundAndSurviveARestart) {
  const std::map<std::string, Scenario> faults = Faults();
  EXPECT_GE(faults.size(), 20U);
  for (const auto& [name, scenario] : faults) {
    SCOPED_TRACE(name);
    Result<Simulation> simulation = Simulation::Start(scenario.node, scenario.config);
    if (!simulation.ok()) continue;
    for (const Step& step : scenario.steps) {
      simulation->Run(step);
      EXPECT_EQ(simulation->state().BrokenInvariants(simulation->node()),
                std::vector<std::string>{});
      const std::string cpu = simulation->CpuManagerState();
      const std::string memory = simulation->MemoryManagerState();
      const auto devices = simulation->state().devices;
      const StepResult restart = simulation->Run(Restart{});
      EXPECT_FALSE(restart.restart_error) << restart.restart_error->message;
      EXPECT_EQ(simulation->CpuManagerState(), cpu);
      EXPECT_EQ(simulation->MemoryManagerState(), memory);
      EXPECT_TRUE(simulation->state().devices == devices);
    }
  }
}

// An admitted pod is admitted again with the same resources, even on a full node and without its
// plugins.
TEST(KubeletFaultsTest, RunningPodsKeepWhatTheyHaveWhenAdmittedAgain) {
  const std::map<std::string, Scenario> faults = Faults();
  for (const char* name : {"strict-cpu-reservation: restart with an empty shared pool",
                           "memory: restart allocates a finished init container again"}) {
    SCOPED_TRACE(name);
    const auto fault = faults.find(name);
    ASSERT_NE(fault, faults.end());
    Result<Simulation> simulation = Simulation::Start(fault->second.node, fault->second.config);
    ASSERT_TRUE(simulation.ok()) << simulation.error().message;
    const Step& admit = fault->second.steps.front();
    const std::string pod = std::get<AdmitPod>(admit).pod.uid;
    simulation->Run(admit);
    simulation->Run(StartPod{pod});
    simulation->Run(Restart{});
    const std::string cpu = simulation->CpuManagerState();
    const std::string memory = simulation->MemoryManagerState();
    const StepResult again = simulation->Run(admit);
    ASSERT_TRUE(again.admission);
    EXPECT_TRUE(again.admission->admitted()) << again.admission->refusal->message;
    EXPECT_EQ(simulation->CpuManagerState(), cpu);
    EXPECT_EQ(simulation->MemoryManagerState(), memory);
  }
}

}  // namespace
}  // namespace alignd::scenario
