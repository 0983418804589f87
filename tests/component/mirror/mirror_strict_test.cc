// Resources of mode strict: only the devices that the kubelet allocated are assigned.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "control/control_client.h"
#include "mirror_fixture.h"

namespace alignd::daemon {
namespace {

using Ids = std::set<std::string>;

class MirrorStrict : public MirrorTest {
 protected:
  MirrorStrict() { rules_ = {{"nvidia.com/*", mirror::BindingMode::kStrict}}; }

  // The last one.
  control::v1::PodDecision DecisionAbout(const std::string& pod) const {
    const auto explained = control::ControlClient(DaemonOptions().ControlSocket()).Explain(pod, 1);
    if (explained.ok() && !explained->decisions().empty()) return explained->decisions(0);
    ADD_FAILURE() << "no decision about " << pod;
    return {};
  }
  static bool Says(const grpc::Status& status, const std::string& text) {
    return status.error_message().find(text) != std::string::npos;
  }
};

// Mode preferred would assign a device of the other NUMA node (SwapsTheDeviceOnly…).
TEST_F(MirrorStrict, PodWaitsForCpusBesideItsDeviceAndTheRefusalSaysSo) {
  StartAll(StaticConfig("topologyManagerPolicy: single-numa-node\n"));
  ASSERT_TRUE(kubelet_->Admit({"one", "app"}, {{kGpu, 1}}).ok());
  ASSERT_EQ(kubelet_->IdsOf({"one", "app"}, kGpu), Ids{kGpuOfNode0});
  const Running fills = RunOne(PodConfig("fills"), Pinned(13));
  ASSERT_EQ(CpusOf(fills.container), "1-13");
  const v1::PodSandboxConfig pod = PodConfig("one");
  const std::string sandbox = Run(pod);
  const Created refused = CreateIn(sandbox, pod, Pinned(3));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(Says(refused.status, "is only assigned as the kubelet allocated it"))
      << refused.status.error_message();
  EXPECT_TRUE(Says(refused.status, std::string(kGpuOfNode0) + " on NUMA node 0"))
      << refused.status.error_message();
  EXPECT_TRUE(Says(refused.status, "With other devices the pod would fit: delete the pod"))
      << refused.status.error_message();

  ASSERT_TRUE(StopSandbox(fills.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(fills.sandbox).ok());
  Created later;
  ASSERT_TRUE(Eventually([&] {
    later = CreateIn(sandbox, pod, Pinned(3));
    return later.status.ok();
  })) << later.status.error_message();
  EXPECT_EQ(GpusOf(later.seen), Ids{kGpuOfNode0});
  EXPECT_EQ(NumaOf(CpusOf(later.id)), std::set<int>{0});
}

// The kubelet knows nothing of an annotation, and would allocate the device to another pod.
TEST_F(MirrorStrict, DevicesThatTheKubeletDidNotAllocateAreRefused) {
  for (const auto mode : {mirror::BindingMode::kStrict, mirror::BindingMode::kPreferred,
                          mirror::BindingMode::kDeferred}) {
    rules_ = {{"nvidia.com/*", mode}};
    StartAll();
    const v1::PodSandboxConfig thief = PodConfig("thief", "", Annotation(1, 1));
    const Created refused = CreateIn(Run(thief), thief, Pinned(1));
    EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_TRUE(Says(refused.status, "limits.nvidia.com/gpu is 1, but the kubelet allocated none"))
        << refused.status.error_message();
    EXPECT_FALSE(Says(refused.status, "delete")) << refused.status.error_message();
    EXPECT_TRUE(Says(refused.status, "annotation alignd.io/resources"))
        << refused.status.error_message();
    const auto why = DecisionAbout("thief");
    EXPECT_EQ(why.outcome(), "failed");
    EXPECT_NE(why.message().find("the kubelet allocated none"), std::string::npos) << why.message();
    // A pod that asks the kubelet gets all devices, and the source is reported.
    const Created honest = RunPod("honest", 0, 3);
    EXPECT_TRUE(honest.status.ok()) << honest.status.error_message();
    EXPECT_EQ(DecisionAbout("honest").source(),
              "CRI estimate, devices from the kubelet's allocation");
    kubelet_.reset();
    StopDaemon();
    gpus_.reset();
    runtime_.reset();
    watch_.Forget();
    std::filesystem::remove_all(tree_.root() / "kubelet");
    std::filesystem::remove_all(StateDir());
  }
}

TEST_F(MirrorStrict, MisalignedDeviceIsAssignedIfThePolicyAllowsIt) {
  StartAll();  // best-effort
  ASSERT_TRUE(kubelet_->Admit({"one", "app"}, {{kGpu, 1}}).ok());
  ASSERT_EQ(kubelet_->IdsOf({"one", "app"}, kGpu), Ids{kGpuOfNode0});
  const Running fills = RunOne(PodConfig("fills"), Pinned(13));
  const Created pod = RunPod("one", 3, 1);
  ASSERT_TRUE(pod.status.ok()) << pod.status.error_message();
  EXPECT_EQ(GpusOf(pod.seen), Ids{kGpuOfNode0});
  EXPECT_EQ(NumaOf(CpusOf(pod.id)), std::set<int>{1});
}

// Devices are recommended to the kubelet in this mode, too.
TEST_F(MirrorStrict, DevicesAreRecommendedToTheKubelet) {
  StartAll();
  const Running fills = RunOne(PodConfig("fills"), Pinned(12));
  ASSERT_EQ(NumaOf(CpusOf(fills.container)), std::set<int>{0});
  const Created pod = RunPod("one", 3, 1);
  ASSERT_TRUE(pod.status.ok()) << pod.status.error_message();
  EXPECT_EQ(GpusOf(pod.seen), kubelet_->IdsOf({"one", "app"}, kGpu));
  EXPECT_FALSE(GpusOf(pod.seen).contains(kGpuOfNode0));
  EXPECT_EQ(NumaOf(CpusOf(pod.id)), std::set<int>{1});
}

TEST_F(MirrorStrict, EveryContainerHasTheIdsThatTheKubeletShows) {
  StartAll();
  kubelet_->Shuffle(11);
  for (int round = 0; round < 6; ++round) {
    const std::string uid = "pod" + std::to_string(round);
    ASSERT_TRUE(kubelet_->Admit({uid, "init"}, {{kGpu, 2}}, /*ends=*/true).ok());
    ASSERT_TRUE(kubelet_->Admit({uid, "app"}, {{kGpu, 1}}).ok());
    ASSERT_TRUE(kubelet_->Admit({uid, "beside"}, {{kGpu, 2}}).ok());
    const v1::PodSandboxConfig pod = BurstablePod(uid);
    const std::string sandbox = Run(pod);
    for (const std::string name : {"init", "app", "beside"}) {
      const Created created = CreateIn(sandbox, pod, Shared(name));
      ASSERT_TRUE(created.status.ok()) << name << ": " << created.status.error_message();
      EXPECT_EQ(GpusOf(created.seen), kubelet_->IdsOf({uid, name}, kGpu)) << uid << " " << name;
    }
    RemovePod(uid, sandbox);
  }
}

// The kubelet allocates an id again before the old pod is gone.
TEST_F(MirrorStrict, DeviceThatIsStillAssignedIsAwaited) {
  StartAll();
  const Created old_pod = RunPod("old", 0, 3);
  ASSERT_TRUE(old_pod.status.ok()) << old_pod.status.error_message();
  ASSERT_TRUE(kubelet_->Forget("old").ok());
  ASSERT_TRUE(kubelet_->Admit({"new", "app"}, {{kGpu, 1}}).ok());
  const Ids ids = kubelet_->IdsOf({"new", "app"}, kGpu);
  const v1::PodSandboxConfig pod = BurstablePod("new");
  const std::string sandbox = Run(pod);
  const Created early = CreateIn(sandbox, pod, Shared());
  EXPECT_EQ(early.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(Says(early.status, "device " + *ids.begin()));
  EXPECT_TRUE(Says(early.status, "which is assigned to container app of pod old"))
      << early.status.error_message();
  ASSERT_TRUE(StopSandbox(old_pod.sandbox).ok());
  const Created now = CreateIn(sandbox, pod, Shared());
  ASSERT_TRUE(now.status.ok()) << now.status.error_message();
  EXPECT_EQ(GpusOf(now.seen), ids);
}

TEST_F(MirrorStrict, UnhealthyDeviceIsNotReplaced) {
  StartAll();
  ASSERT_TRUE(kubelet_->Admit({"one", "app"}, {{kGpu, 1}}).ok());
  const std::string id = *kubelet_->IdsOf({"one", "app"}, kGpu).begin();
  ASSERT_TRUE(gpus_->SetHealth(id, false).ok());
  Ids others = AllGpus();
  others.erase(id);
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, others, kPatience));
  const v1::PodSandboxConfig pod = BurstablePod("one");
  const std::string sandbox = Run(pod);
  const Created refused = CreateIn(sandbox, pod, Shared());
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(Says(refused.status, id + " of nvidia.com/gpu, which is unhealthy"))
      << refused.status.error_message();
  ASSERT_TRUE(gpus_->SetHealth(id, true).ok());
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  const Created healthy = CreateIn(sandbox, pod, Shared());
  ASSERT_TRUE(healthy.status.ok()) << healthy.status.error_message();
  EXPECT_EQ(GpusOf(healthy.seen), Ids{id});
}

}  // namespace
}  // namespace alignd::daemon
