// Pods that ask by annotation that their containers of the shared pool stay on one NUMA node, over
// real sockets: on 28 CPUs of two NUMA nodes, CPU 0 reserved. The fixture checks after every change
// that no container runs on exclusive CPUs of another one.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "alignd/checkpoint/mark_annotation.h"
#include "alignd/checkpoint/shares_checkpoint.h"
#include "alignd/pod/pod_policies.h"
#include "control/control_client.h"
#include "daemon_fixture.h"
#include "edge/status_conditions.h"

namespace alignd::daemon {
namespace {

constexpr char kSharing[] = "podPolicies: [sharedNUMANode]\n";

v1::PodSandboxConfig OneNodePod(const std::string& uid,
                                const std::string& value = "single-numa-node") {
  v1::PodSandboxConfig pod = BurstablePod(uid);
  (*pod.mutable_annotations())[std::string(kSharedCpusAnnotation)] = value;
  return pod;
}

// A container that requests that much, without limits.
v1::ContainerConfig Requesting(int millis) { return podsource::Kubelet(millis, 0, 0, "app"); }

class DaemonSharedNode : public DaemonTest {
 protected:
  std::string Place(const std::string& uid, int millis) {
    running_[uid] = RunOne(OneNodePod(uid), Requesting(millis));
    return CpusOf(running_[uid].container);
  }

  std::string RefusalOf(const v1::PodSandboxConfig& pod,
                        const v1::ContainerConfig& container) const {
    const grpc::Status status = Create(Run(pod), pod, container).status;
    EXPECT_FALSE(status.ok());
    return status.error_message();
  }

  void ExpectCpus(const std::string& uid, const std::string& cpus) const {
    EXPECT_TRUE(Eventually([&] { return CpusOf(running_.at(uid).container) == cpus; }))
        << uid << " is on " << CpusOf(running_.at(uid).container) << ", not on " << cpus;
  }

  std::string SharesFile() const {
    return ReadText(StateDir() / std::string(checkpoint::kSharesFileName));
  }

  // While alignd does not run. The container is on all CPUs.
  void CreateAgainPastAlignd(const std::string& uid, v1::ContainerConfig container) {
    StopDaemon();
    const std::shared_ptr<grpc::Channel> ours = client_;
    client_ = *simulator::Dial(RuntimeEndpoint());
    ASSERT_TRUE(runtime_->EndContainer(running_.at(uid).container, 1));
    container.mutable_metadata()->set_attempt(1);
    container.mutable_linux()->mutable_resources()->set_cpuset_cpus("0-27");
    const auto created = Create(running_.at(uid).sandbox, OneNodePod(uid), container);
    ASSERT_TRUE(created.status.ok()) << created.status.error_message();
    running_.at(uid).container = created.response.container_id();
    ASSERT_TRUE(StartContainer(running_.at(uid).container).ok());
    client_ = ours;
    StartDaemon(StaticConfig(kSharing));
  }

  std::map<std::string, Running> running_;
};

TEST_F(DaemonSharedNode, StayOnTheirNodeWhileExclusivePodsComeAndGo) {
  Start(StaticConfig(kSharing));
  const std::string files = State();
  EXPECT_EQ(Place("a", 2500), "14-27");
  EXPECT_EQ(Place("b", 2000), "0-13");
  EXPECT_EQ(State(), files);  // the kubelet's file says nothing of them
  running_["plain"] = RunOne(BurstablePod("plain"), Shared());
  EXPECT_EQ(CpusOf(running_["plain"].container), "0-27");
  // Node 0 has 13 CPUs that are not reserved, and 2 of them are for `b`; node 1 has 11 of 14.
  const std::string big = RefusalOf(PodConfig("big"), Pinned(23));
  EXPECT_NE(big.find("NUMA node 1: 11 of 14 CPUs (14-24), 11500m of 14000m shared CPU"),
            std::string::npos)
      << big;
  running_["most"] = RunOne(PodConfig("most"), Pinned(22));
  EXPECT_EQ(CpusOf(running_["most"].container), "1-11,14-24");
  ExpectCpus("a", "25-27");
  ExpectCpus("b", "0,12-13");
  ExpectCpus("plain", "0,12-13,25-27");
  const std::string full = RefusalOf(OneNodePod("c"), Requesting(501));
  EXPECT_NE(full.find("UnexpectedAdmissionError"), std::string::npos) << full;
  EXPECT_NE(full.find("no NUMA node has enough shared CPUs for container app"), std::string::npos)
      << full;
  EXPECT_EQ(Place("d", 500), "25-27");
  // What a pod leaves is for the next one.
  ASSERT_TRUE(StopSandbox(running_["a"].sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(running_["a"].sandbox).ok());
  EXPECT_EQ(CpusOf(RunOne(PodConfig("more"), Pinned(2)).container), "25-26");
  ExpectCpus("d", "27");
  ASSERT_TRUE(StopSandbox(running_["most"].sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(running_["most"].sandbox).ok());
  ExpectCpus("b", "0-13");
  ExpectCpus("d", "14-24,27");
}

// There is nothing to assign, and the pod would not get what it asks for: as planning has it.
TEST_F(DaemonSharedNode, AreRefusedWhereNoCpusAreAssigned) {
  Start(
      "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
      "cpuManagerPolicy: none\n" +
      std::string(kSharing));
  const std::string asks = RefusalOf(OneNodePod("a"), Requesting(500));
  EXPECT_NE(asks.find("PodPolicyError"), std::string::npos) << asks;
  EXPECT_NE(
      asks.find("the pod asks for one NUMA node by annotation alignd.io/shared-cpus, and this "
                "node assigns no CPUs"),
      std::string::npos)
      << asks;
  const std::string malformed = RefusalOf(OneNodePod("b", "one"), Requesting(500));
  EXPECT_NE(malformed.find("correct the annotation: write single-numa-node; or remove it"),
            std::string::npos)
      << malformed;
  EXPECT_FALSE(RunOne(BurstablePod("plain"), Shared()).container.empty());
}

TEST_F(DaemonSharedNode, StayThereAfterARestart) {
  Start(StaticConfig(kSharing));
  ASSERT_EQ(Place("a", 12'000), "14-27");
  StopDaemon();
  StartDaemon(StaticConfig(kSharing));
  // Its CPUs are still held back: node 1 has two, and node 0 thirteen.
  const std::string big = RefusalOf(PodConfig("big"), Pinned(16));
  EXPECT_NE(big.find("NUMA node 1: 2 of 14 CPUs"), std::string::npos) << big;
  running_["most"] = RunOne(PodConfig("most"), Pinned(15));
  EXPECT_EQ(CpusOf(running_["most"].container), "1-15");
  ExpectCpus("a", "16-27");
  // Nothing had to be rebuilt.
  EXPECT_TRUE(testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                    reconcile::ConditionType::kStateRebuilt)
                  .empty());
}

// A container that does not run at a restart is created again where it was, although the other NUMA
// node has more by then.
TEST_F(DaemonSharedNode, KeepTheirNodeIfTheyDoNotRunAtARestart) {
  Start(StaticConfig(kSharing));
  ASSERT_EQ(Place("x", 12'000), "14-27");
  ASSERT_EQ(Place("a", 1000), "0-13");
  ASSERT_TRUE(StopSandbox(running_["x"].sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(running_["x"].sandbox).ok());
  v1::StopContainerRequest stop;
  stop.set_container_id(running_["a"].container);
  ASSERT_TRUE(Call<v1::StopContainerResponse>("StopContainer", stop).status.ok());
  StopDaemon();
  StartDaemon(StaticConfig(kSharing));
  v1::ContainerConfig again = Requesting(1000);
  again.mutable_metadata()->set_attempt(1);
  const auto created = Create(running_["a"].sandbox, OneNodePod("a"), again);
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpusOf(created.response.container_id()), "0-13");
}

// With a memory manager, the memory of a Burstable pod is on that NUMA node, too. It is rebuilt,
// and released with the pod.
TEST_F(DaemonSharedNode, HaveTheirMemoryThere) {
  const std::string config = StaticConfig(
      std::string(kSharing) +
      "memoryManagerPolicy: Static\nreservedMemory:\n- numaNode: 0\n  limits: {memory: 1Gi}\n"
      "kubeReserved: {memory: 924Mi}\n");
  Start(config);
  const auto pod_of = [](const std::string& uid) {
    v1::PodSandboxConfig pod = OneNodePod(uid);
    (*pod.mutable_annotations())[kResources] =
        R"({"app":{"requests":{"cpu":"2500m","memory":"1Gi"}}})";
    return pod;
  };
  const auto place_of = [this](const std::string& id) {
    const auto container = runtime_->FindContainer(id);
    return container
               ? container->resources.cpuset_cpus() + " mems " + container->resources.cpuset_mems()
               : std::string("none");
  };
  running_["a"] = RunOne(pod_of("a"), Requesting(2500));
  EXPECT_EQ(place_of(running_["a"].container), "14-27 mems 1");
  const std::filesystem::path file = StateDir() / "memory_manager_state";
  const std::string booked = ReadText(file);
  EXPECT_NE(booked.find(R"("app")"), std::string::npos) << booked;
  StopDaemon();
  std::filesystem::remove(file);
  StartDaemon(config);
  EXPECT_TRUE(Eventually([&] { return ReadText(file) == booked; })) << ReadText(file);
  // Created again with another request of CPUs. Its annotation may have been changed since: another
  // amount of memory is refused.
  ASSERT_TRUE(runtime_->EndContainer(running_["a"].container, 1));
  const auto create_again = [&](const std::string& memory) {
    v1::PodSandboxConfig changed = pod_of("a");
    (*changed.mutable_annotations())[kResources] =
        R"({"app":{"requests":{"cpu":"3500m","memory":")" + memory + R"("}}})";
    v1::ContainerConfig more = Requesting(3500);
    more.mutable_metadata()->set_attempt(1);
    return Create(running_["a"].sandbox, changed, more);
  };
  const auto refused = create_again("2Gi");
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReadText(file), booked);
  const auto created = create_again("1Gi");
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(place_of(created.response.container_id()), "14-27 mems 1");
  EXPECT_EQ(ReadText(file), booked);
  // CRI alone does not show what it requests.
  const std::string unknown = RefusalOf(OneNodePod("b"), Requesting(500));
  EXPECT_NE(unknown.find("CRI does not show what a Burstable pod requests"), std::string::npos)
      << unknown;
  ASSERT_TRUE(StopSandbox(running_["a"].sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(running_["a"].sandbox).ok());
  EXPECT_TRUE(Eventually([&] { return ReadText(file).find(R"("app")") == std::string::npos; }))
      << ReadText(file);
}

// Without the file, or with a damaged one, the marks of running containers say it.
TEST_F(DaemonSharedNode, AreRebuiltFromTheirMarks) {
  Start(StaticConfig(kSharing));
  ASSERT_EQ(Place("a", 12'000), "14-27");
  const std::filesystem::path file = StateDir() / std::string(checkpoint::kSharesFileName);
  const std::string text = ReadText(file);
  EXPECT_NE(text.find(R"("app":{"numaNode":1,"cpuMillis":12000,"kind":"app"})"), std::string::npos)
      << text;
  for (const bool is_damaged : {false, true}) {
    SCOPED_TRACE(is_damaged);
    StopDaemon();
    std::filesystem::remove(file);
    if (is_damaged) std::ofstream(file) << text.substr(1);
    StartDaemon(StaticConfig(kSharing));
    const std::string big = RefusalOf(PodConfig(is_damaged ? "big" : "large"), Pinned(16));
    EXPECT_NE(big.find("NUMA node 1: 2 of 14 CPUs"), std::string::npos) << big;
    EXPECT_TRUE(Eventually([&] { return ReadText(file) == text; })) << ReadText(file);
    const auto rebuilt = testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                               reconcile::ConditionType::kStateRebuilt);
    EXPECT_EQ(rebuilt.size(), 1U);
  }
}

// It was created again while alignd did not run, at the runtime's own socket.
TEST_F(DaemonSharedNode, StayNowhereIfTheyRunWithoutAMark) {
  Start(StaticConfig(kSharing));
  ASSERT_EQ(Place("a", 12'000), "14-27");
  CreateAgainPastAlignd("a", Requesting(500));
  ExpectCpus("a", "0-27");
  EXPECT_TRUE(Eventually([&] { return SharesFile().find("\"a\"") == std::string::npos; }))
      << SharesFile();
  // Nothing is held back for it.
  EXPECT_EQ(CpusOf(RunOne(PodConfig("most"), Pinned(27)).container), "1-27");
  ExpectCpus("a", "0");
}

// With a mark that cannot be read, the file counts.
TEST_F(DaemonSharedNode, StayWhereTheFileSaysIfTheirMarkCannotBeRead) {
  Start(StaticConfig(kSharing));
  ASSERT_EQ(Place("a", 12'000), "14-27");
  v1::ContainerConfig newer = Requesting(12'000);
  (*newer.mutable_annotations())[checkpoint::kMarkAnnotation] = R"({"version":7})";
  CreateAgainPastAlignd("a", newer);
  ExpectCpus("a", "14-27");
  EXPECT_NE(SharesFile().find("\"a\""), std::string::npos) << SharesFile();
  EXPECT_TRUE(testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                    reconcile::ConditionType::kAssignmentUnknown)
                  .empty());
}

TEST_F(DaemonSharedNode, HaveNoFileWherePodsCannotAsk) {
  Start(StaticConfig(kSharing));
  const std::filesystem::path file = StateDir() / std::string(checkpoint::kSharesFileName);
  running_["x"] = RunOne(PodConfig("x"), Pinned(2));
  const auto saved = checkpoint::ParseSharesCheckpoint(ReadText(file));
  ASSERT_TRUE(saved.ok());
  EXPECT_TRUE(saved->shares.empty());
  StopDaemon();
  StartDaemon(StaticConfig());
  running_["y"] = RunOne(PodConfig("y"), Pinned(2));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(DaemonSharedNode, AreReleasedByAChangeOfTheConfiguration) {
  Start(StaticConfig(kSharing));
  ASSERT_EQ(Place("a", 12'000), "14-27");
  StopDaemon();
  StartDaemon(StaticConfig());
  ExpectCpus("a", "0-27");
  EXPECT_EQ(CpusOf(RunOne(PodConfig("big"), Pinned(27)).container), "1-27");
}

TEST_F(DaemonSharedNode, KeepTheirRequestInPlace) {
  Start(StaticConfig(kSharing));
  ASSERT_EQ(Place("a", 2000), "14-27");
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(running_["a"].container);
  *request.mutable_linux() = Requesting(2000).linux().resources();
  EXPECT_TRUE(Update(request).ok());
  *request.mutable_linux() = Requesting(3000).linux().resources();
  const grpc::Status more = Update(request);
  EXPECT_EQ(more.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(more.error_message().find(
                "container app of pod default/pod-a stays on NUMA node 1 with 2 CPUs, and its cpu "
                "request cannot change while its pod lives: asked for 3 CPUs"),
            std::string::npos)
      << more.error_message();
  EXPECT_EQ(CpusOf(running_["a"].container), "14-27");
}

// No process of it runs, so that what is accounted can change.
TEST_F(DaemonSharedNode, CanBeCreatedAgainWithOtherRequests) {
  Start(StaticConfig(kSharing));
  ASSERT_EQ(Place("a", 2000), "14-27");
  ASSERT_EQ(Place("b", 5000), "0-13");
  uint32_t attempt = 0;
  const auto again = [&](int millis) {
    runtime_->EndContainer(running_.at("a").container, 1);
    v1::ContainerConfig container = Requesting(millis);
    container.mutable_metadata()->set_attempt(++attempt);
    const auto created = Create(running_.at("a").sandbox, OneNodePod("a"), container);
    if (!created.status.ok()) return created.status.error_message();
    running_.at("a").container = created.response.container_id();
    EXPECT_TRUE(StartContainer(running_.at("a").container).ok());
    return CpusOf(running_.at("a").container);
  };
  EXPECT_EQ(again(13'500), "14-27");
  EXPECT_NE(SharesFile().find(R"("cpuMillis":13500)"), std::string::npos) << SharesFile();
  const std::string big = RefusalOf(PodConfig("big"), Pinned(9));
  EXPECT_NE(big.find("NUMA node 1: 0 of 14 CPUs"), std::string::npos) << big;
  const std::string refused = again(14'001);
  EXPECT_NE(refused.find("ResizeRefused: container app of pod default/pod-a stays on NUMA node 1 "
                         "with 13.5 CPUs, which has 14000m of shared CPUs for its new request: "
                         "asked for 14.001 CPUs"),
            std::string::npos)
      << refused;
  EXPECT_EQ(again(500), "14-27");
  for (const bool restarted : {false, true}) {
    if (restarted) {
      StopDaemon();
      StartDaemon(StaticConfig(kSharing));
    }
    ExpectCpus("a", "14-27");
    EXPECT_NE(SharesFile().find(R"("cpuMillis":500)"), std::string::npos) << SharesFile();
  }
  EXPECT_EQ(CpusOf(RunOne(PodConfig("fits"), Pinned(21)).container), "1-8,14-26");
}

// As after a return to an earlier version: the marks say what the containers have. The file is
// written again once, and not named at the next start.
TEST_F(DaemonSharedNode, AnOutdatedFileIsReplacedAtTheStart) {
  Start(StaticConfig(kSharing));
  ASSERT_EQ(Place("a", 12'000), "14-27");
  const std::filesystem::path file = StateDir() / std::string(checkpoint::kSharesFileName);
  const auto saved = checkpoint::ParseSharesCheckpoint(ReadText(file));
  ASSERT_TRUE(saved.ok());
  for (const bool is_outdated : {true, false}) {
    StopDaemon();
    if (is_outdated) {
      std::ofstream(file) << checkpoint::FormatSharesCheckpoint(saved->shares, {1});
    }
    StartDaemon(StaticConfig(kSharing));
    ExpectCpus("a", "14-27");
    EXPECT_TRUE(Eventually([&] {
      const auto now = checkpoint::ParseSharesCheckpoint(ReadText(file));
      return now.ok() && now->shares == saved->shares && !now->IsOfAnotherCpuFile(State());
    })) << ReadText(file);
    const auto rebuilt = testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                               reconcile::ConditionType::kStateRebuilt);
    EXPECT_EQ(rebuilt.size(), is_outdated ? 1U : 0U);
  }
  ASSERT_TRUE(StopSandbox(running_["a"].sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(running_["a"].sandbox).ok());
  // Without containers, too.
  for (const bool is_outdated : {true, false}) {
    StopDaemon();
    if (is_outdated) std::ofstream(file) << checkpoint::FormatSharesCheckpoint({}, {1});
    StartDaemon(StaticConfig(kSharing));
    const Running late = RunOne(PodConfig("late"), Pinned(1));  // once the runtime is listed
    EXPECT_EQ(testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                    reconcile::ConditionType::kStateRebuilt)
                  .size(),
              is_outdated ? 1U : 0U);
    ASSERT_TRUE(StopSandbox(late.sandbox).ok());
    ASSERT_TRUE(RemoveSandbox(late.sandbox).ok());
  }
}

// Whole numbers of CPUs of a Guaranteed pod, which asks for shared ones.
TEST_F(DaemonSharedNode, CanBeOfAGuaranteedPod) {
  const std::string config =
      "namespacePolicies: [{namespaces: [default], podPolicies: [sharedNUMANode, qosClass]}]\n";
  Start(StaticConfig(config));
  v1::PodSandboxConfig pod = PodConfig("a");
  (*pod.mutable_annotations())[std::string(kSharedCpusAnnotation)] = "single-numa-node";
  (*pod.mutable_labels())["koordinator.sh/qosClass"] = "LS";
  running_["a"] = RunOne(pod, Pinned(12));
  for (const bool is_restarted : {false, true}) {
    if (is_restarted) {
      StopDaemon();
      StartDaemon(StaticConfig(config));
    }
    ExpectCpus("a", "14-27");
    const std::string big = RefusalOf(PodConfig(is_restarted ? "big-2" : "big"), Pinned(16));
    EXPECT_NE(big.find("NUMA node 1: 2 of 14 CPUs"), std::string::npos) << big;
    v1::UpdateContainerResourcesRequest request;
    request.set_container_id(running_["a"].container);
    *request.mutable_linux() = Pinned(12).linux().resources();
    EXPECT_TRUE(Update(request).ok());
    *request.mutable_linux() = Pinned(13).linux().resources();
    const grpc::Status more = Update(request);
    EXPECT_NE(more.error_message().find("stays on NUMA node 1 with 12 CPUs"), std::string::npos)
        << more.error_message();
  }
}

// CRI shows no more than 256 CPUs.
TEST_F(DaemonSharedNode, KeepARequestThatIsMoreThanSharesCanSay) {
  tree_.Write({"node.json", NodeJson(600, 2)});
  Start(StaticConfig(kSharing));
  v1::PodSandboxConfig pod = OneNodePod("a");
  (*pod.mutable_annotations())["alignd.io/resources"] = R"({"app":{"requests":{"cpu":"280"}}})";
  v1::ContainerConfig container = Requesting(280'000);
  container.mutable_linux()->mutable_resources()->set_cpu_shares(262'144);
  running_["a"] = RunOne(pod, container);
  ASSERT_EQ(CpusOf(running_["a"].container), "300-599");
  EXPECT_EQ(CpusOf(RunOne(PodConfig("x"), Pinned(20)).container), "300-319");
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(running_["a"].container);
  *request.mutable_linux() = container.linux().resources();
  EXPECT_TRUE(Update(request).ok());
  *request.mutable_linux() = Requesting(200'000).linux().resources();
  EXPECT_EQ(Update(request).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(DaemonSharedNode, AreReported) {
  Start(StaticConfig(kSharing));
  ASSERT_EQ(Place("a", 2500), "14-27");
  const control::ControlClient client(DaemonOptions().ControlSocket());
  const auto status = client.GetStatus();
  ASSERT_TRUE(status.ok()) << status.error().Text();
  ASSERT_EQ(status->containers_size(), 1);
  EXPECT_EQ(status->containers(0).shared_on_node().numa(), 1);
  EXPECT_EQ(status->containers(0).shared_on_node().millis(), 2500U);
  EXPECT_EQ(status->numa(1).shared_millis().free(), 11'500U);
  EXPECT_EQ(status->numa(1).free_cpus(), "14-24");
}

TEST_F(DaemonSharedNode, AreRefusedIfTheAnnotationIsNotKnown) {
  Start(StaticConfig(kSharing));
  const std::string refusal = RefusalOf(OneNodePod("a", "two"), Requesting(100));
  EXPECT_NE(refusal.find("PodPolicyError: annotation alignd.io/shared-cpus: \"two\" is not "
                         "\"single-numa-node\" or \"\""),
            std::string::npos)
      << refusal;
}

TEST_F(DaemonSharedNode, AreIgnoredByDefault) {
  Start(StaticConfig());
  EXPECT_EQ(Place("a", 2500), "0-27");
  const v1::PodSandboxConfig wrong = OneNodePod("b", "two");
  EXPECT_EQ(CpusOf(RunOne(wrong, Requesting(100)).container), "0-27");
}

}  // namespace
}  // namespace alignd::daemon
