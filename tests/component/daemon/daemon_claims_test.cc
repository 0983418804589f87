// CPUs beside the devices that DRA has allocated: CDI names in CreateContainer, and the claims that
// the kubelet has had prepared.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control/control_client.h"
#include "core/pod_builder.h"
#include "daemon_fixture.h"
#include "edge/claims_tree.h"
#include "kubernetes/v1/pod.pb.h"
#include "simulator/pods_api.h"

namespace alignd::daemon {
namespace {

// CPUs 0 to 13 are on NUMA node 0, the others on node 1. CPU 0 is reserved.
class DaemonClaims : public DaemonTest {
 protected:
  using Claims = std::map<std::string, std::string>;  // container -> claim

  DaemonClaims() {
    claims_.Write({"proc/sys/kernel/random/boot_id", "boot\n"});
    claims_.AddDevice("0", 0);
    claims_.AddDevice("1", 1);
  }

  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.root = claims_.root();
    options.kubelet_dir = claims_.root() / "kubelet";
    if (is_on_) options.cdi_spec_dirs = {claims_.root() / "cdi"};
    if (!is_on_) options.cdi_spec_dirs.clear();
    return options;
  }
  static std::string Policy(const std::string& policy) {
    return StaticConfig("topologyManagerPolicy: " + policy + "\n");
  }

  void StartPodsApi() {
    auto api = simulator::PodsApi::Start(PodsApiEndpoint());
    ASSERT_TRUE(api.ok()) << api.error().Text();
    api_ = *std::move(api);
  }
  // The pod with these claims, as the Pods API shows it.
  void ShowPod(const Pod& pod, const Claims& claims) const {
    kubernetes::v1::Pod message;
    ASSERT_TRUE(message.ParseFromString(simulator::ToV1Pod(pod)));
    for (const auto& [container, claim] : claims) {
      auto& entry = *message.mutable_spec()->add_resource_claims();
      entry.set_name("of-" + container);
      entry.set_resource_claim_name(claim);
      for (auto& one : *message.mutable_spec()->mutable_containers()) {
        if (one.name() != container) continue;
        one.mutable_resources()->add_claims()->set_name("of-" + container);
      }
    }
    api_->SetPodBytes(pod.uid, message.SerializeAsString());
  }

  static v1::ContainerConfig Claiming(int cpus, const std::string& device,
                                      const std::string& name = "app") {
    v1::ContainerConfig config = Pinned(cpus, name);
    config.add_cdi_devices()->set_name("example.com/gpu=" + device);
    return config;
  }
  Answer<v1::CreateContainerResponse> CreateIn(const v1::PodSandboxConfig& pod,
                                               const v1::ContainerConfig& container) const {
    return Create(Run(pod), pod, container);
  }

  const testing::ClaimsTree claims_;
  bool is_on_ = true;
  std::unique_ptr<simulator::PodsApi> api_;
};

const std::map<std::string, std::string> kTwoCpus = {{"cpu", "2"}, {"memory", "100Mi"}};

TEST_F(DaemonClaims, CpusAreBesideTheDeviceThatCreateContainerNames) {
  Start(Policy("single-numa-node"));
  const auto far = CreateIn(PodConfig("far"), Claiming(2, "1"));
  ASSERT_TRUE(far.status.ok()) << far.status.error_message();
  EXPECT_EQ(CpusOf(far.response.container_id()), "14-15");
  const auto near = CreateIn(PodConfig("near"), Claiming(2, "0"));
  ASSERT_TRUE(near.status.ok()) << near.status.error_message();
  EXPECT_EQ(CpusOf(near.response.container_id()), "1-2");
  // The runtime gets the names as they came.
  const auto config = runtime_->FindContainer(far.response.container_id())->config;
  ASSERT_EQ(config.cdi_devices_size(), 1);
  EXPECT_EQ(config.cdi_devices(0).name(), "example.com/gpu=1");
}

TEST_F(DaemonClaims, WholePodIsDecidedByItsPreparedClaims) {
  StartPodsApi();
  Start(Policy("restricted"));
  ShowPod(MakePod("p", {App("a", kTwoCpus), App("b", kTwoCpus), App("c", kTwoCpus)}),
          {{"a", "far"}, {"b", "near"}});
  claims_.Prepare("p", {{"far", {"1"}}, {"near", {"0"}}}, "default");
  Run(PodConfig("p"));
  EXPECT_NE(State().find(R"("p":{"a":"14-15","b":"1-2","c":"3-4"})"), std::string::npos) << State();
  const control::ControlClient client(DaemonOptions().ControlSocket());
  const auto explained = client.Explain("pod-p", 1);
  ASSERT_TRUE(explained.ok()) << explained.error().Text();
  ASSERT_EQ(explained->decisions_size(), 1);
  EXPECT_NE(explained->decisions(0).DebugString().find("claimed devices"), std::string::npos);
  EXPECT_NE(explained->decisions(0).DebugString().find("example.com/gpu=1 on NUMA node 1"),
            std::string::npos)
      << explained->decisions(0).DebugString();
}

TEST_F(DaemonClaims, WhatIsNotPreparedIsRefusedUntilItIs) {
  StartPodsApi();
  Start(Policy("single-numa-node"));
  ShowPod(MakePod("p", {App("app", kTwoCpus)}), {{"app", "far"}});
  claims_.Prepare("other", {{"far", {"1"}}}, "default");
  const v1::PodSandboxConfig pod = PodConfig("p");
  const std::string sandbox = Run(pod);
  const auto refused = Create(sandbox, pod, Claiming(2, "1"));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(refused.status.error_message().find(
                "the kubelet has not prepared ResourceClaim default/far for this pod"),
            std::string::npos)
      << refused.status.error_message();
  EXPECT_EQ(State().find("\"p\""), std::string::npos) << State();
  claims_.Prepare("p", {{"far", {"1"}}}, "default");
  const auto created = Create(sandbox, pod, Claiming(2, "1"));
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpusOf(created.response.container_id()), "14-15");
}

TEST_F(DaemonClaims, DeviceWithoutSpecificationIsRefusedByTheStrictPoliciesOnly) {
  Start(Policy("restricted"));
  const auto refused = CreateIn(PodConfig("p"), Claiming(2, "7"));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(refused.status.error_message().find("no CDI specification describes example.com/gpu=7"),
            std::string::npos)
      << refused.status.error_message();
  StopDaemon();
  StartDaemon(Policy("best-effort"));
  const auto created = CreateIn(PodConfig("q"), Claiming(2, "7"));
  EXPECT_TRUE(created.status.ok()) << created.status.error_message();
}

// An annotation names all containers, but not their claims.
TEST_F(DaemonClaims, PodWithoutKnownClaimsIsDecidedContainerByContainer) {
  Start(Policy("single-numa-node"));
  claims_.Prepare("p", {{"far", {"1"}}}, "default");
  const std::string two = R"({"limits":{"cpu":"2","memory":"100Mi"}})";
  const v1::PodSandboxConfig pod = PodConfig("p", "", "{\"a\":" + two + ",\"b\":" + two + "}");
  const std::string sandbox = Run(pod);
  EXPECT_EQ(State().find("\"p\""), std::string::npos) << State();
  const auto plain = Create(sandbox, pod, Pinned(2, "a"));
  ASSERT_TRUE(plain.status.ok()) << plain.status.error_message();
  EXPECT_EQ(CpusOf(plain.response.container_id()), "1-2");
  const auto claiming = Create(sandbox, pod, Claiming(2, "1", "b"));
  ASSERT_TRUE(claiming.status.ok()) << claiming.status.error_message();
  EXPECT_EQ(CpusOf(claiming.response.container_id()), "14-15");
}

TEST_F(DaemonClaims, WithoutDirectoriesNothingFollowsDevices) {
  is_on_ = false;
  Start(Policy("single-numa-node"));
  const auto created = CreateIn(PodConfig("p"), Claiming(2, "1"));
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-2");
}

}  // namespace
}  // namespace alignd::daemon
