// A node moves from the stock kubelet with its plugins to alignd, and back, with pods that have
// devices.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "cli/status_command.h"
#include "edge/logged.h"
#include "edge/run_alignctl.h"
#include "edge/status_conditions.h"
#include "mirror_fixture.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;
using Ids = std::set<std::string>;

constexpr char kNic[] = "example.com/nic";

class MirrorMigration : public MirrorTest {
 protected:
  // --- A node without alignd: the plugins are the kubelet's, which speaks to the runtime.

  simulator::DeviceProfile GpusOfTheKubelet() const {
    simulator::DeviceProfile profile;
    profile.registry = Registry();
    profile.resource = kGpu;
    profile.devices = {{kGpuOfNode0, {0}}, {kGpu1OfNode1, {1}}, {kGpu2OfNode1, {1}}};
    profile.envs = {{"NVIDIA_VISIBLE_DEVICES", "{ids}"}};
    profile.device_nodes = {{"/dev/nvidia{index}", "/dev/nvidia{index}", "rw"}};
    return profile;
  }
  void Serve(const simulator::DeviceProfile& profile,
             std::unique_ptr<simulator::DevicePlugin>& plugin) {
    auto started = simulator::DevicePlugin::Start(profile);
    ASSERT_TRUE(started.ok()) << started.error().Text();
    plugin = *std::move(started);
  }
  void StartWithoutAlignd() {
    StartRuntime();
    client_ = *simulator::Dial(RuntimeEndpoint());
    fs::create_directories(Registry());
    Serve(GpusOfTheKubelet(), gpus_);
    StartKubelet();
    ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  }

  fs::path AligndCheckpoint() const {
    return StateDir() / "device-plugins" / "kubelet_internal_checkpoint";
  }
  static void Copy(const fs::path& from, const fs::path& to) {
    fs::create_directories(to.parent_path());
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
  }

  // The steps of docs/moving.md: everything down, the file copied, the GPUs' plugin moved.
  void MoveToAlignd(const std::string& config = StaticConfig()) {
    kubelet_->Stop();
    gpus_.reset();
    Copy(KubeletCheckpoint(), AligndCheckpoint());
    StartDaemon(config);
    StartGpus();
    ASSERT_TRUE(kubelet_->Restart().ok());
  }
  // All at work: the plugin alone changes its directory.
  void MovePlugin() {
    StartDaemon();
    gpus_.reset();
    ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, {}, kPatience));
    StartGpus();
  }
  void MoveBack() {
    kubelet_->Stop();
    StopDaemon();
    gpus_.reset();
    Copy(AligndCheckpoint(), KubeletCheckpoint());
    fs::remove(StateDir() / "device_bindings");
    client_ = *simulator::Dial(RuntimeEndpoint());
    Serve(GpusOfTheKubelet(), gpus_);
    ASSERT_TRUE(kubelet_->Restart().ok());
  }

  Created CreateAgain(const std::string& uid, const std::string& sandbox, int attempt) const {
    v1::ContainerConfig container = Shared();
    container.mutable_metadata()->set_attempt(static_cast<uint32_t>(attempt));
    return CreateIn(sandbox, BurstablePod(uid), container);
  }
  size_t SocketsOfAlignd() const {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(Registry())) {
      count += entry.path().filename().native().starts_with("alignd-") ? 1 : 0;
    }
    return count;
  }

  std::unique_ptr<simulator::DevicePlugin> nics_;
};

// With the kubelet's checkpoint copied over, or the plugin alone moved.
class MirrorMove : public MirrorMigration, public ::testing::WithParamInterface<bool> {};

TEST_P(MirrorMove, AssignedDevicesStayAllocatedAndHealthy) {
  StartWithoutAlignd();
  const Created old_pod = RunPod("old", 0, 1);
  ASSERT_TRUE(old_pod.status.ok()) << old_pod.status.error_message();
  const Ids assigned = kubelet_->IdsOf({"old", "app"}, kGpu);
  ASSERT_EQ(GpusOf(old_pod.seen), assigned);

  if (GetParam()) {
    MoveToAlignd();
  } else {
    MovePlugin();
  }
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  EXPECT_TRUE(kubelet_->Readmit({}).empty());
  // Its container starts again with what the kubelet replays of the plugin's answer: once.
  const Created again = CreateAgain("old", old_pod.sandbox, 1);
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_EQ(GpusOf(again.seen), assigned);
  EXPECT_EQ(again.seen.envs_size(), 1);
  EXPECT_EQ(again.seen.devices_size(), 1);

  // The kubelet has as many devices as before: two more, and no third.
  const Created new_pod = RunPod("new", 0, 2);
  ASSERT_TRUE(new_pod.status.ok()) << new_pod.status.error_message();
  Ids all = GpusOf(new_pod.seen);
  EXPECT_EQ(all.size(), 2U);
  all.insert(assigned.begin(), assigned.end());
  EXPECT_EQ(all, AllGpus());
  EXPECT_FALSE(kubelet_->Admit({"third", "app"}, {{kGpu, 1}}).ok());

  // Also after restarts. When the pod has gone, its device is free.
  StopDaemon();
  StartDaemon();
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  ASSERT_TRUE(gpus_->SetHealth(*assigned.begin(), false).ok());
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, kubelet_->IdsOf({"new", "app"}, kGpu), kPatience));
  ASSERT_TRUE(gpus_->SetHealth(*assigned.begin(), true).ok());
  RemovePod("old", old_pod.sandbox);
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  const Created next = RunPod("next", 0, 1);
  ASSERT_TRUE(next.status.ok()) << next.status.error_message();
  EXPECT_EQ(GpusOf(next.seen), assigned);
}

INSTANTIATE_TEST_SUITE_P(FromTheKubelet, MirrorMove, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "WithItsFile" : "AtWork"; });

// Its containers come without a marker: only the kubelet's file says that they have a device.
TEST_F(MirrorMigration, TakenOverPodWhoseSandboxIsReplacedKeepsItsDevice) {
  mode_ = mirror::BindingMode::kDeferred;
  StartWithoutAlignd();
  const Created old_pod = RunPod("old", 0, 1);
  ASSERT_TRUE(old_pod.status.ok()) << old_pod.status.error_message();
  const Ids assigned = GpusOf(old_pod.seen);
  MovePlugin();
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  ASSERT_TRUE(StopSandbox(old_pod.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(old_pod.sandbox).ok());
  const auto is_saved = [&] {
    return ReadText(AligndCheckpoint()).find("\"old\"") != std::string::npos;
  };
  ASSERT_TRUE(Eventually([&] { return !is_saved(); }));
  const Created again = CreateAgain("old", Run(BurstablePod("old")), 1);
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_EQ(GpusOf(again.seen), assigned);
  EXPECT_TRUE(is_saved());
  const Created new_pod = RunPod("new", 0, 2);
  ASSERT_TRUE(new_pod.status.ok()) << new_pod.status.error_message();
  Ids all = GpusOf(new_pod.seen);
  EXPECT_EQ(all.size(), 2U);
  all.insert(assigned.begin(), assigned.end());
  EXPECT_EQ(all, AllGpus());
}

// The plugin was back at the kubelet for a while, with its pods drained, and assigned a device.
TEST_F(MirrorMigration, PluginThatComesAgainBringsWhatItAssignedMeanwhile) {
  StartWithoutAlignd();
  MovePlugin();
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  StopDaemon();
  gpus_.reset();
  Serve(GpusOfTheKubelet(), gpus_);
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  client_ = *simulator::Dial(RuntimeEndpoint());
  const Created pod = RunPod("meanwhile", 0, 2);
  ASSERT_TRUE(pod.status.ok()) << pod.status.error_message();
  MovePlugin();
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  const Created last = RunPod("last", 0, 1);
  ASSERT_TRUE(last.status.ok()) << last.status.error_message();
  Ids all = GpusOf(pod.seen);
  all.merge(GpusOf(last.seen));
  EXPECT_EQ(all, AllGpus());
}

// Two plugins of one resource break the kubelet: what only the kubelet's checkpoint names is not
// offered, even if containers are assigned its devices.
TEST_F(MirrorMigration, ResourceWhosePluginStaysWithTheKubeletIsLeftAlone) {
  StartWithoutAlignd();
  simulator::DeviceProfile nics;
  nics.registry = Registry();
  nics.resource = kNic;
  nics.devices = {{"nic0", {0}}, {"nic1", {1}}};
  Serve(nics, nics_);
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kNic, {"nic0", "nic1"}, kPatience));
  ASSERT_TRUE(kubelet_->Admit({"both", "app"}, {{kGpu, 1}, {kNic, 1}}).ok());
  MoveToAlignd();
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kNic, {"nic0", "nic1"}, kPatience));
  for (int start = 0; start < 2; ++start) {
    EXPECT_EQ(SocketsOfAlignd(), 1U);
    StopDaemon();
    StartDaemon();
    EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  }
  EXPECT_TRUE(kubelet_->Readmit({}).empty());
}

// Until alignd is restarted, or the pod with the devices ends.
class MirrorConflict : public MirrorMigration, public ::testing::WithParamInterface<bool> {};

// The kubelet calls the plugin that registered last, and not the mirror.
TEST_P(MirrorConflict, DevicesFromAPluginBesideTheMirrorAreNamed) {
  testing::Logged logged;
  StartWithoutAlignd();
  const Created old_pod = RunPod("old", 0, 1);
  ASSERT_EQ(GpusOf(old_pod.seen), Ids{kGpuOfNode0});
  MovePlugin();
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  const Created ours = RunPod("ours", 0, 1);
  ASSERT_TRUE(ours.status.ok()) << ours.status.error_message();
  Ids available = AllGpus();
  available.erase(kGpuOfNode0);
  available.erase(*GpusOf(ours.seen).begin());

  simulator::DeviceProfile beside = GpusOfTheKubelet();
  beside.devices = {{*available.begin(), {1}}};
  Serve(beside, nics_);
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, available, kPatience));
  const Created past = RunPod("past", 0, 1);
  ASSERT_EQ(GpusOf(past.seen), available);

  const auto found = [this] {
    return testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                 reconcile::ConditionType::kConflictingDevicePlugin);
  };
  ASSERT_TRUE(Eventually([&] { return !found().empty(); }));
  const std::vector<control::v1::Condition> notes = found();
  ASSERT_EQ(notes.size(), 1U);  // neither what was taken over, nor what the mirror answered
  EXPECT_EQ(notes[0].pod_uid(), "past");
  EXPECT_EQ(notes[0].container_id(), past.id);
  EXPECT_TRUE(notes[0].message().starts_with("is assigned " + std::string(kGpu) + " " +
                                             *available.begin() + " by a plugin "))
      << notes[0].message();
  const auto status = [this] {
    return testing::RunAlignctl({cli::AddStatusCommand},
                                {"status", "--socket", DaemonOptions().ControlSocket()});
  };
  EXPECT_EQ(status().status, cli::kFailure) << status().out;
  EXPECT_NE(logged.Take().find("error ConflictingDevicePlugin: container app of pod "
                               "default/pod-past: is assigned "),
            std::string::npos);

  // Without that plugin, a restart takes its devices over: the remedy.
  nics_.reset();
  if (GetParam()) {
    StopDaemon();
    StartDaemon();
    EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  } else {
    RemovePod("past", past.sandbox);
  }
  EXPECT_TRUE(Eventually([&] {
    return (ReadText(AligndCheckpoint()).find("\"past\"") != std::string::npos) == GetParam();
  }));
  EXPECT_TRUE(Eventually([&] { return found().empty(); }));
  EXPECT_TRUE(Eventually([&] { return status().status == cli::kSuccess; })) << status().out;
  StopDaemon();
  const std::string log = logged.Take();
  EXPECT_EQ(log.find("ConflictingDevicePlugin: "), std::string::npos) << log;
  EXPECT_EQ(log.find("ConflictingDevicePlugin resolved") != std::string::npos, !GetParam()) << log;
  kubelet_.reset();
  gpus_.reset();
}

INSTANTIATE_TEST_SUITE_P(UntilItEnds, MirrorConflict, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "Restart" : "PodEnds"; });

// A device that was assigned by annotation before the mirror was on was not allocated by the
// kubelet.
TEST_F(MirrorMigration, DevicesAssignedByAnnotationAreNotTakenForAllocated) {
  const auto mode = std::exchange(mode_, std::nullopt);
  Start();
  StartGpus();
  const Running annotated = RunOne(PodConfig("annotated", "", Annotation(1, 1)), Pinned(1));
  ASSERT_FALSE(annotated.container.empty());
  StopDaemon();
  mode_ = mode;
  StartDaemon();
  StartKubelet();
  Ids available = AllGpus();
  available.erase(kGpuOfNode0);
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, available, kPatience));
}

// If the policy demanded another device than the kubelet allocated, alignd's file has the device
// that the container uses, with the plugin's answer.
TEST_F(MirrorMigration, BackAtTheKubeletContainersKeepTheDevicesThatTheyUse) {
  StartAll(StaticConfig("topologyManagerPolicy: single-numa-node\n"));
  ASSERT_TRUE(kubelet_->Admit({"swapped", "app"}, {{kGpu, 1}}).ok());
  ASSERT_EQ(kubelet_->IdsOf({"swapped", "app"}, kGpu), Ids{kGpuOfNode0});
  const Running fills = RunOne(PodConfig("fills"), Pinned(13));
  ASSERT_EQ(CpusOf(fills.container), "1-13");
  const Created pod = RunPod("swapped", 3, 1);
  ASSERT_TRUE(pod.status.ok()) << pod.status.error_message();
  ASSERT_EQ(GpusOf(pod.seen), Ids{kGpu1OfNode1});

  MoveBack();
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  EXPECT_EQ(kubelet_->IdsOf({"swapped", "app"}, kGpu), Ids{kGpu1OfNode1});
  const Created again = CreateAgain("swapped", pod.sandbox, 1);
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_EQ(GpusOf(again.seen), Ids{kGpu1OfNode1});
  EXPECT_FALSE(HasMarker(again.seen));
  // Only created, not started: nothing keeps it off the exclusive CPUs now.
  ASSERT_TRUE(kubelet_->Admit({"others", "app"}, {{kGpu, 2}}).ok());
  const Created others = CreateIn(Run(BurstablePod("others")), BurstablePod("others"), Shared());
  ASSERT_TRUE(others.status.ok()) << others.status.error_message();
  EXPECT_EQ(GpusOf(others.seen), (Ids{kGpuOfNode0, kGpu2OfNode1}));

  // And once more to alignd, which finds what the kubelet has allocated meanwhile.
  RemovePod("others", others.sandbox);
  MoveToAlignd(StaticConfig("topologyManagerPolicy: single-numa-node\n"));
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  v1::ContainerConfig third_config = Pinned(3);
  third_config.mutable_metadata()->set_attempt(2);
  const Created third = CreateIn(pod.sandbox, PodConfig("swapped"), third_config);
  ASSERT_TRUE(third.status.ok()) << third.status.error_message();
  EXPECT_EQ(GpusOf(third.seen), Ids{kGpu1OfNode1});
}

}  // namespace
}  // namespace alignd::daemon
