// Pods with a runtime handler whose containers do not run in cgroups of their own (gVisor, Kata):
// they get devices, and neither CPUs nor memory of their own.
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

#include "control/control_client.h"
#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

class DaemonRuntimeHandlers : public DaemonTest {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    if (handlers_) options.shared_pool_handlers = *handlers_;
    return options;
  }

  // The sandbox's id; empty if the call failed.
  std::string RunWith(const std::string& handler, const v1::PodSandboxConfig& pod) const {
    v1::RunPodSandboxRequest request;
    *request.mutable_config() = pod;
    request.set_runtime_handler(handler);
    return Call<v1::RunPodSandboxResponse>("RunPodSandbox", request).response.pod_sandbox_id();
  }
  std::string RunPinned(const std::string& handler, const v1::PodSandboxConfig& pod) const {
    return CreateAndStart(RunWith(handler, pod), pod, Pinned(2));
  }

  v1::LinuxContainerResources Now(const std::string& id) const {
    const auto container = runtime_->FindContainer(id);
    return container ? container->resources : v1::LinuxContainerResources();
  }
  // The container runs in the shared pool, limited by its quota.
  void ExpectShared(const std::string& id, const std::string& pool, int64_t quota = 200'000) const {
    EXPECT_TRUE(Eventually([&] { return CpusOf(id) == pool; })) << CpusOf(id);
    EXPECT_EQ(Now(id).cpu_quota(), quota);
    EXPECT_EQ(Now(id).cpuset_mems(), "");
  }
  void ExpectExclusive(const std::string& id, const std::string& cpus) const {
    EXPECT_EQ(CpusOf(id), cpus);
    EXPECT_EQ(Now(id).cpu_quota(), -1);
  }
  // What the last decision about the pod says that its containers ask for.
  std::string Asked(const std::string& pod) const {
    const auto explained = control::ControlClient(DaemonOptions().ControlSocket()).Explain(pod, 1);
    if (!explained.ok() || explained->decisions().empty()) return "";
    return explained->decisions(0).asked();
  }

  std::optional<std::set<std::string>> handlers_;  // nullopt: the default
};

TEST_F(DaemonRuntimeHandlers, GuaranteedPodRunsInTheSharedPool) {
  Start(
      StaticConfig("memoryManagerPolicy: Static\nreservedMemory:\n- numaNode: 0\n"
                   "  limits: {memory: 1Gi}\nkubeReserved: {memory: 924Mi}\n"
                   "topologyManagerPolicy: best-effort\n"));
  const std::string gvisor = RunPinned("runsc", PodConfig("gvisor"));
  ExpectShared(gvisor, "0-27");
  EXPECT_TRUE(Eventually([&] {
    return Asked("gvisor") == "app: shared CPUs (runtime handler runsc)";
  })) << Asked("gvisor");
  EXPECT_EQ(State().find("\"gvisor\""), std::string::npos) << State();
  const std::string ordinary = RunPinned("", PodConfig("ordinary"));
  ExpectExclusive(ordinary, "1-2");
  EXPECT_EQ(Now(ordinary).cpuset_mems(), "0");
  ExpectExclusive(RunPinned("runc", PodConfig("named")), "3-4");
  ExpectShared(gvisor, "0,5-27");
  ExpectShared(RunPinned("kata-qemu", PodConfig("kata")), "0,5-27");
}

// The whole pod is known when its sandbox is created: the decision is made there.
TEST_F(DaemonRuntimeHandlers, DevicesAreAllocatedAsForOtherPods) {
  Start();
  StartGpus();
  const v1::PodSandboxConfig pod = PodConfig("gvisor", "", Annotation(2, 1));
  const std::string sandbox = RunWith("runsc", pod);
  const std::string asked = "app: shared CPUs (runtime handler runsc), 1 nvidia.com/gpu";
  EXPECT_TRUE(Eventually([&] { return Asked("gvisor") == asked; })) << Asked("gvisor");
  const std::string id = CreateAndStart(sandbox, pod, Pinned(2));
  ExpectShared(id, "0-27");
  EXPECT_EQ(runtime_->FindContainer(id)->config.devices_size(), 1);
}

TEST_F(DaemonRuntimeHandlers, AreKnownAfterARestart) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("gvisor");
  const v1::PodSandboxConfig other = PodConfig("other");
  const std::string sandbox = RunWith("runsc", pod);
  const std::string ordinary = RunWith("", other);
  StopDaemon();
  StartDaemon();
  const std::string shared = CreateAndStart(sandbox, pod, Pinned(2));
  ExpectShared(shared, "0-27");
  ExpectExclusive(CreateAndStart(ordinary, other, Pinned(2)), "1-2");
  ExpectShared(shared, "0,3-27");
}

TEST_F(DaemonRuntimeHandlers, AreThoseOfTheConfigurationUnlessTheOptionNamesOthers) {
  Start(StaticConfig("sharedPoolHandlers: [own-*]\n"));
  ExpectShared(RunPinned("own-vm", PodConfig("own")), "0-27");
  ExpectExclusive(RunPinned("runsc", PodConfig("gvisor")), "1-2");
  StopDaemon();
  handlers_ = std::set<std::string>{"other"};
  StartDaemon(StaticConfig("sharedPoolHandlers: [own-*]\n"));
  ExpectExclusive(RunPinned("own-vm", PodConfig("own-2")), "3-4");
}

TEST_F(DaemonRuntimeHandlers, NoneAreTreatedApartIfTheOptionIsEmpty) {
  handlers_.emplace();
  Start();
  ExpectExclusive(RunPinned("runsc", PodConfig("gvisor")), "1-2");
}

// A version or configuration of alignd that assigned exclusive CPUs was replaced: a container that
// ends must be able to start again.
TEST_F(DaemonRuntimeHandlers, PodKeepsTheExclusiveCpusThatItHas) {
  handlers_.emplace();
  Start();
  const v1::PodSandboxConfig pod = PodConfig("gvisor");
  const std::string sandbox = RunWith("runsc", pod);
  const std::string first = CreateAndStart(sandbox, pod, Pinned(2));
  ExpectExclusive(first, "1-2");
  StopDaemon();
  handlers_.reset();
  StartDaemon();
  ASSERT_TRUE(runtime_->EndContainer(first, 137));
  v1::ContainerConfig again = Pinned(2);
  again.mutable_metadata()->set_attempt(1);
  ExpectExclusive(CreateAndStart(sandbox, pod, again), "1-2");
}

// Another whole number of CPUs is not exclusive either.
TEST_F(DaemonRuntimeHandlers, PodCanBeResized) {
  Start();
  const std::string id = RunPinned("runsc", PodConfig("gvisor"));
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(id);
  *request.mutable_linux() = Pinned(3).linux().resources();
  const grpc::Status resized = Update(request);
  EXPECT_TRUE(resized.ok()) << resized.error_message();
  ExpectShared(id, "0-27", 300'000);
}

}  // namespace
}  // namespace alignd::daemon
