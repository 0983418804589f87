// Several containers of one pod that ask for the same resource: each is assigned the devices of its
// own marker.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "mirror_fixture.h"

namespace alignd::daemon {
namespace {

// An init container, a sidecar and two more: each is assigned what the kubelet allocated to it, and
// reuses the devices that the kubelet reuses. Decided one by one, or as a whole by the pod's
// annotation.
class MirrorContainers : public MirrorTest, public ::testing::WithParamInterface<bool> {};

TEST_P(MirrorContainers, EachGetsItsOwnDevicesAndReusesAsTheKubeletDoes) {
  StartAll();
  kubelet_->Shuffle(7);
  for (int round = 0; round < 8; ++round) {
    const std::string uid = "pod" + std::to_string(round);
    const std::vector<std::string> names{"init", "sidecar", "app", "beside"};
    ASSERT_TRUE(kubelet_->Admit({uid, "init"}, {{kGpu, 3}}, /*ends=*/true).ok());
    for (const std::string name : {"sidecar", "app", "beside"}) {
      ASSERT_TRUE(kubelet_->Admit({uid, name}, {{kGpu, 1}}).ok());
    }
    v1::PodSandboxConfig pod = BurstablePod(uid);
    if (GetParam()) {
      (*pod.mutable_annotations())[kResources] =
          R"({"init":{"init":true,"requests":{"cpu":"100m"},"limits":{"nvidia.com/gpu":3}},)"
          R"("sidecar":{"init":true,"restartPolicy":"Always","requests":{"cpu":"100m"},)"
          R"("limits":{"nvidia.com/gpu":1}},)"
          R"("app":{"requests":{"cpu":"100m"},"limits":{"nvidia.com/gpu":1}},)"
          R"("beside":{"requests":{"cpu":"100m"},"limits":{"nvidia.com/gpu":1}}})";
    }
    const std::string sandbox = Run(pod);
    for (int attempt = 0; attempt < 2; ++attempt) {  // and what the kubelet replays
      for (const std::string& name : names) {
        v1::ContainerConfig container = Shared(name);
        container.mutable_metadata()->set_attempt(static_cast<uint32_t>(attempt));
        const Created created = CreateIn(sandbox, pod, container);
        ASSERT_TRUE(created.status.ok()) << name << ": " << created.status.error_message();
        EXPECT_EQ(GpusOf(created.seen), kubelet_->IdsOf({uid, name}, kGpu)) << uid << " " << name;
      }
    }
    RemovePod(uid, sandbox);
  }
}

// One argument that is not UTF-8, say.
TEST_F(MirrorTest, ContainerWithOtherBytesGetsItsDevicesAndNoMarkerPasses) {
  StartAll();
  ASSERT_TRUE(kubelet_->Admit({"odd", "app"}, {{kGpu, 1}}).ok());
  v1::PodSandboxConfig pod = BurstablePod("odd");
  (*pod.mutable_annotations())["\xff"] = "\xff";
  v1::ContainerConfig container = Shared();
  container.add_args("\xff");
  (*container.mutable_annotations())["\xff"] = "\xff";
  const Created created = CreateIn(Run(pod), pod, container);
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(GpusOf(created.seen), kubelet_->IdsOf({"odd", "app"}, kGpu));
  EXPECT_FALSE(HasMarker(created.seen));
  EXPECT_EQ(created.seen.args(0), "\xff");
}

INSTANTIATE_TEST_SUITE_P(Known, MirrorContainers, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "AsAWhole" : "OneByOne"; });

}  // namespace
}  // namespace alignd::daemon
