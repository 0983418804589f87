// What `alignctl state import` and `export` write, keep and refuse.
#include <algorithm>

#include "alignd/checkpoint/originals_checkpoint.h"
#include "cli/state_command.h"
#include "daemon/change_undo.h"
#include "daemon/moves_file.h"
#include "deviceplugin/v1beta1/deviceplugin.pb.h"
#include "mirror/marker.h"
#include "moving/device_merge.h"
#include "moving/state_export.h"
#include "moving/state_import.h"
#include "moving_node.h"

namespace alignd::moving {
namespace {

AligndSide SideOf(const MovingNode& node) {
  Result<AligndSide> side = AligndSide::Make(node.Options());
  EXPECT_TRUE(side.ok()) << side.error().Text();
  return *std::move(side);
}

testing::Printed State(const MovingNode& node, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "state");
  for (const std::string& more : {std::string("--root"), node.root().string(),
                                  std::string("--node"), (node.root() / "node.json").string()}) {
    arguments.push_back(more);
  }
  return testing::RunAlignctl({cli::AddStateCommand}, arguments);
}

// One allocation of the kubelet. `is_mirrors`: its plugin is alignd's mirror.
void WriteDevices(MovingNode& node, const std::string& directory, const std::string& uid,
                  const std::string& id, bool is_mirrors) {
  v1beta1::ContainerAllocateResponse response;
  if (is_mirrors) {
    const mirror::Annotation marker = mirror::FormatMarker({"a.com/gpu", {id}});
    (*response.mutable_annotations())[marker.key] = marker.value;
  } else {
    (*response.mutable_envs())["GPU"] = id;
  }
  devicemanager::DeviceState devices;
  devices.allocations[{uid, "app"}]["a.com/gpu"] = {{{0, {id}}}, response.SerializeAsString()};
  devices.resources["a.com/gpu"].devices[id].healthy = true;
  node.Write(directory + "/device-plugins/kubelet_internal_checkpoint",
             checkpoint::FormatDeviceCheckpoint(devices));
}

TEST(StateImport, WritesWhatAStartOfAligndCarriesOver) {
  MovingNode node;
  WriteDevices(node, "/var/lib/kubelet", "uid-1", "g0", false);
  node.Write("/var/lib/alignd/boot_id", "an earlier boot");
  const testing::Printed printed = State(node, {"import", "--move"});
  ASSERT_EQ(printed.status, 0) << printed.out << printed.err;
  EXPECT_TRUE(MovingNode::Has(printed.out, "pod uid-1 container app: CPUs ")) << printed.out;
  EXPECT_TRUE(MovingNode::Has(printed.out, "a.com/gpu g0")) << printed.out;
  const auto state = allocation::CheckpointStore({node.root() / "var/lib/alignd",
                                                  node.root() / "var/lib/alignd/device-plugins"})
                         .Load(SideOf(node).node);
  ASSERT_TRUE(state.ok()) << state.error().Text();
  EXPECT_EQ(state->cpu.assignments.size(), 2U);
  EXPECT_EQ(state->memory.assignments.size(), 2U);
  EXPECT_EQ(state->devices.allocations.size(), 1U);
  EXPECT_FALSE(std::filesystem::exists(node.root() / "var/lib/alignd/boot_id"));
  EXPECT_FALSE(std::filesystem::exists(node.root() / "var/lib/kubelet/cpu_manager_state"));
  // What was replaced is kept.
  int copies = 0;
  for (const auto& [path, text] : node.All()) {
    if (MovingNode::Has(path, "/before-import-")) ++copies;
  }
  EXPECT_EQ(copies, 3);  // boot_id, and the kubelet's two files
}

TEST(StateImport, ADryRunChangesNothing) {
  MovingNode node;
  const auto files = node.All();
  const testing::Printed printed = State(node, {"import", "--dry-run"});
  ASSERT_EQ(printed.status, 0) << printed.out << printed.err;
  EXPECT_TRUE(MovingNode::Has(printed.out, "cpu_manager_state: new")) << printed.out;
  EXPECT_EQ(node.All(), files);
}

TEST(StateImport, RefusesWhileAligndRuns) {
  MovingNode node;
  node.Write("/var/lib/alignd/alignd.lock", "");
  const auto lock = host::LockDirectory(node.root() / "var/lib/alignd");
  ASSERT_TRUE(lock.ok());
  const auto files = node.All();
  const testing::Printed printed = State(node, {"import"});
  EXPECT_EQ(printed.status, 2) << printed.out;
  EXPECT_EQ(node.All(), files);
}

TEST(StateImport, RefusesWhileAKubeletManagesCpus) {
  MovingNode node;
  node.Write("/proc/77/cmdline", std::string("/usr/bin/kubelet\0--v=2\0", 23));
  const testing::Printed printed = State(node, {"import"});
  EXPECT_EQ(printed.status, 1);
  EXPECT_TRUE(MovingNode::Has(printed.err, "a kubelet runs (process 77)")) << printed.err;
}

// The file of a kubelet whose policy is none, as it writes it at its start.
void WriteFilesOfNone(MovingNode& node) {
  node.Write("/var/lib/kubelet/cpu_manager_state",
             checkpoint::FormatCpuCheckpoint("none", {}, checkpoint::StateForm::kPlain));
  node.Write("/var/lib/kubelet/memory_manager_state",
             checkpoint::FormatMemoryCheckpoint("None", {}, checkpoint::StateForm::kPlain));
}

TEST(StateImport, ASecondOneDoesNotReplaceWhatAligndHas) {
  for (const bool has_files : {true, false}) {
    MovingNode node;
    WriteDevices(node, "/var/lib/kubelet", "uid-1", "g0", false);
    ASSERT_EQ(State(node, {"import", "--move"}).status, 0);
    if (has_files) WriteFilesOfNone(node);
    const auto files = node.Kept();
    const testing::Printed again = State(node, {"import", "--move"});
    EXPECT_EQ(again.status, 1) << again.out;
    EXPECT_TRUE(MovingNode::Has(again.err, "import nothing")) << again.err;
    EXPECT_EQ(node.Kept(), files);
  }
}

TEST(StateImport, RefusesToReplaceDevicesThatAligndHas) {
  MovingNode node;
  WriteDevices(node, "/var/lib/kubelet", "uid-1", "g0", false);
  WriteDevices(node, "/var/lib/alignd", "uid-2", "g1", false);
  const auto files = node.Kept();
  const testing::Printed refused = State(node, {"import"});
  EXPECT_EQ(refused.status, 1) << refused.out;
  EXPECT_TRUE(MovingNode::Has(refused.err, "of pods uid-2")) << refused.err;
  EXPECT_EQ(node.Kept(), files);
  EXPECT_EQ(State(node, {"import", "--no-devices"}).status, 0);
}

// The process may be older than the policies of its file, and writes the devices in any case.
TEST(StateImport, RefusesWhileAnyKubeletOfTheNodeRuns) {
  MovingNode node;
  node.Write("/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n");
  node.Write("/proc/77/cmdline", std::string("/usr/bin/kubelet\0", 17));
  const auto files = node.Kept();
  for (const char* const command : {"import", "export"}) {
    const testing::Printed printed = State(node, {command});
    EXPECT_EQ(printed.status, 1) << printed.out;
    EXPECT_TRUE(MovingNode::Has(printed.err, "a kubelet runs (process 77)")) << printed.err;
  }
  EXPECT_EQ(node.Kept(), files);
}

TEST(StateImport, ComparesTheStateWithTheRunningContainers) {
  MovingNode node;
  const std::string cgroups = (node.root() / "cgroup").string();
  EXPECT_EQ(State(node, {"import", "--dry-run", "--cgroup-root", cgroups}).status, 0);
  const testing::Printed unknown = State(node, {"import", "--dry-run"});
  EXPECT_EQ(unknown.status, 0);
  EXPECT_TRUE(MovingNode::Has(unknown.out, "were not compared with the state")) << unknown.out;
  node.Run("uid-2", "0-5");
  const testing::Printed refused = State(node, {"import", "--cgroup-root", cgroups});
  EXPECT_EQ(refused.status, 1) << refused.out;
  EXPECT_TRUE(MovingNode::Has(refused.err, "a container of pod uid-2")) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(node.root() / "var/lib/alignd/cpu_manager_state"));
}

TEST(StateImport, RefusesAContainerWithOtherMemoryNodes) {
  MovingNode node;
  const std::string cgroups = (node.root() / "cgroup").string();
  const CpuSet cpus = node.CpusIn("/var/lib/kubelet").assignments.at("uid-2").at("app");
  node.Run("uid-2", cpus.ToString(), "one", "1");
  const testing::Printed refused = State(node, {"import", "--cgroup-root", cgroups});
  EXPECT_EQ(refused.status, 1) << refused.out;
  EXPECT_TRUE(MovingNode::Has(refused.err,
                              "may use memory of NUMA nodes 1, and container app is assigned "
                              "memory of NUMA nodes 0"))
      << refused.err;
  EXPECT_FALSE(std::filesystem::exists(node.root() / "var/lib/alignd/memory_manager_state"));
  node.Run("uid-2", cpus.ToString());
  EXPECT_EQ(State(node, {"import", "--cgroup-root", cgroups}).status, 0);
}

TEST(StateImport, FindsTheFilesOfAKubeletWithAnotherRootDirectory) {
  MovingNode node;
  node.Write("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--root-dir=/data/kubelet\n");
  for (const char* const name : {"cpu_manager_state", "memory_manager_state"}) {
    node.Write(std::string("/data/kubelet/") + name,
               node.Read(std::string("/var/lib/kubelet/") + name));
    std::filesystem::remove(node.root() / "var/lib/kubelet" / name);
  }
  WriteDevices(node, "/var/lib/kubelet", "uid-1", "g0", false);
  const testing::Printed found = State(node, {"import", "--dry-run"});
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_TRUE(MovingNode::Has(found.out, "a.com/gpu g0")) << found.out;
  node.Write("/proc/77/cmdline", std::string("/usr/bin/kubelet\0", 17));
  EXPECT_EQ(State(node, {"import", "--from", (node.root() / "data/kubelet").string()}).status, 1);
}

TEST(StateImport, RefusesPlaceholdersOfTheMirror) {
  MovingNode node;
  WriteDevices(node, "/var/lib/kubelet", "uid-1", "g0", true);
  const auto files = node.Kept();
  const testing::Printed refused = State(node, {"import"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(MovingNode::Has(refused.err, "pod uid-1 container app")) << refused.err;
  EXPECT_TRUE(MovingNode::Has(refused.err, "--no-devices")) << refused.err;
  EXPECT_EQ(node.Kept(), files);
  EXPECT_EQ(State(node, {"import", "--no-devices"}).status, 0);
}

TEST(StateImport, ADeviceThatTwoPodsHaveIsRefused) {
  MovingNode node;
  devicemanager::DeviceState devices;
  for (const char* const uid : {"uid-1", "uid-2"}) {
    devices.allocations[{uid, "app"}]["a.com/gpu"] = {{{0, {"g0"}}}, "x"};
  }
  node.Write("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
             checkpoint::FormatDeviceCheckpoint(devices));
  const testing::Printed refused = State(node, {"import"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(MovingNode::Has(refused.err, "allocated to pods uid-1 and uid-2")) << refused.err;
}

// Every system call that writes fails once: all files are new or all are old.
class FailingCalls final : public host::FileCalls {
 public:
  explicit FailingCalls(int fails_at) : fails_at_(fails_at) {}
  bool has_failed = false;

  int Open(const char* path, int flags, mode_t mode) override {
    return Fails() ? -1 : FileCalls::Open(path, flags, mode);
  }
  ssize_t Write(int fd, const void* data, size_t size) override {
    return Fails() ? -1 : FileCalls::Write(fd, data, size);
  }
  int Fsync(int fd) override { return Fails() ? -1 : FileCalls::Fsync(fd); }
  int Rename(const char* from, const char* to) override {
    return Fails() ? -1 : FileCalls::Rename(from, to);
  }
  int Unlink(const char* path) override { return Fails() ? -1 : FileCalls::Unlink(path); }

 private:
  bool Fails() {
    if (++calls_ != fails_at_) return false;
    errno = EIO;
    return has_failed = true;
  }
  const int fails_at_;
  int calls_ = 0;
};

TEST(StateImport, AWriteThatFailsLeavesAllFilesAsTheyWere) {
  int failures = 0;
  for (int fails_at = 1; fails_at < 200; ++fails_at) {
    MovingNode node;
    node.Write("/var/lib/alignd/cpu_originals", "an earlier file");
    const auto files = node.Kept();
    const AligndSide side = SideOf(node);
    const Result<MovePlan> plan =
        PlanImport(side, {.from = node.KubeletPaths(), .removes_source = true});
    ASSERT_TRUE(plan.ok() && plan->problems.empty());
    FailingCalls calls(fails_at);
    const Result<Done> done =
        CarryOut(side, *plan, BackupDirectory(side.options.state_dir, "import"), calls);
    if (!calls.has_failed) break;
    ++failures;
    auto now = node.Kept();
    std::erase_if(now, [](const auto& file) { return file.first.ends_with(".alignd-new"); });
    EXPECT_FALSE(done.ok()) << fails_at;
    EXPECT_EQ(now, files) << fails_at;
  }
  EXPECT_GT(failures, 10);
}

TEST(StateImport, AnInterruptedMoveIsUndoneByTheNextOne) {
  MovingNode node;
  node.Write("/var/lib/alignd/cpu_manager_state", "before");
  const AligndSide side = SideOf(node);
  const std::vector<std::filesystem::path> paths = {
      node.root() / "var/lib/alignd/cpu_manager_state",
      node.root() / "var/lib/kubelet/cpu_manager_state"};
  const std::string kubelets = node.Read("/var/lib/kubelet/cpu_manager_state");
  ASSERT_TRUE(daemon::ChangeUndo::Begin(side.options.state_dir, paths, side.config_text).ok());
  // The crash: the kubelet's file is gone, alignd's is new.
  node.Write("/var/lib/alignd/cpu_manager_state", "half");
  std::filesystem::remove(paths[1]);
  EXPECT_EQ(State(node, {"import", "--dry-run"}).status, 2);
  const testing::Printed printed = State(node, {"import"});
  ASSERT_EQ(printed.status, 0) << printed.out << printed.err;
  EXPECT_TRUE(MovingNode::Has(printed.out, "Its files were restored first")) << printed.out;
  EXPECT_EQ(node.Read("/var/lib/kubelet/cpu_manager_state"), kubelets);
  EXPECT_EQ(node.CpusIn("/var/lib/alignd").assignments.size(), 2U);
}

// alignd has the state, and the kubelet nothing.
void MoveToAlignd(MovingNode& node) {
  const testing::Printed moved = State(node, {"import", "--move"});
  ASSERT_EQ(moved.status, 0) << moved.out << moved.err;
}

TEST(StateExport, WritesTheFormsOfTheRelease) {
  for (const auto& [release, version] :
       {std::pair{"1.37", "\"data\""}, {"1.36", ""}, {"1.24", ""}}) {
    MovingNode node;
    MoveToAlignd(node);
    const testing::Printed printed = State(node, {"export", "--compatibility", release, "--move"});
    ASSERT_EQ(printed.status, 0) << printed.out << printed.err;
    const std::string text = node.Read("/var/lib/kubelet/cpu_manager_state");
    EXPECT_EQ(MovingNode::Has(text, "\"data\""), std::string(version) == "\"data\"") << text;
    EXPECT_EQ(node.CpusIn("/var/lib/kubelet").assignments.size(), 2U);
    EXPECT_FALSE(std::filesystem::exists(node.root() / "var/lib/alignd/cpu_manager_state"));
  }
}

// alignd was killed while it moved a container: the state files have its CPUs of before and after.
TEST(StateExport, RefusesWhileContainersHaveToMoveBack) {
  MovingNode node;
  MoveToAlignd(node);
  const AligndSide side = SideOf(node);
  const daemon::MovesFile moves(side.options.state_dir);
  ASSERT_TRUE(moves.Write({{{"uid-1", "app"}, CpuSet({1}), CpuSet({2})}}).ok());
  ASSERT_TRUE(daemon::ChangeUndo::Begin(side.options.state_dir, {}, side.config_text).ok());
  const auto files = node.Kept();
  for (const std::string& more : {std::string("--move"), std::string("--dry-run")}) {
    const testing::Printed printed = State(node, {"export", "--compatibility", "1.36", more});
    EXPECT_NE(printed.status, 0) << printed.out;
    EXPECT_TRUE(MovingNode::Has(printed.err, "config_change_moves")) << printed.err;
    EXPECT_TRUE(MovingNode::Has(printed.err, "it moves them back")) << printed.err;
    EXPECT_EQ(node.Kept(), files);
  }
  FakeServices services;
  for (const bool dry_run : {false, true}) {
    const Result<bool> recovered = RecoverInterrupted(node.Request(), services, dry_run);
    ASSERT_FALSE(recovered.ok());
    EXPECT_TRUE(MovingNode::Has(recovered.error().message, "config_change_moves"));
  }
  EXPECT_EQ(node.Kept(), files);
  ASSERT_TRUE(moves.Remove().ok());
  const testing::Printed printed = State(node, {"export", "--compatibility", "1.36", "--move"});
  EXPECT_EQ(printed.status, 0) << printed.err;
}

TEST(StateExport, RefusesWhatTheReleaseCannotKeep) {
  MovingNode node;
  MoveToAlignd(node);
  const auto files = node.Kept();
  const testing::Printed printed = State(node, {"export", "--compatibility", "1.20"});
  EXPECT_EQ(printed.status, 1);
  EXPECT_TRUE(MovingNode::Has(printed.err, "kubelet 1.20 has no memory manager")) << printed.err;
  EXPECT_TRUE(MovingNode::Has(printed.err, "uid-1")) << printed.err;
  EXPECT_EQ(node.Kept(), files);
}

TEST(StateExport, RefusesWhatTheKubeletWouldNotAdmitAgain) {
  MovingNode node;
  MoveToAlignd(node);
  const CpuSet own = node.CpusIn("/var/lib/alignd").assignments.at("uid-1").at("app");
  std::string config = kPolicies;
  config.replace(config.find("\"0\""), 3, "\"0," + own.ToString() + "\"");
  node.Write("/new.yaml", config);
  const testing::Printed printed =
      State(node, {"export", "--kubelet-config", (node.root() / "new.yaml").string()});
  EXPECT_EQ(printed.status, 1);
  EXPECT_TRUE(MovingNode::Has(printed.err, "pod uid-1 container app cannot stay")) << printed.err;
  EXPECT_FALSE(MovingNode::Has(printed.err, "uid-2")) << printed.err;
}

TEST(StateExport, AMissingFileIsNoEmptyNode) {
  for (const char* const name : {"cpu_manager_state", "memory_manager_state"}) {
    MovingNode node;
    MoveToAlignd(node);
    std::filesystem::remove(node.root() / "var/lib/alignd" / name);
    const auto files = node.Kept();
    const testing::Printed printed = State(node, {"export"});
    EXPECT_EQ(printed.status, 1) << printed.out;
    EXPECT_TRUE(MovingNode::Has(printed.err, std::string(name) + " is missing")) << printed.err;
    EXPECT_EQ(node.Kept(), files);
  }
}

TEST(StateExport, DoesNotReplaceWhatAKubeletHasAssignedSince) {
  MovingNode node;
  ASSERT_EQ(State(node, {"import"}).status, 0);
  cpumanager::CpuState since = node.CpusIn("/var/lib/kubelet");
  since.assignments["uid-3"]["app"] = since.assignments.at("uid-1").at("app");
  since.assignments.erase("uid-1");
  node.Write("/var/lib/kubelet/cpu_manager_state",
             checkpoint::FormatCpuCheckpoint("static", since, checkpoint::StateForm::kPlain));
  const auto files = node.Kept();
  const testing::Printed printed = State(node, {"export"});
  EXPECT_EQ(printed.status, 1) << printed.out;
  EXPECT_TRUE(MovingNode::Has(printed.err, "of pods uid-3")) << printed.err;
  EXPECT_EQ(node.Kept(), files);
}

TEST(StateExport, PlaceholdersWithoutAligndsDevicesAreRefused) {
  MovingNode node;
  MoveToAlignd(node);
  WriteDevices(node, "/var/lib/kubelet", "uid-1", "g0", true);
  const testing::Printed printed = State(node, {"export"});
  EXPECT_EQ(printed.status, 1) << printed.out;
  EXPECT_TRUE(MovingNode::Has(printed.err, "which devices the containers have is not known"))
      << printed.err;
}

TEST(StateExport, NamesTheOriginalCpusOfResizedContainers) {
  MovingNode node;
  MoveToAlignd(node);
  checkpoint::Originals originals;
  cpumanager::CpuState cpus = node.CpusIn("/var/lib/alignd");
  originals["uid-1"]["app"] = cpus.assignments.at("uid-1").at("app");
  node.Write("/var/lib/alignd/cpu_originals", checkpoint::FormatOriginalsCheckpoint(originals));
  for (const bool has_more : {false, true}) {
    if (has_more) {
      cpus.assignments["uid-1"]["app"].Add(3);
      cpus.default_set.Remove(3);
    }
    node.Write("/var/lib/alignd/cpu_manager_state",
               checkpoint::FormatCpuCheckpoint("static", cpus, checkpoint::StateForm::kData));
    const testing::Printed printed = State(node, {"export", "--dry-run"});
    EXPECT_EQ(printed.status, 0) << printed.err;
    EXPECT_EQ(MovingNode::Has(printed.out, "does not know that it was created with CPUs"), has_more)
        << printed.out;
  }
}

TEST(StateExport, ReplacesPlaceholdersAndKeepsTheKubeletsOwnDevices) {
  checkpoint::DeviceCheckpoint ours;
  ours.allocations[{"uid-1", "app"}]["a.com/gpu"] = {{{0, {"g1"}}}, "answer"};
  ours.registered["a.com/gpu"] = {"g0", "g1"};
  v1beta1::ContainerAllocateResponse placeholder;
  const mirror::Annotation marker = mirror::FormatMarker({"a.com/gpu", {"g0"}});
  (*placeholder.mutable_annotations())[marker.key] = marker.value;
  const std::string bytes = placeholder.SerializeAsString();
  checkpoint::DeviceCheckpoint theirs;
  theirs.allocations[{"uid-1", "app"}]["a.com/gpu"] = {{{0, {"g0"}}}, bytes};
  theirs.allocations[{"uid-1", "app"}]["b.com/nic"] = {{{1, {"n0"}}}, "nic"};
  theirs.allocations[{"late", "app"}]["a.com/gpu"] = {{{0, {"g1"}}}, bytes};
  theirs.allocations[{"old", "app"}]["a.com/gpu"] = {{{0, {"g1"}}}, "before the plugin moved"};
  theirs.allocations[{"back", "app"}]["a.com/gpu"] = {{{0, {"g0"}}}, "after it moved back"};
  theirs.registered["a.com/gpu"] = {"g0"};
  theirs.registered["b.com/nic"] = {"n0"};
  const MergedState result = MergedDevices(ours, theirs);
  const devicemanager::DeviceState& merged = result.state;
  EXPECT_EQ(merged.Find({"uid-1", "app"}, "a.com/gpu")->response, "answer");
  EXPECT_EQ(merged.Find({"uid-1", "app"}, "b.com/nic")->response, "nic");
  EXPECT_EQ(merged.Find({"late", "app"}, "a.com/gpu"), nullptr);
  EXPECT_EQ(merged.Find({"old", "app"}, "a.com/gpu"), nullptr);
  ASSERT_EQ(result.left_out.size(), 1U);
  EXPECT_TRUE(MovingNode::Has(result.left_out[0], "pod old container app")) << result.left_out[0];
  // A pod that runs with it: without the entry, the device would be allocated to another one.
  ASSERT_NE(merged.Find({"back", "app"}, "a.com/gpu"), nullptr);
  EXPECT_EQ(merged.Find({"back", "app"}, "a.com/gpu")->response, "after it moved back");
  EXPECT_EQ(merged.resources.at("a.com/gpu").devices.size(), 2U);
  EXPECT_EQ(merged.resources.at("b.com/nic").devices.size(), 1U);
}

}  // namespace
}  // namespace alignd::moving
