// What the control service reports.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "alignd/control/v1/control.grpc.pb.h"
#include "control_fixture.h"
#include "edge/allocation_outcome.h"
#include "rpc/unix_socket.h"

namespace alignd::control {
namespace {

using namespace alignd::testing;

TEST_F(ControlTest, ReportsConditions) {
  EXPECT_EQ(Status().conditions_size(), 0);
  conditions_.RuntimeFailed({ErrorCode::kUnavailable, "no such socket"});
  conditions_.SawConflictingManager("the kubelet is static", "set it to none");
  conditions_.SawConflictingManager("the kubelet is static", "set it to none");
  conditions_.FoundUnmanaged({{"c4", {"u4", "direct"}, "default/web"}});
  conditions_.QuotaNotLifted("known-to-runtime", {ErrorCode::kIo, "read-only"});

  const v1::GetStatusResponse status = Status();
  ASSERT_EQ(status.conditions_size(), 4);
  EXPECT_EQ(status.conditions(0).type(), "RuntimeUnavailable");
  EXPECT_EQ(status.conditions(0).pod_uid(), "");
  const v1::Condition& manager = status.conditions(1);
  EXPECT_EQ(manager.type(), "ConflictingCPUManager");
  EXPECT_EQ(manager.message(), "the kubelet is static");
  EXPECT_EQ(manager.remedy(), "set it to none");
  EXPECT_EQ(manager.times(), 2U);
  EXPECT_GT(manager.first_unix_ms(), 1'700'000'000'000);
  EXPECT_GE(manager.last_unix_ms(), manager.first_unix_ms());
  const v1::Condition& unmanaged = status.conditions(2);
  EXPECT_EQ(unmanaged.type(), "UnmanagedContainer");
  EXPECT_EQ(unmanaged.container_id(), "c4");
  EXPECT_EQ(unmanaged.pod_uid(), "u4");
  EXPECT_EQ(unmanaged.pod(), "default/web");
  EXPECT_EQ(unmanaged.container(), "direct");
  EXPECT_EQ(status.conditions(3).type(), "PodQuotaNotLifted");
  EXPECT_EQ(status.conditions(3).pod(), "default/name-of-runtime");

  conditions_.RuntimeAnswered();
  EXPECT_EQ(Status().conditions(0).type(), "ConflictingCPUManager");
}

TEST_F(ControlTest, ReportsWhatIsAssignedAndWhatIsFree) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2, {{kGpu, "1"}}))));
  const v1::GetStatusResponse status = Status();
  EXPECT_EQ(status.version(), "1.2.3");
  EXPECT_EQ(status.policies().cpu_manager(), "static");
  ASSERT_EQ(status.numa_size(), 2);
  EXPECT_EQ(CpuSet::Parse(status.numa(0).free_cpus())->Count(), 5);  // of 8: 1 reserved, 2 assigned
  EXPECT_EQ(status.numa(0).cpus(), 8U);
  EXPECT_EQ(status.numa(0).devices().at(kGpu).free(), 3U);
  EXPECT_EQ(status.numa(0).devices().at(kGpu).total(), 4U);
  EXPECT_EQ(status.default_set(), world.published().cpu.default_set.ToString());
  EXPECT_EQ(status.reserved_cpus(), "0");
  ASSERT_EQ(status.devices_size(), 2);
  EXPECT_TRUE(status.devices(0).registered());
  EXPECT_EQ(status.devices(0).healthy().free(), 7U);
  EXPECT_EQ(status.devices(0).healthy().total(), 8U);
  ASSERT_EQ(status.containers_size(), 1);
  const v1::ContainerAssignment& container = status.containers(0);
  EXPECT_EQ(container.pod(), "default/pod");
  EXPECT_EQ(container.pod_uid(), "pod");
  EXPECT_EQ(container.container(), "app");
  EXPECT_EQ(container.exclusive_cpus(), "2-3");
  ASSERT_EQ(container.memory_nodes_size(), 1);
  EXPECT_EQ(container.memory_nodes(0), 0);
  ASSERT_EQ(container.devices_size(), 1);
  EXPECT_EQ(container.devices(0).resource(), kGpu);
  ASSERT_EQ(container.devices(0).devices_size(), 1);
  EXPECT_EQ(container.devices(0).devices(0).id(), "gpu0");
  EXPECT_EQ(container.devices(0).devices(0).numa_size(), 1);
  ASSERT_TRUE(world.Release("pod").ok());
  EXPECT_EQ(Status().containers_size(), 0);
  EXPECT_GT(Status().generation(), status.generation());
}

// The callback API runs the answers of device plugins on a few threads that the whole process
// shares. Reports that take long must not occupy them.
TEST_F(ControlTest, SlowReportsDelayNoCallback) {
  constexpr int kReports = 40;  // more than the threads of the callback API: 16 at most
  {
    const MutexLock lock(mutex_);
    names_block_ = true;
    names_waiting_ = 0;
  }
  std::vector<std::future<bool>> reports;
  for (int i = 0; i < kReports; ++i) {
    reports.push_back(std::async(std::launch::async, [this] {
      return ControlClient(socket(), std::chrono::seconds(60)).GetStatus().ok();
    }));
  }
  {
    const MutexLock lock(mutex_);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (names_waiting_ < kReports && changed_.WaitUntil(mutex_, deadline)) continue;
  }

  const std::unique_ptr<v1::Control::Stub> stub = v1::Control::NewStub(*rpc::Dial(socket()));
  grpc::ClientContext context;
  const v1::ExplainRequest request;
  v1::ExplainResponse response;
  std::promise<grpc::Status> answered;
  stub->async()->Explain(&context, &request, &response,
                         [&](const grpc::Status& status) { answered.set_value(status); });
  std::future<grpc::Status> answer = answered.get_future();
  EXPECT_EQ(answer.wait_for(std::chrono::seconds(20)), std::future_status::ready);

  {
    const MutexLock lock(mutex_);
    EXPECT_EQ(names_waiting_, kReports);
    names_block_ = false;
    changed_.NotifyAll();
  }
  for (std::future<bool>& report : reports) EXPECT_TRUE(report.get());
  EXPECT_TRUE(answer.get().ok());
}

TEST_F(ControlTest, CallersThatHangTakeALimitedNumberOfThreads) {
  constexpr int kCallers = 100;
  constexpr int kMaxThreads = 64;
  {
    const MutexLock lock(mutex_);
    names_block_ = true;
    names_waiting_ = 0;
  }
  std::vector<std::future<bool>> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.push_back(std::async(std::launch::async, [this] {
      return ControlClient(socket(), std::chrono::seconds(60)).GetStatus().ok();
    }));
  }
  const auto count_ended = [&] {
    return std::ranges::count_if(callers, [](const std::future<bool>& caller) {
      return caller.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    });
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (count_ended() < kCallers - kMaxThreads && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GE(count_ended(), kCallers - kMaxThreads);
  {
    const MutexLock lock(mutex_);
    EXPECT_LE(names_waiting_, kMaxThreads);
    names_block_ = false;
    changed_.NotifyAll();
  }
  const auto answered = std::ranges::count_if(callers, [](auto& caller) { return caller.get(); });
  EXPECT_GT(answered, 0);
  EXPECT_LE(answered, kMaxThreads);
  EXPECT_EQ(Status().version(), "1.2.3");
}

TEST_F(ControlTest, ReportsProblemsOfAssignedDevices) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2, {{kGpu, "1"}}))));
  const auto problem = [this] { return Status().containers(0).devices(0).devices(0).problem(); };
  EXPECT_EQ(problem(), "");
  devicemanager::Resource gpus = EightDevices("gpu");
  gpus.devices.at("gpu0").healthy = false;
  world.manager->SetResource(kGpu, gpus);
  world.Settle();
  EXPECT_EQ(problem(), "unhealthy");
  gpus.devices.erase("gpu0");
  world.manager->SetResource(kGpu, gpus);
  world.Settle();
  EXPECT_EQ(problem(), "its plugin does not list it any more");
  world.manager->RemoveResource(kGpu);
  world.Settle();
  EXPECT_EQ(problem(), "its plugin is not registered");
  EXPECT_NE(Alignctl({"status", "--socket", socket()})
                .out.find("gpu0 (NUMA 0) [its plugin is not registered]"),
            std::string::npos);
  world.AnnounceDevices();
  EXPECT_EQ(problem(), "");
  server.reset();
  world.Down();  // the restored state knows the device, but no plugin yet
  world.Up();
  Serve();
  EXPECT_EQ(problem(), "its plugin is not registered");
}

TEST_F(ControlTest, NamesPodsAsTheRuntimeDoes) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("known-to-runtime", 1))));
  EXPECT_EQ(Status().containers(0).pod(), "default/name-of-runtime");
}

TEST_F(ControlTest, AnswersWhileADecisionIsPending) {
  world.plugins->Hold();
  std::future<Outcome> later = world.AdmitLater(AppPod("slow", 2, {{kGpu, "1"}}));
  world.plugins->AwaitHeld(1);
  EXPECT_EQ(Status().containers_size(), 0);
  EXPECT_TRUE(Explain("").empty());
  world.plugins->LetGo();
  ASSERT_TRUE(AllocatedOf(later.get()));
  EXPECT_EQ(Status().containers_size(), 1);
  EXPECT_EQ(Explain("").size(), 1u);
}

TEST_F(ControlTest, ReplacesBytesThatAreNotUtf8) {
  world.plugins->Fail(kGpu, Error{ErrorCode::kUnavailable, "bad \xff byte"});
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("pod", 2, {{kGpu, "1"}}))));
  const std::vector<v1::PodDecision> decisions = Explain("pod");
  ASSERT_EQ(decisions.size(), 1u);
  EXPECT_NE(decisions[0].message().find("bad \xEF\xBF\xBD byte"), std::string::npos)
      << decisions[0].message();
}

TEST_F(ControlTest, SocketIsForOwnerAndGroupOnly) {
  struct stat status {};
  ASSERT_EQ(::stat(socket().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0660u);
}

TEST_F(ControlTest, PrintsTextAndJson) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  const testing::Printed status = Alignctl({"status", "--socket", socket()});
  EXPECT_EQ(status.status, cli::kSuccess) << status.err;
  EXPECT_NE(status.out.find("default/pod (pod)  app        2-3   NUMA 0  -\n"), std::string::npos)
      << status.out;
  const testing::Printed json = Alignctl({"status", "--socket", socket(), "-o", "json"});
  EXPECT_NE(json.out.find(R"("container":"app","exclusive_cpus":"2-3")"), std::string::npos)
      << json.out;
  const testing::Printed explain = Alignctl({"explain", "pod", "--socket", socket()});
  EXPECT_NE(explain.out.find("    merged: {0}!\n      {0}!: best\n"), std::string::npos)
      << explain.out;
  const testing::Printed unknown =
      Alignctl({"explain", "unknown", "--socket", socket(), "-o", "json"});
  EXPECT_EQ(unknown.out, "[]\n");
}

TEST_F(ControlTest, FailsWithARemedyIfAligndDoesNotRun) {
  server.reset();
  const testing::Printed status = Alignctl({"status", "--socket", socket()});
  EXPECT_EQ(status.status, cli::kFailure);
  EXPECT_EQ(status.out, "");
  EXPECT_NE(status.err.find("check that alignd runs"), std::string::npos) << status.err;
}

}  // namespace
}  // namespace alignd::control
