// Machines from lstopo's XML: the one that sysfs has, or a reason why not.
#include "cli/lstopo_file.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "alignd/machine/node_json.h"
#include "cli/fit_command.h"
#include "cli/simulate_command.h"
#include "cli/topology_command.h"
#include "edge/fake_tree.h"
#include "edge/process.h"
#include "edge/run_alignctl.h"
#include "host/descriptor.h"
#include "host/file.h"
#include "host/sysfs_machine.h"

// With these, there is no limit of memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ALIGND_TEST_HAS_SHADOW_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ALIGND_TEST_HAS_SHADOW_MEMORY 1
#endif
#endif

namespace alignd::cli {
namespace {

namespace fs = std::filesystem;
using testing::FakeTree;
using testing::Printed;

// Two packages, each a NUMA node with two cores of two threads; a third level cache for each core.
std::string LstopoXml(const std::string& name = "two_packages.xml") {
  const Result<std::string> text =
      host::ReadFile(ALIGND_SOURCE_DIR "/tests/fuzz/corpus/lstopo/" + name);
  EXPECT_TRUE(text.ok()) << text.error().Text();
  return text.ok() ? *text : "";
}

constexpr const char* kLstopoNode =
    R"({"cpus":[[0,0,0,0,0],[1,1,0,0,1],[2,2,1,1,2],[3,3,1,1,3],[4,0,0,0,0],[5,1,0,0,1],)"
    R"([6,2,1,1,2],[7,3,1,1,3]],"numa":[{"id":0,"memory":8589934592,"hugepages":{"2097152":0},)"
    R"("distances":[10,21]},{"id":1,"memory":8589934592,"hugepages":{"2097152":3},)"
    R"("distances":[21,10]}]})";

// Every occurrence.
std::string WithReplaced(std::string text, const std::string& from, const std::string& to) {
  EXPECT_NE(text.find(from), std::string::npos) << from;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string NodeOrFault(const std::string& xml) {
  const Result<std::string> json = NodeJsonOfLstopo(xml);
  if (!json.ok()) {
    EXPECT_NE(json.error().remedy, "") << json.error().message;
  }
  return json.ok() ? *json : "error: " + json.error().message;
}

TEST(LstopoFile, ReadsAMachine) {
  const Result<Machine> expected = MachineFromNodeJson(kLstopoNode);
  ASSERT_TRUE(expected.ok()) << expected.error().Text();
  EXPECT_EQ(NodeOrFault(LstopoXml()), MachineToNodeJson(*expected));
}

// The rules of caches are those of the kubelet.
TEST(LstopoFile, TakesACacheWithoutNumberForNone) {
  const std::string text = WithReplaced(LstopoXml(), R"("L3Cache" os_index="0")", R"("L3Cache")");
  const Result<std::string> json = NodeJsonOfLstopo(text);
  ASSERT_TRUE(json.ok()) << json.error().Text();
  const Result<Machine> machine = MachineFromNodeJson(*json);
  ASSERT_TRUE(machine.ok()) << machine.error().Text();
  // The first core's: also the second one has none then.
  EXPECT_EQ(machine->Row(0).uncore, 0);
  EXPECT_EQ(machine->Row(1).uncore, 0);
  EXPECT_EQ(machine->Row(3).uncore, 3);
}

// By default, libhwloc leaves them out.
TEST(LstopoFile, TakesAnInstructionCacheWithoutNumberForNone) {
  const std::string core = R"(<object type="Core" os_index="0" cpuset="0x00000011")";
  const auto cache = [](const std::string& number) {
    return R"(<object type="L1iCache")" + number +
           R"( cpuset="0x00000011" complete_cpuset="0x00000011" nodeset="0x00000001" )"
           R"(complete_nodeset="0x00000001" gp_index="91" cache_size="32768" depth="1" )"
           R"(cache_linesize="64" cache_associativity="8" cache_type="2">)";
  };
  const std::string end = R"(gp_index="2"/>
        </object>)";
  const std::string text = WithReplaced(LstopoXml(), end, end + "</object>");
  const auto uncore_of = [](const std::string& xml, int cpu) {
    const Result<Machine> machine = MachineFromNodeJson(NodeOrFault(xml));
    EXPECT_TRUE(machine.ok()) << machine.error().Text();
    return machine.ok() ? machine->Row(cpu).uncore : -1;
  };
  const std::string numbered = WithReplaced(text, core, cache(R"( os_index="0")") + core);
  EXPECT_EQ(uncore_of(numbered, 1), 1);
  EXPECT_EQ(uncore_of(WithReplaced(text, core, cache("") + core), 1), 0);
}

TEST(LstopoFile, RefusesWhatDoesNotShowTheMachine) {
  struct Case {
    std::string from;
    std::string to;
    std::string fault;
  };
  for (const auto& [from, to, fault] : std::vector<Case>{
           {R"(version="2.0")", R"(version="1.0")", R"(the version is "1.0", not 2.x)"},
           {R"(version="2.0")", R"(version="3.0")", R"(the version is "3.0", not 2.x)"},
           {R"(<topology version="2.0">)", R"(<topology>)", "there is no <topology version=...>"},
           {"</topology>", "", "libhwloc cannot read it"},
           {R"(value="Linux")", R"(value="Synthetic")", "there is no Backend Linux"},
           {R"(cpuset="0x000000ff" complete_cpuset="0x000000ff")",
            R"(cpuset="0x000000ff" complete_cpuset="0x00000fff")",
            "CPUs 8-11 are offline, or a cgroup did not allow them to lstopo"},
           {R"(nodeset="0x00000003" complete_nodeset="0x00000003")",
            R"(nodeset="0x00000003" complete_nodeset="0x00000007")",
            "NUMA nodes are missing: it has 0-1 of 0-2"},
           {R"(count="3")", R"(count="4097")", "NUMA node 1 has more huge pages than memory"},
           {R"(count="3")", R"(count="18446744073709551615")", "has more huge pages than memory"},
           {R"(NUMALatency)", "NUMABandwidth", "it has no distances between the NUMA nodes"},
           {R"(nbobjs="2")", R"(nbobjs="1")", "it has no distance"},
           {R"(10 21 21 10)", "1 1 70000 1", "it has no distance from NUMA node 1 to 0"},
           {R"("Core")", R"("Group")", "CPU 0 has no core"},
           {R"("Core" os_index="1")", R"("Core")", "CPU 1: its core has no number"},
           {R"("Package")", R"("Die")", "CPU 0 has no package"},
           {R"("Package" os_index="1")", R"("Package")", "CPU 2 has no package"}}) {
    const std::string answer = NodeOrFault(WithReplaced(LstopoXml(), from, to));
    EXPECT_TRUE(answer.starts_with("error: ") && answer.find(fault) != std::string::npos)
        << fault << "\n"
        << answer;
  }
  const std::string bare = WithReplaced(LstopoXml(), R"( local_memory="8589934592")", "");
  EXPECT_NE(NodeOrFault(WithReplaced(bare, R"(count="3")", R"(count="0")"))
                .find("its NUMA nodes have no memory"),
            std::string::npos);
  EXPECT_NE(NodeOrFault("<html></html>").find("it is no such file"), std::string::npos);
  EXPECT_NE(NodeOrFault(std::string(kMaxLstopoBytes + 1, '<')).find("longer than 16777216 bytes"),
            std::string::npos);
}

// hwloc makes one up if the kernel has none.
TEST(LstopoFile, TakesOneNumaNodeOnlyIfTheKernelHasIt) {
  const std::string text = LstopoXml("one_node.xml");
  const Result<std::string> json = NodeJsonOfLstopo(text);
  ASSERT_TRUE(json.ok()) << json.error().Text();
  EXPECT_NE(json->find(R"("distances":[10])"), std::string::npos) << *json;
  EXPECT_NE(NodeOrFault(WithReplaced(text, R"(<support name="discovery.numa"/>)", ""))
                .find("the kernel has no NUMA nodes"),
            std::string::npos);
  EXPECT_NE(NodeOrFault(WithReplaced(text, R"(<support name="custom.exported_support"/>)", ""))
                .find("it does not say whether the kernel has NUMA nodes"),
            std::string::npos);
}

// By the kubelet's rule, also if hwloc has two.
TEST(LstopoFile, CoresOfOneNumberInOnePackageAreOne) {
  const std::string text =
      WithReplaced(LstopoXml(), R"("Core" os_index="1")", R"("Core" os_index="0")");
  const Result<std::string> json = NodeJsonOfLstopo(text);
  ASSERT_TRUE(json.ok()) << json.error().Text();
  const Result<Machine> machine = MachineFromNodeJson(*json);
  ASSERT_TRUE(machine.ok()) << machine.error().Text();
  EXPECT_EQ(machine->cores().size(), 2U);
  EXPECT_EQ(machine->Row(5).core, 0);
  EXPECT_EQ(machine->Row(7).core, 2);
}

// hwloc has memory without CPUs near the CPUs that it is closest to.
TEST(LstopoFile, RefusesCpusOfTwoNumaNodes) {
  const std::string numa = R"(<object type="NUMANode" os_index="0")";
  const std::string second =
      R"(<object type="NUMANode" os_index="2" cpuset="0x00000033" complete_cpuset="0x00000033" )"
      R"(nodeset="0x00000004" complete_nodeset="0x00000004" gp_index="90" local_memory="4096">)"
      R"(<page_type size="4096" count="1"/></object>)";
  std::string text = WithReplaced(LstopoXml(), numa, second + numa);
  text = WithReplaced(text, R"(nodeset="0x00000003")", R"(nodeset="0x00000007")");
  text = WithReplaced(text, R"(nbobjs="2")", R"(nbobjs="3")");
  text = WithReplaced(text, R"(<indexes length="4">0 1 )", R"(<indexes length="6">0 1 2 )");
  text = WithReplaced(text, R"(length="12">10 21 21 10 )",
                      R"(length="27">10 21 17 21 10 28 17 28 10 )");
  EXPECT_NE(NodeOrFault(text).find("CPU 0 is near the NUMA nodes 0,2"), std::string::npos)
      << NodeOrFault(text);
}

// libhwloc compares each attribute with all before it: many of them take long.
std::string SlowXml() {
  std::string attributes;
  for (int i = 0; i < 100'000; ++i) {
    attributes += "<memattr name=\"a" + std::to_string(i) + "\" flags=\"1\"/>\n";
  }
  return WithReplaced(LstopoXml(), "</topology>", attributes + "</topology>");
}

#ifndef ALIGND_TEST_HAS_SHADOW_MEMORY
// What other tests have freed would be enough for a text of that size: it is taken, so that the
// next one needs more from the kernel.
std::vector<std::string> FreeMemoryTaken(size_t bytes) {
  const auto of_kernel = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.arena + info.hblkhd;
  };
  std::vector<std::string> taken;
  for (bool was_free = true; was_free;) {
    const size_t before = of_kernel();
    taken.emplace_back(bytes, ' ');
    was_free = of_kernel() == before;
  }
  return taken;
}
#endif

TEST(LstopoFile, SaysWhichLimitItExceeds) {
  const auto fault_with = [](const std::string& xml, const LstopoLimits& limits) {
    const Result<std::string> json = NodeJsonOfLstopo(xml, limits);
    return json.ok() ? "none" : json.error().message;
  };
  const std::string slow = SlowXml();
  EXPECT_EQ(fault_with(slow, {.cpu_seconds = 1}),
            "lstopo's XML: reading it takes more than 1 s of processor time");
  EXPECT_EQ(fault_with(slow, {.cpu_seconds = 600, .seconds = 1}),
            "lstopo's XML: reading it takes more than 1 s");
#ifndef ALIGND_TEST_HAS_SHADOW_MEMORY
  // libhwloc makes a copy of the text.
  const std::string long_text = LstopoXml() + std::string(size_t{12} << 20, ' ');
  const std::vector<std::string> taken = FreeMemoryTaken(long_text.size());
  EXPECT_EQ(fault_with(long_text, {.bytes = uint64_t{4} << 20}),
            "lstopo's XML: reading it takes more than 4 MiB of memory");
  EXPECT_EQ(fault_with(long_text, {}), "none");
#endif
}

// Its limit of memory does not bind what the reading process writes.
TEST(LstopoFile, TakesOnlySoMuchFromTheReadingProcess) {
  const Result<std::string> json = NodeJsonOfLstopo(LstopoXml(), {.answer_bytes = 100});
  ASSERT_FALSE(json.ok());
  EXPECT_EQ(json.error().message,
            "lstopo's XML: it is damaged: the machine that libhwloc reads takes more than 100 "
            "bytes");
}

TEST(LstopoFile, EndsWhenItIsStopped) {
  const host::Descriptor stop(eventfd(1, EFD_CLOEXEC));
  const Result<std::string> json =
      NodeJsonOfLstopo(SlowXml(), {.cpu_seconds = 5, .stop = stop.fd()});
  ASSERT_FALSE(json.ok());
  EXPECT_EQ(json.error().message, "lstopo's XML: the reading was stopped");
}

TEST(LstopoFile, IsRecognizedByItsRootElement) {
  EXPECT_TRUE(IsLstopo(LstopoXml()));
  EXPECT_TRUE(IsLstopo("<?xml version=\"1.0\"?>\n<!-- <a> -->\n<topology>"));  // of hwloc 1
  for (const char* const other :
       {"", "<", "<?xml", "<!-- <topology version=\"2.0\">", "<topology", "<topologyX>",
        "<domain type=\"kvm\"><cpu><topology sockets=\"1\"/></cpu></domain>"}) {
    EXPECT_FALSE(IsLstopo(other)) << other;
  }
}

// The line of /proc/PID/status that begins so.
std::string StatusLine(pid_t process, const std::string& start) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(start)) return line.substr(start.size());
  }
  return "";
}

size_t DescriptorsOf(pid_t process) {
  std::error_code ignored;
  const fs::directory_iterator all("/proc/" + std::to_string(process) + "/fd", ignored);
  return static_cast<size_t>(std::distance(all, fs::directory_iterator()));
}

pid_t ChildOf(pid_t process) {
  const std::string id = std::to_string(process);
  std::ifstream file("/proc/" + id + "/task/" + id + "/children");
  pid_t child = -1;
  file >> child;
  return child;
}

// As of alignd-extender, which blocks signals and has a listening socket.
TEST(LstopoFile, TheReadingProcessEndsWithItsParentAndHasNothingOfIt) {
  const std::string slow = SlowXml();
  int before = 0;  // of this process
  ASSERT_EQ(prctl(PR_GET_CHILD_SUBREAPER, &before), 0);
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    sigset_t all{};
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    if (dup(STDERR_FILENO) < 0) _exit(1);  // inherited
    (void)NodeJsonOfLstopo(slow, {.cpu_seconds = 600, .seconds = 600});
    _exit(0);
  }
  pid_t reader = -1;
  EXPECT_TRUE(testing::WaitUntil([&] { return (reader = ChildOf(parent)) > 0; }));
  if (reader > 0) {
    // The three standard streams and the pipe.
    EXPECT_TRUE(testing::WaitUntil([&] { return DescriptorsOf(reader) == 4; }))
        << DescriptorsOf(reader);
    EXPECT_EQ(StatusLine(reader, "SigBlk:\t"), "0000000000000000");
  }
  EXPECT_EQ(kill(parent, SIGKILL), 0);
  EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
  if (reader > 0) {
    int status = 0;
    EXPECT_TRUE(testing::WaitUntil([&] { return waitpid(reader, &status, WNOHANG) == reader; }));
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }
  prctl(PR_SET_CHILD_SUBREAPER, before);
}

TEST(LstopoFile, CommandsTakeItForANode) {
  FakeTree tree;
  const std::string root = tree.root().string() + "/";
  tree.Write({"nodes/w1.xml", LstopoXml()});
  tree.Write({"bad.xml", WithReplaced(LstopoXml(), "NUMALatency", "Other")});
  tree.Write({"config.yaml",
              "kind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: '0'\n"
              "topologyManagerPolicy: single-numa-node\n"});
  tree.Write({"pod.yaml",
              "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - {name: "
              "app, image: i, resources: {limits: {cpu: 4, memory: 1Gi}}}\n"});
  const auto run = [](const std::vector<std::string>& arguments) {
    return testing::RunAlignctl({AddFitCommand, AddSimulateCommand, AddTopologyCommand}, arguments);
  };
  const Printed simulated = run({"simulate", "--node", root + "nodes/w1.xml", "--config",
                                 root + "config.yaml", root + "pod.yaml"});
  EXPECT_EQ(simulated.status, 0) << simulated.err;
  EXPECT_NE(simulated.out.find("app: CPUs 2-3,6-7 (NUMA node 1)"), std::string::npos)
      << simulated.out;
  const Printed fitted = run({"fit", "-f", root + "pod.yaml", "--nodes", root + "nodes", "--config",
                              root + "config.yaml"});
  EXPECT_EQ(fitted.status, 0) << fitted.err;
  EXPECT_NE(fitted.out.find("placed on w1"), std::string::npos) << fitted.out;
  // Other XML says nothing about a node. A file that lstopo was interrupted at does.
  for (const char* const file : {"nodes/vm.xml", "nodes/w2/vm.xml"}) {
    tree.Write({file, "<domain type='kvm'><cpu><topology sockets='1'/></cpu></domain>"});
  }
  tree.Write({"nodes/w2/node.xml", LstopoXml()});
  const std::vector<std::string> fit = {"fit",          "-f",       root + "pod.yaml",   "--nodes",
                                        root + "nodes", "--config", root + "config.yaml"};
  const Printed beside = run(fit);
  EXPECT_EQ(beside.status, 0) << beside.err;
  EXPECT_NE(beside.out.find("placed on w1"), std::string::npos) << beside.out;
  for (const std::string& text : {std::string(), LstopoXml().substr(0, 500)}) {
    tree.Write({"nodes/w3.xml", text});
    EXPECT_EQ(run(fit).status, 2) << text;
  }
  const Printed shown = run({"topology", "--node", root + "nodes/w1.xml", "-o", "json"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  const Result<Machine> machine = MachineFromNodeJson(shown.out);
  ASSERT_TRUE(machine.ok()) << machine.error().Text() << shown.out;
  EXPECT_EQ(*machine, *MachineFromNodeJson(kLstopoNode));
  const Printed bad = run({"simulate", "--node", root + "bad.xml", "--config", root + "config.yaml",
                           root + "pod.yaml"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_NE(bad.err.find("bad.xml: lstopo's XML: it has no distances"), std::string::npos)
      << bad.err;
}

// Whether the tree of sysfs was read from what lstopo writes of it. If so, as from the tree.
bool IsReadAsTree(const FakeTree& tree) {
  const std::string command = "cd '" + tree.root().string() +
                              "' && HWLOC_HIDE_ERRORS=2 lstopo-no-graphics --input . "
                              "--input-format fsroot --of xml machine.xml";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT
  const Result<std::string> xml = host::ReadFile(tree.root() / "machine.xml");
  EXPECT_TRUE(xml.ok()) << xml.error().Text();
  const Result<std::string> json = NodeJsonOfLstopo(*xml);
  if (!json.ok()) {
    std::cout << "  " << json.error().message << '\n';
    return false;
  }
  Result<Machine> machine = host::ReadMachine(tree.root());
  EXPECT_TRUE(machine.ok()) << machine.error().Text();
  // hwloc has no distance of one NUMA node; some kernels say 0.
  if (machine->numa_count() == 1) {
    std::vector<NumaNode> numa = machine->numa();
    numa[0].distances = {10};
    machine = Machine::Make(machine->cpu_rows(), numa);
    EXPECT_TRUE(machine.ok()) << machine.error().Text();
  }
  EXPECT_EQ(*json, MachineToNodeJson(*machine));
  return true;
}

// lstopo (package hwloc) is no program that alignd needs.
bool HasLstopo() {
  return std::system("lstopo-no-graphics --version >/dev/null 2>&1") == 0;  // NOLINT
}

TEST(LstopoFile, EqualsWhatSysfsHasOfCapturedMachines) {
  const char* const shared = std::getenv("ALIGND_SHARED");
  const fs::path directory =
      fs::path(shared != nullptr ? shared : ALIGND_SOURCE_DIR "/../shared") / "topologies";
  if (!fs::exists(directory) || !HasLstopo()) {
    GTEST_SKIP() << "needs lstopo (package hwloc) and captured machines at " << directory;
  }
  // The small ones take 5 s, all of them a minute. ALIGND_ITERATIONS: all of them.
  const bool all = std::getenv("ALIGND_ITERATIONS") != nullptr;
  constexpr uintmax_t kSmall = 9'000;  // bytes of the archive
  int read = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (!entry.path().string().ends_with(".tar.xz")) continue;
    if (!all && entry.file_size() > kSmall) continue;
    SCOPED_TRACE(entry.path());
    std::cout << entry.path().stem() << '\n';
    const FakeTree tree;
    const std::string unpack =
        "tar -xJf '" + entry.path().string() + "' -C '" + tree.root().string() +
        "' --exclude=cpuidle --exclude=cpufreq --exclude=power --exclude=uevent --exclude=hotplug";
    ASSERT_EQ(std::system(unpack.c_str()), 0) << unpack;  // NOLINT
    read += IsReadAsTree(tree) ? 1 : 0;
  }
  EXPECT_GE(read, all ? 10 : 3);
}

}  // namespace
}  // namespace alignd::cli
