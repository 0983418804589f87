// Updates of containers and sandboxes that alignd does not know: it lists the runtime, and what is
// still unknown then gets no CPUs, memory nodes or quota. The reconcile period is an hour, and the
// runtime serves no events.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

class DaemonUnknownUpdate : public DaemonTest {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.runtime_timeout = seconds(600);
    return options;
  }
  void StartUnlisted() {
    StartRuntime();
    runtime_->SetFailure("GetContainerEvents", {grpc::StatusCode::UNIMPLEMENTED, "none"});
    StartDaemon(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\ncpuManagerReconcilePeriod: 1h\n"
        "topologyManagerPolicy: best-effort\nmemoryManagerPolicy: Static\n"
        "reservedMemory:\n- numaNode: 0\n  limits: {memory: 1Gi}\n"
        "kubeReserved: {memory: 924Mi}\n");
    // Answered after the first listing: that one shows containers from before the start.
    exclusive_ = RunOne(PodConfig("exclusive"), Pinned(3));
    EXPECT_EQ(CpusOf(exclusive_.container), "1-3");
  }
  // A pod with one container, past alignd.
  Running RunDirectly(const std::string& uid) {
    const auto through_alignd = std::exchange(client_, *simulator::Dial(RuntimeEndpoint()));
    v1::ContainerConfig container = Shared();
    container.mutable_linux()->mutable_resources()->set_cpuset_cpus("0");
    const Running running = RunOne(BurstablePod(uid), container);
    client_ = through_alignd;
    return running;
  }
  static v1::UpdateContainerResourcesRequest UpdateOf(const std::string& id) {
    v1::UpdateContainerResourcesRequest request;
    request.set_container_id(id);
    request.mutable_linux()->set_cpu_shares(7);
    return request;
  }
  grpc::Status UpdateSandbox(const std::string& id, const v1::LinuxContainerResources& to) const {
    v1::UpdatePodSandboxResourcesRequest request;
    request.set_pod_sandbox_id(id);
    *request.mutable_resources() = to;
    return Call<v1::UpdatePodSandboxResourcesResponse>("UpdatePodSandboxResources", request).status;
  }

  Running exclusive_;
};

TEST_F(DaemonUnknownUpdate, SetsNothingThatAligndAssigns) {
  StartUnlisted();
  const size_t updates = runtime_->Requests("UpdateContainerResources").size();
  using Resources = v1::LinuxContainerResources;
  const std::vector<std::function<void(Resources&)>> changes = {
      [](Resources& to) { to.set_cpuset_cpus("0-27"); },
      [](Resources& to) { to.set_cpuset_mems("0-1"); },
      [](Resources& to) { to.set_cpu_quota(1'000); },
      [](Resources& to) { (*to.mutable_unified())["cpuset.cpus"] = "0-27"; },
      [](Resources& to) { (*to.mutable_unified())["cpuset.mems"] = "0-1"; },
      [](Resources& to) { (*to.mutable_unified())["cpu.max"] = "1000 100000"; }};
  for (const auto& change : changes) {
    v1::UpdateContainerResourcesRequest request = UpdateOf("unknown");
    change(*request.mutable_linux());
    const grpc::Status status = Update(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    EXPECT_NE(status.error_message().find("container unknown"), std::string::npos)
        << status.error_message();
    EXPECT_EQ(UpdateSandbox("unknown", request.linux()).error_code(), grpc::StatusCode::NOT_FOUND);
  }
  EXPECT_EQ(runtime_->Requests("UpdateContainerResources").size(), updates);
  EXPECT_EQ(runtime_->Requests("UpdatePodSandboxResources").size(), 0U);
}

TEST_F(DaemonUnknownUpdate, OfSomethingElseIsRelayed) {
  StartUnlisted();
  const size_t updates = runtime_->Requests("UpdateContainerResources").size();
  const v1::UpdateContainerResourcesRequest request = UpdateOf("unknown");
  EXPECT_EQ(Update(request).error_code(), grpc::StatusCode::NOT_FOUND);  // says the runtime
  EXPECT_EQ(runtime_->Requests("UpdateContainerResources").size(), updates + 1);
  UpdateSandbox("unknown", request.linux());
  EXPECT_EQ(runtime_->Requests("UpdatePodSandboxResources").size(), 1U);
}

TEST_F(DaemonUnknownUpdate, ContainerOfTheRuntimesSocketIsFoundFirst) {
  StartUnlisted();
  const Running direct = RunDirectly("direct");
  v1::UpdateContainerResourcesRequest request = UpdateOf(direct.container);
  request.mutable_linux()->set_cpuset_cpus("0-27");
  const grpc::Status status = Update(request);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(CpusOf(direct.container), "0,4-27");
  EXPECT_EQ(CpusOf(exclusive_.container), "1-3");
}

TEST_F(DaemonUnknownUpdate, IsRefusedIfTheRuntimeCannotBeListed) {
  StartUnlisted();
  const Running direct = RunDirectly("direct");
  runtime_->SetFailure("ListContainers", {grpc::StatusCode::INTERNAL, "broken"});
  const size_t updates = runtime_->Requests("UpdateContainerResources").size();
  const grpc::Status status = Update(UpdateOf(direct.container));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_NE(status.error_message().find("could not be listed"), std::string::npos)
      << status.error_message();
  EXPECT_EQ(runtime_->Requests("UpdateContainerResources").size(), updates);
}

// The caller gets the reason before it gives up.
TEST_F(DaemonUnknownUpdate, IsRefusedBeforeItsDeadlineIfTheRuntimeHangs) {
  StartUnlisted();
  const Running direct = RunDirectly("direct");
  runtime_->SetDelay("ListContainers", seconds(600));
  const grpc::Status status =
      Call<v1::UpdateContainerResourcesResponse>("UpdateContainerResources",
                                                 UpdateOf(direct.container), seconds(8))
          .status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
}

}  // namespace
}  // namespace alignd::daemon
