// In-place resize of exclusive CPUs: what runs where in the meantime, and what is left after a
// failure in the middle. The fixture checks after every change of a container that no container
// runs on exclusive CPUs of another.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "control/control_client.h"
#include "core/pod_builder.h"
#include "daemon_fixture.h"
#include "edge/status_conditions.h"
#include "simulator/kubelet.h"
#include "simulator/pods_api.h"

namespace alignd::daemon {
namespace {

constexpr char kUpdateMethod[] = "UpdateContainerResources";
constexpr char kPodStepMethod[] = "UpdatePodSandboxResources";

class DaemonResizeExclusive : public DaemonTest {
 protected:
  static v1::LinuxContainerResources SizesOf(int cpus) { return Pinned(cpus).linux().resources(); }
  grpc::Status Resize(const Running& running, int cpus, milliseconds deadline = kPatience) const {
    v1::UpdateContainerResourcesRequest request;
    request.set_container_id(running.container);
    *request.mutable_linux() = SizesOf(cpus);
    return Call<v1::UpdateContainerResourcesResponse>(kUpdateMethod, request, deadline).status;
  }
  grpc::Status PodStep(const Running& running, int cpus) const {
    v1::UpdatePodSandboxResourcesRequest request;
    request.set_pod_sandbox_id(running.sandbox);
    *request.mutable_resources() = SizesOf(cpus);
    return Call<v1::UpdatePodSandboxResourcesResponse>(kPodStepMethod, request).status;
  }
  std::string Originals() const { return ReadText(StateDir() / "cpu_originals"); }
  bool Becomes(const Running& running, const std::string& cpus) const {
    return Eventually([&] { return CpusOf(running.container) == cpus; });
  }
  std::string Explanation() const {
    const auto explained = control::ControlClient(DaemonOptions().ControlSocket()).Explain("", 1);
    if (!explained.ok() || explained->decisions_size() != 1) return "none";
    return explained->decisions(0).reason() + "|" + explained->decisions(0).source();
  }
};

TEST_F(DaemonResizeExclusive, GrowsAfterTheNeighboursHaveLeftAndShrinks) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(2));
  ASSERT_EQ(CpusOf(pinned.container), "1-2");
  const grpc::Status grown = Resize(pinned, 4);
  ASSERT_TRUE(grown.ok()) << grown.error_message();
  EXPECT_EQ(CpusOf(pinned.container), "1-4");
  EXPECT_EQ(CpusOf(shared.container), "0,5-27");
  EXPECT_EQ(runtime_->FindContainer(pinned.container)->resources.cpu_quota(), -1);
  EXPECT_EQ(runtime_->FindContainer(pinned.container)->resources.cpu_shares(), 4096);
  EXPECT_NE(State().find(R"("pinned":{"app":"1-4"})"), std::string::npos) << State();
  EXPECT_TRUE(Originals().starts_with(R"({"entries":{"pinned":{"app":"1-2"}})")) << Originals();

  ASSERT_TRUE(Resize(pinned, 3).ok());
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
  EXPECT_TRUE(Becomes(shared, "0,4-27"));
  ASSERT_TRUE(Resize(pinned, 2).ok());
  EXPECT_TRUE(Becomes(shared, "0,3-27"));

  ASSERT_TRUE(RemoveSandbox(pinned.sandbox).ok());
  EXPECT_TRUE(Becomes(shared, "0-27"));
  EXPECT_TRUE(Eventually([&] { return Originals().starts_with(R"({"entries":{},)"); }));
}

TEST_F(DaemonResizeExclusive, KeepsItsOriginalCpusAlsoAfterARestart) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(2));
  ASSERT_TRUE(Resize(pinned, 4).ok());
  StopDaemon();
  StartDaemon();
  const grpc::Status refused = Resize(pinned, 1);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(refused.error_message().find(
                "ResizeRefused: container app of pod default/pod-pinned has 4 exclusive CPUs (1-4; "
                "1-2 since it was created)"),
            std::string::npos)
      << refused.error_message();
  EXPECT_EQ(Explanation(), "ResizeRefused|in-place resize");
  const auto reported = testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                              reconcile::ConditionType::kPodResizeRefused);
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_EQ(CpusOf(pinned.container), "1-4");
  ASSERT_TRUE(Resize(pinned, 2).ok());
  EXPECT_EQ(CpusOf(pinned.container), "1-2");
  EXPECT_TRUE(testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                    reconcile::ConditionType::kPodResizeRefused)
                  .empty());
}

TEST_F(DaemonResizeExclusive, IsRefusedWithWhatIsFree) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(2));
  RunOne(PodConfig("other"), Pinned(20));
  const grpc::Status refused = Resize(pinned, 8);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(refused.error_message().find(". Free: "), std::string::npos) << refused.error_message();
  EXPECT_EQ(CpusOf(pinned.container), "1-2");
}

// The neighbours cannot be moved: the container is not put on their CPUs, also not after a restart,
// and also not by the kubelet's next attempt.
TEST_F(DaemonResizeExclusive, GrowThatWasInterruptedGoesOnAfterARestart) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(2));
  ASSERT_TRUE(Becomes(shared, "0,3-27"));
  runtime_->SetFailure(kUpdateMethod, {grpc::StatusCode::UNAVAILABLE, "busy"}, shared.container);
  EXPECT_FALSE(Resize(pinned, 4, seconds(2)).ok());
  EXPECT_NE(State().find(R"("pinned":{"app":"1-4"})"), std::string::npos) << State();
  EXPECT_EQ(CpusOf(pinned.container), "1-2");
  StopDaemon();
  StartDaemon();
  EXPECT_FALSE(Resize(pinned, 4, seconds(2)).ok());
  EXPECT_EQ(CpusOf(pinned.container), "1-2");
  runtime_->SetFailure(kUpdateMethod, grpc::Status::OK);
  const grpc::Status grown = Resize(pinned, 4);
  ASSERT_TRUE(grown.ok()) << grown.error_message();
  EXPECT_EQ(CpusOf(pinned.container), "1-4");
  EXPECT_EQ(CpusOf(shared.container), "0,5-27");
}

TEST_F(DaemonResizeExclusive, UpdateThatTheRuntimeRefusesIsAppliedLater) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(2));
  ASSERT_TRUE(Resize(pinned, 4).ok());
  // A shrink fails at the runtime. Its CPUs stay the container's until it has left them.
  runtime_->SetFailure(kUpdateMethod, {grpc::StatusCode::UNAVAILABLE, "busy"}, pinned.container);
  EXPECT_EQ(Resize(pinned, 2).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(State().find(R"("pinned":{"app":"1-2"})"), std::string::npos) << State();
  EXPECT_EQ(CpusOf(pinned.container), "1-4");
  const v1::PodSandboxConfig next = PodConfig("next");
  const auto created = Create(Run(next), next, Pinned(2));
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  const std::string id = created.response.container_id();
  EXPECT_EQ(CpusOf(id), "3-4");
  auto started = std::async(std::launch::async, [&] { return StartContainer(id); });
  EXPECT_EQ(started.wait_for(milliseconds(500)), std::future_status::timeout);
  EXPECT_EQ(CpusOf(pinned.container), "1-4");
  EXPECT_EQ(CpusOf(shared.container), "0,5-27");
  runtime_->SetFailure(kUpdateMethod, grpc::Status::OK);
  const grpc::Status status = started.get();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(CpusOf(pinned.container), "1-2");
}

// The first update after a restart says where a container is. It shrinks before that.
TEST_F(DaemonResizeExclusive, OthersWaitForAShrinkRightAfterARestart) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(2));
  ASSERT_TRUE(Resize(pinned, 6).ok());
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  ASSERT_EQ(CpusOf(shared.container), "0,7-27");
  StopDaemon();
  runtime_->SetFailure(kUpdateMethod, {grpc::StatusCode::INTERNAL, "no"}, pinned.container);
  StartDaemon();
  EXPECT_FALSE(Resize(pinned, 3).ok());
  EXPECT_NE(State().find(R"("pinned":{"app":"1-3"})"), std::string::npos) << State();
  const Running late = RunOne(BurstablePod("late"), Shared());
  std::this_thread::sleep_for(milliseconds(700));
  EXPECT_EQ(CpusOf(shared.container), "0,7-27");
  EXPECT_EQ(CpusOf(late.container), "0,7-27");
  EXPECT_EQ(CpusOf(pinned.container), "1-6");
  runtime_->SetFailure(kUpdateMethod, grpc::Status::OK);
  EXPECT_TRUE(Becomes(pinned, "1-3"));
  EXPECT_TRUE(Becomes(shared, "0,4-27"));
  EXPECT_TRUE(Becomes(late, "0,4-27"));
}

// It gets the CPUs that a shrunken container must leave, once that has left them.
// alignd ended between the write of the new set and the update of the runtime. Others come onto the
// CPUs when the container has left them, also if it was created again since it has its original
// ones.
TEST_F(DaemonResizeExclusive, OthersWaitForAShrinkThatWasInterrupted) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  Running pinned = RunOne(pod, Pinned(3));
  ASSERT_TRUE(Resize(pinned, 6).ok());
  ASSERT_TRUE(runtime_->EndContainer(pinned.container, 137));
  v1::ContainerConfig again = Pinned(6);
  again.mutable_metadata()->set_attempt(1);
  pinned.container = Create(pinned.sandbox, pod, again).response.container_id();
  ASSERT_TRUE(StartContainer(pinned.container).ok());
  ASSERT_EQ(CpusOf(pinned.container), "1-6");
  for (int i = 0; i < 6; ++i) RunOne(BurstablePod("shared" + std::to_string(i)), Shared());
  runtime_->SetFailure(kUpdateMethod, {grpc::StatusCode::INTERNAL, "no"});
  EXPECT_FALSE(Resize(pinned, 3).ok());
  StopDaemon();
  ASSERT_EQ(CpusOf(pinned.container), "1-6");
  runtime_->SetFailure(kUpdateMethod, grpc::Status::OK);
  const size_t before = runtime_->Requests(kUpdateMethod).size();
  StartDaemon();
  EXPECT_TRUE(Becomes(pinned, "1-3"));
  EXPECT_TRUE(Eventually([&] { return runtime_->Requests(kUpdateMethod).size() >= before + 7; }));
  const CpuSet taken = *CpuSet::Parse("4-6");
  bool has_left = false;
  const auto requests = runtime_->Requests(kUpdateMethod);
  for (size_t i = before; i < requests.size(); ++i) {
    v1::UpdateContainerResourcesRequest update;
    ASSERT_TRUE(update.ParseFromString(requests[i].bytes));
    const CpuSet cpus = *CpuSet::Parse(update.linux().cpuset_cpus());
    if (update.container_id() == pinned.container) {
      has_left = has_left || !cpus.Intersects(taken);
      continue;
    }
    EXPECT_TRUE(has_left || !cpus.Intersects(taken)) << "update " << i << ": " << cpus.ToString();
  }
}

TEST_F(DaemonResizeExclusive, SharedContainerStartsWhileAResizedOneCannotLeaveItsCpus) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(2));
  ASSERT_TRUE(Resize(pinned, 4).ok());
  runtime_->SetFailure(kUpdateMethod, {grpc::StatusCode::UNAVAILABLE, "busy"}, pinned.container);
  EXPECT_FALSE(Resize(pinned, 2).ok());
  ASSERT_EQ(CpusOf(pinned.container), "1-4");
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  EXPECT_EQ(CpusOf(shared.container), "0,5-27");
  runtime_->SetFailure(kUpdateMethod, grpc::Status::OK);
  EXPECT_TRUE(Becomes(pinned, "1-2"));
  EXPECT_TRUE(Becomes(shared, "0,3-27"));
}

TEST_F(DaemonResizeExclusive, GrowsOntoCpusOfAContainerThatShrank) {
  Start();
  const Running first = RunOne(PodConfig("first"), Pinned(2));
  ASSERT_TRUE(Resize(first, 6).ok());
  const Running second = RunOne(PodConfig("second"), Pinned(2));
  ASSERT_EQ(CpusOf(second.container), "7-8");
  runtime_->SetDelay(kUpdateMethod, milliseconds(300), first.container);
  auto shrunk = std::async(std::launch::async, [&] { return Resize(first, 2); });
  // The runtime has the update; so the smaller set is published.
  ASSERT_TRUE(Eventually([&] {
    const auto updates = runtime_->Requests(kUpdateMethod);
    return std::ranges::any_of(updates, [&](const auto& update) {
      return update.bytes.find(first.container) != std::string::npos &&
             update.bytes.find("1-2") != std::string::npos;
    });
  }));
  const grpc::Status grown = Resize(second, 11);  // all that is left on the NUMA node
  EXPECT_TRUE(grown.ok()) << grown.error_message();
  EXPECT_EQ(CpusOf(second.container), "3-13");
  EXPECT_TRUE(shrunk.get().ok());
}

// The fixture checks that the two never share a CPU.
TEST_F(DaemonResizeExclusive, GrowWaitsForAContainerWhoseShrinkTheRuntimeRefuses) {
  Start();
  const Running first = RunOne(PodConfig("first"), Pinned(2));
  ASSERT_TRUE(Resize(first, 6).ok());
  const Running second = RunOne(PodConfig("second"), Pinned(2));
  runtime_->SetFailure(kUpdateMethod, {grpc::StatusCode::UNKNOWN, "busy"}, first.container);
  EXPECT_FALSE(Resize(first, 2).ok());
  EXPECT_EQ(CpusOf(first.container), "1-6");
  // The kubelet's step for memory, which names the same CPUs, is under way meanwhile.
  runtime_->SetDelay(kUpdateMethod, milliseconds(300), second.container);
  auto memory = std::async(std::launch::async, [&] { return Resize(second, 2); });
  EXPECT_FALSE(Resize(second, 11, milliseconds(1500)).ok());
  EXPECT_EQ(CpusOf(second.container), "7-8");
  EXPECT_TRUE(memory.get().ok());
  runtime_->SetFailure(kUpdateMethod, grpc::Status::OK, first.container);
  EXPECT_TRUE(Eventually([&] { return Resize(second, 11).ok(); }));
  EXPECT_EQ(CpusOf(first.container), "1-2");
  EXPECT_EQ(CpusOf(second.container), "3-13");
}

// Nothing has been written for the pod at that time.
TEST_F(DaemonResizeExclusive, GrowThatIsNotPossibleIsRefusedBeforeThePodGrows) {
  Start();
  auto api = simulator::PodsApi::Start(PodsApiEndpoint());
  ASSERT_TRUE(api.ok()) << api.error().Text();
  const auto pod_with = [&](const std::string& cpus) {
    Pod pod = MakePod("pinned", {App("app", {{"cpu", cpus}, {"memory", "100Mi"}})});
    (*api)->SetPod(pod);
  };
  pod_with("2");
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(2));
  pod_with("28");
  const grpc::Status refused = PodStep(pinned, 28);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(refused.error_message().starts_with(
      "ResizeRefused: container app of pod default/pod-pinned has 2 exclusive CPUs (1-2)"))
      << refused.error_message();
  EXPECT_EQ(Explanation(), "ResizeRefused|in-place resize");
  EXPECT_TRUE(runtime_->Requests(kPodStepMethod).empty());
  // One that is possible reaches the runtime, which does not implement the method.
  pod_with("4");
  EXPECT_EQ(PodStep(pinned, 4).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(CpusOf(pinned.container), "1-2") << "it has only been tried";
  EXPECT_NE(State().find(R"("pinned":{"app":"1-2"})"), std::string::npos) << State();
  // Memory alone, and a source that does not answer, refuse nothing.
  pod_with("28");
  v1::UpdatePodSandboxResourcesRequest memory;
  memory.set_pod_sandbox_id(pinned.sandbox);
  memory.mutable_resources()->set_memory_limit_in_bytes(1 << 30);
  EXPECT_EQ(Call<v1::UpdatePodSandboxResourcesResponse>(kPodStepMethod, memory).status.error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  (*api)->SetFailure({grpc::StatusCode::UNAVAILABLE, "not now"});
  EXPECT_EQ(PodStep(pinned, 28).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(DaemonResizeExclusive, WorksWithTheCallsOfAKubelet) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(2));
  simulator::Kubelet kubelet(client_, {});
  const auto resize = [&](int64_t cpus) {
    const auto pods = kubelet.List();
    if (!pods.ok()) return pods.error().Text();
    for (const simulator::ListedPod& pod : *pods) {
      if (pod.uid != "pinned") continue;
      const Result<Done> resized = kubelet.Resize(pod, "app", cpus);
      return resized.ok() ? "" : resized.error().Text();
    }
    return std::string("no such pod");
  };
  EXPECT_EQ(resize(6), "");
  EXPECT_EQ(CpusOf(pinned.container), "1-6");
  EXPECT_EQ(resize(3), "");
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
  EXPECT_TRUE(Becomes(shared, "0,4-27"));
  EXPECT_NE(resize(28).find("ResizeRefused: "), std::string::npos);
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
}

// resizePolicy RestartContainer, or a crash in the middle of a resize.
TEST_F(DaemonResizeExclusive, ContainerThatIsCreatedAgainGetsItsNewNumber) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  const Running pinned = RunOne(pod, Pinned(2));
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  ASSERT_TRUE(runtime_->EndContainer(pinned.container, 137));
  v1::ContainerConfig again = Pinned(5);
  again.mutable_metadata()->set_attempt(1);
  const auto created = Create(pinned.sandbox, pod, again);
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  ASSERT_TRUE(StartContainer(created.response.container_id()).ok());
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-5");
  EXPECT_EQ(CpusOf(shared.container), "0,6-27");
  ASSERT_TRUE(runtime_->EndContainer(created.response.container_id(), 137));
  again = Pinned(1);
  again.mutable_metadata()->set_attempt(2);
  const auto refused = Create(pinned.sandbox, pod, again);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(refused.status.error_message().starts_with("ResizeRefused: "))
      << refused.status.error_message();
}

TEST_F(DaemonResizeExclusive, ManyResizesAndAdmissionsAtOnce) {
  Start();
  std::vector<Running> pods;
  for (int i = 0; i < 4; ++i) {
    pods.push_back(RunOne(PodConfig("pod" + std::to_string(i)), Pinned(1)));
  }
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  std::vector<std::future<void>> workers;
  for (size_t i = 0; i < pods.size(); ++i) {
    workers.push_back(std::async(std::launch::async, [&, i] {
      for (int round = 0; round < 15; ++round) {
        const int cpus = 1 + static_cast<int>((i + static_cast<size_t>(round) * 7) % 9);
        const grpc::Status status = Resize(pods[i], cpus);
        EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::FAILED_PRECONDITION)
            << status.error_message();
      }
      // The others may have all CPUs at first.
      EXPECT_TRUE(Eventually([&] { return Resize(pods[i], 3).ok(); }));
    }));
  }
  for (int round = 0; round < 10; ++round) {
    const v1::PodSandboxConfig pod = PodConfig("come-and-go");
    const std::string sandbox = Run(pod);
    const auto created = Create(sandbox, pod, Pinned(2));
    if (created.status.ok()) {
      EXPECT_TRUE(StartContainer(created.response.container_id()).ok());
    }
    ASSERT_TRUE(StopSandbox(sandbox).ok());
    ASSERT_TRUE(RemoveSandbox(sandbox).ok());
  }
  for (auto& worker : workers) worker.get();
  CpuSet all;
  for (const Running& pod : pods) {
    const CpuSet cpus = *CpuSet::Parse(CpusOf(pod.container));
    EXPECT_EQ(cpus.Count(), 3);
    EXPECT_FALSE(all.Intersects(cpus));
    all |= cpus;
  }
  EXPECT_TRUE(Eventually(
      [&] { return CpusOf(shared.container) == (CpuSet::Range(0, 27) - all).ToString(); }));
}

}  // namespace
}  // namespace alignd::daemon
