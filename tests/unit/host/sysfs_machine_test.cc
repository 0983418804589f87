#include "host/sysfs_machine.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "alignd/machine/node_json.h"
#include "edge/fake_tree.h"
#include "edge/tree_file.h"
#include "host/file.h"

namespace alignd::host {
namespace {

namespace fs = std::filesystem;
using testing::FakeEntry;
using testing::FakeTree;

// Half of the files in the archives of captured machines; leaving them out saves seconds.
constexpr const char* kWithoutUnreadFiles =
    "--exclude=cpuidle --exclude=cpufreq --exclude=power --exclude=uevent --exclude='*siblings*' "
    "--exclude='*_cpus*' --exclude=shared_cpu_list --exclude=coherency_line_size "
    "--exclude=number_of_sets --exclude=ways_of_associativity --exclude=physical_line_partition";

// The files of a directory that end in `extension`, in ascending order.
std::vector<fs::path> FilesIn(const fs::path& directory, const std::string& extension) {
  std::vector<fs::path> files;
  const Result<std::vector<std::string>> names = ListDirectory(directory);
  EXPECT_TRUE(names.ok()) << names.error().message;
  if (!names.ok()) return files;
  for (const std::string& name : *names) {
    if (name.ends_with(extension)) files.push_back(directory / name);
  }
  return files;
}

Machine ExpectedMachine(const fs::path& json_file) {
  const Result<std::string> json = ReadFile(json_file);
  EXPECT_TRUE(json.ok()) << json.error().message;
  Result<Machine> machine = MachineFromNodeJson(*json);
  EXPECT_TRUE(machine.ok()) << machine.error().message;
  return std::move(machine).value();
}

void ExpectMachine(const Machine& expected, const fs::path& root) {
  const Result<Machine> machine = ReadMachine(root);
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(MachineToNodeJson(*machine), MachineToNodeJson(expected));
  EXPECT_EQ(*machine, expected);
}

TEST(SysfsMachine, ReadsOurOddMachines) {
  const std::vector<fs::path> files = FilesIn(ALIGND_SOURCE_DIR "/tests/trees", ".tree");
  EXPECT_GE(files.size(), 11u);
  for (const fs::path& file : files) {
    SCOPED_TRACE(file);
    const FakeTree tree;
    testing::WriteTreeFile(file, tree);
    ExpectMachine(ExpectedMachine(fs::path(file).replace_extension(".json")), tree.root());
  }
}

TEST(SysfsMachine, SeesCapturedMachinesAsTheKubeletDoes) {
  const char* const shared = std::getenv("ALIGND_SHARED");
  const fs::path directory =
      fs::path(shared != nullptr ? shared : ALIGND_SOURCE_DIR "/../shared") / "topologies";
  if (!fs::exists(directory)) {
    GTEST_SKIP() << "captured machines are not at " << directory << "; set ALIGND_SHARED";
  }
  const std::vector<fs::path> archives = FilesIn(directory, ".tar.xz");
  EXPECT_FALSE(archives.empty());
  for (const fs::path& archive : archives) {
    SCOPED_TRACE(archive);
    const FakeTree tree;
    const std::string unpack = "tar -xJf '" + archive.string() + "' -C '" + tree.root().string() +
                               "' " + kWithoutUnreadFiles;
    ASSERT_EQ(std::system(unpack.c_str()), 0) << unpack;
    const std::string name = archive.stem().stem().string();  // less `.tar.xz`
    ExpectMachine(ExpectedMachine(directory / (name + ".json")), tree.root());
  }
}

// A sound machine of one CPU, of which each case below spoils or adds one file.
FakeTree OneCpu(const FakeEntry& spoiled) {
  return FakeTree{{"sys/devices/system",
                   {{"cpu/online", "0\n"},
                    {"cpu/cpu0/topology", {{"core_id", "0\n"}, {"physical_package_id", "0\n"}}},
                    {"node/node0",
                     {FakeEntry::Link("cpu0", "../../cpu/cpu0"),
                      {"meminfo", "Node 0 MemTotal:     2000 kB\nNode 0 MemFree:      1000 kB\n"},
                      {"distance", "10\n"},
                      {"hugepages/hugepages-2048kB/nr_hugepages", "1\n"}}}}},
                  spoiled};
}

TEST(SysfsMachine, ReadsTheMachineThatTheCasesBelowSpoil) {
  const FakeTree tree = OneCpu({"proc/unrelated", ""});
  const Result<Machine> machine = ReadMachine(tree.root());
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(MachineToNodeJson(*machine),
            R"({"cpus":[[0,0,0,0,0]],"numa":[{"id":0,"memory":2048000,)"
            R"("hugepages":{"2097152":1},"distances":[10]}]})");
}

TEST(SysfsMachine, HasTheCpusThatTheKernelIsolates) {
  const FakeTree none = OneCpu({"sys/devices/system/cpu/isolated", "\n"});
  const Result<Machine> plain = ReadMachine(none.root());
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  EXPECT_TRUE(plain->isolated().empty());
  const FakeTree some = OneCpu({"sys/devices/system/cpu/isolated", "0,5-6\n"});
  const Result<Machine> isolating = ReadMachine(some.root());
  ASSERT_TRUE(isolating.ok()) << isolating.error().message;
  EXPECT_EQ(isolating->isolated().ToString(), "0");  // it has no others
}

TEST(SysfsMachine, NamesTheFileAndTheDatumThatMakeNoSense) {
  struct Case {
    std::string file;  // below sys/devices/system
    std::string content;
    std::string message;  // after `read FILE: `
  };
  const std::vector<Case> cases = {
      {"cpu/online", "0-\n", R"("0-": not a CPU list)"},
      {"cpu/online", "\n", R"("": not a CPU list)"},
      {"cpu/online", "0-99999999\n", R"("0-99999999": not a CPU list)"},
      {"cpu/isolated", "1-\n", R"("1-": not a CPU list)"},
      {"node/node0/cpu0/topology/core_id", "zero\n", R"("zero": not a number)"},
      {"node/node0/cpu0/topology/core_id", "", R"("": not a number)"},
      {"node/node0/cpu0/topology/physical_package_id", "4294967296\n",
       R"("4294967296": not a number)"},
      {"node/node0/meminfo", "Node 0 MemFree: 1 kB\n",
       R"("Node 0 MemFree: 1 kB": no MemTotal in it)"},
      {"node/node0/meminfo", "MemTotal: 12\n", R"("MemTotal: 12": not a size in kB)"},
      {"node/node0/meminfo", "MemTotal: -1 kB\n", R"("MemTotal: -1 kB": not a size in kB)"},
      {"node/node0/meminfo", "MemTotal:", R"("MemTotal:": not a size in kB)"},
      {"node/node0/meminfo", "MemTotal: 18014398509481984 kB\n",
       R"("MemTotal: 18014398509481984 kB": not a size in kB)"},
      {"node/node0/distance", "10 x\n", R"("10 x": not a list of numbers)"},
      {"node/node0/distance", "10 -1\n", R"("10 -1": not a list of numbers)"},
      {"node/node0/hugepages/hugepages-2048kB/nr_hugepages", "many\n", R"("many": not a number)"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.file + ": " + c.content);
    const std::string file = "sys/devices/system/" + c.file;
    const FakeTree tree = OneCpu({file, c.content});
    const Result<Machine> machine = ReadMachine(tree.root());
    ASSERT_FALSE(machine.ok());
    EXPECT_EQ(machine.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(machine.error().message, "read " + (tree.root() / file).string() + ": " + c.message);
  }
}

TEST(SysfsMachine, NamesAHugepageDirectoryWithoutASize) {
  for (const std::string name : {"hugepages-kB", "hugepages-0kB", "hugepages-2048", "4kB"}) {
    SCOPED_TRACE(name);
    const std::string directory = "sys/devices/system/node/node0/hugepages";
    const FakeTree tree = OneCpu({directory + "/" + name + "/nr_hugepages", "0\n"});
    const Result<Machine> machine = ReadMachine(tree.root());
    ASSERT_FALSE(machine.ok());
    EXPECT_EQ(machine.error().message, "read " + (tree.root() / directory).string() + ": \"" +
                                           name + "\": not a size of huge pages");
  }
}

TEST(SysfsMachine, DoesNotTakeUnreadableForAbsent) {
  const FakeTree tree = OneCpu({"sys/devices/system/node/node1/meminfo/is-a-directory", ""});
  const Result<Machine> machine = ReadMachine(tree.root());
  ASSERT_FALSE(machine.ok());
  EXPECT_EQ(machine.error().code, ErrorCode::kIo);
}

TEST(SysfsMachine, PutsACpuOfTwoNodesOnTheLast) {
  const FakeTree tree =
      OneCpu(FakeEntry::Link("sys/devices/system/node/node10/cpu0", "../../cpu/cpu0"));
  tree.Write(FakeEntry::Link("sys/devices/system/node/node2/cpu0", "../../cpu/cpu0"));
  const Result<Machine> machine = ReadMachine(tree.root());
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine->Row(0).numa, 2);
}

TEST(SysfsMachine, RefusesMoreNodesThanAMaskHasBits) {
  const FakeTree tree = OneCpu({"proc/unrelated", ""});
  for (int node = 1; node <= NumaMask::kMaxNodes; ++node) {
    tree.Write({"sys/devices/system/node/node" + std::to_string(node) + "/distance", "10"});
  }
  const Result<Machine> machine = ReadMachine(tree.root());
  ASSERT_FALSE(machine.ok());
  EXPECT_EQ(machine.error().message,
            "read " + (tree.root() / "sys/devices/system/node").string() +
                ": the machine has 65 NUMA nodes; at most 64 are supported");
}

TEST(SysfsMachine, NamesTheMissingFileIfNoCpuHasATopology) {
  const FakeTree tree{{"sys/devices/system/cpu/cpu0/uevent", ""}};
  const Result<Machine> machine = ReadMachine(tree.root());
  ASSERT_FALSE(machine.ok());
  EXPECT_EQ(machine.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(machine.error().message,
            "read " + (tree.root() / "sys/devices/system/cpu").string() +
                ": no online CPU with topology/core_id and topology/physical_package_id");
}

TEST(SysfsMachine, ReportsAMissingTree) {
  const FakeTree tree;
  const Result<Machine> machine = ReadMachine(tree.root());
  ASSERT_FALSE(machine.ok());
  EXPECT_EQ(machine.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(machine.error().message, "list " + (tree.root() / "sys/devices/system/cpu").string() +
                                         ": No such file or directory");
}

}  // namespace
}  // namespace alignd::host
