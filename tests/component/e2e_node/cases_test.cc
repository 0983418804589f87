// Kubernetes' own node tests, as the tables of tests/e2e_node state them, against a whole daemon.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "host/sysfs_machine.h"
#include "node_fixture.h"
#include "real_node.h"

namespace alignd::node_suites {
namespace {

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = [] {
    Result<std::vector<Case>> read = ReadCases(TableDirectory());
    EXPECT_TRUE(read.ok()) << read.error().Text();
    return read.ok() ? *std::move(read) : std::vector<Case>();
  }();
  return cases;
}

const std::map<std::string, Machine>& Machines() {
  static const std::map<std::string, Machine> machines = [] {
    auto read = ReadMachines(TableDirectory() / "machines.json");
    EXPECT_TRUE(read.ok()) << read.error().Text();
    return read.ok() ? *std::move(read) : std::map<std::string, Machine>();
  }();
  return machines;
}

// Whether the tables' machine of that name is this one.
bool IsHere(const std::string& name) {
  static const Result<Machine> here = host::ReadMachine("/");
  EXPECT_TRUE(here.ok()) << here.error().Text();
  const auto machine = Machines().find(name);
  return here.ok() && machine != Machines().end() && DiffersFrom(machine->second, *here).empty();
}

// Rows with steps: what runs, and what asserts that a reason still holds. With a real runtime: only
// those that can run on it and on this machine.
std::vector<Case> CasesWithSteps() {
  std::vector<Case> cases;
  for (const Case& row : Cases()) {
    if (row.steps.empty()) continue;
    if (RealSettings() && (!NeedsSimulation(row).empty() || !IsHere(row.machine) ||
                           (RealSettings()->only_ci && !row.ci))) {
      continue;
    }
    cases.push_back(row);
  }
  return cases;
}

std::string TestName(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.id;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

class NodeSuites : public NodeFixture, public ::testing::WithParamInterface<Case> {};

TEST_P(NodeSuites, Holds) {
  const auto machine = Machines().find(GetParam().machine);
  ASSERT_NE(machine, Machines().end()) << "no machine " << GetParam().machine;
  RunSteps(GetParam(), machine->second);
}

// A machine that no row is for has no cases.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NodeSuites);
INSTANTIATE_TEST_SUITE_P(Tables, NodeSuites, ::testing::ValuesIn(CasesWithSteps()), TestName);

TEST(NodeSuiteTables, AreReadable) {
  const auto cases = ReadCases(TableDirectory());
  ASSERT_TRUE(cases.ok()) << cases.error().Text();
  EXPECT_FALSE(cases->empty());
}

}  // namespace
}  // namespace alignd::node_suites
