// Devices that DRA has allocated, in the pod resources service and in `alignctl pods`.
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "control/control_client.h"
#include "daemon_fixture.h"
#include "edge/claims_tree.h"
#include "podresources/v1/podresources.grpc.pb.h"

namespace alignd::daemon {
namespace {

// The device gpu0 is on NUMA node 0, gpu1 on node 1; eth0 has no CDI name.
class DaemonClaimsShown : public DaemonTest {
 protected:
  DaemonClaimsShown() {
    claims_.Write({"proc/sys/kernel/random/boot_id", "boot\n"});
    claims_.AddGpu("0", 0);
    claims_.AddGpu("1", 1);
  }

  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.root = claims_.root();
    options.kubelet_dir = claims_.root() / "kubelet";
    options.cdi_spec_dirs = {claims_.root() / "cdi"};
    return options;
  }

  static v1::ContainerConfig Claiming(v1::ContainerConfig config, const std::string& device) {
    config.add_cdi_devices()->set_name("example.com/gpu=" + device);
    return config;
  }
  void Prepare() const {
    const auto gpu = testing::ClaimsTree::Gpu;
    claims_.Prepare("p", {gpu("0"), gpu("1"), {"dra.net", "node", "eth0", {}}});
  }

  // Both calls of the pod resources service: "app: gpus[gpu0 gpu1]; ...".
  std::string Resources() const {
    const auto stub =
        ::v1::PodResourcesLister::NewStub(*simulator::Dial(DaemonOptions().PodResourcesSocket()));
    grpc::ClientContext list_context;
    list_context.set_wait_for_ready(true);
    ::v1::ListPodResourcesResponse list;
    if (!stub->List(&list_context, {}, &list).ok() || list.pod_resources_size() != 1) return "none";
    grpc::ClientContext get_context;
    ::v1::GetPodResourcesRequest request;
    request.set_pod_name("pod-p");
    request.set_pod_namespace("default");
    ::v1::GetPodResourcesResponse one;
    EXPECT_TRUE(stub->Get(&get_context, request, &one).ok());
    EXPECT_EQ(one.pod_resources().SerializeAsString(), list.pod_resources(0).SerializeAsString());
    std::string text;
    for (const auto& container : one.pod_resources().containers()) {
      text += container.name() + ":";
      for (const auto& claim : container.dynamic_resources()) {
        text += " " + claim.claim_namespace() + "/" + claim.claim_name() + "[";
        for (const auto& device : claim.claim_resources()) text += device.device_name() + " ";
        text += "]";
      }
      text += "; ";
    }
    return text;
  }

  // "app: gpu0 on 0; pod: eth0".
  std::string Pods() const {
    const auto pods = control::ControlClient(DaemonOptions().ControlSocket()).ListPods();
    if (!pods.ok()) return pods.error().Text();
    std::string text = pods->claims_error();
    const auto add = [&](const std::string& owner, const auto& devices) {
      for (const auto& device : devices) {
        text += owner + ": " + device.claim() + " " + device.driver() + "/" + device.name();
        for (const int64_t node : device.numa()) text += " on " + std::to_string(node);
        text += device.note().empty() ? "; " : " (" + device.note() + "); ";
      }
    };
    for (const auto& pod : pods->pods()) {
      for (const auto& container : pod.containers()) {
        add(container.container(), container.claimed_devices());
      }
      add("pod", pod.claimed_devices());
    }
    return text;
  }

  const testing::ClaimsTree claims_;
};

constexpr char kWhole[] = "default/gpus[eth0 gpu0 gpu1 ]";
const std::string kInResources =
    std::string("app: ") + kWhole + "; plain:; shared: " + kWhole + "; ";
constexpr char kInPods[] =
    "app: default/gpus example.com/gpu1 on 1; shared: default/gpus example.com/gpu0 on 0; "
    "pod: default/gpus dra.net/eth0 (without a CDI name); ";

TEST_F(DaemonClaimsShown, WithEachContainerThatHasOneOfThem) {
  Start();
  Prepare();
  const v1::PodSandboxConfig pod = PodConfig("p");
  const std::string sandbox = Run(pod);
  ASSERT_TRUE(Create(sandbox, pod, Claiming(Pinned(2), "1")).status.ok());
  ASSERT_TRUE(Create(sandbox, pod, Pinned(2, "plain")).status.ok());
  ASSERT_TRUE(Create(sandbox, pod, Claiming(Shared("shared"), "0")).status.ok());
  EXPECT_EQ(Resources(), kInResources);
  EXPECT_EQ(Pods(), kInPods);

  // Also those of containers that were created before alignd started: the runtime shows them.
  StopDaemon();
  StartDaemon();
  EXPECT_TRUE(Eventually([&] { return Pods() == kInPods; })) << Pods();
  EXPECT_EQ(Resources(), kInResources);

  // The kubelet has had the claim unprepared.
  claims_.Prepare("other", {});
  EXPECT_EQ(Resources(), "app:; plain:; shared:; ");
  EXPECT_EQ(Pods(), "");
}

// As with a runtime that does not show the request, or that does not answer yet.
TEST_F(DaemonClaimsShown, WithThePodUntilTheRuntimeShowsTheContainer) {
  Start();
  claims_.Prepare("p", {testing::ClaimsTree::Gpu("1")});
  const v1::PodSandboxConfig pod = PodConfig("p");
  ASSERT_TRUE(Create(Run(pod), pod, Claiming(Pinned(2), "1")).status.ok());
  StopDaemon();
  runtime_->SetFailure("ContainerStatus", {grpc::StatusCode::INTERNAL, "busy"});
  StartDaemon();
  const std::string device = "default/gpus example.com/gpu1 on 1; ";
  EXPECT_TRUE(Eventually([&] { return Pods() == "pod: " + device; })) << Pods();
  EXPECT_TRUE(Eventually([&] { return Resources() == "app:; "; })) << Resources();
  runtime_->SetFailure("ContainerStatus", grpc::Status::OK);
  EXPECT_TRUE(Eventually([&] { return Pods() == "app: " + device; })) << Pods();
}

// With CRI-O, the runtime would not show them again.
TEST_F(DaemonClaimsShown, AChangeOfTheConfigurationKeepsThem) {
  Start();
  claims_.Prepare("p", {testing::ClaimsTree::Gpu("1")});
  const v1::PodSandboxConfig pod = PodConfig("p");
  ASSERT_TRUE(Create(Run(pod), pod, Claiming(Pinned(2), "1")).status.ok());
  runtime_->SetFailure("ContainerStatus", {grpc::StatusCode::INTERNAL, "busy"});
  Handover handover = daemon_->Leave();
  handover.node = daemon_->node();
  daemon_.reset();
  auto next = Daemon::Start(DaemonOptions(), nullptr, std::move(handover));
  ASSERT_TRUE(next.ok()) << next.error().Text();
  daemon_ = *std::move(next);
  const std::string shown = "app: default/gpus example.com/gpu1 on 1; ";
  EXPECT_TRUE(Eventually([&] { return Pods() == shown; })) << Pods();
}

TEST_F(DaemonClaimsShown, FileThatCannotBeReadIsSaid) {
  Start();
  Prepare();
  const v1::PodSandboxConfig pod = PodConfig("p");
  ASSERT_TRUE(Create(Run(pod), pod, Claiming(Pinned(2), "1")).status.ok());
  claims_.Write({"kubelet/dra_manager_state", "{}"});
  EXPECT_EQ(Resources(), "app:; ");
  EXPECT_NE(Pods().find("dra_manager_state: it has no Data and Checksum"), std::string::npos)
      << Pods();
}

TEST_F(DaemonClaimsShown, DeviceWithoutSpecificationHasItsReason) {
  Start();
  claims_.Prepare("p", {testing::ClaimsTree::Gpu("7"), testing::ClaimsTree::Gpu("1")});
  const v1::PodSandboxConfig pod = PodConfig("p");
  ASSERT_TRUE(Create(Run(pod), pod, Claiming(Claiming(Pinned(2), "7"), "1")).status.ok());
  const std::string pods = Pods();
  EXPECT_NE(pods.find("example.com/gpu7 (example.com/node/gpu7: no CDI specification describes "
                      "example.com/gpu=7"),
            std::string::npos)
      << pods;
  EXPECT_NE(pods.find("example.com/gpu1 on 1"), std::string::npos) << pods;
}

}  // namespace
}  // namespace alignd::daemon
