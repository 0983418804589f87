#include "alignd/scenario/scenario.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/scenario/report.h"
#include "alignd/scenario/simulation.h"

namespace alignd::scenario {
namespace {

// A scenario on a node with four CPUs and two devices.
std::string Text(std::string_view steps, std::string_view rest = "") {
  std::string text = R"({"name":"s","node":{
    "cpus":[[0,0,0,0,0],[1,0,0,0,0],[2,1,0,0,0],[3,1,0,0,0]],
    "numa":[{"id":0,"memory":4294967296,"distances":[10]}],
    "devices":{"example.com/nic":[{"id":"n0","numa":[0]},{"id":"n1","numa":[0]}]}},
    "config":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0"},
    "steps":[)";
  text += steps;
  text += "]";
  text += rest;
  return text + "}";
}

std::string Admit(const std::string& uid, const std::string& cpus) {
  const std::string amounts = R"({"cpu":")" + cpus + R"(","memory":"64Mi"})";
  return R"({"op":"admit","pod":{"metadata":{"uid":")" + uid +
         R"(","name":"p","namespace":"d"},"spec":{"containers":[{"name":"app","resources":{"limits":)" +
         amounts + R"(,"requests":)" + amounts + "}}]}}}";
}

std::vector<std::string> DefaultSets(std::string_view text) {
  const Result<Scenario> scenario = ParseScenario(text);
  EXPECT_TRUE(scenario.ok()) << scenario.error().message;
  Result<Simulation> simulation = Simulation::Start(scenario->node, scenario->config);
  EXPECT_TRUE(simulation.ok()) << simulation.error().message;
  std::vector<std::string> sets;
  for (const Step& step : scenario->steps) {
    simulation->Run(step);
    sets.push_back(simulation->state().cpu.default_set.ToString());
  }
  return sets;
}

struct BadScenarioCase {
  std::string_view name;
  std::string text;
  std::string_view place;  // must stand in the message
};

std::ostream& operator<<(std::ostream& out, const BadScenarioCase& c) { return out << c.name; }

class BadScenario : public testing::TestWithParam<BadScenarioCase> {};

TEST_P(BadScenario, IsRefusedWithItsPlace) {
  const Result<Scenario> scenario = ParseScenario(GetParam().text);
  ASSERT_FALSE(scenario.ok());
  EXPECT_NE(scenario.error().message.find(GetParam().place), std::string::npos)
      << scenario.error().message;
}

const BadScenarioCase kBad[] = {
    {"an unknown step", Text(Admit("a", "1") + R"(,{"op":"dance"})"), "steps[1].op"},
    {"a step without a pod", Text(R"({"op":"admit"})"), "steps[0].pod"},
    {"a step without a pod's UID", Text(R"({"op":"start"})"), "steps[0].podUID"},
    {"a removal without a container", Text(R"({"op":"removeContainer","podUID":"a"})"),
     "steps[0].container"},
    {"a health without a value",
     Text(R"({"op":"deviceHealth","resource":"example.com/nic","id":"n0"})"), "steps[0].healthy"},
    {"a short CPU row", R"({"node":{"cpus":[[0,0]],"numa":[]},"config":{},"steps":[]})", "cpus[0]"},
    {"no node", R"({"config":{},"steps":[]})", "node"},
};
INSTANTIATE_TEST_SUITE_P(Readers, BadScenario, testing::ValuesIn(kBad));

TEST(SimulationTest, RemovesOnlyContainersThatWereStarted) {
  const std::string remove = R"(,{"op":"removeContainer","podUID":"a","container":"app"})";
  EXPECT_EQ(DefaultSets(Text(Admit("a", "1") + remove)),
            (std::vector<std::string>{"0,2-3", "0,2-3"}));
  EXPECT_EQ(DefaultSets(Text(Admit("a", "1") + R"(,{"op":"start","podUID":"a"})" + remove)),
            (std::vector<std::string>{"0,2-3", "0,2-3", "0-3"}));
}

TEST(SimulationTest, StepsOfUnknownAndRefusedPodsChangeNothing) {
  EXPECT_EQ(
      DefaultSets(Text(Admit("a", "9") + R"(,{"op":"start","podUID":"a"})" +
                       R"(,{"op":"removePod","podUID":"a"},{"op":"removePod","podUID":"b"})")),
      (std::vector<std::string>{"0-3", "0-3", "0-3", "0-3"}));
}

TEST(SimulationTest, ARestartKeepsWhatWasPlaced) {
  EXPECT_EQ(DefaultSets(Text(Admit("a", "2") + R"(,{"op":"restart"})" + "," + Admit("b", "1"))),
            (std::vector<std::string>{"0-1", "0-1", "0"}));
}

TEST(CheckTest, PassesWhereEveryExpectedKeyIsEqual) {
  const Result<Check> check = CheckText(Text(
      Admit("a", "1"), R"(,"expect":[{"admitted":true,"containers":{"app":{"cpuset":"1"}}}])"));
  ASSERT_TRUE(check.ok()) << check.error().message;
  EXPECT_TRUE(check->passed) << check->difference;
}

TEST(CheckTest, ReportsStepPathExpectedAndGot) {
  const Result<Check> check = CheckText(Text(
      Admit("a", "1"), R"(,"expect":[{"admitted":true,"containers":{"app":{"cpuset":"2"}}}])"));
  ASSERT_TRUE(check.ok()) << check.error().message;
  EXPECT_FALSE(check->passed);
  EXPECT_EQ(check->name, "s");
  for (const char* part : {"step 0", "containers.app.cpuset", "\"2\"", "\"1\""}) {
    EXPECT_NE(check->difference.find(part), std::string::npos) << check->difference;
  }
}

}  // namespace
}  // namespace alignd::scenario
