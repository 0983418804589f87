#include "alignd/machine/node_json.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace alignd {
namespace {

constexpr std::string_view kNode =
    R"({"cpus":[[0,0,-1,0,7],[1,0,-1,0,7],[2,2,3,9,8]],"numa":[)"
    R"({"id":0,"memory":18446744073709551615,"hugepages":{"1073741824":0,"2097152":512},)"
    R"("distances":[10,21]},{"id":9,"memory":0,"hugepages":{},"distances":null}]})";

TEST(NodeJson, ReadsAndWritesTheSameBytes) {
  const Result<Machine> machine = MachineFromNodeJson(kNode);
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine->numa()[0].hugepages.at(2097152), 512u);
  EXPECT_EQ(machine->Row(2), (Cpu{.cpu = 2, .core = 2, .socket = 3, .numa = 9, .uncore = 8}));
  EXPECT_EQ(MachineToNodeJson(*machine), kNode);
}

TEST(NodeJson, ReadsANodeWithFewMembersAndOneWithMore) {
  const Result<Machine> machine = MachineFromNodeJson(
      R"({"preferred": ["x"], "devices": {"x": [{"id": 1.5}]}, "cpus": [[1, 0, 0, 4, 0]],
          "numa": [{"id": 4, "distances": [], "hugepages": null, "colour": "red"}]})");
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(
      MachineToNodeJson(*machine),
      R"({"cpus":[[1,1,0,4,0]],"numa":[{"id":4,"memory":0,"hugepages":{},"distances":null}]})");
}

TEST(NodeJson, ReadsAndWritesIsolatedCpus) {
  const std::string node =
      R"({"cpus":[[1,1,0,4,0]],"numa":[{"id":4,"memory":0,"hugepages":{},"distances":null}],)"
      R"("isolated":"1"})";
  const Result<Machine> machine = MachineFromNodeJson(node);
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine->isolated().ToString(), "1");
  EXPECT_EQ(MachineToNodeJson(*machine), node);
}

// A node that is valid except for its NUMA nodes.
std::string WithNuma(const std::string& numa) {
  return R"({"cpus":[[0,0,0,0,0]],"numa":)" + numa + "}";
}

// A node that is valid except for its CPUs.
std::string WithCpus(const std::string& cpus) {
  return R"({"numa":[{"id":0}],"cpus":)" + cpus + "}";
}

TEST(NodeJson, NamesThePlaceOfWhatMakesNoSense) {
  struct Case {
    std::string json;
    std::string message;
  };
  const std::string deep(100'000, '[');
  const std::string deep_and_whole = deep + std::string(100'000, ']');
  const std::vector<Case> cases = {
      {"", "not JSON: line 1, column 1: the text ends too early"},
      {deep, "not JSON: line 1, column 100001: the text ends too early"},
      {"\xff\xfe{}", "not JSON: line 1, column 1: unexpected text"},
      {"[]", "array is not an object"},
      {"null", "null is not an object"},
      {"{}", "cpus: is missing"},
      {R"({"cpus":[[0,0,0,0,0]]})", "numa: is missing"},
      {R"({"isolated":"1-","cpus":[[1,1,0,4,0]],"numa":[{"id":4}]})",
       R"(isolated: "1-" is not a list of CPUs such as "0-3,8")"},
      {WithCpus("7"), "cpus: 7 is not a list"},
      {WithCpus("[]"), "the machine has no CPU"},
      {WithCpus("[[0,0,0,0]]"),
       "cpus[0]: is a row of 4, not of 5: cpu, core, socket, numa, uncore"},
      {WithCpus(R"(["ü"])"), R"(cpus[0]: "ü" is not a list)"},
      {WithCpus(deep_and_whole),
       "cpus[0]: is a row of 1, not of 5: cpu, core, socket, numa, uncore"},
      {WithCpus("[[65536,0,0,0,0]]"), "cpus[0][0]: 65536 is not a whole number from 0 to 65535"},
      {WithCpus("[[0,0,0,0,0],[1,2147483648,0,0,0]]"),
       "cpus[1][1]: 2147483648 is not a whole number from -2147483648 to 2147483647"},
      {WithCpus("[[0,0,18446744073709551615,0,0]]"),
       "cpus[0][2]: 18446744073709551615 is not a whole number from -2147483648 to 2147483647"},
      {WithCpus("[[0,0,-2147483649,0,0]]"),
       "cpus[0][2]: -2147483649 is not a whole number from -2147483648 to 2147483647"},
      {WithCpus("[[0,0,0,-1,0]]"), "cpus[0][3]: -1 is not a whole number from 0 to 2147483647"},
      {WithCpus("[[0,0,0,0,null]]"),
       "cpus[0][4]: null is not a whole number from -2147483648 to 2147483647"},
      {WithCpus("[[0,0,0,1,0]]"), "CPU 0 lies on NUMA node 1, which the machine does not have"},
      {WithNuma("{}"), "numa: object is not a list"},
      {WithNuma("[[]]"), "numa[0]: array is not an object"},
      {WithNuma("[{}]"), "numa[0].id: is missing"},
      {WithNuma(R"([{"id":-1}])"), "numa[0].id: -1 is not a whole number from 0 to 2147483647"},
      {WithNuma(R"([{"id":0,"memory":-1}])"),
       "numa[0].memory: -1 is not a whole number of at least 0"},
      {WithNuma(R"([{"id":0,"memory":18446744073709551616}])"),
       "numa[0].memory: 1.8446744073709552e+19 is not a whole number of at least 0"},
      {WithNuma(R"([{"id":0,"hugepages":[]}])"), "numa[0].hugepages: array is not an object"},
      {WithNuma(R"([{"id":0,"hugepages":{"2Mi":1}}])"),
       R"(numa[0].hugepages: "2Mi" is not a page size in bytes)"},
      {WithNuma(R"([{"id":0,"hugepages":{"":1}}])"),
       R"(numa[0].hugepages: "" is not a page size in bytes)"},
      {WithNuma(R"([{"id":0,"hugepages":{"0":1}}])"),
       R"(numa[0].hugepages: "0" is not a page size in bytes)"},
      {WithNuma(R"([{"id":0,"hugepages":{"2097152":8796093022208}}])"),
       "numa[0].hugepages.2097152: 8796093022208 is not a number of pages whose bytes fit into 64 "
       "bits"},
      {WithNuma(R"([{"id":0,"hugepages":{"2":9223372036854775807,"4":1}}])"),
       "numa[0].hugepages.4: 1 is not a number of pages whose bytes fit into 64 bits"},
      {WithNuma(R"([{"id":0},{"id":1,"distances":10}])"), "numa[1].distances: 10 is not a list"},
      {WithNuma(R"([{"id":0},{"id":1,"distances":[10,1.5]}])"),
       "numa[1].distances[1]: 1.5 is not a whole number from 0 to 2147483647"},
      {WithNuma(R"([{"id":0},{"id":0}])"), "NUMA node 0 occurs twice"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.json.substr(0, 100));
    const Result<Machine> machine = MachineFromNodeJson(c.json);
    ASSERT_FALSE(machine.ok());
    EXPECT_EQ(machine.error(), (Error{ErrorCode::kInvalidArgument, c.message}));
  }
}

}  // namespace
}  // namespace alignd
