// CPUs beside the devices that DRA has allocated: CDI names in CreateContainer, and the claims that
// the kubelet has had prepared.
#include <gtest/gtest.h>

#include <string>

#include "claims_fixture.h"
#include "control/control_client.h"

namespace alignd::daemon {
namespace {

class DaemonClaims : public ClaimsTest {
 protected:
  void CheckThatAResizeStaysBesideTheDevices(const std::string& scope);
};

void DaemonClaims::CheckThatAResizeStaysBesideTheDevices(const std::string& scope) {
  Start(Policy("restricted", scope));
  claims_.Prepare("p", {Gpu("1")});
  const v1::PodSandboxConfig pod = PodConfig("p");
  const auto created = Create(Run(pod), pod, Claiming(2, "1"));
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  const std::string id = created.response.container_id();
  EXPECT_EQ(CpusOf(id), "14-15");
  const std::string wide = ResizeTo(id, 15).error_message();
  EXPECT_NE(wide.find("ResizeRefused"), std::string::npos) << wide;
  EXPECT_NE(wide.find("Claimed devices of the " + std::string(scope == "pod" ? "pod" : scope) +
                      ": example.com/node/gpu1 on NUMA node 1"),
            std::string::npos)
      << wide;
  EXPECT_EQ(CpusOf(id), "14-15");
  EXPECT_TRUE(ResizeTo(id, 14).ok());
  EXPECT_EQ(CpusOf(id), "14-27");
  EXPECT_TRUE(ResizeTo(id, 2).ok());
  claims_.Write({"kubelet/dra_manager_state", "{}"});
  EXPECT_NE(ResizeTo(id, 3).error_message().find("dra_manager_state"), std::string::npos);
}

TEST_F(DaemonClaims, CpusAreBesideTheDeviceThatCreateContainerNames) {
  Start(Policy("single-numa-node"));
  claims_.Prepare("far", {Gpu("1")});
  const v1::PodSandboxConfig pod = PodConfig("far");
  const auto far = Create(Run(pod), pod, Claiming(2, "1"));
  ASSERT_TRUE(far.status.ok()) << far.status.error_message();
  EXPECT_EQ(CpusOf(far.response.container_id()), "14-15");
  // The runtime gets the names as they came.
  const auto config = runtime_->FindContainer(far.response.container_id())->config;
  ASSERT_EQ(config.cdi_devices_size(), 1);
  EXPECT_EQ(config.cdi_devices(0).name(), "example.com/gpu=1");
}

// As those of a device plugin that is registered with the kubelet.
TEST_F(DaemonClaims, OtherCdiNamesAreNoClaims) {
  Start(Policy("single-numa-node"));
  EXPECT_EQ(CreateIn(PodConfig("none"), Claiming(2, "1")), "1-2");
  claims_.Prepare("p", {Gpu("1")});
  EXPECT_EQ(CreateIn(PodConfig("p"), Claiming(2, "of-a-plugin")), "3-4");
}

TEST_F(DaemonClaims, PodOfOneContainerIsDecidedBeforeItsSandboxIsCreated) {
  Start(Policy("restricted"));
  ShowPod(MakePod("p", {App("app", kTwoCpus)}));
  claims_.Prepare("p", {Gpu("1")});
  const v1::PodSandboxConfig pod = PodConfig("p");
  const std::string sandbox = Run(pod);
  EXPECT_NE(State().find(R"("p":{"app":"14-15"})"), std::string::npos) << State();
  const control::ControlClient client(DaemonOptions().ControlSocket());
  const auto explained = client.Explain("pod-p", 1);
  ASSERT_TRUE(explained.ok()) << explained.error().Text();
  ASSERT_EQ(explained->decisions_size(), 1);
  const std::string text = explained->decisions(0).DebugString();
  EXPECT_NE(text.find("claimed devices"), std::string::npos) << text;
  EXPECT_NE(text.find("example.com/node/gpu1 on NUMA node 1"), std::string::npos) << text;
  // The decision stands, whatever becomes of the files.
  claims_.Write({"kubelet/dra_manager_state", "{}"});
  EXPECT_EQ(CreateIn(sandbox, pod, Claiming(2, "1")), "14-15");
}

TEST_F(DaemonClaims, ContainersOfAPodAreDecidedEachByItsNames) {
  Start(Policy("single-numa-node"));
  ShowPod(MakePod("p", {App("a", kTwoCpus), App("b", kTwoCpus), App("c", kTwoCpus)}));
  claims_.Prepare("p", {Gpu("0"), Gpu("1")});
  const v1::PodSandboxConfig pod = PodConfig("p");
  const std::string sandbox = Run(pod);
  EXPECT_FALSE(IsDecided("p")) << State();
  EXPECT_EQ(CreateIn(sandbox, pod, Claiming(2, "1", "a")), "14-15");
  EXPECT_EQ(CreateIn(sandbox, pod, Claiming(2, "0", "b")), "1-2");
  EXPECT_EQ(CreateIn(sandbox, pod, Pinned(2, "c")), "3-4");
}

TEST_F(DaemonClaims, InScopePodAllContainersAreBesideAllDevices) {
  Start(Policy("single-numa-node", "pod"));
  ShowPod(MakePod("p", {App("a", kTwoCpus), App("b", kTwoCpus)}));
  claims_.Prepare("p", {Gpu("1")});
  Run(PodConfig("p"));
  EXPECT_NE(State().find(R"("p":{"a":"14-15","b":"16-17"})"), std::string::npos) << State();
  claims_.Prepare("q", {Gpu("0"), Gpu("1")});
  EXPECT_NE(CreateIn(PodConfig("q"), Claiming(2, "0")).find("TopologyAffinityError"),
            std::string::npos);
}

TEST_F(DaemonClaims, DeviceWithoutSpecificationIsRefusedByTheStrictPoliciesOnly) {
  Start(Policy("restricted"));
  claims_.Prepare("p", {Gpu("7")});
  const v1::PodSandboxConfig pod = PodConfig("p");
  const std::string sandbox = Run(pod);
  const auto refused = Create(sandbox, pod, Claiming(2, "7"));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(refused.status.error_message().find(
                "example.com/node/gpu7: no CDI specification describes example.com/gpu=7"),
            std::string::npos)
      << refused.status.error_message();
  EXPECT_FALSE(IsDecided("p")) << State();
  claims_.AddGpu("7", 1);
  EXPECT_EQ(CreateIn(sandbox, pod, Claiming(2, "7")), "14-15");
  StopDaemon();
  StartDaemon(Policy("best-effort"));
  claims_.Prepare("q", {Gpu("8")});
  EXPECT_EQ(CreateIn(PodConfig("q"), Claiming(2, "8")), "1-2");
}

TEST_F(DaemonClaims, UnreadableClaimsRefuseOnlyContainersWithDevices) {
  Start(Policy("single-numa-node"));
  ShowPod(MakePod("p", {App("a", kTwoCpus), App("b", kTwoCpus)}));
  claims_.Write({"kubelet/dra_manager_state", "{}"});
  const v1::PodSandboxConfig pod = PodConfig("p");
  const std::string sandbox = Run(pod);
  EXPECT_EQ(CreateIn(sandbox, pod, Pinned(2, "a")), "1-2");
  EXPECT_NE(CreateIn(sandbox, pod, Claiming(2, "1", "b")).find("dra_manager_state"),
            std::string::npos);
}

TEST_F(DaemonClaims, DevicesOfOneNameInTwoPoolsAreBothFollowed) {
  Start(Policy("restricted"));
  const dra::PreparedDevice near = {"example.com", "a", "s", {"example.com/gpu=0"}};
  const dra::PreparedDevice far = {"example.com", "b", "s", {"example.com/gpu=1"}};
  claims_.Prepare("p", {near, far});
  v1::ContainerConfig both = Claiming(2, "0");
  both.add_cdi_devices()->set_name("example.com/gpu=1");
  EXPECT_NE(CreateIn(PodConfig("p"), both).find("TopologyAffinityError"), std::string::npos);
  claims_.Prepare("q", {far});
  EXPECT_EQ(CreateIn(PodConfig("q"), Claiming(2, "1")), "14-15");
}

// Such a device never delays the decision about its pod.
TEST_F(DaemonClaims, DeviceWithoutCdiNameIsExplained) {
  Start(Policy("restricted"));
  ShowPod(MakePod("p", {App("a", kTwoCpus), App("b", kTwoCpus)}));
  claims_.Prepare("p", {{"dra.net", "node", "eth0", {}}});
  Run(PodConfig("p"));
  EXPECT_NE(State().find(R"("p":{"a":"1-2","b":"3-4"})"), std::string::npos) << State();
  const control::ControlClient client(DaemonOptions().ControlSocket());
  const auto explained = client.Explain("pod-p", 1);
  ASSERT_TRUE(explained.ok()) << explained.error().Text();
  EXPECT_NE(explained->DebugString().find(
                "claimed: dra.net/node/eth0 (without a CDI name) on an unknown NUMA node"),
            std::string::npos)
      << explained->DebugString();
}

TEST_F(DaemonClaims, ResizeOfAContainerStaysBesideTheDevices) {
  CheckThatAResizeStaysBesideTheDevices("container");
}

TEST_F(DaemonClaims, ResizeWithPodScopeStaysBesideTheDevices) {
  CheckThatAResizeStaysBesideTheDevices("pod");
}

// The kubelet makes the call for the pod first, and nothing has been written for the pod then. The
// CDI names of the containers say which one has the device; after a restart, the runtime says them.
TEST_F(DaemonClaims, BothCallsOfAResizeDecideByTheDevicesOfTheContainer) {
  Start(Policy("restricted"));
  const auto show = [&](const char* a, const char* b) {
    ShowPod(MakePod("p", {App("a", {{"cpu", a}, {"memory", "100Mi"}}),
                          App("b", {{"cpu", b}, {"memory", "100Mi"}})}));
  };
  show("2", "2");
  claims_.Prepare("p", {Gpu("1")});
  const v1::PodSandboxConfig pod = PodConfig("p");
  const std::string sandbox = Run(pod);
  const std::string a = Create(sandbox, pod, Claiming(2, "1", "a")).response.container_id();
  const std::string b = Create(sandbox, pod, Pinned(2, "b")).response.container_id();
  ASSERT_EQ(CpusOf(a), "14-15");
  ASSERT_EQ(CpusOf(b), "1-2");
  for (const bool restarted : {false, true}) {
    if (restarted) {
      StopDaemon();
      StartDaemon(Policy("restricted"));
    }
    show("15", "2");
    // After the start, the runtime is asked for the names. Until then, all devices of the pod
    // count.
    std::string refused;
    EXPECT_TRUE(Eventually([&] {
      refused = PodStep(sandbox, 17).error_message();
      return refused.find("Claimed devices of the container: example.com/node/gpu1") !=
             std::string::npos;
    })) << refused;
    EXPECT_EQ(ResizeTo(a, 15).error_message(), refused);
    EXPECT_EQ(CpusOf(a), "14-15");
  }
  // The other one has no device.
  show("2", "15");
  EXPECT_EQ(PodStep(sandbox, 17).error_code(), grpc::StatusCode::UNIMPLEMENTED) << "forwarded";
  EXPECT_TRUE(ResizeTo(b, 15).ok());
  EXPECT_EQ(CpusOf(b), "1-13,16-17");
  claims_.Write({"kubelet/dra_manager_state", "{}"});
  show("3", "15");
  EXPECT_EQ(PodStep(sandbox, 18).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(DaemonClaims, FaultyDevicesOfOtherContainersRefuseNoResize) {
  Start(Policy("restricted"));
  const auto show = [&](const char* a) {
    ShowPod(MakePod("p", {App("a", {{"cpu", a}, {"memory", "100Mi"}}), App("b", kTwoCpus)}));
  };
  show("2");
  claims_.Prepare("p", {Gpu("1")});
  const v1::PodSandboxConfig pod = PodConfig("p");
  const std::string sandbox = Run(pod);
  const std::string a = Create(sandbox, pod, Claiming(2, "1", "a")).response.container_id();
  const std::string b = Create(sandbox, pod, Pinned(2, "b")).response.container_id();
  claims_.Prepare("p", {Gpu("1"), Gpu("7")});  // the second one has no specification
  show("3");
  EXPECT_EQ(PodStep(sandbox, 5).error_code(), grpc::StatusCode::UNIMPLEMENTED) << "forwarded";
  EXPECT_TRUE(ResizeTo(a, 3).ok());
  EXPECT_EQ(CpusOf(a), "14-16");
  EXPECT_TRUE(ResizeTo(b, 3).ok());
  EXPECT_EQ(CpusOf(b), "1-3");
}

// The kubelet's way to resize a container that has ended.
TEST_F(DaemonClaims, ContainerThatIsCreatedAgainWithMoreCpusStaysBesideItsDevices) {
  Start(Policy("restricted"));
  claims_.Prepare("p", {Gpu("1")});
  const v1::PodSandboxConfig pod = PodConfig("p");
  const std::string sandbox = Run(pod);
  EXPECT_EQ(CreateIn(sandbox, pod, Claiming(2, "1")), "14-15");
  EXPECT_NE(CreateIn(sandbox, pod, Again(Claiming(15, "1"))).find("ResizeRefused"),
            std::string::npos);
  EXPECT_EQ(CreateIn(sandbox, pod, Again(Claiming(14, "1"))), "14-27");
}

// A container that shares CPUs has nothing to align, wherever its devices are.
TEST_F(DaemonClaims, SharedContainerMayHaveDevicesEverywhere) {
  Start(Policy("single-numa-node"));
  claims_.Prepare("p", {Gpu("0"), Gpu("1"), Gpu("7")});
  v1::ContainerConfig monitor = Shared();
  for (const char* const device : {"0", "1", "7"}) {
    monitor.add_cdi_devices()->set_name("example.com/gpu=" + std::string(device));
  }
  EXPECT_EQ(CreateIn(BurstablePod("p"), monitor), "0-27");
}

TEST_F(DaemonClaims, WithoutDirectoriesNothingFollowsDevices) {
  is_on_ = false;
  Start(Policy("single-numa-node"));
  claims_.Prepare("p", {Gpu("1")});
  EXPECT_EQ(CreateIn(PodConfig("p"), Claiming(2, "1")), "1-2");
}

}  // namespace
}  // namespace alignd::daemon
