#include "cli/topology_command.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "alignd/machine/node_json.h"
#include "cli/topology_tree.h"
#include "edge/fake_tree.h"
#include "edge/run_alignctl.h"
#include "edge/tree_file.h"

namespace alignd::cli {
namespace {

using testing::Printed;

Printed Alignctl(const std::vector<std::string>& arguments) {
  return testing::RunAlignctl({AddTopologyCommand}, arguments);
}

TEST(TopologyCommand, ShowsATreeByDefault) {
  const testing::FakeTree tree;
  testing::WriteTreeFile(ALIGND_SOURCE_DIR "/tests/trees/1p2d2n-same-core-ids-two-dies.tree", tree);
  const Printed outcome = Alignctl({"topology", "--root", tree.root().string()});
  EXPECT_EQ(outcome.status, kSuccess);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out,
            "2 NUMA nodes, 1 socket, 1 uncore cache, 2 cores, 4 CPUs, 2.9 MiB of memory\n"
            "\n"
            "NUMA node 0: CPUs 0-1\n"
            "  memory: 1000 KiB\n"
            "  distances:  0=10  1=12\n"
            "  socket 0: CPUs 0-1 (2 more on NUMA node 1)\n"
            "    uncore cache 0: CPUs 0-1 (2 more on NUMA node 1)\n"
            "      1 core:  0-1\n"
            "\n"
            "NUMA node 1: CPUs 2-3\n"
            "  memory: 2 MiB\n"
            "  distances:  0=12  1=10\n"
            "  socket 0: CPUs 2-3 (2 more on NUMA node 0)\n"
            "    uncore cache 0: CPUs 2-3 (2 more on NUMA node 0)\n"
            "      1 core:  2-3\n");
}

TEST(TopologyCommand, ShowsNodesWithoutCpusDistancesOrMemory) {
  const testing::FakeTree tree;
  testing::WriteTreeFile(ALIGND_SOURCE_DIR "/tests/trees/cpuless-nodes-sparse-ids.tree", tree);
  const Printed outcome = Alignctl({"topology", "--root", tree.root().string()});
  EXPECT_NE(outcome.out.find("\nNUMA node 64: no CPUs\n"
                             "  memory: 16 EiB\n"
                             "  hugepages:  0 x 64 KiB\n"
                             "  distances:  unknown\n"),
            std::string::npos)
      << outcome.out;
}

TEST(TopologyCommand, WritesJsonOnOneLine) {
  const testing::FakeTree tree;
  testing::WriteTreeFile(ALIGND_SOURCE_DIR "/tests/trees/no-node-directories.tree", tree);
  const Printed outcome = Alignctl({"topology", "--root", tree.root().string(), "-o", "json"});
  EXPECT_EQ(outcome.status, kSuccess);
  EXPECT_EQ(outcome.out, R"({"cpus":[[0,0,0,0,0],[1,1,3,3,3],[2,1,3,3,3]],"numa":[)"
                         R"({"id":0,"memory":0,"hugepages":{},"distances":null},)"
                         R"({"id":3,"memory":0,"hugepages":{},"distances":null}]})"
                         "\n");
}

TEST(TopologyCommand, KeepsTheDevicesOfADescription) {
  const testing::FakeTree tree;
  const std::string node =
      R"({"cpus":[[0,0,0,0,0]],"numa":[{"id":0,"memory":4096,"hugepages":{},"distances":[10]}])";
  const std::string devices =
      R"("devices":{"a.com/x":[{"id":"d0","numa":[0]},{"id":"d1","numa":[]}]})";
  tree.Write({"described.json", node + "," + devices + "}"});
  // As alignctl topology -o json writes it beside alignd.
  tree.Write({"reported.json",
              node + R"(,"owners":{"devices":[{"resource":"a.com/x","id":"d0","numa":[0]},)" +
                  R"({"resource":"a.com/x","id":"d1","numa":[]}]}})"});
  for (const char* const name : {"described.json", "reported.json"}) {
    const std::string file = (tree.root() / name).string();
    const Printed written = Alignctl({"topology", "--node", file, "-o", "json"});
    EXPECT_EQ(written.status, kSuccess) << written.err;
    EXPECT_EQ(written.out, node + "," + devices + "}\n") << name;
    const Printed shown = Alignctl({"topology", "--node", file});
    EXPECT_EQ(shown.status, kSuccess) << shown.err;
    EXPECT_NE(shown.out.find("devices of the description are not shown"), std::string::npos)
        << shown.out;
  }
  const Printed both =
      Alignctl({"topology", "--node", (tree.root() / "described.json").string(), "--root", "/"});
  EXPECT_EQ(both.status, kBadInput) << both.out;
  EXPECT_NE(both.err.find("--root"), std::string::npos) << both.err;
}

TEST(TopologyCommand, ShowsCachesAndDevices) {
  const testing::FakeTree tree;
  testing::WriteTreeFile(ALIGND_SOURCE_DIR "/tests/trees/cache-of-the-whole-node.tree", tree);
  tree.Write({"sys/bus/pci/devices/0000:01:00.0",
              {{"class", "0x020000\n"}, {"numa_node", "0\n"}, {"net/eth0/mtu", "1500\n"}}});
  const std::string root = tree.root().string();
  const Printed text = Alignctl({"topology", "--root", root});
  EXPECT_NE(text.out.find("  devices:\n    NIC eth0 at 0000:01:00.0, NUMA node 0\n"),
            std::string::npos)
      << text.out;
  const Printed json = Alignctl({"topology", "--root", root, "-o", "json"});
  EXPECT_NE(json.out.find(R"("caches":[{"level":3,"type":"Unified","bytes":3145728,"cpus":"0-1"})"),
            std::string::npos)
      << json.out;
  EXPECT_NE(json.out.find(R"("pci_devices":[{"address":"0000:01:00.0","kind":"NIC")"),
            std::string::npos)
      << json.out;
  EXPECT_EQ(json.out.find("owners"), std::string::npos) << json.out;
  EXPECT_TRUE(MachineFromNodeJson(json.out).ok());
}

TEST(TopologyCommand, WritesAPicture) {
  const testing::FakeTree tree;
  testing::WriteTreeFile(ALIGND_SOURCE_DIR "/tests/trees/no-node-directories.tree", tree);
  const Printed outcome = Alignctl({"topology", "--svg", "--root", tree.root().string()});
  EXPECT_EQ(outcome.status, kSuccess);
  EXPECT_TRUE(outcome.out.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"")) << outcome.out;
  EXPECT_TRUE(outcome.out.ends_with("</svg>\n"));
  EXPECT_NE(outcome.out.find("id=\"cpu-2\""), std::string::npos);
  EXPECT_EQ(Alignctl({"topology", "--svg", "-o", "json"}).status, kNoAnswer);
}

TEST(TopologyCommand, SaysWhyOwnersAreNotKnown) {
  const testing::FakeTree tree;
  const std::string socket = "unix://" + (tree.root() / "absent.sock").string();
  for (const std::vector<std::string>& form :
       std::vector<std::vector<std::string>>{{}, {"--svg"}, {"-o", "json"}}) {
    std::vector<std::string> arguments = {"topology", "--socket", socket};
    arguments.insert(arguments.end(), form.begin(), form.end());
    const Printed outcome = Alignctl(arguments);
    EXPECT_EQ(outcome.status, kSuccess) << outcome.err;
    EXPECT_NE(outcome.out.find("owners are not known: "), std::string::npos) << outcome.out;
  }
}

TEST(TopologyCommand, WrapsManyCoresInOneColumn) {
  std::vector<Cpu> cpus;
  for (int cpu = 1000; cpu < 1040; ++cpu) {
    cpus.push_back({.cpu = cpu, .core = cpu, .socket = 0, .numa = 0, .uncore = 0});
  }
  const Result<Machine> machine = Machine::Make(cpus, {NumaNode{}});
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  std::istringstream tree(TopologyTree(*machine));
  std::string line;
  std::vector<std::string> core_lines;
  while (std::getline(tree, line)) {
    EXPECT_LE(line.size(), 100u);
    if (line.starts_with("      ")) core_lines.push_back(line);
  }
  ASSERT_EQ(core_lines.size(), 3u);
  EXPECT_TRUE(core_lines[0].starts_with("      40 cores:  1000  1001")) << core_lines[0];
  EXPECT_TRUE(core_lines[1].starts_with("                 1014  1015")) << core_lines[1];
}

TEST(TopologyCommand, ReportsWhatItCannotRead) {
  const testing::FakeTree tree;
  const Printed outcome = Alignctl({"topology", "--root", tree.root().string()});
  EXPECT_EQ(outcome.status, kFailure);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "alignctl: list " + (tree.root() / "sys/devices/system/cpu").string() +
                             ": No such file or directory; check the path\n");
}

TEST(Program, ExplainsWrongUse) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {}, {"topologies"}, {"topology", "-o", "xml"}, {"topology", "extra"}}) {
    const Printed outcome = Alignctl(arguments);
    EXPECT_EQ(outcome.status, kNoAnswer);
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err, "");
  }
}

TEST(Program, HelpsWithSuccess) {
  const Printed help = Alignctl({"--help"});
  EXPECT_EQ(help.status, kSuccess);
  EXPECT_NE(help.out.find("topology"), std::string::npos);
  const Printed version = Alignctl({"--version"});
  EXPECT_EQ(version.status, kSuccess);
  EXPECT_EQ(version.out.rfind("alignctl ", 0), 0u);
}

TEST(Program, FailsWhereItsResultCannotBeWritten) {
  std::ostream nowhere(nullptr);
  std::ostringstream err;
  const testing::FakeTree tree;
  testing::WriteTreeFile(ALIGND_SOURCE_DIR "/tests/trees/no-node-directories.tree", tree);
  const std::string root = tree.root().string();
  const char* const argv[] = {"alignctl", "topology", "--root", root.c_str()};
  EXPECT_EQ(RunProgram(4, argv, {AddTopologyCommand}, nowhere, err), kFailure);
  EXPECT_EQ(err.str(), "alignctl: standard output cannot be written; check the disk or the pipe\n");
}

TEST(ReadableBytes, RoundsToOneDecimal) {
  EXPECT_EQ(ReadableBytes(0), "0 B");
  EXPECT_EQ(ReadableBytes(1023), "1023 B");
  EXPECT_EQ(ReadableBytes(1024), "1 KiB");
  EXPECT_EQ(ReadableBytes(1536), "1.5 KiB");
  EXPECT_EQ(ReadableBytes(uint64_t{2} << 20), "2 MiB");
  EXPECT_EQ(ReadableBytes((uint64_t{2} << 30) - 1), "2 GiB");
  EXPECT_EQ(ReadableBytes(~uint64_t{0}), "16 EiB");
}

}  // namespace
}  // namespace alignd::cli
