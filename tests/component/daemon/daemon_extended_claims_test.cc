// Extended resources that a DRA driver serves: a container gets them by its CDI names, and nothing
// of a device plugin beside them.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "claims_fixture.h"

namespace alignd::daemon {
namespace {

constexpr char kServed[] = "kubelet's Pods API, DRA serves nvidia.com/gpu";

class DaemonExtendedClaims : public ClaimsTest {
 protected:
  void CheckAnnotated(const std::string& policy, const std::string& cpus) {
    Start(Policy(policy));
    // Requests sorted by name: cpu, example.com/gpu, memory.
    PrepareExtended("p", "1", 1);
    const v1::PodSandboxConfig pod =
        Annotated("p", R"({"app":{"limits":{"cpu":"2","memory":"100Mi","example.com/gpu":"1"}}})");
    const std::string sandbox = Run(pod);
    EXPECT_EQ(CreateIn(sandbox, pod, Claiming(2, "1")), cpus);
    EXPECT_EQ(CreateIn(sandbox, pod, Again(Claiming(2, "1"))), cpus) << "created again";
  }

  // The Pods API describes the pod. The scheduler's mapping is in the API server's status only.
  void ShowServed(const Pod& pod) {
    ShowPod(pod);
    for (const Container& container : pod.containers) {
      if (container.resources.limits.contains(kGpu)) {
        api_->AddExtendedClaim(pod.uid, container.name, kGpu);
      }
    }
  }
  // With ephemeral-storage, which CRI does not show. Sorted by name: cpu, ephemeral-storage,
  // memory, nvidia.com/gpu.
  static Container WithGpu(const std::string& name) {
    return App(name,
               {{"cpu", "2"}, {"memory", "100Mi"}, {"ephemeral-storage", "1Gi"}, {kGpu, "1"}});
  }
  int DevicesOf(const std::string& sandbox, const v1::PodSandboxConfig& pod,
                const v1::ContainerConfig& container) const {
    const auto created = Create(sandbox, pod, container);
    EXPECT_TRUE(created.status.ok()) << created.status.error_message();
    const auto known = runtime_->FindContainer(created.response.container_id());
    return known ? known->config.devices_size() : -1;
  }
};

TEST_F(DaemonExtendedClaims, NeedNoPlugin) { CheckAnnotated("restricted", "14-15"); }

TEST_F(DaemonExtendedClaims, NeedNoPluginWithPolicyNone) { CheckAnnotated("none", "1-2"); }

TEST_F(DaemonExtendedClaims, PodOfSeveralContainersIsDecidedOneByOne) {
  Start(Policy("restricted"));
  PrepareExtended("p", "1", 1);
  const v1::PodSandboxConfig pod =
      Annotated("p", R"({"app":{"limits":{"cpu":"2","memory":"100Mi","example.com/gpu":"1"}},)"
                     R"("other":{"limits":{"cpu":"2","memory":"100Mi","a.com/late":"1"}}})");
  EXPECT_EQ(CreateIn(Run(pod), pod, Claiming(2, "1")), "14-15");
}

// As the scheduler does: the init container has the request of the container after it, whose index
// is another one.
TEST_F(DaemonExtendedClaims, InitContainerHasTheRequestOfALaterContainer) {
  Start(Policy("restricted"));
  PrepareExtended("p", "1", 3, /*container=*/1);
  const v1::PodSandboxConfig pod = Annotated(
      "p", R"({"first":{"init":true,"limits":{"cpu":"2","memory":"100Mi","nvidia.com/gpu":"1"}},)"
           R"("app":{"limits":{"cpu":"2","memory":"100Mi","ephemeral-storage":"1Gi",)"
           R"("nvidia.com/gpu":"1"}}})");
  const std::string sandbox = Run(pod);
  EXPECT_EQ(CreateIn(sandbox, pod, Claiming(2, "1", "first")), "14-15");
  EXPECT_EQ(SourceOf("pod-p"), "annotation alignd.io/resources, DRA serves nvidia.com/gpu");
}

// As a kubelet serves it while it creates the pod.
TEST_F(DaemonExtendedClaims, PodsApiWithoutTheMappingNeedsNoPlugin) {
  Start(Policy("restricted"));
  PrepareExtended("p", "1", 3);
  ShowServed(MakePod("p", {WithGpu("app")}));
  const v1::PodSandboxConfig pod = PodConfig("p");
  const std::string sandbox = Run(pod);
  EXPECT_NE(State().find(R"("p":{"app":"14-15"})"), std::string::npos) << State();
  EXPECT_EQ(SourceOf("pod-p"), kServed);
  EXPECT_EQ(CreateIn(sandbox, pod, Claiming(2, "1")), "14-15");
  EXPECT_EQ(CreateIn(sandbox, pod, Again(Claiming(2, "1"))), "14-15") << "created again";
}

TEST_F(DaemonExtendedClaims, NothingIsAllocatedTwiceBesideAPlugin) {
  Start(Policy("restricted"));
  StartGpus();
  PrepareExtended("p", "1", 3);
  ShowServed(MakePod("p", {WithGpu("app")}));
  ShowPod(MakePod("other", {WithGpu("app")}));
  const v1::PodSandboxConfig pod = PodConfig("p");
  EXPECT_EQ(DevicesOf(Run(pod), pod, Claiming(2, "1")), 0);
  EXPECT_EQ(SourceOf("pod-p"), kServed);
  const v1::PodSandboxConfig other = PodConfig("other");
  EXPECT_EQ(DevicesOf(Run(other), other, Pinned(2)), 1);
  EXPECT_EQ(SourceOf("pod-other"), "kubelet's Pods API");
}

// Each container of the pod, also with one decision for all of them.
TEST_F(DaemonExtendedClaims, WithPodScopeTheWholePodIsDecided) {
  Start(Policy("restricted", "pod"));
  PrepareExtended("p", "1", 3, /*container=*/1);
  Pod shown = MakePod("p", {Init("first", {{"cpu", "2"}, {"memory", "100Mi"}, {kGpu, "1"}}),
                            WithGpu("app"), App("plain", kTwoCpus)});
  ShowServed(shown);
  const v1::PodSandboxConfig pod = PodConfig("p");
  const std::string sandbox = Run(pod);
  EXPECT_EQ(SourceOf("pod-p"), kServed);
  EXPECT_EQ(CreateIn(sandbox, pod, Claiming(2, "1", "first")), "14-15");
  EXPECT_EQ(CreateIn(sandbox, pod, Claiming(2, "1", "app")), "14-15");
  EXPECT_EQ(CreateIn(sandbox, pod, Pinned(2, "plain")), "16-17");
}

// CRI does not show such a device at all.
TEST_F(DaemonExtendedClaims, DeviceWithoutCdiNameIsServed) {
  Start(Policy("restricted"));
  claims_.Prepare("p", {{"dra.net", "node", "eth0", {}}}, "pod-extended-resources-x",
                  "container-0-request-3");
  ShowServed(MakePod("p", {WithGpu("app")}));
  const v1::PodSandboxConfig pod = PodConfig("p");
  EXPECT_EQ(CreateIn(Run(pod), pod, Pinned(2)), "1-2");
  EXPECT_EQ(SourceOf("pod-p"), kServed);
}

// A resize has added a request since the scheduler made the claim.
TEST_F(DaemonExtendedClaims, RequestOfNoResourceIsRefusedBesideAPlugin) {
  Start(Policy("restricted"));
  StartGpus();
  PrepareExtended("p", "1", 2);
  ShowServed(MakePod("p", {WithGpu("app")}));
  const v1::PodSandboxConfig pod = PodConfig("p");
  const std::string refused = CreateIn(Run(pod), pod, Claiming(2, "1"));
  EXPECT_NE(refused.find("the pod has a device of DRA for container-0-request-2, and it is not "
                         "known whether that is the nvidia.com/gpu of container app"),
            std::string::npos)
      << refused;
  EXPECT_FALSE(IsDecided("p")) << State();
}

// Requests sorted by name: memory, nvidia.com/gpu, z.com/nic. With a cpu request, each is one
// later.
TEST_F(DaemonExtendedClaims, AddedRequestNeverGivesAContainerAnotherDevice) {
  Start(Policy("restricted"));
  StartGpus();
  const std::map<std::string, std::string> before = {
      {"memory", "100Mi"}, {kGpu, "1"}, {"z.com/nic", "1"}};
  // Its pod stays Burstable.
  Container after = App("app", before);
  after.resources.requests["cpu"] = *Quantity::Parse("1500m");
  PrepareExtended("p", "1", 2);
  ShowPod(MakePod("p", {App("app", before)}));
  const v1::PodSandboxConfig pod = BurstablePod("p");
  const std::string sandbox = Run(pod);
  const auto sized = [](int millis) {
    v1::ContainerConfig container = podsource::Kubelet(millis, 0, 100 * podsource::kMi);
    container.add_cdi_devices()->set_name("example.com/gpu=1");
    return container;
  };
  EXPECT_EQ(DevicesOf(sandbox, pod, sized(0)), 1);
  EXPECT_EQ(SourceOf("pod-p"), "kubelet's Pods API, DRA serves z.com/nic");

  // The container has its device of the plugin, and so the claim is for the other resource.
  ShowPod(MakePod("p", {after}));
  api_->SetGeneration("p", 2);
  StopDaemon();
  StartDaemon(Policy("restricted"));
  EXPECT_EQ(DevicesOf(sandbox, pod, Again(sized(1500))), 1);

  // Of a pod that has nothing, it is not known.
  PrepareExtended("new", "1", 2);
  ShowPod(MakePod("new", {after}));
  api_->SetGeneration("new", 2);
  const v1::PodSandboxConfig other = BurstablePod("new");
  const std::string refused = CreateIn(Run(other), other, sized(1500));
  EXPECT_NE(refused.find("DRA serves extended resources of container app (container-0-request-2), "
                         "and it is not known whether its nvidia.com/gpu or its z.com/nic"),
            std::string::npos)
      << refused;
  EXPECT_FALSE(IsDecided("new")) << State();
}

// As after scheduling gates were removed: the generation is a later one, too.
TEST_F(DaemonExtendedClaims, PodThatWasChangedButNotResizedIsDecided) {
  Start(Policy("restricted"));
  StartGpus();
  // Requests sorted by name: cpu, memory, n.com/x, nvidia.com/gpu.
  Container app = App("app", {{"memory", "100Mi"}, {"n.com/x", "1"}, {kGpu, "1"}});
  app.resources.requests["cpu"] = *Quantity::Parse("1500m");
  v1::ContainerConfig claiming = podsource::Kubelet(1500, 0, 100 * podsource::kMi);
  claiming.add_cdi_devices()->set_name("example.com/gpu=1");
  for (const std::string uid : {"gated", "resized", "unknown"}) {
    PrepareExtended(uid, "1", 2);
    ShowPod(MakePod(uid, {app}));
    api_->SetGeneration(uid, 2);
    if (uid != "unknown") api_->AddManagedRequests(uid);
    if (uid == "resized") api_->AddManagedRequests(uid, "resize");
    const v1::PodSandboxConfig pod = BurstablePod(uid);
    if (uid == "gated") {
      EXPECT_EQ(DevicesOf(Run(pod), pod, claiming), 1);
      EXPECT_EQ(SourceOf("pod-gated"), "kubelet's Pods API, DRA serves n.com/x");
      continue;
    }
    const std::string refused = CreateIn(Run(pod), pod, claiming);
    EXPECT_NE(refused.find("whether its n.com/x or its nvidia.com/gpu"), std::string::npos)
        << uid << ": " << refused;
    EXPECT_FALSE(IsDecided(uid)) << State();
  }
}

// Such a kubelet does not write dra_manager_state in this form.
TEST_F(DaemonExtendedClaims, UnreadableClaimsRefuseNoContainerOfAPluginAlone) {
  Start(Policy("none"));
  StartGpus();
  ShowPod(MakePod("p", {WithGpu("app"), App("claiming", kTwoCpus)}));
  claims_.Write({"kubelet/dra_manager_state", "{}"});
  const v1::PodSandboxConfig pod = PodConfig("p");
  const std::string sandbox = Run(pod);
  EXPECT_EQ(DevicesOf(sandbox, pod, Pinned(2)), 1);
  EXPECT_NE(CreateIn(sandbox, pod, Claiming(2, "1", "claiming")).find("dra_manager_state"),
            std::string::npos);
}

// As a later kubelet may show it: nothing else is asked.
TEST_F(DaemonExtendedClaims, MappingInThePodsApiDecides) {
  Start(Policy("restricted"));
  StartGpus();
  ShowServed(MakePod("p", {WithGpu("app")}));
  api_->ShowServersStatus();
  claims_.Prepare("p", {Gpu("1")});
  const v1::PodSandboxConfig pod = PodConfig("p");
  EXPECT_EQ(DevicesOf(Run(pod), pod, Claiming(2, "1")), 0);
  EXPECT_EQ(SourceOf("pod-p"), "kubelet's Pods API");
  EXPECT_NE(State().find(R"("p":{"app":"14-15"})"), std::string::npos) << State();
}

}  // namespace
}  // namespace alignd::daemon
