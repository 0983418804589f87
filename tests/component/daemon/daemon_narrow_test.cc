// Shared containers leave the CPUs of a new exclusive container by writes to their cgroups; the
// runtime's record is updated afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "daemon_fixture.h"
#include "edge/status_conditions.h"
#include "fake_cgroups.h"

namespace alignd::daemon {
namespace {

class DaemonNarrow : public DaemonTest, public ::testing::WithParamInterface<bool> {
 protected:
  static constexpr char kUpdate[] = "UpdateContainerResources";

  DaemonNarrow() : cgroups_(CgroupRoot(), GetParam(), "0-27") {
    watch_.OnEvent([this](const RuntimeModel::Event& event) { cgroups_.Apply(event); });
    watch_.ReadCpus([this](const std::string& cgroup) {
      // A file that alignd just writes may be empty. A kernel's never is.
      std::string cpus;
      Eventually([&] { return !(cpus = cgroups_.CpusOf(cgroup)).empty(); });
      return cpus;
    });
  }
  ~DaemonNarrow() override {
    watch_.OnEvent({});
    watch_.ReadCpus({});
  }

  std::string CgroupOf(const Running& running) const {
    return runtime_->FindContainer(running.container)->cgroup;
  }
  std::string CgroupCpusOf(const Running& running) const {
    return cgroups_.CpusOf(CgroupOf(running));
  }
  // A shared container whose cgroup alignd knows.
  Running RunGuarded(const std::string& name) {
    Running running = RunOne(BurstablePod(name), Shared());
    cgroups_.Follow(CgroupOf(running));
    const std::string right = CgroupCpusOf(running);
    const size_t repairs = Repairs();
    cgroups_.SetCpus(CgroupOf(running), "27");
    EXPECT_TRUE(Eventually([&] { return CgroupCpusOf(running) == right; }));
    // Reported once the update has ended.
    EXPECT_TRUE(Eventually([&] { return Repairs() > repairs; }));
    return running;
  }
  // Of all containers.
  size_t Repairs() const {
    size_t repairs = 0;
    for (const auto& repair : testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                                    reconcile::ConditionType::kCpusetRepaired)) {
      repairs += repair.times();
    }
    return repairs;
  }
  size_t UpdatesOf(const Running& running) const {
    const auto requests = runtime_->Requests(kUpdate);
    return static_cast<size_t>(std::ranges::count_if(requests, [&](const auto& request) {
      return request.bytes.find(running.container) != std::string::npos;
    }));
  }
  // Creates and starts a pod's only container, in the background.
  std::future<grpc::Status> Begin(const v1::PodSandboxConfig& pod,
                                  const v1::ContainerConfig& container) {
    const auto created = Create(Run(pod), pod, container);
    EXPECT_TRUE(created.status.ok()) << created.status.error_message();
    return std::async(std::launch::async,
                      [this, id = created.response.container_id()] { return StartContainer(id); });
  }
  // A call of a client that is under way until EndDelays.
  std::future<grpc::Status> BeginSlowCreate() {
    runtime_->SetDelay("CreateContainer", seconds(600), "slow-container");
    const v1::PodSandboxConfig pod = BurstablePod("slow");
    const std::string sandbox = Run(pod);
    auto call = std::async(std::launch::async, [this, pod, sandbox] {
      return Create(sandbox, pod, Shared("slow-container")).status;
    });
    EXPECT_TRUE(Eventually([&] {
      return std::ranges::any_of(runtime_->Requests("CreateContainer"), [](const auto& request) {
        return request.bytes.find("slow-container") != std::string::npos;
      });
    }));
    return call;
  }
  static bool IsStillRunning(const std::future<grpc::Status>& call) {
    return call.wait_for(milliseconds(300)) == std::future_status::timeout;
  }

  FakeCgroups cgroups_;
};
INSTANTIATE_TEST_SUITE_P(CgroupVersions, DaemonNarrow, ::testing::Values(false, true),
                         [](const auto& unified) { return unified.param ? "v2" : "v1"; });

TEST_P(DaemonNarrow, ExclusiveContainerStartsBeforeTheRuntimeHasMovedAnything) {
  Start();
  const Running first = RunGuarded("first");
  const Running second = RunGuarded("second");
  const auto updates = [&] { return UpdatesOf(first) + UpdatesOf(second); };
  const size_t before = updates();
  runtime_->SetDelay(kUpdate, seconds(60));
  RunOne(PodConfig("pinned"), Pinned(3));
  EXPECT_EQ(CgroupCpusOf(first), "0,4-27");
  EXPECT_EQ(CgroupCpusOf(second), "0,4-27");
  // The runtime is updated all the same, for one container at a time.
  ASSERT_TRUE(Eventually([&] { return updates() == before + 1; }));
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(updates(), before + 1);
}

TEST_P(DaemonNarrow, RuntimeIsUpdatedWithTheLastSetOnly) {
  Start();
  const Running shared = RunGuarded("shared");
  const size_t before = UpdatesOf(shared);
  // A call of a client is under way all the time.
  auto creation = BeginSlowCreate();
  for (const char* const name : {"a", "b", "c"}) RunOne(PodConfig(name), Pinned(2));
  EXPECT_EQ(CgroupCpusOf(shared), "0,7-27");
  EXPECT_EQ(UpdatesOf(shared), before);
  runtime_->EndDelays();
  EXPECT_TRUE(creation.get().ok());
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0,7-27"; }));
  EXPECT_EQ(UpdatesOf(shared), before + 1);
}

// The update of another client could give the container back the CPUs that a write takes from it.
TEST_P(DaemonNarrow, UpdateUnderWayIsWaitedFor) {
  Start();
  const Running shared = RunGuarded("shared");
  runtime_->SetDelay(kUpdate, seconds(600), shared.container);
  v1::UpdateContainerResourcesRequest update;
  update.set_container_id(shared.container);
  update.mutable_linux()->set_cpu_shares(200);
  const size_t before = UpdatesOf(shared);
  auto updated = std::async(std::launch::async, [&] { return Update(update); });
  ASSERT_TRUE(Eventually([&] { return UpdatesOf(shared) > before; }));
  auto start = Begin(PodConfig("pinned"), Pinned(3));
  EXPECT_TRUE(IsStillRunning(start));
  runtime_->SetDelay(kUpdate, milliseconds(0), shared.container);
  runtime_->EndDelays();
  EXPECT_TRUE(updated.get().ok());
  EXPECT_TRUE(start.get().ok());
  EXPECT_EQ(CgroupCpusOf(shared), "0,4-27");
}

// A cgroup without a thread proves nothing: the container's processes may be elsewhere.
TEST_P(DaemonNarrow, WhereTheWriteProvesNothingTheRuntimeMovesTheContainer) {
  Start();
  const Running shared = RunGuarded("shared");
  std::ofstream(CgroupRoot() / (GetParam() ? "" : "cpuset") / CgroupOf(shared).substr(1) /
                (GetParam() ? "cgroup.threads" : "tasks"));
  runtime_->SetDelay(kUpdate, seconds(60), shared.container);
  const size_t before = UpdatesOf(shared);
  auto start = Begin(PodConfig("pinned"), Pinned(3));
  EXPECT_TRUE(Eventually([&] { return UpdatesOf(shared) > before; }));
  EXPECT_TRUE(IsStillRunning(start));
  runtime_->SetDelay(kUpdate, milliseconds(0), shared.container);
  EXPECT_TRUE(runtime_->EndContainer(shared.container, 0));
  EXPECT_TRUE(start.get().ok());
}

// For example by systemd, which has the runtime's record.
TEST_P(DaemonNarrow, WriteOfTheOldSetIsUndoneBeforeTheRuntimeIsUpdated) {
  Start();
  const Running shared = RunGuarded("shared");
  auto creation = BeginSlowCreate();
  RunOne(PodConfig("pinned"), Pinned(3));
  const size_t before = UpdatesOf(shared);
  const size_t repairs = Repairs();
  ASSERT_EQ(CgroupCpusOf(shared), "0,4-27");
  cgroups_.SetCpus(CgroupOf(shared), "0-27");
  EXPECT_TRUE(Eventually([&] { return CgroupCpusOf(shared) == "0,4-27"; }));
  EXPECT_EQ(UpdatesOf(shared), before);
  EXPECT_TRUE(Eventually([&] { return Repairs() > repairs; }));
  runtime_->EndDelays();
  EXPECT_TRUE(creation.get().ok());
}

// The container may have more CPUs, which it gets later. It is guarded meanwhile.
TEST_P(DaemonNarrow, ForeignWriteIsUndoneWhileMoreCpusAreToCome) {
  Start();
  RunOne(PodConfig("stays"), Pinned(2));
  const Running ends = RunOne(PodConfig("ends"), Pinned(2));
  const Running shared = RunGuarded("shared");
  ASSERT_EQ(CgroupCpusOf(shared), "0,5-27");
  auto creation = BeginSlowCreate();
  ASSERT_TRUE(StopSandbox(ends.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(ends.sandbox).ok());
  const size_t before = UpdatesOf(shared);
  cgroups_.SetCpus(CgroupOf(shared), "0-27");
  EXPECT_TRUE(Eventually([&] { return CgroupCpusOf(shared) == "0,3-27"; }));
  EXPECT_EQ(UpdatesOf(shared), before);
  runtime_->EndDelays();
  EXPECT_TRUE(creation.get().ok());
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0,3-27"; }));
}

// The new process does not know what the runtime's record is.
TEST_P(DaemonNarrow, RuntimeIsUpdatedAfterARestart) {
  Start();
  const Running shared = RunGuarded("shared");
  runtime_->SetFailure(kUpdate, grpc::Status(grpc::StatusCode::INTERNAL, "not now"));
  RunOne(PodConfig("pinned"), Pinned(3));
  EXPECT_EQ(CgroupCpusOf(shared), "0,4-27");
  EXPECT_EQ(CpusOf(shared.container), "0-27");
  StopDaemon();
  runtime_->SetFailure(kUpdate, grpc::Status::OK);
  StartDaemon();
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0,4-27"; }));
  EXPECT_EQ(CgroupCpusOf(shared), "0,4-27");
}

TEST_P(DaemonNarrow, HangingDeferredUpdateDoesNotStopTheOthers) {
  Start();
  const Running stuck = RunGuarded("stuck");
  const Running other = RunGuarded("other");
  runtime_->SetDelay(kUpdate, seconds(60), stuck.container);
  RunOne(PodConfig("pinned"), Pinned(3));
  EXPECT_TRUE(Eventually([&] { return CpusOf(other.container) == "0,4-27"; }));
}

// The kernel does not apply what is written. That is no write of another program.
TEST_P(DaemonNarrow, OwnWriteThatProvesNothingIsNoForeignWrite) {
  Start();
  const Running shared = RunGuarded("shared");
  const size_t repairs = Repairs();
  const std::filesystem::path effective =
      CgroupRoot() / (GetParam() ? "" : "cpuset") / CgroupOf(shared).substr(1) /
      (GetParam() ? "cpuset.cpus.effective" : "cpuset.effective_cpus");
  std::filesystem::remove(effective);
  std::ofstream(effective) << "0-27\n";
  const size_t before = UpdatesOf(shared);
  RunOne(PodConfig("pinned"), Pinned(3));
  EXPECT_GT(UpdatesOf(shared), before);
  EXPECT_EQ(CpusOf(shared.container), "0,4-27");
  std::this_thread::sleep_for(milliseconds(300));  // the guard has looked
  EXPECT_EQ(Repairs(), repairs);
}

// Version 2 of the cgroups ignores a set of which the parent has no CPU, although the runtime and
// cpuset.cpus show it.
TEST_P(DaemonNarrow, ExclusiveContainerWaitsForOneThatTheKernelKeepsOutsideItsSet) {
  Start();
  const Running shared = RunGuarded("shared");
  cgroups_.SetParents("1-3", CgroupOf(shared));
  auto start = Begin(PodConfig("pinned"), Pinned(3));
  EXPECT_TRUE(Eventually([&] { return CgroupCpusOf(shared) == "0,4-27"; }));
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0,4-27"; }));
  EXPECT_TRUE(IsStillRunning(start));
  cgroups_.SetParents("0-27", CgroupOf(shared));
  EXPECT_TRUE(start.get().ok());
}

}  // namespace
}  // namespace alignd::daemon
