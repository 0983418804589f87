// Device plugins' resources allocated by the kubelet and aligned by alignd: a whole daemon between
// a simulated kubelet, simulated plugins and a simulated runtime.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <string>

#include "mirror_fixture.h"

namespace alignd::daemon {
namespace {

using simulator::Manner;
using Ids = std::set<std::string>;

TEST_F(MirrorTest, UnannotatedPodGetsWhatTheKubeletAllocated) {
  StartAll();
  const Created pod = RunPod("one", 3, 1);
  ASSERT_TRUE(pod.status.ok()) << pod.status.error_message();
  EXPECT_EQ(GpusOf(pod.seen), kubelet_->IdsOf({"one", "app"}, kGpu));
  EXPECT_FALSE(HasMarker(pod.seen));
  EXPECT_EQ(pod.seen.linux().resources().cpu_quota(), -1);
}

// The blog's cases, through the mirror: what the kubelet allocates and where the CPUs are.
TEST_F(MirrorTest, BlogGpuAndCpu2OneGpuAndThreeCpusAreOfOneNode) {
  StartAll();
  const Created pod = RunPod("1gpu", 3, 1);
  ASSERT_TRUE(pod.status.ok()) << pod.status.error_message();
  // The kubelet was guided to the node with one GPU, so that the two of the other stay together.
  EXPECT_EQ(GpusOf(pod.seen), Ids{kGpuOfNode0});
  EXPECT_EQ(NumaOf(CpusOf(pod.id)), std::set<int>{0});
}

TEST_F(MirrorTest, BlogGpuAndCpu3TwoGpusAndThreeCpusAreOfOneNode) {
  StartAll();
  const Created pod = RunPod("2gpu", 3, 2);
  ASSERT_TRUE(pod.status.ok()) << pod.status.error_message();
  EXPECT_EQ(GpusOf(pod.seen), (Ids{kGpu1OfNode1, kGpu2OfNode1}));
  EXPECT_EQ(NumaOf(CpusOf(pod.id)), std::set<int>{1});
}

TEST_F(MirrorTest, BlogGpuAndCpu5OneGpuThriceStaysAligned) {
  StartAll();
  for (const std::string uid : {"a", "b", "c"}) {
    const Created pod = RunPod(uid, 3, 1);
    ASSERT_TRUE(pod.status.ok()) << pod.status.error_message();
    const Ids gpus = GpusOf(pod.seen);
    ASSERT_EQ(gpus.size(), 1U);
    EXPECT_EQ(NumaOf(CpusOf(pod.id)), std::set<int>{gpus.contains(kGpuOfNode0) ? 0 : 1});
  }
  EXPECT_TRUE(kubelet_->Admit({"d", "app"}, {{kGpu, 1}})
                  .error()
                  .message.find("requested number of devices unavailable") != std::string::npos);
}

TEST_F(MirrorTest, BlogShortOfCpusOneGpuAndSixteenCpusSpanBothNodes) {
  StartAll();
  const Created pod = RunPod("16", 16, 1);
  ASSERT_TRUE(pod.status.ok()) << pod.status.error_message();
  EXPECT_EQ(GpusOf(pod.seen).size(), 1U);
  EXPECT_EQ(NumaOf(CpusOf(pod.id)), (std::set<int>{0, 1}));
}

// The kubelet was guided to node 0, where by now another pod has all CPUs.
TEST_F(MirrorTest, SwapsTheDeviceOnlyWhereThePolicyWouldMisalign) {
  StartAll(StaticConfig("topologyManagerPolicy: single-numa-node\n"));
  ASSERT_TRUE(kubelet_->Admit({"one", "app"}, {{kGpu, 1}}).ok());
  ASSERT_EQ(kubelet_->IdsOf({"one", "app"}, kGpu), Ids{kGpuOfNode0});
  const Running fills = RunOne(PodConfig("fills"), Pinned(13));
  ASSERT_EQ(CpusOf(fills.container), "1-13");
  const Created pod = RunPod("one", 3, 1);
  ASSERT_TRUE(pod.status.ok()) << pod.status.error_message();
  EXPECT_EQ(GpusOf(pod.seen), Ids{kGpu1OfNode1});
  EXPECT_EQ(CpusOf(pod.id), "14-16");

  // The kubelet still has the other id; its health follows the device that is bound to it.
  ASSERT_TRUE(gpus_->SetHealth(kGpu1OfNode1, false).ok());
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, {kGpu1OfNode1, kGpu2OfNode1}, kPatience));
  // As many devices are free as the kubelet assumes, also GPU 0.
  Ids others;
  for (const std::string uid : {"next", "last"}) {
    const Created next = RunPod(uid, 0, 1);
    ASSERT_TRUE(next.status.ok()) << next.status.error_message();
    others.merge(GpusOf(next.seen));
  }
  EXPECT_EQ(others, (Ids{kGpuOfNode0, kGpu2OfNode1}));
}

TEST_F(MirrorTest, DeferredAssignsTheBestWhateverTheKubeletAllocated) {
  mode_ = mirror::BindingMode::kDeferred;
  StartAll();
  ASSERT_TRUE(kubelet_->Admit({"one", "app"}, {{kGpu, 1}}).ok());
  ASSERT_EQ(kubelet_->IdsOf({"one", "app"}, kGpu), Ids{kGpuOfNode0});  // its lowest
  const Running fills = RunOne(PodConfig("fills"), Pinned(13));
  ASSERT_EQ(NumaOf(CpusOf(fills.container)), std::set<int>{0});
  const Created pod = RunPod("one", 3, 1);
  ASSERT_TRUE(pod.status.ok()) << pod.status.error_message();
  EXPECT_EQ(GpusOf(pod.seen), Ids{kGpu1OfNode1});
}

TEST_F(MirrorTest, ReusedIdsOfAnEndedInitContainerAreReusedDevices) {
  StartAll();
  ASSERT_TRUE(kubelet_->Admit({"pod", "init"}, {{kGpu, 3}}, /*ends=*/true).ok());
  ASSERT_TRUE(kubelet_->Admit({"pod", "app"}, {{kGpu, 3}}).ok());
  const v1::PodSandboxConfig pod = BurstablePod("pod");
  const std::string sandbox = Run(pod);
  const Created init = CreateIn(sandbox, pod, Shared("init"));
  ASSERT_TRUE(init.status.ok()) << init.status.error_message();
  const Created app = CreateIn(sandbox, pod, Shared("app"));
  ASSERT_TRUE(app.status.ok()) << app.status.error_message();
  EXPECT_EQ(GpusOf(init.seen), AllGpus());
  EXPECT_EQ(GpusOf(app.seen), AllGpus());
}

TEST_F(MirrorTest, MarkerOfThePodsAuthorIsNotTakenForOne) {
  StartAll();
  const mirror::Annotation forged = mirror::FormatMarker({kGpu, {kGpuOfNode0}});
  v1::PodSandboxConfig pod = BurstablePod("forger");
  (*pod.mutable_annotations())[forged.key] = forged.value;
  const Created created = CreateIn(Run(pod), pod, Shared());
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(GpusOf(created.seen), Ids());
}

TEST_F(MirrorTest, MarkerWithUnknownIdsIsRefused) {
  StartAll();
  const mirror::Annotation odd = mirror::FormatMarker({kGpu, {"GPU-of-another-node"}});
  const v1::PodSandboxConfig pod = BurstablePod("odd");
  v1::ContainerConfig container = Shared();
  (*container.mutable_annotations())[odd.key] = odd.value;
  const auto created = Create(Run(pod), pod, container);
  EXPECT_EQ(created.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(created.status.error_message().find("GPU-of-another-node"), std::string::npos);
}

// --- What breaks elsewhere: the rows of the list of pain points.
// ----------------------------------

// Row 19: after a reboot pods start before their device plugin; they wait instead of failing.
TEST_F(MirrorTest, Row19PodWaitsForItsPluginAfterAReboot) {
  StartAll();
  const Created before = RunPod("one", 3, 1);
  ASSERT_TRUE(before.status.ok()) << before.status.error_message();
  gpus_.reset();
  StopDaemon();
  runtime_.reset();
  watch_.Forget();
  ASSERT_TRUE(kubelet_->Restart().ok());
  Start();

  const v1::PodSandboxConfig pod = PodConfig("one");
  const std::string sandbox = Run(pod);
  auto waits = std::async(std::launch::async, [&] { return CreateIn(sandbox, pod, Pinned(3)); });
  ASSERT_TRUE(Eventually([&] {
    return LastAnswerTo("one").find("its device plugin has not registered yet") !=
           std::string::npos;
  }));
  EXPECT_EQ(waits.wait_for(seconds(0)), std::future_status::timeout);
  StartGpus();
  const Created later = waits.get();  // the same call: no failure for the kubelet
  ASSERT_TRUE(later.status.ok()) << later.status.error_message();
  EXPECT_EQ(GpusOf(later.seen), GpusOf(before.seen));
}

// After a reboot the kubelet admits its pods again, before any plugin runs, and refuses for good
// those whose devices it does not see. It sees them: alignd has saved the bindings.
TEST_F(MirrorTest, Row19KubeletAdmitsItsPodsAnewAfterAReboot) {
  StartAll();
  const Created before = RunPod("one", 3, 1);
  ASSERT_TRUE(before.status.ok()) << before.status.error_message();
  gpus_.reset();
  kubelet_->Stop();
  StopDaemon();
  runtime_.reset();
  watch_.Forget();
  Start();
  ASSERT_TRUE(kubelet_->Restart().ok());
  const Ids ids = kubelet_->IdsOf({"one", "app"}, kGpu);
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, ids, kPatience));
  EXPECT_TRUE(kubelet_->Readmit({}).empty());
  // No other pod is admitted meanwhile.
  EXPECT_FALSE(kubelet_->Admit({"two", "app"}, {{kGpu, 1}}).ok());
  const v1::PodSandboxConfig pod = PodConfig("one");
  const std::string sandbox = Run(pod);
  auto waits = std::async(std::launch::async, [&] { return CreateIn(sandbox, pod, Pinned(3)); });
  ASSERT_TRUE(Eventually([&] { return LastAnswerTo("one") != ""; }));
  StartGpus();
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  const Created later = waits.get();
  ASSERT_TRUE(later.status.ok()) << later.status.error_message();
  EXPECT_EQ(GpusOf(later.seen), GpusOf(before.seen));
}

TEST_F(MirrorTest, Row19PodIsRefusedWhenItHasWaitedLongEnough) {
  patience_ = milliseconds(0);
  StartAll();
  ASSERT_TRUE(kubelet_->Admit({"one", "app"}, {{kGpu, 1}}).ok());
  gpus_.reset();
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, {}, kPatience));
  const v1::PodSandboxConfig pod = PodConfig("one");
  const Created refused = CreateIn(Run(pod), pod, Pinned(3));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(refused.status.error_message().find(kGpu), std::string::npos);
}

// Row 20: restarts end no pod with devices, and its containers start again with the same ones.
TEST_F(MirrorTest, Row20RestartsOfAllLeaveRunningPodsTheirDevices) {
  StartAll();
  const Created before = RunPod("one", 3, 1);
  ASSERT_TRUE(before.status.ok()) << before.status.error_message();
  const int asked = kubelet_->allocations();
  kubelet_->Stop();
  StopDaemon();
  StartDaemon();
  ASSERT_TRUE(kubelet_->Restart().ok());
  EXPECT_EQ(CpusOf(before.id), before.seen.linux().resources().cpuset_cpus());
  // The plugin may not be back: the container starts again all the same.
  const v1::PodSandboxConfig pod = PodConfig("one");
  v1::ContainerConfig container = Pinned(3);
  container.mutable_metadata()->set_attempt(1);
  const Created again = CreateIn(before.sandbox, pod, container);
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_EQ(GpusOf(again.seen), GpusOf(before.seen));
  EXPECT_FALSE(HasMarker(again.seen));
  EXPECT_EQ(kubelet_->allocations(), asked);
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
}

// Also where an init container has ended that had devices: the kubelet, which admits its pods
// again, asks for those as well.
TEST_F(MirrorTest, Row20DevicesOfEndedInitContainersCauseNoRefusal) {
  StartAll();
  ASSERT_TRUE(kubelet_->Admit({"pod", "init"}, {{kGpu, 3}}, /*ends=*/true).ok());
  const Result<Done> admitted = kubelet_->Admit({"pod", "app"}, {{kGpu, 1}});
  ASSERT_TRUE(admitted.ok()) << admitted.error().Text();
  const v1::PodSandboxConfig pod = BurstablePod("pod");
  const std::string sandbox = Run(pod);
  const Created init = CreateIn(sandbox, pod, Shared("init"));
  ASSERT_TRUE(StartContainer(init.id).ok());
  runtime_->EndContainer(init.id, 0);
  const Created app = CreateIn(sandbox, pod, Shared("app"));
  ASSERT_TRUE(StartContainer(app.id).ok());
  StopDaemon();
  StartDaemon();
  ASSERT_TRUE(kubelet_->Restart().ok());
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  EXPECT_TRUE(kubelet_->Readmit({{"pod", "app"}}).empty());
  v1::ContainerConfig container = Shared("app");
  container.mutable_metadata()->set_attempt(1);
  const Created again = CreateIn(sandbox, pod, container);
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_EQ(GpusOf(again.seen), GpusOf(app.seen));
}

// Row 21: while a plugin restarts its devices are unhealthy, and pods wait; they do not fail.
TEST_F(MirrorTest, Row21PodsWaitWhileAPluginRestarts) {
  StartAll();
  ASSERT_TRUE(kubelet_->Admit({"one", "app"}, {{kGpu, 1}}).ok());
  gpus_.reset();
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, {}, kPatience));
  const v1::PodSandboxConfig pod = PodConfig("one");
  const std::string sandbox = Run(pod);
  auto waits = std::async(std::launch::async, [&] { return CreateIn(sandbox, pod, Pinned(3)); });
  ASSERT_TRUE(Eventually([&] { return LastAnswerTo("one") != ""; }));
  StartGpus();
  const Created later = waits.get();
  EXPECT_TRUE(later.status.ok()) << later.status.error_message();
}

TEST_F(MirrorTest, Row21ResourceGoesWhenItsPluginStaysAway) {
  grace_ = milliseconds(200);
  StartAll();
  gpus_.reset();
  EXPECT_TRUE(Eventually([&] { return std::filesystem::is_empty(Registry()); }));
}

// Row 22: a file that cannot be read is said, with the remedy; nothing starts without its devices.
TEST_F(MirrorTest, Row22DamagedBindingsAreKeptAndTheContainerKeepsItsDevice) {
  StartAll();
  ASSERT_TRUE(RunPod("one", 3, 1).status.ok());
  StopDaemon();
  const auto file = StateDir() / "device_bindings";
  std::string text = ReadText(file);
  ASSERT_NE(text.find("\"one\""), std::string::npos) << text;
  text.replace(text.find("\"one\""), 5, "\"two\"");
  std::ofstream(file) << text;
  Options refusing = DaemonOptions();
  refusing.on_bad_state = allocation::OnBadState::kRefuse;
  const auto refused = Daemon::Start(refusing);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(refused.error().Text().find(file.string()), std::string::npos);
  EXPECT_EQ(ReadText(file), text);

  StartDaemon();
  std::string kept;
  for (const auto& entry : std::filesystem::directory_iterator(StateDir())) {
    if (entry.path().string().starts_with(file.string() + ".bad-")) kept = ReadText(entry.path());
  }
  EXPECT_EQ(kept, text);
  EXPECT_NE(ReadText(StateDir() / "device-plugins/kubelet_internal_checkpoint").find("\"one\""),
            std::string::npos);
}

// Row 23: the order in which pods come back does not change their assignments.
TEST_F(MirrorTest, Row23ReplayInAnotherOrderAssignsTheSame) {
  StartAll();
  const Created a = RunPod("a", 3, 1);
  const Created b = RunPod("b", 3, 1);
  const Created c = RunPod("c", 3, 1);
  StopDaemon();
  StartDaemon();
  for (const auto& [uid, pod] : {std::pair{"c", &c}, std::pair{"a", &a}, std::pair{"b", &b}}) {
    v1::ContainerConfig container = Pinned(3);
    container.mutable_metadata()->set_attempt(1);
    const Created again = CreateIn(pod->sandbox, PodConfig(uid), container);
    ASSERT_TRUE(again.status.ok()) << again.status.error_message();
    EXPECT_EQ(GpusOf(again.seen), GpusOf(pod->seen)) << uid;
    EXPECT_EQ(CpusOf(again.id), pod->seen.linux().resources().cpuset_cpus()) << uid;
  }
}

// Row 24: Allocate does not say for which pod; the marker does, whatever order pods come in.
TEST_F(MirrorTest, Row24DevicesReachThePodForWhichTheyWereAllocated) {
  StartAll();
  for (const std::string uid : {"a", "b", "c"}) {
    ASSERT_TRUE(kubelet_->Admit({uid, "app"}, {{kGpu, 1}}).ok());
  }
  for (const std::string uid : {"b", "c", "a"}) {
    const Created pod = RunPod(uid, 0, 1);
    ASSERT_TRUE(pod.status.ok()) << pod.status.error_message();
    EXPECT_EQ(GpusOf(pod.seen), kubelet_->IdsOf({uid, "app"}, kGpu)) << uid;
  }
}

// Row 25: one device for one pod, also where the kubelet hands an id on before the old pod is gone.
TEST_F(MirrorTest, Row25NoDeviceIsGivenTwice) {
  StartAll();
  const Created old_pod = RunPod("old", 0, 2);
  ASSERT_TRUE(old_pod.status.ok()) << old_pod.status.error_message();
  EXPECT_TRUE(kubelet_->Forget("old")
                  .ok());  // its container has ended for the kubelet; its sandbox is still there
  ASSERT_TRUE(kubelet_->Admit({"new", "app"}, {{kGpu, 3}}).ok());
  const v1::PodSandboxConfig pod = BurstablePod("new");
  const std::string sandbox = Run(pod);
  EXPECT_EQ(CreateIn(sandbox, pod, Shared()).status.error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  ASSERT_TRUE(StopSandbox(old_pod.sandbox).ok());
  const Created now = CreateIn(sandbox, pod, Shared());
  ASSERT_TRUE(now.status.ok()) << now.status.error_message();
  EXPECT_EQ(GpusOf(now.seen), AllGpus());
}

// Row 26: a plugin with slow preferences delays no other plugin, and its own pods not for long.
TEST_F(MirrorTest, Row26SlowPreferencesDelayNoOtherPlugin) {
  Start();
  StartGpus();
  simulator::DeviceProfile profile;
  profile.directory = StateDir() / "device-plugins";
  profile.resource = "example.com/slow";
  profile.prefers_allocation = true;
  profile.devices = {{"s0", {0}, true}, {"s1", {0}, true}, {"s2", {0}, true}};
  auto slow = simulator::DevicePlugin::Start(profile);
  ASSERT_TRUE(slow.ok()) << slow.error().Text();
  StartKubelet();
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  ASSERT_TRUE(kubelet_->WaitUntilHealthy("example.com/slow", {"s0", "s1", "s2"}, kPatience));
  (*slow)->SetManner(Manner::kHang);
  auto waits = std::async(std::launch::async, [&] {
    return kubelet_->Admit({"slow", "app"}, {{"example.com/slow", 1}});
  });
  // Not even its own kubelet's other calls of alignd.
  const Running other = RunOne(PodConfig("other"), Pinned(3));
  EXPECT_NE(CpusOf(other.container), "");
  EXPECT_TRUE(waits.get().ok());  // without the plugin's preference, after the timeout
  EXPECT_EQ(kubelet_->IdsOf({"slow", "app"}, "example.com/slow").size(), 1U);
}

// The kubelet admits one pod after the other: however long a plugin may take otherwise.
TEST_F(MirrorTest, HangingPreferencesDoNotStopTheKubeletsAdmission) {
  preference_timeout_ = kPatience;
  Start();
  simulator::DeviceProfile profile;
  profile.directory = StateDir() / "device-plugins";
  profile.resource = "example.com/slow";
  profile.prefers_allocation = true;
  for (int i = 0; i < 8; ++i) profile.devices.push_back({"s" + std::to_string(i), {0}, true});
  auto slow = simulator::DevicePlugin::Start(profile);
  ASSERT_TRUE(slow.ok()) << slow.error().Text();
  StartKubelet();
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(
      "example.com/slow", {"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"}, kPatience));
  (*slow)->SetManner(Manner::kHang);
  const auto start = std::chrono::steady_clock::now();
  for (const char* pod : {"first", "second", "third"}) {
    EXPECT_TRUE(kubelet_->Admit({pod, "app"}, {{"example.com/slow", 1}}).ok());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, kPatience / 2);
}

}  // namespace
}  // namespace alignd::daemon
