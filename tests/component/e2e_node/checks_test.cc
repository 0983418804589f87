// The tables' matchers and their parser can fail: each is given what does not hold.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/machine_builder.h"
#include "node_fixture.h"
#include "real_node.h"

namespace alignd::node_suites {
namespace {

// A row that is right, with other members or steps.
Json Row(const Json& changes = Json::object()) {
  Json row = Json::parse(R"({
    "id": "row", "suite": "CPU manager", "file": "cpu_manager_test.go", "number": 1,
    "about": "a row", "verdict": "run", "machine": "smt",
    "config": {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"},
    "steps": [{"run": {"name": "p", "containers": [{"name": "c", "cpu": "1"}]}},
              {"expect": [{"of": "p/c", "cpus": 1}]}]})");
  row.update(changes);
  return row;
}

std::string FaultOf(const std::string& text) {
  const Result<Case> row = ParseCase(text);
  return row.ok() ? "" : row.error().Text();
}

TEST(NodeSuiteTables, WhatIsNotKnownIsRefused) {
  EXPECT_EQ(FaultOf(Row().dump()), "");
  const std::vector<std::pair<std::string, std::string>> faults = {
      {R"({"verdict": "perhaps"})", "unknown verdict"},
      {R"({"suite": "Other"})", "unknown suite"},
      {R"({"color": "red"})", "unknown member color"},
      {R"({"reason": "none"})", "reason"},
      {R"({"verdict": "weakness", "reason": "r"})", "difference"},
      {R"({"verdict": "cannot apply"})", "reason"},
      {R"({"number": 0})", "number"},
      {R"({"ci": "yes"})", "boolean"},
      {R"({"ci": true, "steps": [{"fail": "PullImage", "message": "no"}, {"call": "PullImage"}]})",
       "real runtime"},
      {R"({"number": "1"})", "number"},
      {R"({"steps": []})", "no steps"},
      {R"({"machine": ""})", "machine"},
      {R"({"steps": [{"walk": "p"}]})", "nothing known"},
      {R"({"steps": [{"run": {"name": "p", "containers": [{"name": "c"}]}}]})", "expects anything"},
      {R"({"steps": [{"run": {"name": "p"}}]})", "name and containers"},
      {R"({"steps": [{"run": {"name": "p", "containers": [{"name": "c", "gpu": "1"}]}}]})", "gpu"},
      {R"({"steps": [{"run": {"name": "p", "containers": [{"name": "c", "cpu": 1}]}}]})", "type"},
      {R"({"steps": [{"restart": "alignd", "run": {}}]})", "both"},
      {R"({"steps": [{"expect": []}]})", "list of matchers"},
      {R"({"steps": [{"expect": [{"of": "p/c"}]}]})", "nothing is asked"},
      {R"({"steps": [{"expect": [{"of": "p/c", "speed": 1}]}]})", "speed"},
      {R"({"steps": [{"expect": [{"cpus": 1}]}]})", "nothing known"},
  };
  for (const auto& [changes, part] : faults) {
    const std::string fault = FaultOf(Row(Json::parse(changes)).dump());
    EXPECT_NE(fault.find(part), std::string::npos) << changes << ": " << fault;
  }
  EXPECT_NE(FaultOf("{"), "");
}

TEST(NodeSuiteTables, ARowKnowsWhatNeedsTheSimulatedRuntime) {
  const auto reason_of = [](const char* steps) {
    const Result<Case> row = ParseCase(Row({{"steps", Json::parse(steps)}}).dump());
    return row.ok() ? NeedsSimulation(*row) : row.error().Text();
  };
  EXPECT_EQ(NeedsSimulation(*ParseCase(Row().dump())), "");
  EXPECT_NE(reason_of(R"([{"reboot": "node"}, {"expect": [{"listed": []}]}])"), "");
  EXPECT_NE(reason_of(R"([{"expect": [{"requests": "CreateContainer", "count": 1}]}])"), "");
}

// A machine that is not the table's is found out.
TEST(NodeSuiteTables, MachinesDiffer) {
  const auto machines = ReadMachines(TableDirectory() / "machines.json");
  ASSERT_TRUE(machines.ok()) << machines.error().Text();
  for (const auto& [name, machine] : *machines) {
    for (const auto& [other, found] : *machines) {
      // They differ by their huge pages, which a test can set.
      const bool same = name == other || (name.ends_with("pages") && other.ends_with("pages"));
      EXPECT_EQ(DiffersFrom(machine, found) == "", same) << name << ", " << other;
    }
  }
  const std::string levels = "socket:2 numa:1 uncore:2 core:4 thread:2 smt=interleaved memory-gib=";
  const Machine& smt = machines->at("smt");
  EXPECT_EQ(DiffersFrom(smt, MakeMachine(levels + "8")), "");
  EXPECT_NE(DiffersFrom(smt, MakeMachine(levels + "7")), "");
  EXPECT_NE(DiffersFrom(smt, MakeMachine(levels + "9")), "");
  EXPECT_NE(DiffersFrom(smt, WithDistances(smt, {{10, 21}, {21, 10}})), "");
}

class NodeSuiteChecks : public NodeFixture {
 protected:
  // A pod on one core of the machine `smt`, one that shares, and one with a device.
  void StartPods() {
    const auto machines = ReadMachines(TableDirectory() / "machines.json");
    ASSERT_TRUE(machines.ok()) << machines.error().Text();
    const Json config = Json::parse(R"({"cpuManagerPolicy": "static", "reservedSystemCPUs": "0",
      "memoryManagerPolicy": "Static", "topologyManagerPolicy": "best-effort",
      "kubeReserved": {"memory": "1000Mi"},
      "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1100Mi"}}]})");
    const Result<Case> row = ParseCase(Row({{"config", config}}).dump());
    ASSERT_TRUE(row.ok()) << row.error().Text();
    ASSERT_NO_FATAL_FAILURE(StartNode(*row, machines->at("smt")));
    patience_ = std::chrono::milliseconds(0);
    for (const char* const step :
         {R"({"plugin": "example.com/dev", "devices": {"Dev-1": [0], "Dev-2": [0]}})",
          R"({"run": {"name": "pinned", "containers": [
                 {"name": "c", "cpu": "2", "memory": "64Mi", "example.com/dev": "1"}]}})",
          R"({"run": {"name": "other", "containers": [
                 {"name": "c", "cpu": "2", "memory": "64Mi", "example.com/dev": "1"}]}})",
          R"({"run": {"name": "shared", "containers": [{"name": "c", "cpu": "100m..200m"}]}})",
          R"({"remember": "before", "of": "other/c"})"}) {
      ASSERT_EQ(DoStep(Json::parse(step)), "") << step;
    }
  }
};

TEST_F(NodeSuiteChecks, EachMatcherCanFail) {
  ASSERT_NO_FATAL_FAILURE(StartPods());
  // What holds, and the same matcher with what does not hold.
  const std::vector<std::pair<std::string, std::string>> matchers = {
      {R"({"of": "pinned/c", "cpus": 2})", R"({"of": "pinned/c", "cpus": 3})"},
      {R"({"of": "pinned/c", "within": "online - reserved"})",
       R"({"of": "pinned/c", "within": "reserved"})"},
      {R"({"of": "shared/c", "equal": "online - pinned/c - other/c"})",
       R"({"of": "shared/c", "equal": "online"})"},
      {R"({"of": "pinned/c", "disjoint": "other/c + shared/c"})",
       R"({"of": "pinned/c", "disjoint": "online"})"},
      {R"({"of": "shared/c", "overlaps": "reserved"})",
       R"({"of": "shared/c", "overlaps": "pinned/c"})"},
      {R"({"of": "shared/c", "contains": "0"})", R"({"of": "shared/c", "contains": "pinned/c"})"},
      {R"({"of": "pinned/c", "surplus-siblings": 0})",
       R"({"of": "shared/c", "surplus-siblings": -1})"},
      {R"({"of": "pinned/c", "whole-cores": true})", R"({"of": "pinned/c", "whole-cores": false})"},
      {R"({"of": "pinned/c", "one-cache": true})", R"({"of": "shared/c", "one-cache": true})"},
      {R"({"of": "pinned/c", "no-cache-of": "31"})",
       R"({"of": "pinned/c", "no-cache-of": "pinned/c"})"},
      {R"({"of": "pinned/c", "numa-count": 1})", R"({"of": "shared/c", "numa-count": 1})"},
      {R"({"of": "pinned/c", "on-nodes": [0]})", R"({"of": "pinned/c", "on-nodes": [1]})"},
      {R"({"of": "pinned/c", "cpus": 2})", R"({"of": "pinned/c", "per-node": 1})"},
      {R"({"of": "shared/c", "distance": "nearest"})",
       R"({"of": "shared/c", "distance": "farther"})"},
      {R"({"of": "pinned/c", "quota": "max"})", R"({"of": "pinned/c", "quota": "200000"})"},
      {R"({"of": "shared/c", "quota": "20000", "period": 100000})",
       R"({"of": "shared/c", "quota": "20000", "period": 50000})"},
      {R"({"of": "pinned/c", "memory-nodes": "0"})", R"({"of": "pinned/c", "memory-nodes": "1"})"},
      {R"({"of": "pinned/c", "devices": 1})", R"({"of": "pinned/c", "devices": 2})"},
      {R"({"of": "pinned/c", "other-devices": "other/c"})",
       R"({"of": "pinned/c", "other-devices": "pinned/c"})"},
      {R"({"of": "pinned/c", "same-devices": "pinned/c"})",
       R"({"of": "pinned/c", "same-devices": "other/c"})"},
      {R"({"of": "other/c", "same-as": "before"})", R"({"of": "pinned/c", "same-as": "before"})"},
      {R"({"of": "pinned/c", "state": "running"})", R"({"of": "pinned/c", "state": "ended"})"},
      {R"({"of": "pinned/c", "hugepages": {}})", R"({"of": "pinned/c", "hugepages": {"2MB": 1}})"},
      {R"({"pod": "pinned", "cpus": 2})", R"({"of": "pinned/c", "cdi": "example.com/dev=Dev-1"})"},
      {R"({"pod": "pinned", "quota": "max"})", R"({"pod": "pinned", "quota": "200000"})"},
      {R"({"pod": "shared", "quota": "20000", "period": 100000})",
       R"({"pod": "shared", "cpus": 1})"},
      {R"({"pod": "pinned", "numa-count": 1})", R"({"pod": "shared", "numa-count": 1})"},
      {R"({"listed": ["pinned", "other", "shared"]})", R"({"listed": ["pinned", "other"]})"},
      {R"({"listed": ["pinned", "other", "shared"], "api": "v1alpha1"})",
       R"({"listed": [], "api": "v1alpha1"})"},
      {R"({"get": "pinned", "containers": {"c": {"cpus": 2, "devices": {"example.com/dev": 1},
           "memory": {"memory": 67108864}}}})",
       R"({"get": "pinned", "containers": {"c": {"cpus": 2}}})"},
      {R"({"get": "absent", "code": "NOT_FOUND"})", R"({"get": "pinned", "code": "NOT_FOUND"})"},
      {R"({"allocatable": true, "cpus": "1-31"})", R"({"allocatable": true, "cpus": "0-31"})"},
      {R"({"allocatable": true, "devices": {"example.com/dev": 2}})",
       R"({"allocatable": true, "devices": {}})"},
      {R"({"allocatable": true, "memory": "as in the state file"})",
       R"({"allocatable": true, "memory": {}})"},
      {R"({"metric": "kubelet_cpu_manager_exclusive_cpu_allocation_count", "is": 4})",
       R"({"metric": "kubelet_cpu_manager_exclusive_cpu_allocation_count", "is": 5})"},
      {R"({"metric": "kubelet_cpu_manager_pinning_requests_total", "at-least": 2})",
       R"({"metric": "kubelet_cpu_manager_pinning_requests_total", "at-least": 3})"},
      {R"({"memory-state": 0, "reserved-at-least": 134217728})",
       R"({"memory-state": 1, "reserved-at-least": 1})"},
      {R"({"requests": "RunPodSandbox", "count": 3})",
       R"({"requests": "RunPodSandbox", "count": 2})"},
      {R"({"allocations": "example.com/dev", "count": 2})",
       R"({"allocations": "example.com/dev", "count": 1})"},
      {R"({"asked": "pinned"})", R"({"asked": "absent"})"},
      {R"({"throttled": true, "of-calls": 200})", R"({"throttled": true, "of-calls": 0})"},
  };
  for (const auto& [right, wrong] : matchers) {
    EXPECT_EQ(CheckAll(Json::array({Json::parse(right)})), "");
    EXPECT_NE(CheckAll(Json::array({Json::parse(wrong)})), "") << wrong << " holds";
  }
  EXPECT_NE(CheckAll(Json::parse(R"([{"of": "absent/c", "cpus": 1}])")), "");
  EXPECT_NE(CheckAll(Json::parse(R"([{"of": "pinned/c", "within": "many"}])")), "");
}

TEST_F(NodeSuiteChecks, EachStepCanFail) {
  ASSERT_NO_FATAL_FAILURE(StartPods());
  for (
      const char* const step :
      {R"({"run": {"name": "big", "containers": [{"name": "c", "cpu": "64", "memory": "1Mi"}]}})",
       R"({"refused": {"name": "ok", "containers": [{"name": "c", "cpu": "1", "memory": "1Mi"}]}})",
       R"({"refused": {"name": "b", "containers": [{"name": "c", "cpu": "64", "memory": "1Mi"}]},
            "reason": "SMTAlignmentError"})",
       R"({"retry": "absent"})", R"({"retry-refused": "shared"})", R"({"end": "pinned/none"})",
       R"({"again": "pinned/none"})", R"({"complete": "absent"})", R"({"remove": "absent"})",
       R"({"remove-unseen": "absent"})", R"({"unplug": "example.com/none"})",
       R"({"health": "example.com/dev", "id": "Dev-9", "healthy": false})",
       R"({"end-lists": "example.com/none"})", R"({"start-refused": "some text"})",
       R"({"call": "PullImage", "code": "13"})", R"({"remember": "x", "of": "absent/c"})"}) {
    EXPECT_NE(DoStep(Json::parse(step)), "") << step;
  }
}

}  // namespace
}  // namespace alignd::node_suites
