// Topology scope pod through the mirror: all containers are decided about when the first is made,
// before the others' devices are named to alignd by their own creation.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "mirror_fixture.h"

namespace alignd::daemon {
namespace {

using Ids = std::set<std::string>;

constexpr char kWholePod[] =
    R"({"setup":{"init":true,"requests":{"cpu":"100m"}},)"
    R"("app":{"requests":{"cpu":"100m"},"limits":{"nvidia.com/gpu":1}},)"
    R"("beside":{"requests":{"cpu":"100m"},"limits":{"nvidia.com/gpu":1}}})";

class MirrorPodScope : public MirrorTest {
 protected:
  void StartInPodScope() {
    StartAll(StaticConfig("topologyManagerPolicy: single-numa-node\ntopologyManagerScope: pod\n"));
    // The two free ones are of one node: no policy demands others than the kubelet chooses.
    const Created other = RunPod("other", 0, 1);
    ASSERT_EQ(GpusOf(other.seen), Ids{kGpuOfNode0});
    kubelet_->Shuffle(3);
  }
  v1::PodSandboxConfig WholePod(const std::string& uid) const {
    v1::PodSandboxConfig pod = BurstablePod(uid);
    (*pod.mutable_annotations())[kResources] = kWholePod;
    return pod;
  }
  // Admitted by the kubelet, and its first container made, which wants no device.
  std::string Begin(const std::string& uid) {
    EXPECT_TRUE(kubelet_->Admit({uid, "app"}, {{kGpu, 1}}).ok());
    EXPECT_TRUE(kubelet_->Admit({uid, "beside"}, {{kGpu, 1}}).ok());
    const std::string sandbox = Run(WholePod(uid));
    const Created setup = CreateIn(sandbox, WholePod(uid), Shared("setup"));
    EXPECT_TRUE(setup.status.ok()) << setup.status.error_message();
    return sandbox;
  }
  Ids Finish(const std::string& uid, const std::string& sandbox, const std::string& container) {
    const Created created = CreateIn(sandbox, WholePod(uid), Shared(container));
    EXPECT_TRUE(created.status.ok()) << created.status.error_message();
    return GpusOf(created.seen);
  }
};

TEST_F(MirrorPodScope, LaterContainersGetTheIdsThatTheKubeletAllocated) {
  StartInPodScope();
  for (int round = 0; round < 6; ++round) {
    const std::string uid = "pod" + std::to_string(round);
    const std::string sandbox = Begin(uid);
    for (const std::string name : {"app", "beside"}) {
      EXPECT_EQ(Finish(uid, sandbox, name), kubelet_->IdsOf({uid, name}, kGpu)) << uid << name;
    }
    RemovePod(uid, sandbox);
  }
}

// The first container may run for an hour. Until then nothing may look unhealthy: a kubelet that
// starts meanwhile would refuse the pod for good.
TEST_F(MirrorPodScope, NothingLooksUnhealthyBeforeLaterContainersAreCreated) {
  StartInPodScope();
  const std::string sandbox = Begin("pod");
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  StopDaemon();
  StartDaemon(StaticConfig("topologyManagerPolicy: single-numa-node\ntopologyManagerScope: pod\n"));
  ASSERT_TRUE(kubelet_->Restart().ok());
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  EXPECT_TRUE(kubelet_->Readmit({}).empty());
  for (const std::string name : {"app", "beside"}) {
    EXPECT_EQ(Finish("pod", sandbox, name), kubelet_->IdsOf({"pod", name}, kGpu)) << name;
  }
}

TEST_F(MirrorPodScope, LateBindingKnowsAtOnceWhatStandsBehindTheIds) {
  mode_ = mirror::BindingMode::kDeferred;
  StartInPodScope();
  const std::string sandbox = Begin("pod");
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  const Ids app = Finish("pod", sandbox, "app");
  const Ids beside = Finish("pod", sandbox, "beside");
  EXPECT_EQ(app.size(), 1U);
  EXPECT_EQ(beside.size(), 1U);
  EXPECT_NE(app, beside);
  ASSERT_TRUE(gpus_->SetHealth(*app.begin(), false).ok());
  Ids healthy = AllGpus();
  healthy.erase(*kubelet_->IdsOf({"pod", "app"}, kGpu).begin());
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, healthy, kPatience));
}

// Where the kubelet's checkpoint cannot be read, each has a device of its own, but its id may be
// another one.
TEST_F(MirrorPodScope, WithoutTheKubeletsCheckpointTheIdsAreNumbers) {
  StartInPodScope();
  ASSERT_TRUE(kubelet_->Admit({"pod", "app"}, {{kGpu, 1}}).ok());
  ASSERT_TRUE(kubelet_->Admit({"pod", "beside"}, {{kGpu, 1}}).ok());
  std::filesystem::remove(KubeletCheckpoint());
  const std::string sandbox = Run(WholePod("pod"));
  Ids all;
  for (const std::string name : {"setup", "app", "beside"}) all.merge(Finish("pod", sandbox, name));
  EXPECT_EQ(all.size(), 2U);
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
}

// But no container gets another device where it must have its own: the pod waits.
TEST_F(MirrorPodScope, WithoutTheKubeletsCheckpointStrictDevicesAreAwaited) {
  mode_ = mirror::BindingMode::kStrict;
  StartInPodScope();
  ASSERT_TRUE(kubelet_->Admit({"pod", "app"}, {{kGpu, 1}}).ok());
  ASSERT_TRUE(kubelet_->Admit({"pod", "beside"}, {{kGpu, 1}}).ok());
  const std::filesystem::path elsewhere = tree_.root() / "elsewhere";
  std::filesystem::rename(KubeletCheckpoint(), elsewhere);
  const std::string sandbox = Run(WholePod("pod"));
  EXPECT_EQ(Finish("pod", sandbox, "setup"), Ids());  // asks for no devices and does not wait
  const Created early = CreateIn(sandbox, WholePod("pod"), Shared("app"));
  EXPECT_EQ(early.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(early.status.error_message().find("--kubelet-device-plugin-dir"), std::string::npos)
      << early.status.error_message();
  std::filesystem::rename(elsewhere, KubeletCheckpoint());
  for (const std::string name : {"app", "beside"}) {
    EXPECT_EQ(Finish("pod", sandbox, name), kubelet_->IdsOf({"pod", name}, kGpu)) << name;
  }
}

}  // namespace
}  // namespace alignd::daemon
