// Resizes that are impossible whatever is free: of memory that the memory manager has assigned, of
// pods with pod-level resources, and, with the Pods API, already of the pod's sandbox. And sizes to
// which ResourceClaims add (KEP-5517): these are no resize.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "core/pod_builder.h"
#include "daemon_fixture.h"
#include "pod_level_fixture.h"
#include "simulator/pods_api.h"

namespace alignd::daemon {
namespace {

constexpr int64_t kGi = int64_t{1024} * 1024 * 1024;
constexpr char kStaticMemory[] =
    "topologyManagerPolicy: restricted\nmemoryManagerPolicy: Static\nreservedMemory:\n"
    "- numaNode: 0\n  limits: {memory: 100Mi}\n";

v1::LinuxContainerResources Sizes(int64_t millis, int64_t memory) {
  return podsource::Kubelet(millis, millis, memory).linux().resources();
}

class DaemonInfeasibleResize : public PodLevelTest {
 protected:
  static v1::ContainerConfig Sized(const v1::LinuxContainerResources& sizes) {
    v1::ContainerConfig config = Pinned(0);
    *config.mutable_linux()->mutable_resources() = sizes;
    return config;
  }
  grpc::Status UpdateTo(const std::string& id, const v1::LinuxContainerResources& sizes) const {
    v1::UpdateContainerResourcesRequest request;
    request.set_container_id(id);
    *request.mutable_linux() = sizes;
    return Update(request);
  }
  grpc::Status PodStep(const std::string& sandbox, const v1::LinuxContainerResources& sizes) const {
    v1::UpdatePodSandboxResourcesRequest request;
    request.set_pod_sandbox_id(sandbox);
    *request.mutable_resources() = sizes;
    return Call<v1::UpdatePodSandboxResourcesResponse>("UpdatePodSandboxResources", request).status;
  }
  // The simulated runtime does not implement the call.
  void ExpectForwarded(const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
    EXPECT_EQ(runtime_->Requests("UpdatePodSandboxResources").size(), ++forwarded_);
  }
  std::string MemoryFile() const { return ReadText(StateDir() / "memory_manager_state"); }
  int64_t LimitOf(const std::string& id) const {
    const auto container = runtime_->FindContainer(id);
    return container ? container->resources.memory_limit_in_bytes() : -1;
  }
  static void ExpectRefused(const grpc::Status& status, const std::string& text) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_TRUE(status.error_message().starts_with("ResizeRefused: ")) << status.error_message();
    EXPECT_NE(status.error_message().find(text), std::string::npos) << status.error_message();
  }

  size_t forwarded_ = 0;
};

TEST_F(DaemonInfeasibleResize, AssignedMemoryStaysAsItIs) {
  Start(StaticConfig(kStaticMemory));
  const v1::PodSandboxConfig pod = PodConfig("p");
  const Running running = RunOne(pod, Sized(Sizes(2000, 40 * kGi)));
  const std::string file = MemoryFile();
  for (const bool restarted : {false, true}) {
    if (restarted) {
      StopDaemon();
      StartDaemon(StaticConfig(kStaticMemory));
    }
    ExpectRefused(
        UpdateTo(running.container, Sizes(2000, 62 * kGi)),
        "container app of pod default/pod-p is assigned 40960Mi of memory on NUMA node 0, "
        "and with memoryManagerPolicy Static its amount cannot change while its pod "
        "lives: asked for 63488Mi");
    ExpectRefused(UpdateTo(running.container, Sizes(2000, 200 * kGi)), "asked for 204800Mi");
    ExpectRefused(UpdateTo(running.container, Sizes(4000, kGi)), "asked for 1024Mi");
    ExpectRefused(UpdateTo(running.container, Sizes(2000, 40 * kGi + 1)),
                  "asked for 42949672961 bytes");
    ExpectRefused(UpdateTo(running.container, Sizes(2000, -1)), "asked for memory without a limit");
    v1::LinuxContainerResources as_a_file;
    (*as_a_file.mutable_unified())["memory.max"] = "max";
    ExpectRefused(UpdateTo(running.container, as_a_file), "asked for memory without a limit");
    EXPECT_EQ(LimitOf(running.container), 40 * kGi);
    EXPECT_EQ(CpusOf(running.container), "1-2");
    EXPECT_EQ(MemoryFile(), file);
  }
  // Its CPUs can be resized, and another pod gets no byte of its memory.
  EXPECT_TRUE(UpdateTo(running.container, Sizes(3000, 40 * kGi)).ok());
  EXPECT_EQ(CpusOf(running.container), "1-3");
  const Running other = RunOne(PodConfig("other"), Sized(Sizes(2000, 30 * kGi)));
  EXPECT_EQ(CpusOf(other.container), "14-15");
}

TEST_F(DaemonInfeasibleResize, ContainerIsNotCreatedAgainWithOtherMemory) {
  Start(StaticConfig(kStaticMemory));
  const v1::PodSandboxConfig pod = PodConfig("p");
  const Running running = RunOne(pod, Sized(Sizes(2000, 40 * kGi)));
  ASSERT_TRUE(runtime_->EndContainer(running.container, 137));
  uint32_t attempt = 0;
  for (const int64_t memory : {62 * kGi, kGi}) {
    // With other CPUs, too: nothing is changed.
    for (const int64_t millis : {2000, 4000}) {
      v1::ContainerConfig again = Sized(Sizes(millis, memory));
      again.mutable_metadata()->set_attempt(++attempt);
      ExpectRefused(Create(running.sandbox, pod, again).status,
                    "is assigned 40960Mi of memory on NUMA node 0");
    }
  }
  v1::ContainerConfig again = Sized(Sizes(2000, 40 * kGi));
  again.mutable_metadata()->set_attempt(++attempt);
  const auto created = Create(running.sandbox, pod, again);
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-2");
}

TEST_F(DaemonInfeasibleResize, MemoryOfAContainerWithoutAssignmentIsResized) {
  Start(StaticConfig(kStaticMemory));
  const Running burstable = RunOne(BurstablePod("burstable"), Sized(Sizes(2000, kGi)));
  EXPECT_TRUE(UpdateTo(burstable.container, Sizes(2000, 2 * kGi)).ok());
  EXPECT_EQ(LimitOf(burstable.container), 2 * kGi);
}

// The pod's cgroup is not written yet when the kubelet asks for the sandbox.
TEST_F(DaemonInfeasibleResize, SandboxIsRefusedIfThePodsApiShowsWhatIsImpossible) {
  Start(StaticConfig(kStaticMemory));
  StartPodsApi();
  const auto pod_with = [&](const std::string& cpus, const std::string& memory) {
    api_->SetPod(MakePod("p", {App("app", {{"cpu", cpus}, {"memory", memory}})}));
  };
  pod_with("3", "1Gi");
  const Running running = RunOne(PodConfig("p"), Sized(Sizes(3000, kGi)));
  ASSERT_EQ(CpusOf(running.container), "1-3");
  pod_with("3500m", "1Gi");
  ExpectForwarded(PodStep(running.sandbox, Sizes(3500, kGi)));  // to shared CPUs
  pod_with("3", "2Gi");
  ExpectRefused(PodStep(running.sandbox, Sizes(3000, 2 * kGi)), "is assigned 1024Mi of memory");
  pod_with("4", "1Gi");
  ExpectForwarded(PodStep(running.sandbox, Sizes(4000, kGi)));
}

// The kubelet makes the resize before the last one, or cannot make the last one at all.
TEST_F(DaemonInfeasibleResize, SandboxIsNotRefusedForALaterResizeThatThePodsApiShows) {
  Start();
  StartPodsApi();
  const auto pod_with = [&](const std::string& cpus) {
    api_->SetPod(MakePod("p", {App("app", {{"cpu", cpus}, {"memory", "1Gi"}})}));
  };
  pod_with("2");
  const Running running = RunOne(PodConfig("p"), Sized(Sizes(2000, kGi)));
  pod_with("60");
  ExpectForwarded(PodStep(running.sandbox, Sizes(4000, kGi)));
  EXPECT_TRUE(UpdateTo(running.container, Sizes(4000, kGi)).ok());
  EXPECT_EQ(CpusOf(running.container), "1-4");
  ExpectRefused(PodStep(running.sandbox, Sizes(60'000, kGi)), "asked for 60 exclusive CPUs");
  // With the pod's overhead, too.
  v1::UpdatePodSandboxResourcesRequest step;
  step.set_pod_sandbox_id(running.sandbox);
  *step.mutable_resources() = Sizes(60'500, kGi + 1000);
  *step.mutable_overhead() = Sizes(500, 1000);
  ExpectRefused(
      Call<v1::UpdatePodSandboxResourcesResponse>("UpdatePodSandboxResources", step).status,
      "asked for 60 exclusive CPUs");
}

TEST_F(DaemonInfeasibleResize, SandboxIsNotRefusedForMemoryOfALaterResize) {
  Start(StaticConfig(kStaticMemory));
  StartPodsApi();
  api_->SetPod(MakePod("p", {App("app", {{"cpu", "2"}, {"memory", "1Gi"}})}));
  const Running running = RunOne(PodConfig("p"), Sized(Sizes(2000, kGi)));
  api_->SetPod(MakePod("p", {App("app", {{"cpu", "4"}, {"memory", "60Gi"}})}));
  ExpectForwarded(PodStep(running.sandbox, Sizes(4000, kGi)));
  ExpectRefused(PodStep(running.sandbox, Sizes(4000, 60 * kGi)), "asked for 61440Mi");
}

// Resized under an alignd that let it: the container has more memory than it is assigned.
TEST_F(DaemonInfeasibleResize, MemoryThatAContainerHasDoesNotRefuseAResizeOfItsCpus) {
  Start(StaticConfig(kStaticMemory));
  StartPodsApi();
  const auto pod_with = [&](const std::string& cpus, const std::string& memory) {
    api_->SetPod(MakePod("p", {App("app", {{"cpu", cpus}, {"memory", memory}})}));
  };
  pod_with("2", "1Gi");
  const Running running = RunOne(PodConfig("p"), Sized(Sizes(2000, kGi)));
  const std::shared_ptr<grpc::Channel> ours = client_;
  client_ = *simulator::Dial(RuntimeEndpoint());
  ASSERT_TRUE(UpdateTo(running.container, Sizes(2000, 2 * kGi)).ok());
  client_ = ours;
  pod_with("3", "2Gi");
  ExpectForwarded(PodStep(running.sandbox, Sizes(3000, 2 * kGi)));
  EXPECT_TRUE(UpdateTo(running.container, Sizes(3000, 2 * kGi)).ok());
  EXPECT_EQ(CpusOf(running.container), "1-3");
  // An update that sets only CPUs, whatever the source says of the memory.
  pod_with("4", "3Gi");
  ExpectForwarded(PodStep(running.sandbox, Sizes(4000, 0)));
  ExpectRefused(PodStep(running.sandbox, Sizes(4000, 3 * kGi)), "asked for 3072Mi");
  pod_with("100", "2Gi");
  ExpectRefused(PodStep(running.sandbox, Sizes(100'000, 2 * kGi)), "");
}

class DaemonInfeasibleResizeTurnedOff : public DaemonInfeasibleResize {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonInfeasibleResize::DaemonOptions();
    options.resize_exclusive_cpus = allocation::CpuResizes::kNone;
    return options;
  }
};

TEST_F(DaemonInfeasibleResizeTurnedOff, SandboxIsRefusedToo) {
  Start();
  StartPodsApi();
  api_->SetPod(MakePod("p", {App("app", {{"cpu", "2"}, {"memory", "1Gi"}})}));
  const Running running = RunOne(PodConfig("p"), Sized(Sizes(2000, kGi)));
  ExpectForwarded(PodStep(running.sandbox, Sizes(2000, kGi)));
  for (const int64_t millis : {4000, 2500}) {
    api_->SetPod(
        MakePod("p", {App("app", {{"cpu", std::to_string(millis) + "m"}, {"memory", "1Gi"}})}));
    ExpectRefused(PodStep(running.sandbox, Sizes(millis, kGi)),
                  "has 2 exclusive CPUs (1-2), and their number cannot change");
  }
}

class DaemonInfeasibleResizeCountOnly : public DaemonInfeasibleResize {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonInfeasibleResize::DaemonOptions();
    options.resize_exclusive_cpus = allocation::CpuResizes::kCountOnly;
    return options;
  }
};

// The later one makes the pod smaller, which is not possible.
TEST_F(DaemonInfeasibleResizeCountOnly, SandboxIsNotRefusedForALaterResizeToLess) {
  Start();
  StartPodsApi();
  api_->SetPod(MakePod("p", {App("app", {{"cpu", "2"}, {"memory", "1Gi"}})}));
  const Running running = RunOne(PodConfig("p"), Sized(Sizes(2000, kGi)));
  api_->SetPod(MakePod("p", {App("app", {{"cpu", "500m"}, {"memory", "1Gi"}})}));
  ExpectForwarded(PodStep(running.sandbox, Sizes(4000, kGi)));
  ExpectRefused(PodStep(running.sandbox, Sizes(500, kGi)), "has 2 exclusive CPUs (1-2)");
}

// --- Pods with pod-level resources. -------------------------------------------------------------

constexpr char kPodLevelGate[] = "featureGates: {PodLevelResourceManagers: true}\n";
constexpr char kBudgetOfFive[] = R"({"metadata":{"name":"pl","namespace":"default","uid":"u1"},
"spec":{"resources":{"requests":{"cpu":"5","memory":"2Gi"},"limits":{"cpu":"5","memory":"2Gi"}},
"containers":[{"name":"app","image":"i","resources":{"limits":{"cpu":"2","memory":"512Mi"}}},
{"name":"log","image":"i"}]}})";

TEST_F(DaemonInfeasibleResize, ContainersOfAPodWithPodLevelResourcesAreNotResized) {
  const std::string config = StaticConfig("topologyManagerPolicy: restricted\n") + kPodLevelGate;
  Start(config);
  StartPodsApi();
  KubeletPod pod = RunPod(kBudgetOfFive);
  StartAll(pod, {"app", "log"});
  ASSERT_EQ(CpusIn(pod, "app"), "1-2");
  const std::string state = State();
  const std::string known = "in a pod with pod-level resources, and their number cannot change";
  for (const bool restarted : {false, true}) {
    if (restarted) {
      StopDaemon();
      StartDaemon(config);
    }
    for (const int64_t millis : {1000, 4000, 6000}) {
      ExpectRefused(UpdateTo(pod.ids["app"], Sizes(millis, kGi / 2)), known);
    }
    EXPECT_TRUE(UpdateTo(pod.ids["app"], Sizes(2000, kGi)).ok());
    EXPECT_EQ(CpusIn(pod, "app"), "1-2");
  }
  StopDaemon();
  api_.reset();
  StartDaemon(config);
  ExpectRefused(UpdateTo(pod.ids["app"], Sizes(4000, kGi / 2)),
                "whether its pod has pod-level resources is not known");
  EXPECT_EQ(State(), state);
}

TEST_F(DaemonInfeasibleResize, SandboxOfAPodWithPodLevelResourcesIsRefused) {
  Start(StaticConfig("topologyManagerPolicy: restricted\n") + kPodLevelGate);
  StartPodsApi();
  KubeletPod pod = RunPod(kBudgetOfFive);
  StartAll(pod, {"app", "log"});
  std::string resized = kBudgetOfFive;
  resized.replace(resized.find(R"("cpu":"2")"), 9, R"("cpu":"4")");
  api_->SetPod(simulator::ParsePodManifest(resized)->pod);
  ExpectRefused(PodStep(pod.sandbox, Sizes(5000, 2 * kGi)), "in a pod with pod-level resources");
}

TEST_F(DaemonInfeasibleResize, OrdinaryPodIsResizedWithTheGate) {
  Start(StaticConfig("topologyManagerPolicy: restricted\n") + kPodLevelGate);
  StartPodsApi();
  api_->SetPod(MakePod("p", {App("app", {{"cpu", "2"}, {"memory", "1Gi"}})}));
  const Running running = RunOne(PodConfig("p"), Sized(Sizes(2000, kGi)));
  EXPECT_TRUE(UpdateTo(running.container, Sizes(4000, kGi)).ok());
  EXPECT_EQ(CpusOf(running.container), "1-4");
}

// Without the Pods API, an annotation with all containers says it, also after a restart.
TEST_F(DaemonInfeasibleResize, AnnotatedPodIsResizedWithTheGateAlsoAfterARestart) {
  const std::string config = StaticConfig("topologyManagerPolicy: restricted\n") + kPodLevelGate;
  Start(config);
  const std::string app = R"({"app":{"limits":{"cpu":"2","memory":"1Gi"}})";
  const auto run = [&](const std::string& uid, const std::string& more) {
    v1::PodSandboxConfig pod = PodConfig(uid);
    if (!more.empty()) (*pod.mutable_annotations())["alignd.io/resources"] = app + more;
    return RunOne(pod, Sized(Sizes(2000, kGi)));
  };
  const Running plain = run("plain", "}");
  const Running pod_level =
      run("level", R"(,"spec.resources":{"limits":{"cpu":"2","memory":"1Gi"}}})");
  const Running unknown = run("unknown", "");
  for (const int64_t cpus : {4, 5}) {
    EXPECT_TRUE(UpdateTo(plain.container, Sizes(cpus * 1000, kGi)).ok()) << cpus;
    ExpectRefused(UpdateTo(pod_level.container, Sizes(cpus * 1000, kGi)),
                  "in a pod with pod-level resources");
    ExpectRefused(UpdateTo(unknown.container, Sizes(cpus * 1000, kGi)),
                  "whether its pod has pod-level resources is not known");
    StopDaemon();
    StartDaemon(config);
  }
}

// The author of the pod has written it: the kubelet's answer counts, and a part shows nothing.
TEST_F(DaemonInfeasibleResize, AnAnnotationHidesNoPodLevelResourcesAfterARestart) {
  const std::string config = StaticConfig("topologyManagerPolicy: restricted\n") + kPodLevelGate;
  Start(config);
  StartPodsApi();
  Pod pod = MakePod("level", {App("app", {{"cpu", "2"}, {"memory", "1Gi"}})});
  pod.pod_level = pod.containers[0].resources;
  api_->SetPod(pod);
  v1::PodSandboxConfig annotated = PodConfig("level");
  (*annotated.mutable_annotations())["alignd.io/resources"] =
      R"({"app":{"limits":{"cpu":"2","memory":"1Gi"}}})";
  const Running level = RunOne(annotated, Sized(Sizes(2000, kGi)));
  for (int start = 0; start < 2; ++start) {
    ExpectRefused(UpdateTo(level.container, Sizes(4000, kGi)), "in a pod with pod-level resources");
    StopDaemon();
    StartDaemon(config);
  }
}

TEST_F(DaemonInfeasibleResize, MemoryOfAPodAsAWholeStays) {
  Start(StaticConfig("topologyManagerScope: pod\n") + kStaticMemory + kPodLevelGate);
  StartPodsApi();
  KubeletPod pod = RunPod(kBudgetOfFive);
  StartAll(pod, {"app", "log"});
  ExpectRefused(PodStep(pod.sandbox, Sizes(5000, 3 * kGi)),
                "pod default/pl is assigned 2048Mi of memory on NUMA node 0 as a whole");
  ExpectRefused(UpdateTo(pod.ids["app"], Sizes(2000, kGi)), "is assigned 512Mi of memory");
  ExpectForwarded(PodStep(pod.sandbox, Sizes(5000, 2 * kGi)));
  EXPECT_TRUE(UpdateTo(pod.ids["app"], Sizes(2000, kGi / 2)).ok());
}

// --- Sizes to which ResourceClaims add. ---------------------------------------------------------

// A claim adds one CPU to the quota, and `memory` to the limit.
v1::LinuxContainerResources WithClaim(int64_t millis, int64_t memory) {
  v1::LinuxContainerResources sizes = Sizes(millis, memory);
  sizes.set_cpu_quota(sizes.cpu_quota() + 100'000);
  return sizes;
}

TEST_F(DaemonInfeasibleResize, QuotaAboveTheSharesOfAnExclusiveContainerIsNoResize) {
  Start();
  const Running running = RunOne(PodConfig("p"), Sized(Sizes(3000, kGi)));
  EXPECT_TRUE(UpdateTo(running.container, WithClaim(3000, kGi)).ok());
  EXPECT_EQ(CpusOf(running.container), "1-3");
  // The shares say what the container requests.
  EXPECT_TRUE(UpdateTo(running.container, WithClaim(4000, kGi)).ok());
  EXPECT_EQ(CpusOf(running.container), "1-4");
  const Running shared = RunOne(PodConfig("shared"), Sized(Sizes(1500, kGi)));
  v1::LinuxContainerResources whole = Sizes(1500, kGi);
  whole.set_cpu_quota(200'000);
  EXPECT_TRUE(UpdateTo(shared.container, whole).ok());
}

TEST_F(DaemonInfeasibleResize, EstimateFollowsTheSharesWithTheGate) {
  Start(
      StaticConfig("topologyManagerPolicy: restricted\n"
                   "featureGates: {DRANodeAllocatableResources: true}\n"));
  const Running running = RunOne(PodConfig("p"), Sized(WithClaim(2000, kGi)));
  EXPECT_EQ(CpusOf(running.container), "1-2");
  EXPECT_TRUE(UpdateTo(running.container, WithClaim(2000, 2 * kGi)).ok());
  EXPECT_EQ(CpusOf(running.container), "1-2");
}

// The Pods API shows what the container requests, and CRI what its claim adds, too.
TEST_F(DaemonInfeasibleResize, MemoryOfAClaimIsNoResizeWhicheverSourceAnsweredFirst) {
  const std::string config =
      StaticConfig(kStaticMemory) + "featureGates: {DRANodeAllocatableResources: true}\n";
  Start(config);
  const auto set_pods = [&](const std::string& memory) {
    for (const char* uid : {"by-cri", "by-api"}) {
      api_->SetPod(MakePod(uid, {App("app", {{"cpu", "2"}, {"memory", memory}})}));
    }
  };
  const v1::PodSandboxConfig by_cri = PodConfig("by-cri");
  const v1::PodSandboxConfig by_api = PodConfig("by-api");
  const Running of_cri = RunOne(by_cri, Sized(WithClaim(2000, 2 * kGi)));
  StopDaemon();
  StartPodsApi();
  set_pods("1Gi");
  StartDaemon(config);
  const Running of_api = RunOne(by_api, Sized(WithClaim(2000, 2 * kGi)));
  const std::string file = MemoryFile();
  EXPECT_NE(file.find("2147483648"), std::string::npos) << file;
  EXPECT_NE(file.find("1073741824"), std::string::npos) << file;
  uint32_t attempt = 0;
  const auto again = [&](const Running& running, const v1::PodSandboxConfig& pod, int64_t memory) {
    v1::ContainerConfig container = Sized(WithClaim(2000, memory));
    container.mutable_metadata()->set_attempt(++attempt);
    return Create(running.sandbox, pod, container).status;
  };
  ASSERT_TRUE(runtime_->EndContainer(of_cri.container, 1));
  ASSERT_TRUE(runtime_->EndContainer(of_api.container, 1));
  // The other source answers for each of them.
  EXPECT_TRUE(again(of_cri, by_cri, 2 * kGi).ok());
  StopDaemon();
  api_.reset();
  StartDaemon(config);
  EXPECT_TRUE(again(of_api, by_api, 2 * kGi).ok());
  EXPECT_EQ(MemoryFile(), file);
  // A resize is one.
  ExpectRefused(again(of_cri, by_cri, kGi), "asked for 1024Mi");
  StopDaemon();
  StartPodsApi();
  set_pods("1536Mi");
  StartDaemon(config);
  ExpectRefused(again(of_cri, by_cri, 2560 * (kGi / 1024)), "asked for 1536Mi");
  ExpectRefused(again(of_api, by_api, 2560 * (kGi / 1024)), "asked for 1536Mi");
  EXPECT_EQ(MemoryFile(), file);
}

// As a kubelet without that gate: only a pod with pod-level resources has such a container.
TEST_F(DaemonInfeasibleResize, EstimateWithoutTheGateSeesPodLevelResources) {
  Start();
  const Running running = RunOne(PodConfig("p"), Sized(WithClaim(2000, kGi)));
  EXPECT_EQ(CpusOf(running.container), "0-27");
}

TEST_F(DaemonInfeasibleResize, PodsApiIsRightAboutAContainerWithAClaim) {
  Start(StaticConfig(kStaticMemory) + "featureGates: {DRANodeAllocatableResources: true}\n");
  StartPodsApi();
  api_->SetPod(MakePod("p", {App("app", {{"cpu", "3"}, {"memory", "1Gi"}})}));
  const v1::PodSandboxConfig pod = PodConfig("p");
  const Running running = RunOne(pod, Sized(WithClaim(3000, 2 * kGi)));
  EXPECT_EQ(CpusOf(running.container), "1-3");
  EXPECT_NE(MemoryFile().find(R"("size":1073741824)"), std::string::npos) << MemoryFile();
  // The limit is that of the creation: no resize.
  EXPECT_TRUE(UpdateTo(running.container, WithClaim(3000, 2 * kGi)).ok());
  ExpectRefused(UpdateTo(running.container, WithClaim(3000, 3 * kGi)), "asked for 3072Mi");
  ASSERT_TRUE(runtime_->EndContainer(running.container, 137));
  v1::ContainerConfig again = Sized(WithClaim(3000, 2 * kGi));
  again.mutable_metadata()->set_attempt(1);
  const auto created = Create(running.sandbox, pod, again);
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-3");
}

TEST_F(DaemonInfeasibleResize, PodsApiIsRightAboutAClaimedCpuWithoutTheGate) {
  Start();
  StartPodsApi();
  api_->SetPod(MakePod("p", {App("app", {{"cpu", "3"}, {"memory", "1Gi"}})}));
  const Running running = RunOne(PodConfig("p"), Sized(WithClaim(3000, kGi)));
  EXPECT_EQ(CpusOf(running.container), "1-3");
}

}  // namespace
}  // namespace alignd::daemon
