// Runtimes accept the first characters of an id, and crictl sends such short ids: alignd treats
// them like full ids.
#include <gtest/gtest.h>

#include <future>
#include <string>

#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

constexpr size_t kShort = 13;  // as crictl shows them

std::string Short(const std::string& id) { return id.substr(0, kShort); }

class DaemonShortIds : public DaemonTest {
 protected:
  // The period of the listing is long: the test must pass without it.
  void StartUnlisted() {
    std::string config = StaticConfig();
    const std::string period = "cpuManagerReconcilePeriod: 2s";
    Start(config.replace(config.find(period), period.size(), "cpuManagerReconcilePeriod: 10m"));
  }
  // A shared container that cannot be moved, and an exclusive one that waits for its CPUs.
  std::future<grpc::Status> StartBeside(const std::string& stuck) {
    runtime_->SetDelay("UpdateContainerResources", seconds(60), stuck);
    const v1::PodSandboxConfig pod = PodConfig("pinned");
    const auto created = Create(Run(pod), pod, Pinned(3));
    EXPECT_TRUE(created.status.ok()) << created.status.error_message();
    return std::async(std::launch::async, [this, id = created.response.container_id()] {
      return StartContainer(Short(id));
    });
  }
  static bool Waits(const std::future<grpc::Status>& start) {
    return start.wait_for(seconds(1)) == std::future_status::timeout;
  }
  // The newest request with this short id. A later request of alignd itself has the full id.
  v1::UpdateContainerResourcesRequest LastUpdateOf(const std::string& named) const {
    v1::UpdateContainerResourcesRequest last;
    for (const auto& request : runtime_->Requests("UpdateContainerResources")) {
      v1::UpdateContainerResourcesRequest seen;
      EXPECT_TRUE(seen.ParseFromString(request.bytes));
      if (seen.container_id() == named) last = seen;
    }
    return last;
  }
};

TEST_F(DaemonShortIds, StartWaitsForContainersOnItsCpus) {
  StartUnlisted();
  const Running stuck = RunOne(BurstablePod("stuck"), Shared());
  std::future<grpc::Status> start = StartBeside(stuck.container);
  EXPECT_TRUE(Waits(start));
  EXPECT_EQ(runtime_->Requests("StartContainer").size(),
            1U);  // of the container that cannot be moved
  v1::StopContainerRequest stop;
  stop.set_container_id(Short(stuck.container));
  ASSERT_TRUE(Call<v1::StopContainerResponse>("StopContainer", stop).status.ok());
  EXPECT_TRUE(start.get().ok());
}

TEST_F(DaemonShortIds, EndThatIsSeenInAQuestionFreesTheCpus) {
  StartUnlisted();
  const Running stuck = RunOne(BurstablePod("stuck"), Shared());
  std::future<grpc::Status> start = StartBeside(stuck.container);
  EXPECT_TRUE(Waits(start));
  ASSERT_TRUE(runtime_->EndContainer(stuck.container, 0));
  v1::ContainerStatusRequest question;
  question.set_container_id(Short(stuck.container));
  ASSERT_TRUE(Call<v1::ContainerStatusResponse>("ContainerStatus", question).status.ok());
  EXPECT_TRUE(start.get().ok());
}

// CRI-O answers "not found" to an ambiguous short id.
TEST_F(DaemonShortIds, NotFoundForAShortIdRemovesNoKnownContainer) {
  StartUnlisted();
  const Running stuck = RunOne(BurstablePod("stuck"), Shared());
  for (const char* method : {"StopContainer", "RemoveContainer", "StopPodSandbox"}) {
    runtime_->SetFailure(method, {grpc::StatusCode::NOT_FOUND, "no such id"});
  }
  std::future<grpc::Status> start = StartBeside(stuck.container);
  v1::StopContainerRequest stop;
  stop.set_container_id(Short(stuck.container));
  EXPECT_FALSE(Call<v1::StopContainerResponse>("StopContainer", stop).status.ok());
  v1::RemoveContainerRequest remove;
  remove.set_container_id(Short(stuck.container));
  EXPECT_FALSE(Call<v1::RemoveContainerResponse>("RemoveContainer", remove).status.ok());
  EXPECT_FALSE(StopSandbox(Short(stuck.sandbox)).ok());
  EXPECT_TRUE(Waits(start));
  ASSERT_TRUE(runtime_->EndContainer(stuck.container, 0));
  stop.set_container_id(stuck.container);  // one stop at most
  EXPECT_FALSE(Call<v1::StopContainerResponse>("StopContainer", stop).status.ok());
  EXPECT_TRUE(start.get().ok());
}

TEST_F(DaemonShortIds, UnknownContainerGetsItsCpusBeforeItStarts) {
  StartUnlisted();
  RunOne(PodConfig("pinned"), Pinned(3));
  const auto through_alignd = client_;
  client_ = *simulator::Dial(RuntimeEndpoint());
  const v1::PodSandboxConfig pod = BurstablePod("behind-the-back");
  const auto created = Create(Run(pod), pod, Shared());
  ASSERT_TRUE(created.status.ok());
  client_ = through_alignd;
  EXPECT_TRUE(StartContainer(Short(created.response.container_id())).ok());
  EXPECT_EQ(CpusOf(created.response.container_id()), "0,4-27");
}

TEST_F(DaemonShortIds, BeginningOfSeveralIdsIsTheRuntimesToRefuse) {
  Start();
  const Running one = RunOne(PodConfig("one"), Pinned(3));
  const Running two = RunOne(PodConfig("two"), Pinned(3));
  const std::string both = one.container.substr(0, 3);
  ASSERT_EQ(both, two.container.substr(0, 3));
  for (const std::string& named : {both, std::string()}) {
    EXPECT_EQ(StartContainer(named).error_code(), grpc::StatusCode::NOT_FOUND);
    v1::UpdateContainerResourcesRequest update;
    update.set_container_id(named);
    update.mutable_linux()->set_cpuset_cpus("0");
    EXPECT_EQ(Update(update).error_code(), grpc::StatusCode::NOT_FOUND);
    EXPECT_EQ(StopSandbox(named).error_code(), grpc::StatusCode::NOT_FOUND);
    EXPECT_TRUE(RemoveSandbox(named).ok());  // as for any unknown sandbox
  }
  EXPECT_NE(State().find("\"one\""), std::string::npos);
  EXPECT_NE(State().find("\"two\""), std::string::npos);
}

TEST_F(DaemonShortIds, UpdateKeepsOurSetsAndRefusesAnotherNumberOfCpus) {
  StartUnlisted();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(Short(pinned.container));
  request.mutable_linux()->set_cpuset_cpus("0-27");
  request.mutable_linux()->set_cpu_shares(7);
  ASSERT_TRUE(Update(request).ok());
  // The request is passed on unchanged except for the cpuset.
  const v1::UpdateContainerResourcesRequest seen_update = LastUpdateOf(Short(pinned.container));
  EXPECT_EQ(seen_update.linux().cpu_shares(), 7);
  EXPECT_EQ(seen_update.linux().cpuset_cpus(), "1-3");
  request.mutable_linux()->set_cpu_quota(20'000);
  request.mutable_linux()->set_cpu_period(100'000);
  EXPECT_EQ(Update(request).error_code(), grpc::StatusCode::FAILED_PRECONDITION);

  v1::UpdatePodSandboxResourcesRequest pod;
  pod.set_pod_sandbox_id(Short(pinned.sandbox));
  pod.mutable_resources()->set_cpu_quota(400'000);
  Call<v1::UpdatePodSandboxResourcesResponse>("UpdatePodSandboxResources", pod);
  v1::UpdatePodSandboxResourcesRequest seen;
  ASSERT_TRUE(seen.ParseFromString(runtime_->Requests("UpdatePodSandboxResources").back().bytes));
  EXPECT_EQ(seen.resources().cpu_quota(), -1);
}

TEST_F(DaemonShortIds, RemovedPodIsFreeAtOnce) {
  StartUnlisted();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(27));
  ASSERT_TRUE(StopSandbox(Short(pinned.sandbox)).ok());
  const Running next = RunOne(PodConfig("next"), Pinned(27));  // gets the CPUs of the stopped pod
  ASSERT_TRUE(StopSandbox(Short(next.sandbox)).ok());
  ASSERT_TRUE(RemoveSandbox(Short(next.sandbox)).ok());
  EXPECT_TRUE(Eventually([&] { return State().find("\"next\"") == std::string::npos; })) << State();
}

TEST_F(DaemonShortIds, ContainerIsOfThePodThatItsSandboxIsOf) {
  StartUnlisted();
  const v1::PodSandboxConfig pod = PodConfig("stated");
  v1::PodSandboxConfig without_uid = pod;
  without_uid.mutable_metadata()->clear_uid();
  const auto created = Create(Short(Run(pod)), without_uid, Pinned(3));
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_NE(State().find("\"stated\""), std::string::npos) << State();
}

}  // namespace
}  // namespace alignd::daemon
