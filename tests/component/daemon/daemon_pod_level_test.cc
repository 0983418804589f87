// Pods with pod-level resources and the feature gate PodLevelResourceManagers, in the daemon.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "pod_level_fixture.h"

namespace alignd::daemon {
namespace {

constexpr char kGate[] = "featureGates: {PodLevelResourceManagers: true}\n";

std::string PodScope() {
  return StaticConfig("topologyManagerPolicy: restricted\ntopologyManagerScope: pod\n") + kGate;
}

class DaemonPodLevel : public PodLevelTest {
 protected:
  // They end, and a kubelet starts them again at the runtime, with these CPUs: without a mark.
  void StartAtTheRuntime(KubeletPod& pod, const std::map<std::string, std::string>& cpus) {
    const auto through_alignd = client_;
    client_ = *simulator::Dial(RuntimeEndpoint());
    ++pod.attempts;
    for (const auto& [name, list] : cpus) {
      EXPECT_TRUE(runtime_->EndContainer(pod.ids[name], 1));
      v1::ContainerConfig config = ConfigOf(pod, name);
      config.mutable_linux()->mutable_resources()->set_cpuset_cpus(list);
      const auto created = Create(pod.sandbox, pod.sandbox_config, config);
      ASSERT_TRUE(created.status.ok()) << created.status.error_message();
      pod.ids[name] = created.response.container_id();
      EXPECT_TRUE(StartContainer(pod.ids[name]).ok());
    }
    client_ = through_alignd;
  }
};

// 4 CPUs as a whole: `app` has 2 of its own, the others share the rest.
constexpr char kPod[] = R"({"apiVersion":"v1","kind":"Pod",
"metadata":{"name":"whole","namespace":"default","uid":"u1"},"spec":{
"resources":{"requests":{"cpu":"4","memory":"400Mi"},"limits":{"cpu":"4","memory":"400Mi"}},
"initContainers":[{"name":"prepare","image":"i"},
{"name":"side","image":"i","restartPolicy":"Always"}],
"containers":[{"name":"app","image":"i","resources":{"limits":{"cpu":"2","memory":"100Mi"}}},
{"name":"log","image":"i"}]}})";

TEST_F(DaemonPodLevel, ContainersHavePartsOfThePodsCpus) {
  Start(PodScope());
  StartPodsApi();
  const Running neighbour = RunOne(BurstablePod("neighbour"), Shared());
  KubeletPod pod = RunPod(kPod);
  StartAll(pod, {"prepare"});
  EXPECT_EQ(CpusIn(pod, "prepare"), "1-4");
  StartAll(pod, {"side"});
  EXPECT_TRUE(runtime_->EndContainer(pod.ids["prepare"], 0));
  StartAll(pod, {"app", "log"});
  EXPECT_EQ(CpusIn(pod, "app"), "1-2");
  EXPECT_EQ(CpusIn(pod, "log"), "3-4");
  EXPECT_EQ(CpusIn(pod, "side"), "3-4");
  EXPECT_EQ(QuotaIn(pod, "app"), -1);
  EXPECT_EQ(QuotaIn(pod, "log"), 400'000);  // the pod's limit, as the kubelet sends it
  EXPECT_EQ(QuotaIn(pod, "side"), 400'000);
  EXPECT_NE(State().find(R"(\"podEntries\":{\"u1\":{\"cpuSet\":\"1-4\"}})"), std::string::npos)
      << State();
  // Containers of other pods leave all of the pod's CPUs, also those that its containers share.
  const Running later = RunOne(BurstablePod("later"), Shared());
  EXPECT_EQ(CpusOf(later.container), "0,5-27");
  EXPECT_TRUE(Eventually([&] { return CpusOf(neighbour.container) == "0,5-27"; }));
}

// What counts is the pod's limit, which each container may use up.
TEST_F(DaemonPodLevel, LimitsOfMemoryOfItsContainersMaySumUpToMore) {
  Start(PodScope());
  StartPodsApi();
  KubeletPod pod = RunPod(R"({"apiVersion":"v1","kind":"Pod",
"metadata":{"name":"burst","namespace":"default","uid":"u1"},"spec":{
"resources":{"requests":{"cpu":"4","memory":"400Mi"},"limits":{"cpu":"4","memory":"400Mi"}},
"containers":[{"name":"app","image":"i","resources":{"requests":{"memory":"100Mi"},
"limits":{"memory":"300Mi"}}},
{"name":"log","image":"i","resources":{"requests":{"memory":"100Mi"},
"limits":{"memory":"300Mi"}}}]}})");
  StartAll(pod, {"app", "log"});
  EXPECT_EQ(CpusIn(pod, "app"), "1-4");
  EXPECT_EQ(CpusIn(pod, "log"), "1-4");
}

TEST_F(DaemonPodLevel, PodResourcesShowThePodAsAWhole) {
  Start(PodScope());
  StartPodsApi();
  KubeletPod pod = RunPod(kPod);
  StartAll(pod, {"app", "log"});
  for (const bool restarted : {false, true}) {
    if (restarted) {
      StopDaemon();
      StartDaemon(PodScope());
    }
    ::v1::PodResources shown;
    ASSERT_TRUE(Eventually([&] {
      shown = Resources("whole");
      return shown.containers_size() == 4 || shown.containers_size() == 3;
    }));
    EXPECT_EQ(std::vector<int64_t>(shown.cpu_ids().begin(), shown.cpu_ids().end()),
              (std::vector<int64_t>{1, 2, 3, 4}));
    for (const ::v1::ContainerResources& container : shown.containers()) {
      EXPECT_EQ(container.cpu_ids_size(), container.name() == "app" ? 2 : 0) << container.name();
    }
  }
}

TEST_F(DaemonPodLevel, KeepsItsPartsThroughARestartAndWithoutThePodsApi) {
  Start(PodScope());
  StartPodsApi();
  KubeletPod pod = RunPod(kPod);
  StartAll(pod, {"side", "app", "log"});
  const std::string state = State();
  StopDaemon();
  StartDaemon(PodScope());
  RunOne(BurstablePod("other"), Shared());
  EXPECT_EQ(State(), state);
  StartAgain(pod, {"log"});
  EXPECT_EQ(CpusIn(pod, "log"), "3-4");
  EXPECT_EQ(QuotaIn(pod, "log"), 400'000);
  StopDaemon();
  api_.reset();
  StartDaemon(PodScope());
  // CRI shows `log` like a container with 4 exclusive CPUs.
  StartAgain(pod, {"log", "app"});
  EXPECT_EQ(CpusIn(pod, "log"), "3-4");
  EXPECT_EQ(QuotaIn(pod, "log"), 400'000);
  EXPECT_EQ(CpusIn(pod, "app"), "1-2");
  EXPECT_EQ(QuotaIn(pod, "app"), -1);
  // A container that the pod was not admitted with, with the sizes of the whole pod.
  const auto debugger = Create(pod.sandbox, pod.sandbox_config,
                               podsource::Kubelet(4000, 4000, 400 * podsource::kMi, "debugger"));
  ASSERT_TRUE(debugger.status.ok()) << debugger.status.error_message();
  EXPECT_EQ(CpusOf(debugger.response.container_id()), "0,5-27");
  EXPECT_EQ(State(), state);
}

TEST_F(DaemonPodLevel, EphemeralContainersRunInThePoolOfTheNode) {
  Start(PodScope());
  StartPodsApi();
  KubeletPod pod = RunPod(kPod);
  StartAll(pod, {"app", "log"});
  api_->AddEphemeral("u1", "debugger");
  const auto debugger = Create(pod.sandbox, pod.sandbox_config,
                               podsource::Kubelet(4000, 4000, 400 * podsource::kMi, "debugger"));
  ASSERT_TRUE(debugger.status.ok()) << debugger.status.error_message();
  EXPECT_EQ(CpusOf(debugger.response.container_id()), "0,5-27");
}

TEST_F(DaemonPodLevel, AllCpusReturnWhenThePodEnds) {
  Start(PodScope());
  StartPodsApi();
  KubeletPod pod = RunPod(kPod);
  StartAll(pod, {"app", "log"});
  EXPECT_TRUE(StopSandbox(pod.sandbox).ok());
  EXPECT_TRUE(RemoveSandbox(pod.sandbox).ok());
  EXPECT_TRUE(Eventually([&] {
    return State().find(R"("defaultCpuSet":"0-27")") != std::string::npos &&
           State().find("u1") == std::string::npos;
  })) << State();
}

TEST_F(DaemonPodLevel, ResizesAreRefused) {
  Start(PodScope());
  StartPodsApi();
  KubeletPod pod = RunPod(kPod);
  StartAll(pod, {"app", "log"});
  const std::string state = State();
  v1::UpdatePodSandboxResourcesRequest whole;
  whole.set_pod_sandbox_id(pod.sandbox);
  *whole.mutable_resources() =
      simulator::MakeResizedResources(simulator::SharesOfCpus(6), 400 * podsource::kMi);
  const grpc::Status pod_status =
      Call<v1::UpdatePodSandboxResourcesResponse>("UpdatePodSandboxResources", whole).status;
  EXPECT_NE(pod_status.error_message().find("ResizeRefused"), std::string::npos)
      << pod_status.error_message();
  v1::UpdateContainerResourcesRequest app;
  app.set_container_id(pod.ids["app"]);
  *app.mutable_linux() =
      simulator::MakeResizedResources(simulator::SharesOfCpus(3), 100 * podsource::kMi);
  const grpc::Status app_status = Update(app);
  EXPECT_NE(app_status.error_message().find("ResizeRefused"), std::string::npos)
      << app_status.error_message();
  // The kubelet's update of a container that shares the pod's CPUs sets its quota, not its CPUs.
  v1::UpdateContainerResourcesRequest log;
  log.set_container_id(pod.ids["log"]);
  *log.mutable_linux() =
      simulator::MakeResizedResources(simulator::SharesOfCpus(4), 200 * podsource::kMi);
  log.mutable_linux()->set_cpuset_cpus("0-27");
  const grpc::Status log_status = Update(log);
  EXPECT_TRUE(log_status.ok()) << log_status.error_message();
  EXPECT_EQ(CpusIn(pod, "log"), "3-4");
  EXPECT_EQ(QuotaIn(pod, "log"), 400'000);
  EXPECT_EQ(State(), state);
}

// Its container of 500m has a part of the pod's CPUs, which is more.
TEST_F(DaemonPodLevel, AnUpdateThatResizesNothingIsForwarded) {
  Start(PodScope());
  StartPodsApi();
  std::string text = kPod;
  const std::string log = R"({"name":"log","image":"i"})";
  ASSERT_NE(text.find(log), std::string::npos);
  text.replace(text.find(log), log.size(),
               R"({"name":"log","image":"i","resources":{"limits":{"cpu":"500m"}}})");
  KubeletPod pod = RunPod(text);
  StartAll(pod, {"app", "log"});
  v1::UpdatePodSandboxResourcesRequest same;
  same.set_pod_sandbox_id(pod.sandbox);
  *same.mutable_resources() =
      simulator::MakeResizedResources(simulator::SharesOfCpus(4), 400 * podsource::kMi);
  const grpc::Status status =
      Call<v1::UpdatePodSandboxResourcesResponse>("UpdatePodSandboxResources", same).status;
  // The answer of the runtime.
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
}

// What CRI alone shows cannot be distinguished from the sizes of another pod: no container gets a
// part of a pod, and none gets more than its own sizes.
TEST_F(DaemonPodLevel, CriAloneNeverMakesAPodOfCpusAsAWhole) {
  Start(PodScope());
  KubeletPod pod = RunPod(kPod);
  StartAll(pod, {"app"});
  EXPECT_EQ(CpusIn(pod, "app"), "1-2");
  EXPECT_EQ(State().find("podEntries"), std::string::npos) << State();
  // When the Pods API is there, the pod goes on as it was begun.
  StartPodsApi();
  api_->SetPod(pod.manifest.pod);
  StartAll(pod, {"log"});
  EXPECT_EQ(CpusIn(pod, "log"), "0,3-27");
  EXPECT_EQ(CpusIn(pod, "app"), "1-2");
  EXPECT_EQ(State().find("podEntries"), std::string::npos) << State();
}

// CRI shows both containers like containers with all CPUs of the pod.
TEST_F(DaemonPodLevel, CriAloneNeverGivesAPodMoreThanItRequests) {
  Start(PodScope());
  KubeletPod pod = RunPod(kPod);
  StartAll(pod, {"side", "log"});
  EXPECT_EQ(CpusIn(pod, "side"), "1-4");
  EXPECT_EQ(CpusIn(pod, "log"), "0,5-27");
  StartAll(pod, {"app"});
  EXPECT_EQ(CpusIn(pod, "app"), "0,5-27");
}

TEST_F(DaemonPodLevel, AnnotationStatesThePodsResources) {
  Start(PodScope());
  std::string manifest = kPod;
  const std::string annotation =
      R"({\"spec.resources\":{\"requests\":{\"cpu\":\"4\",\"memory\":\"400Mi\"},)"
      R"(\"limits\":{\"cpu\":\"4\",\"memory\":\"400Mi\"}},)"
      R"(\"prepare\":{\"init\":true},\"side\":{\"init\":true,\"restartPolicy\":\"Always\"},)"
      R"(\"app\":{\"limits\":{\"cpu\":\"2\",\"memory\":\"100Mi\"}},\"log\":{}})";
  const std::string uid = R"("uid":"u1")";
  manifest.replace(manifest.find(uid), uid.size(),
                   uid + R"(,"annotations":{"alignd.io/resources":")" + annotation + "\"}");
  KubeletPod pod = RunPod(manifest);
  StartAll(pod, {"side", "app", "log"});
  EXPECT_EQ(CpusIn(pod, "app"), "1-2");
  EXPECT_EQ(CpusIn(pod, "log"), "3-4");
  EXPECT_EQ(CpusIn(pod, "side"), "3-4");
  // The author cannot state more than the kubelet has allocated.
  const std::string four = R"(\"cpu\":\"4\")";
  for (int i = 0; i < 2; ++i) {
    manifest.replace(manifest.find(four), four.size(), R"(\"cpu\":\"8\")");
  }
  for (const std::string old : {"u1", "whole"}) {
    const std::string quoted = "\"" + old + "\"";
    manifest.replace(manifest.find(quoted), quoted.size(), "\"liar\"");
  }
  KubeletPod liar = RunPod(manifest);
  const grpc::Status refused = CreateIn(liar, "app");
  EXPECT_NE(refused.error_message().find("sandbox is created with"), std::string::npos)
      << refused.error_message();
}

TEST_F(DaemonPodLevel, ScopeContainerAssignsCpusOfTheNode) {
  Start(StaticConfig("topologyManagerPolicy: restricted\n") + kGate);
  StartPodsApi();
  KubeletPod pod = RunPod(kPod);
  StartAll(pod, {"side", "app", "log"});
  EXPECT_EQ(CpusIn(pod, "app"), "1-2");
  EXPECT_EQ(QuotaIn(pod, "app"), -1);
  EXPECT_EQ(CpusIn(pod, "log"), "0,3-27");
  EXPECT_EQ(QuotaIn(pod, "log"), 400'000);
  EXPECT_EQ(State().find("podEntries"), std::string::npos) << State();
}

// --- A resize is pending: the Pods API shows other sizes than CRI. ------------------------------

Pod WithThreeForApp() {
  std::string text = kPod;
  const std::string two = R"("cpu":"2")";
  text.replace(text.find(two), two.size(), R"("cpu":"3")");
  return simulator::ParsePodManifest(text)->pod;
}

TEST_F(DaemonPodLevel, ScopeContainerKeepsCpusWhileAResizeIsPending) {
  Start(StaticConfig("topologyManagerPolicy: restricted\n") + kGate);
  StartPodsApi();
  KubeletPod pod = RunPod(kPod);
  StartAll(pod, {"side", "app", "log"});
  ASSERT_EQ(CpusIn(pod, "app"), "1-2");
  api_->SetPod(WithThreeForApp());
  StartAgain(pod, {"app", "log"});
  EXPECT_EQ(CpusIn(pod, "app"), "1-2");
  EXPECT_EQ(CpusIn(pod, "log"), "0,3-27");
}

TEST_F(DaemonPodLevel, ScopeContainerAssignsCpusWhileAResizeIsPending) {
  Start(StaticConfig("topologyManagerPolicy: restricted\n") + kGate);
  KubeletPod pod = RunPod(kPod);
  StartPodsApi();
  api_->SetPod(WithThreeForApp());
  StartAll(pod, {"app", "log"});
  EXPECT_EQ(CpusIn(pod, "app"), "1-2");
  EXPECT_EQ(CpusIn(pod, "log"), "0,3-27");
}

TEST_F(DaemonPodLevel, ScopePodKeepsItsPartsWhileAResizeIsPending) {
  Start(PodScope());
  StartPodsApi();
  KubeletPod pod = RunPod(kPod);
  StartAll(pod, {"side", "app", "log"});
  const std::string state = State();
  api_->SetPod(WithThreeForApp());
  StartAgain(pod, {"app", "log"});
  EXPECT_EQ(CpusIn(pod, "app"), "1-2");
  EXPECT_EQ(CpusIn(pod, "log"), "3-4");
  EXPECT_EQ(State(), state);
}

TEST_F(DaemonPodLevel, ScopePodIsNotBegunWhileAResizeIsPending) {
  Start(PodScope());
  KubeletPod pod = RunPod(kPod);
  StartPodsApi();
  api_->SetPod(WithThreeForApp());
  const grpc::Status refused = CreateIn(pod, "app");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(refused.error_message().find("not all of its sizes are known"), std::string::npos)
      << refused.error_message();
  EXPECT_EQ(State().find("u1"), std::string::npos) << State();
  api_->SetPod(pod.manifest.pod);
  StartAll(pod, {"app", "log"});
  EXPECT_EQ(CpusIn(pod, "app"), "1-2");
  EXPECT_EQ(CpusIn(pod, "log"), "3-4");
}

// A node that moves from a kubelet with the gate.
TEST_F(DaemonPodLevel, TakesOverTheStateOfAKubelet) {
  Start(PodScope());
  StartPodsApi();
  KubeletPod pod = RunPod(kPod);
  StartAll(pod, {"side", "app", "log"});
  StopDaemon();
  std::filesystem::remove(StateDir() / "cpu_originals");  // the kubelet has no such file
  const std::string state = State();
  StartAtTheRuntime(pod, {{"side", "3-4"}, {"app", "1-2"}, {"log", "3-4"}});
  StartDaemon(PodScope());
  // Until the pod's requests are seen, `app` counts as sharing its pod's CPUs.
  ASSERT_TRUE(Eventually([&] { return Resources("whole").cpu_ids_size() == 4; }));
  const ::v1::PodResources shown = Resources("whole");
  for (const auto& container : shown.containers()) {
    EXPECT_EQ(container.cpu_ids_size(), 0) << container.name();
  }
  StartAgain(pod, {"log", "app"});
  EXPECT_EQ(CpusIn(pod, "log"), "3-4");
  EXPECT_EQ(CpusIn(pod, "app"), "1-2");
  EXPECT_EQ(QuotaIn(pod, "app"), -1);
  EXPECT_EQ(State(), state);
  const ::v1::PodResources now = Resources("whole");
  for (const auto& container : now.containers()) {
    EXPECT_EQ(container.cpu_ids_size(), container.name() == "app" ? 2 : 0) << container.name();
  }
}

// Any of the state files is lost while the pod runs. The marks of its containers say what it has as
// a whole, how that is divided, and which parts are whose own.
TEST_F(DaemonPodLevel, IsRebuiltFromItsContainers) {
  const std::string config = PodScope() +
                             "memoryManagerPolicy: Static\nreservedMemory:\n- numaNode: 0\n"
                             "  limits: {memory: 1Gi}\nkubeReserved: {memory: 924Mi}\n";
  Start(config);
  StartPodsApi();
  KubeletPod pod = RunPod(kPod);
  StartAll(pod, {"prepare", "side"});
  EXPECT_TRUE(runtime_->EndContainer(pod.ids["prepare"], 0));
  StartAll(pod, {"app", "log"});
  const std::string cpus = State();
  const std::string memory = MemoryState();
  const std::string originals = ReadText(StateDir() / "cpu_originals");
  ASSERT_NE(originals, "");
  ASSERT_NE(memory.find("u1"), std::string::npos);
  const std::vector<std::vector<std::string>> losses = {
      {"cpu_manager_state"},
      {"memory_manager_state"},
      {"cpu_originals"},
      {"cpu_manager_state", "memory_manager_state", "cpu_originals"}};
  for (const bool damaged : {true, false}) {
    for (const std::vector<std::string>& lost : losses) {
      SCOPED_TRACE((damaged ? "damaged: " : "removed: ") + lost.front());
      StopDaemon();
      for (const std::string& file : lost) {
        std::filesystem::remove(StateDir() / file);
        if (damaged) std::ofstream(StateDir() / file) << "damage";
      }
      StartDaemon(config);
      // The first decision waits until the containers are adopted.
      const Running other = RunOne(PodConfig("other"), Pinned(2));
      EXPECT_EQ(CpusOf(other.container), "5-6");
      EXPECT_TRUE(RemoveSandbox(other.sandbox).ok());
      EXPECT_TRUE(Eventually([&] { return State() == cpus; })) << State() << "\nnot " << cpus;
      EXPECT_TRUE(Eventually([&] { return MemoryState() == memory; }))
          << MemoryState() << "\nnot " << memory;
      EXPECT_TRUE(Eventually([&] { return ReadText(StateDir() / "cpu_originals") == originals; }));
      StartAgain(pod, {"log", "app"});
      EXPECT_EQ(CpusIn(pod, "log"), "3-4");
      EXPECT_EQ(QuotaIn(pod, "log"), 400'000);
      EXPECT_EQ(CpusIn(pod, "app"), "1-2");
      EXPECT_EQ(QuotaIn(pod, "app"), -1);
      EXPECT_EQ(CpusIn(pod, "side"), "3-4");
    }
  }
}

// The pod's only container has ended when the file is lost; the kubelet starts it again.
TEST_F(DaemonPodLevel, IsRebuiltFromAContainerThatHasEnded) {
  Start(PodScope());
  StartPodsApi();
  KubeletPod pod = RunPod(kPod);
  StartAll(pod, {"prepare"});
  EXPECT_TRUE(runtime_->EndContainer(pod.ids["prepare"], 0));
  const std::string cpus = State();
  StopDaemon();
  std::filesystem::remove(StateDir() / "cpu_manager_state");
  StartDaemon(PodScope());
  const Running other = RunOne(PodConfig("other"), Pinned(2));
  EXPECT_EQ(CpusOf(other.container), "5-6");
  StartAll(pod, {"side", "app", "log"});
  EXPECT_EQ(CpusIn(pod, "app"), "1-2");
  EXPECT_EQ(CpusIn(pod, "log"), "3-4");
  EXPECT_TRUE(RemoveSandbox(other.sandbox).ok());
  EXPECT_TRUE(Eventually([&] { return State() == cpus; })) << State();
}

// --- The quota of the pod's own cgroup. ---------------------------------------------------------

class PodQuotaOfWholePods : public PodLevelTest {
 protected:
  void SetUp() override {
    tree_.Write({"cgroup/cgroup.controllers", "cpuset cpu memory\n"});
    WriteQuota();
  }
  void WriteQuota() {
    tree_.Write({"cgroup/kubepods/podu1/cpu.max", "400000 100000\n"});
    tree_.Write({"cgroup/kubepods/podu1/cpu.weight", "100\n"});
  }
  std::string Quota() const { return ReadText(CgroupRoot() / "kubepods/podu1/cpu.max"); }
};

TEST_F(PodQuotaOfWholePods, StaysIfAContainerSharesThePodsCpus) {
  Start(PodScope());
  StartPodsApi();
  KubeletPod pod = RunPod(kPod);
  ASSERT_TRUE(CreateIn(pod, "app").ok());
  EXPECT_EQ(Quota(), "400000 100000\n");
}

TEST_F(PodQuotaOfWholePods, IsLiftedIfEachContainerHasCpusOfItsOwn) {
  Start(PodScope());
  StartPodsApi();
  KubeletPod pod = RunPod(R"({"metadata":{"name":"whole","namespace":"default","uid":"u1"},"spec":{
    "resources":{"requests":{"cpu":"4","memory":"400Mi"},"limits":{"cpu":"4","memory":"400Mi"}},
    "containers":[
    {"name":"app","image":"i","resources":{"limits":{"cpu":"3","memory":"100Mi"}}},
    {"name":"log","image":"i","resources":{"limits":{"cpu":"1","memory":"100Mi"}}}]}})");
  ASSERT_TRUE(CreateIn(pod, "app").ok());
  EXPECT_TRUE(Quota().starts_with("max")) << Quota();
}

TEST_F(PodQuotaOfWholePods, StaysInScopeContainerToo) {
  Start(StaticConfig("topologyManagerPolicy: restricted\n") + kGate);
  StartPodsApi();
  KubeletPod pod = RunPod(kPod);
  ASSERT_TRUE(CreateIn(pod, "app").ok());
  EXPECT_EQ(Quota(), "400000 100000\n");
}

}  // namespace
}  // namespace alignd::daemon
