// Pictures of machines from 4 to 512 CPUs, and what is in them.
#include "picture/picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/machine_builder.h"
#include "edge/fake_tree.h"
#include "edge/tree_file.h"
#include "host/sysfs_machine.h"
#include "picture/live_page.h"
#include "picture/svg.h"
#include "picture_checks.h"

namespace alignd::picture {
namespace {

namespace fs = std::filesystem;
namespace v1 = control::v1;
using testing::FakeEntry;
using testing::FakeTree;

// A report in which the nodes' CPUs are dealt out: the first two are reserved, then containers of
// one, two, three, ... CPUs get two thirds of them. Each node has four GPUs.
v1::GetStatusResponse BusyStatus(const Machine& machine) {
  v1::GetStatusResponse status;
  status.set_node("worker-17");
  status.set_version("1.2.3");
  status.set_time_unix_ms(1'700'000'100'000);
  status.mutable_policies()->set_cpu_manager("static");
  v1::DeviceResource& gpus = *status.add_devices();
  gpus.set_name("nvidia.com/gpu");
  int pods = 0;
  for (int position = 0; position < machine.numa_count(); ++position) {
    v1::NumaNode& node = *status.add_numa();
    node.set_id(machine.NumaId(position));
    CpuSet rest = machine.CpusInNuma(position);
    node.set_all_cpus(rest.ToString());
    const int keep = rest.Count() / 3;
    const CpuSet reserved = position == 0 ? rest.Lowest(2) : CpuSet();
    rest -= reserved;
    node.set_reserved_cpus(reserved.ToString());
    CpuSet exclusive;
    for (int size = 1; rest.Count() - size >= keep; ++size) {
      const CpuSet taken = rest.Lowest(size);
      rest -= taken;
      exclusive |= taken;
      v1::ContainerAssignment& container = *status.add_containers();
      container.set_pod_uid("uid-" + std::to_string(pods));
      container.set_pod("default/train-" + std::to_string(pods++));
      container.set_container("app");
      container.set_exclusive_cpus(taken.ToString());
      if (size > 1) continue;
      v1::AssignedDevices& assigned = *container.add_devices();
      assigned.set_resource("nvidia.com/gpu");
      v1::Device& device = *assigned.add_devices();
      device.set_id("gpu-" + std::to_string(position) + "-0");
      device.add_numa(machine.NumaId(position));
    }
    for (int i = 0; i < 4; ++i) {
      v1::Device& device = *gpus.add_all();
      device.set_id("gpu-" + std::to_string(position) + "-" + std::to_string(i));
      device.add_numa(machine.NumaId(position));
      if (i == 3) device.set_problem("unhealthy");
    }
    node.set_exclusive_cpus(exclusive.ToString());
    node.set_free_cpus(rest.ToString());
  }
  return status;
}

// Caches as most machines have them: of each core, and one for each group of uncore.
host::MachineParts UsualParts(const Machine& machine) {
  host::MachineParts parts;
  for (const CpuGroup& group : machine.uncores()) {
    parts.caches.push_back({3, "Unified", uint64_t{32} << 20, group.cpus});
  }
  for (const CpuGroup& core : machine.cores()) {
    parts.caches.push_back({2, "Unified", uint64_t{1} << 20, core.cpus});
    parts.caches.push_back({1, "Data", uint64_t{48} << 10, core.cpus});
  }
  for (int position = 0; position < machine.numa_count(); ++position) {
    parts.pci.push_back({.kind = host::PciKind::kNetwork,
                         .address = "0000:" + std::to_string(10 + position) + ":00.0",
                         .id = "15b3:101d",
                         .driver = "mlx5_core",
                         .names = {"eth" + std::to_string(position)},
                         .numa = machine.NumaId(position),
                         .virtual_functions = 8});
  }
  parts.pci.push_back({.kind = host::PciKind::kNvme, .address = "0000:f1:00.0"});
  return parts;
}

// With and without owners: a sound picture, which has each CPU exactly once.
void ExpectSoundPictures(const Machine& machine, const host::MachineParts& parts) {
  std::set<std::string> cpus;
  for (const int cpu : machine.cpus()) cpus.insert("cpu-" + std::to_string(cpu));
  for (const Picture& picture :
       {Picture{.machine = machine, .parts = parts, .owners = std::nullopt, .note = "not known"},
        MakePicture(machine, parts, BusyStatus(machine))}) {
    std::set<std::string> ids;
    CheckPicture(RenderSvg(picture), &ids);
    std::erase_if(ids, [](const std::string& id) { return !id.starts_with("cpu-"); });
    EXPECT_EQ(ids, cpus);
  }
}

TEST(PictureSvg, IsSoundFromFourTo512Cpus) {
  for (const char* const text :
       {"socket:1 numa:1 core:4 thread:1", "socket:1 numa:1 core:2 thread:2",
        "socket:2 numa:2 core:8 thread:4", "socket:2 numa:4 uncore:4 core:8 thread:2",
        "socket:4 numa:1 core:16 thread:8", "socket:1 numa:1 core:512 thread:1"}) {
    SCOPED_TRACE(text);
    const Machine machine = MakeMachine(text);
    ExpectSoundPictures(machine, UsualParts(machine));
    ExpectSoundPictures(machine, {});
  }
}

TEST(PictureSvg, IsSoundForOddMachines) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(ALIGND_SOURCE_DIR "/tests/trees")) {
    if (entry.path().extension() != ".tree") continue;
    SCOPED_TRACE(entry.path());
    const FakeTree tree;
    testing::WriteTreeFile(entry.path(), tree);
    const Result<Machine> machine = host::ReadMachine(tree.root());
    ASSERT_TRUE(machine.ok()) << machine.error().Text();
    ExpectSoundPictures(*machine, host::ReadParts(tree.root(), *machine));
    ++count;
  }
  EXPECT_GE(count, 11);
}

TEST(PictureSvg, IsSoundForCapturedMachines) {
  const char* const shared = std::getenv("ALIGND_SHARED");
  const fs::path directory =
      fs::path(shared != nullptr ? shared : ALIGND_SOURCE_DIR "/../shared") / "topologies";
  if (!fs::exists(directory)) {
    GTEST_SKIP() << "captured machines are not at " << directory << "; set ALIGND_SHARED";
  }
  for (const auto& [name, cache] :
       std::vector<std::pair<std::string, std::string>>{{"2arm-2c", ""},
                                                        {"20em64t-hybrid-1p6c2t+2ca4co1t", "L2 2M"},
                                                        {"40intel64-2g2n4c+pcilocality", "L3 30M"},
                                                        {"nvidiagpunumanodes", ""},
                                                        {"256ppc-8n8s4t", "L3"}}) {
    SCOPED_TRACE(name);
    const FakeTree tree;
    const std::string unpack = "tar -xJf '" + (directory / (name + ".tar.xz")).string() + "' -C '" +
                               tree.root().string() +
                               "' --exclude=cpuidle --exclude=cpufreq --exclude='memory[0-9]*' "
                               "--exclude='thermal_throttle' --exclude='*siblings*'";
    ASSERT_EQ(std::system(unpack.c_str()), 0) << unpack;
    const Result<Machine> machine = host::ReadMachine(tree.root());
    ASSERT_TRUE(machine.ok()) << machine.error().Text();
    const host::MachineParts parts = host::ReadParts(tree.root(), *machine);
    ExpectSoundPictures(*machine, parts);
    const std::string svg = RenderSvg({*machine, parts, std::nullopt});
    EXPECT_NE(svg.find(cache), std::string::npos);
  }
}

TEST(PictureSvg, NamesTheOwners) {
  const Machine machine = MakeMachine("socket:1 numa:2 core:6 thread:1");
  const std::string svg = RenderSvg(MakePicture(machine, UsualParts(machine), BusyStatus(machine)));
  const std::string words = WordsOf(CheckPicture(svg));
  for (const char* const expected :
       {"worker-17", "1 socket, 2 NUMA nodes, 12 cores, 12 CPUs", "L3 32M", "L2 1M, L1d 48K",
        "CPU 0: reserved: never exclusive; socket 0, NUMA node 0",
        "CPU 2: exclusive to default/train-0, container app; socket 0, NUMA node 0",
        "CPU 11: free: shared pool, until a container gets it exclusively; socket 0, NUMA node 1",
        "nvidia.com/gpu gpu-0-0: assigned to default/train-0, container app; NUMA node 0",
        "nvidia.com/gpu gpu-1-3: unhealthy; NUMA node 1",
        "NIC eth1 at 0000:11:00.0, 15b3:101d, driver mlx5_core, 8 virtual functions, NUMA node 1",
        "NVMe at 0000:f1:00.0, no NUMA node"}) {
    EXPECT_NE(words.find(expected), std::string::npos) << expected << "\n" << words;
  }
}

TEST(PictureSvg, LeavesOutWhatIsNotKnown) {
  const Machine machine = MakeMachine("socket:1 numa:1 core:4 thread:1");
  const Picture picture{
      .machine = machine, .parts = {}, .owners = std::nullopt, .note = "alignd does not answer"};
  const std::string words = WordsOf(CheckPicture(RenderSvg(picture)));
  EXPECT_NE(words.find("alignd does not answer\n"), std::string::npos);
  for (const char* const absent : {"L3", "L2", "exclusive", "free", "reserved", "PCI", "GPU"}) {
    EXPECT_EQ(words.find(absent), std::string::npos) << absent << "\n" << words;
  }
}

// An alignd that runs with --node has another machine than alignctl sees.
TEST(PictureSvg, ShowsNoOwnersOfAnotherMachine) {
  const Machine here = MakeMachine("socket:1 numa:1 core:4 thread:1");
  const Machine there = MakeMachine("socket:1 numa:1 core:8 thread:1");
  const Picture picture = MakePicture(here, {}, BusyStatus(there));
  EXPECT_FALSE(picture.owners);
  const std::string words = WordsOf(CheckPicture(RenderSvg(picture)));
  EXPECT_NE(words.find("alignd manages other CPUs"), std::string::npos) << words;
  EXPECT_EQ(words.find("train"), std::string::npos);
}

TEST(PictureSvg, ShowsForeignTextsAsTexts) {
  const Machine machine = MakeMachine("socket:1 numa:1 core:4 thread:1");
  v1::GetStatusResponse status = BusyStatus(machine);
  const std::string evil = "default/<script>\"'&amp;]]>\x01\x7f\xff\n\xe2\x80\xae\xef\xbf\xbe";
  for (v1::ContainerAssignment& container : *status.mutable_containers()) {
    container.set_pod(evil);
    container.set_container(std::string(5000, 'w'));
  }
  status.mutable_devices(0)->set_name(evil);
  status.set_node(evil);
  host::MachineParts parts = UsualParts(machine);
  parts.pci[0].names = {evil};
  const Element root = CheckPicture(RenderSvg(MakePicture(machine, parts, status)));
  const std::string shown = "<script>\"'&amp;]]>\\u0001\\u007f\\xff\\n\\u202e\\ufffe";
  EXPECT_NE(WordsOf(root).find(shown), std::string::npos) << WordsOf(root);
  const std::string page = RenderPage("", status);
  EXPECT_EQ(page.find("default/<"), std::string::npos);
  EXPECT_NE(page.find("default/&lt;script&gt;"), std::string::npos);
}

TEST(PictureSvg, EqualFactsGiveEqualBytes) {
  const Machine machine = MakeMachine("socket:2 numa:2 core:8 thread:2");
  v1::GetStatusResponse status = BusyStatus(machine);
  const std::string first = RenderSvg(MakePicture(machine, UsualParts(machine), status));
  auto& containers = *status.mutable_containers();
  std::reverse(containers.begin(), containers.end());
  EXPECT_EQ(RenderSvg(MakePicture(machine, UsualParts(machine), status)), first);
}

TEST(PictureSvg, CountsWhatIsTooMuch) {
  const Machine machine = MakeMachine("socket:1 numa:1 core:2 thread:1");
  v1::GetStatusResponse status = BusyStatus(machine);
  for (int i = 0; i < 1000; ++i) {
    const std::string number = std::to_string(i);
    v1::ContainerAssignment& container = *status.add_containers();
    container.set_pod("default/p" + number);
    v1::AssignedDevices& assigned = *container.add_devices();
    assigned.set_resource("example.com/" + std::to_string(i % 50));
    assigned.add_devices()->set_id("d" + number);
  }
  const std::string svg = RenderSvg(MakePicture(machine, {}, status));
  const std::string words = WordsOf(CheckPicture(svg));
  EXPECT_NE(words.find("the first 256 of 1000"), std::string::npos);
  EXPECT_NE(words.find("and 34 more"), std::string::npos);
  EXPECT_LT(svg.size(), 400'000U);
}

TEST(MachineParts, ReadsPciDevicesAndCaches) {
  const FakeTree tree;
  testing::WriteTreeFile(ALIGND_SOURCE_DIR "/tests/trees/cache-of-the-whole-node.tree", tree);
  const auto device = [&tree](const std::string& address, const std::string& code,
                              const std::string& numa) {
    tree.Write({"sys/bus/pci/devices/" + address,
                {{"class", code + "\n"},
                 {"vendor", "0x15b3\n"},
                 {"device", "0x101d\n"},
                 {"numa_node", numa + "\n"}}});
  };
  device("0000:01:00.0", "0x020000", "0");
  tree.Write({"sys/bus/pci/devices/0000:01:00.0",
              {{"net/eth0/mtu", "1500\n"},
               {"sriov_numvfs", "4\n"},
               FakeEntry::Link("driver", "../../../../bus/pci/drivers/mlx5_core")}});
  device("0000:01:00.1", "0x020000", "0");
  tree.Write({"sys/bus/pci/devices/0000:01:00.1", {FakeEntry::Link("physfn", "../0000:01:00.0")}});
  device("0000:02:00.0", "0x010802", "-1");
  device("0000:03:00.0", "0x030200", "many");
  tree.Write({"sys/bus/pci/devices/0000:03:00.0",
              {{"drm/card0/dev", "226:0\n"}, {"drm/renderD128/dev", "226:128\n"}}});
  device("0000:04:00.0", "0x060400", "0");  // a bridge
  device("0000:05:00.0", "0x020000", "1");
  tree.Write({"sys/bus/pci/devices/0000:05:00.0/virtio2", {{"net/ens3/mtu", "1500\n"}}});
  const Result<Machine> machine = host::ReadMachine(tree.root());
  ASSERT_TRUE(machine.ok()) << machine.error().Text();
  const host::MachineParts parts = host::ReadParts(tree.root(), *machine);
  const std::vector<host::PciDevice> expected = {
      {.kind = host::PciKind::kNetwork,
       .address = "0000:01:00.0",
       .id = "15b3:101d",
       .driver = "mlx5_core",
       .names = {"eth0"},
       .numa = 0,
       .virtual_functions = 4},
      {.kind = host::PciKind::kNvme, .address = "0000:02:00.0", .id = "15b3:101d"},
      {.kind = host::PciKind::kDisplay,
       .address = "0000:03:00.0",
       .id = "15b3:101d",
       .names = {"card0"}},
      {.kind = host::PciKind::kNetwork,
       .address = "0000:05:00.0",
       .id = "15b3:101d",
       .names = {"ens3"},
       .numa = 1}};
  EXPECT_EQ(parts.pci, expected);
  const std::vector<host::SharedCache> caches = {{3, "Unified", 3072 << 10, {0, 1}},
                                                 {3, "Unified", 3072 << 10, {2, 3}}};
  EXPECT_EQ(parts.caches, caches);
}

// The sources of a page that counts how often it asks.
class LivePageTest : public ::testing::Test {
 protected:
  LivePageTest()
      : machine_(MakeMachine("socket:1 numa:2 core:4 thread:1")),
        page_({.machine = machine_,
               .parts = [] { return host::MachineParts(); },
               .status =
                   [this] {
                     v1::GetStatusResponse status = BusyStatus(machine_);
                     status.set_generation(static_cast<uint64_t>(++asked_));
                     return status;
                   }}) {}

  const Machine machine_;
  int asked_ = 0;
  LivePage page_;
};

TEST_F(LivePageTest, ComputesOnceForManyCallers) {
  const auto begun = std::chrono::steady_clock::now();
  const auto first = page_.Newest();
  for (int i = 0; i < 1000; ++i) page_.Newest();
  const auto took = std::chrono::steady_clock::now() - begun;
  EXPECT_LE(asked_, 1 + took / PageTimes().reuse);
  CheckPicture(first->svg);
  EXPECT_NE(first->html.find(first->svg), std::string::npos);
}

TEST_F(LivePageTest, HasNothingFromElsewhereAndNoInlineCode) {
  const std::string html = page_.Newest()->html;
  EXPECT_NE(html.find("<script src=\"live.js\" defer></script>"), std::string::npos);
  EXPECT_NE(html.find("<link rel=\"stylesheet\" href=\"live.css\">"), std::string::npos);
  EXPECT_EQ(html.find("style="), std::string::npos);
  EXPECT_EQ(html.find(" on"), html.find(" on worker-17"));
  const std::string all = html + kScript + kStyle;
  size_t addresses = 0;
  for (size_t at = all.find("//"); at != std::string::npos; at = all.find("//", at + 1)) {
    ++addresses;
  }
  EXPECT_EQ(addresses, 1U);  // the name space of SVG
}

TEST_F(LivePageTest, ListsConditionsAndPodsThatAreNotPlaced) {
  v1::GetStatusResponse status = BusyStatus(machine_);
  EXPECT_NE(RenderPage("", status).find("No conditions."), std::string::npos);
  EXPECT_NE(RenderPage("", v1::GetStatusResponse()).find(R"(class="healthy">healthy</p>)"),
            std::string::npos);
  for (int i = 0; i < 150; ++i) {
    v1::Condition& condition = *status.add_conditions();
    condition.set_type("UnmanagedContainer");
    condition.set_message("message " + std::to_string(i));
    condition.set_remedy("delete it");
  }
  v1::PendingPod& pod = *status.add_pending();
  pod.set_pod("default/big");
  pod.set_state("refused");
  pod.set_reason("TopologyAffinityError");
  const std::string page = RenderPage("", status);
  EXPECT_NE(page.find(R"(class="degraded">degraded: UnmanagedContainer (150), container refused)"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("<td>default/big</td><td>all</td><td>refused</td>"
                      "<td>TopologyAffinityError</td>"),
            std::string::npos);
  EXPECT_NE(page.find("<h2>Conditions (150)</h2>"), std::string::npos);
  EXPECT_NE(page.find("message 99<"), std::string::npos);
  EXPECT_EQ(page.find("message 100<"), std::string::npos);
  EXPECT_NE(page.find("and 50 more"), std::string::npos);
}

}  // namespace
}  // namespace alignd::picture
