// The daemon between a kubelet and a runtime.
#include "daemon/daemon.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;

constexpr char kBlogUid[] = "39b37746-7f5e-4064-b8e1-eebd2bfaa003";
// As the kubelet of the recorded scenario wrote it; a kubelet of 1.37 adds `data`.
constexpr char kBlogState[] =
    R"({"policyName":"static","defaultCpuSet":"0,4-27","entries":{"39b37746-7f5e-4064-b8e1-)"
    R"(eebd2bfaa003":{"app":"1-3"}},"checksum":3300516549,"data":")";

v1::CreateContainerRequest LastCreate(const simulator::EmbeddedRuntime& runtime) {
  v1::CreateContainerRequest request;
  const auto requests = runtime.Requests("CreateContainer");
  EXPECT_TRUE(!requests.empty() && request.ParseFromString(requests.back().bytes));
  return request;
}

class DaemonOfVersion : public DaemonTest, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Daemon, DaemonOfVersion,
                         ::testing::Values("runtime.v1.RuntimeService",
                                           "runtime.v1alpha2.RuntimeService"));

TEST_P(DaemonOfVersion, PodGetsCpusAndGpuOfOneNumaNode) {
  service_ = GetParam();
  Start();
  StartGpus();
  const v1::PodSandboxConfig pod = PodConfig(kBlogUid, "", Annotation(3, 1));
  v1::ContainerConfig container = Pinned(3);
  container.add_envs()->set_key("MINE");
  const Running running = RunOne(pod, container);

  EXPECT_TRUE(State().starts_with(kBlogState)) << State();
  const v1::CreateContainerRequest seen = LastCreate(*runtime_);
  EXPECT_EQ(seen.config().linux().resources().cpuset_cpus(), "1-3");
  EXPECT_EQ(seen.config().linux().resources().cpu_quota(), -1);
  EXPECT_EQ(seen.config().linux().resources().cpu_shares(), 3072);
  ASSERT_EQ(seen.config().devices_size(), 1);
  EXPECT_EQ(seen.config().devices(0).host_path(), "/dev/nvidia0");
  EXPECT_EQ(seen.config().devices(0).permissions(), "rw");
  ASSERT_EQ(seen.config().envs_size(), 2);
  EXPECT_EQ(seen.config().envs(0).key(), "NVIDIA_VISIBLE_DEVICES");
  EXPECT_EQ(seen.config().envs(0).value(), kGpuOfNode0);
  EXPECT_EQ(seen.config().envs(1).key(), "MINE");
  EXPECT_EQ(CpusOf(running.container), "1-3");
}

TEST_F(DaemonTest, SharedContainerLosesCpusBeforeTheExclusiveOneStarts) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  EXPECT_EQ(CpusOf(shared.container), "0-27");
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));

  const std::vector<RuntimeModel::Event> events = watch_.events();
  const auto moved = std::ranges::find_if(events, [&](const RuntimeModel::Event& event) {
    return event.change == RuntimeModel::Change::kUpdated &&
           event.container.id == shared.container &&
           event.container.resources.cpuset_cpus() == "0,4-27";
  });
  const auto started = std::ranges::find_if(events, [&](const RuntimeModel::Event& event) {
    return event.change == RuntimeModel::Change::kStarted && event.container.id == pinned.container;
  });
  ASSERT_NE(started, events.end());
  EXPECT_LT(moved, started);
}

TEST_F(DaemonTest, ExclusiveContainerDoesNotStartWhileOthersCannotBeMoved) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  runtime_->SetFailure("UpdateContainerResources", {grpc::StatusCode::UNKNOWN, "out of order"});
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  const auto created = Create(Run(pod), pod, Pinned(3));
  ASSERT_TRUE(created.status.ok());
  v1::StartContainerRequest request;
  request.set_container_id(created.response.container_id());
  EXPECT_FALSE(
      Call<v1::StartContainerResponse>("StartContainer", request, milliseconds(1500)).status.ok());
  EXPECT_TRUE(runtime_->Requests("StartContainer").size() == 1);  // of the shared container
  runtime_->SetFailure("UpdateContainerResources", grpc::Status::OK);
  EXPECT_TRUE(StartContainer(created.response.container_id()).ok());
  EXPECT_EQ(CpusOf(shared.container), "0,4-27");
}

TEST_F(DaemonTest, EndedContainerDelaysNoOther) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  ASSERT_TRUE(runtime_->EndContainer(shared.container, 1));  // updates of it fail from now on
  const auto begin = std::chrono::steady_clock::now();
  RunOne(PodConfig("pinned"), Pinned(3));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 3);
}

TEST_F(DaemonTest, SharedContainersGetTheCpusOfRemovedPodsBack) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  ASSERT_EQ(CpusOf(shared.container), "0,4-27");
  ASSERT_TRUE(StopSandbox(pinned.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(pinned.sandbox).ok());
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0-27"; }));
  EXPECT_TRUE(Eventually([&] { return State().find("entries") == std::string::npos; })) << State();
}

TEST_F(DaemonTest, AssignmentIsOnTheDiskBeforeTheRuntimeKnows) {
  Start();
  StartGpus();
  std::string cpus;
  std::string devices;
  watch_.OnEvent([&](const RuntimeModel::Event& event) {
    if (event.change != RuntimeModel::Change::kCreated) return;
    cpus = State();
    devices = ReadText(StateDir() / "device-plugins" / "kubelet_internal_checkpoint");
  });
  RunOne(PodConfig(kBlogUid, "", Annotation(3, 1)), Pinned(3));
  EXPECT_TRUE(cpus.starts_with(kBlogState)) << cpus;
  EXPECT_NE(devices.find("\"PodUID\":\"" + std::string(kBlogUid) + "\""), std::string::npos);
  watch_.OnEvent({});
}

TEST_F(DaemonTest, AssignmentThatCannotBeSavedNeverReachesTheRuntime) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  const std::string sandbox = Run(pod);
  // A directory in place of the file: not even root can replace it.
  fs::remove(StateDir() / "cpu_manager_state");
  fs::create_directories(StateDir() / "cpu_manager_state" / "in the way");
  const auto refused = Create(sandbox, pod, Pinned(3));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_NE(refused.status.error_message().find("cpu_manager_state"), std::string::npos)
      << refused.status.error_message();
  EXPECT_TRUE(runtime_->Requests("CreateContainer").empty());

  fs::remove_all(StateDir() / "cpu_manager_state");
  EXPECT_TRUE(Create(sandbox, pod, Pinned(3)).status.ok());
  EXPECT_NE(State().find("\"pinned\":{\"app\":\"1-3\"}"), std::string::npos);
}

TEST_F(DaemonTest, RetryAfterTheRuntimesFailureGetsTheSameAssignment) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  const std::string sandbox = Run(pod);
  runtime_->SetFailure("CreateContainer", {grpc::StatusCode::UNKNOWN, "no such image"});
  const auto failed = Create(sandbox, pod, Pinned(3));
  EXPECT_EQ(failed.status.error_code(), grpc::StatusCode::UNKNOWN);
  EXPECT_EQ(failed.status.error_message(), "no such image");
  const v1::PodSandboxConfig other = PodConfig("other");
  EXPECT_FALSE(Create(Run(other), other, Pinned(3)).status.ok());  // other CPUs are allocated to it
  runtime_->SetFailure("CreateContainer", grpc::Status::OK);
  const auto created = Create(sandbox, pod, Pinned(3));
  ASSERT_TRUE(created.status.ok());
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-3");
}

TEST_F(DaemonTest, RefusalNamesTheRequestTheFreeResourcesAndTheRemedy) {
  Start(StaticConfig("topologyManagerPolicy: single-numa-node\n"));
  RunOne(PodConfig("first"), Pinned(8));
  RunOne(PodConfig("second"), Pinned(8));
  const v1::PodSandboxConfig pod = PodConfig("third");
  const auto refused = Create(Run(pod), pod, Pinned(8));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  const std::string& text = refused.status.error_message();
  EXPECT_TRUE(
      text.starts_with("TopologyAffinityError: Resources cannot be allocated with Topology "
                       "locality"))
      << text;
  EXPECT_NE(text.find("Requested: app: 8 exclusive CPUs"), std::string::npos) << text;
  EXPECT_NE(text.find("NUMA node 0: 5 of 14 CPUs (9-13)"), std::string::npos) << text;
  EXPECT_NE(text.find("NUMA node 1: 6 of 14 CPUs (22-27)"), std::string::npos) << text;
  EXPECT_NE(text.find("What would help: "), std::string::npos) << text;
  EXPECT_EQ(runtime_->Requests("CreateContainer").size(), 2U);
}

TEST_F(DaemonTest, AnnotatedPodIsAdmittedAsAWholeBeforeItsSandboxRuns) {
  Start();
  const std::string two = R"({"a":{"limits":{"cpu":"2","memory":"100Mi"}},)"
                          R"("b":{"limits":{"cpu":"3","memory":"100Mi"}}})";
  const v1::PodSandboxConfig pod = PodConfig("whole", "", two);
  const std::string sandbox = Run(pod);
  EXPECT_NE(State().find(R"("whole":{"a":"1-2","b":"3-5"})"), std::string::npos) << State();
  // Another pod arrives in between; the first pod keeps its CPUs.
  RunOne(PodConfig("other"), Pinned(2));
  const auto b = Create(sandbox, pod, Pinned(3, "b"));
  ASSERT_TRUE(b.status.ok()) << b.status.error_message();
  EXPECT_EQ(CpusOf(b.response.container_id()), "3-5");
}

TEST_F(DaemonTest, ContradictedAnnotationIsRefusedWhereTheKubeletShowsIt) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("liar", "", Annotation(8, 0));
  const std::string sandbox = Run(pod);
  const auto refused = Create(sandbox, pod, Pinned(2));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(refused.status.error_message().find("8000m"), std::string::npos);
  EXPECT_NE(refused.status.error_message().find("2000m"), std::string::npos);
  EXPECT_TRUE(runtime_->Requests("CreateContainer").empty());
}

TEST_F(DaemonTest, UpdateOfTheKubeletKeepsOurCpus) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  for (const std::string& id : {pinned.container, shared.container}) {
    v1::UpdateContainerResourcesRequest request;
    request.set_container_id(id);
    request.mutable_linux()->set_cpuset_cpus("0-27");
    request.mutable_linux()->set_cpu_quota(300'000);
    request.mutable_linux()->set_cpu_shares(3072);
    ASSERT_TRUE(Update(request).ok());
    EXPECT_EQ(runtime_->FindContainer(id)->resources.cpu_shares(), 3072);
  }
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
  EXPECT_EQ(CpusOf(shared.container), "0,4-27");
  EXPECT_EQ(runtime_->FindContainer(pinned.container)->resources.cpu_quota(), -1);
  EXPECT_EQ(runtime_->FindContainer(shared.container)->resources.cpu_quota(), 300'000);
}

TEST_F(DaemonTest, RestartedContainerKeepsItsCpus) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  const Running first = RunOne(pod, Pinned(3));
  RunOne(PodConfig("neighbour"), Pinned(2));
  ASSERT_TRUE(runtime_->EndContainer(first.container, 1));
  v1::RemoveContainerRequest remove;
  remove.set_container_id(first.container);
  ASSERT_TRUE(Call<v1::RemoveContainerResponse>("RemoveContainer", remove).status.ok());
  v1::ContainerConfig again = Pinned(3);
  again.mutable_metadata()->set_attempt(1);
  const auto created = Create(first.sandbox, pod, again);
  ASSERT_TRUE(created.status.ok());
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-3");
  EXPECT_TRUE(StartContainer(created.response.container_id()).ok());
}

TEST_F(DaemonTest, CpusOfAStoppedPodAreAvailable) {
  Start();
  const Running first = RunOne(PodConfig("first"), Pinned(20));
  ASSERT_TRUE(StopSandbox(first.sandbox).ok());
  const Running second = RunOne(PodConfig("second"), Pinned(20));
  EXPECT_TRUE(Eventually([&] { return State().find("\"first\"") == std::string::npos; }))
      << State();
  EXPECT_EQ(runtime_->FindContainer(second.container)->resources.cpu_quota(), -1);
}

TEST_F(DaemonTest, StopThatFailedFreesNothing) {
  Start();
  const Running first = RunOne(PodConfig("first"), Pinned(20));
  runtime_->SetFailure("StopPodSandbox", {grpc::StatusCode::UNKNOWN, "shim is gone"});
  EXPECT_FALSE(StopSandbox(first.sandbox).ok());
  const v1::PodSandboxConfig pod = PodConfig("second");
  EXPECT_FALSE(Create(Run(pod), pod, Pinned(20)).status.ok());
  EXPECT_EQ(CpusOf(first.container),
            runtime_->FindContainer(first.container)->config.linux().resources().cpuset_cpus());
}

TEST_F(DaemonTest, WithPolicyNoneNothingIsChanged) {
  Start("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n");
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  v1::CreateContainerRequest create;
  create.set_pod_sandbox_id(Run(pod));
  *create.mutable_config() = Pinned(3);
  for (int i = 0; i < 20; ++i) {  // the order of map entries differs between programs
    (*create.mutable_config()->mutable_labels())["label" + std::to_string(i)] = "x";
  }
  *create.mutable_sandbox_config() = pod;
  const std::string bytes = create.SerializeAsString();
  const testing::RawAnswer answer =
      testing::CallUnary(client_, "/runtime.v1.RuntimeService/CreateContainer", bytes);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(runtime_->Requests("CreateContainer").back().bytes, bytes);
  v1::CreateContainerResponse created;
  ASSERT_TRUE(created.ParseFromString(*answer.message));
  EXPECT_TRUE(StartContainer(created.container_id()).ok());

  v1::UpdateContainerResourcesRequest update;
  update.set_container_id(created.container_id());
  (*update.mutable_annotations())["b"] = "1";
  (*update.mutable_annotations())["a"] = "2";
  const std::string update_bytes = update.SerializeAsString();
  EXPECT_TRUE(testing::CallUnary(client_, "/runtime.v1.RuntimeService/UpdateContainerResources",
                                 update_bytes)
                  .status.ok());
  EXPECT_EQ(runtime_->Requests("UpdateContainerResources").back().bytes, update_bytes);
}

}  // namespace
}  // namespace alignd::daemon
