// Cpusets that another program changes, and other CPU managers on the node.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "daemon_fixture.h"
#include "edge/status_conditions.h"
#include "fake_cgroups.h"
#include "reconcile/cpuset_guard.h"

namespace alignd::daemon {
namespace {

using control::v1::Condition;
using reconcile::ConditionType;

class DaemonGuard : public DaemonTest, public ::testing::WithParamInterface<bool> {
 protected:
  DaemonGuard() : cgroups_(CgroupRoot(), GetParam(), "0-27") {
    watch_.OnEvent([this](const RuntimeModel::Event& event) { cgroups_.Apply(event); });
  }
  ~DaemonGuard() override { watch_.OnEvent({}); }

  std::string CgroupOf(const Running& running) const {
    return runtime_->FindContainer(running.container)->cgroup;
  }
  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    if (!kubelet_dir_.empty()) options.kubelet_dir = kubelet_dir_;
    return options;
  }
  std::vector<Condition> Reported(ConditionType type) const {
    return testing::ConditionsOf(DaemonOptions().ControlSocket(), type);
  }
  std::vector<Condition> ConflictingManagers() const {
    return Reported(ConditionType::kConflictingCpuManager);
  }
  std::vector<Condition> ThrottledPods() const {
    return Reported(ConditionType::kPodQuotaNotLifted);
  }
  // Of all containers.
  uint64_t Repairs() const {
    uint64_t repairs = 0;
    for (const Condition& repair : Reported(ConditionType::kCpusetRepaired)) {
      repairs += repair.times();
    }
    return repairs;
  }
  // Writes `wrong`, and waits until it is repaired.
  void Disturb(const Running& running, const std::string& wrong, const std::string& right) {
    const std::string cgroup = CgroupOf(running);
    const uint64_t repairs = Repairs();
    ASSERT_TRUE(Eventually([&] { return cgroups_.CpusOf(cgroup) == right; }));
    cgroups_.SetCpus(cgroup, wrong);
    ASSERT_TRUE(Eventually([&] { return cgroups_.CpusOf(cgroup) == right; }))
        << cgroups_.CpusOf(cgroup);
    ASSERT_TRUE(Eventually([&] { return Repairs() == repairs + 1; }));
  }

  FakeCgroups cgroups_;
  std::filesystem::path kubelet_dir_;  // empty: the default of the fixture
};
INSTANTIATE_TEST_SUITE_P(CgroupVersions, DaemonGuard, ::testing::Values(false, true),
                         [](const auto& unified) { return unified.param ? "v2" : "v1"; });

TEST_P(DaemonGuard, ForeignWriteIsRepairedAndReported) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  Disturb(pinned, "0-27", "1-3");
  Disturb(shared, "1", "0,4-27");
  if (GetParam()) Disturb(shared, "", "0,4-27");  // as if it had none of its own
  const std::vector<Condition> repairs = Reported(ConditionType::kCpusetRepaired);
  ASSERT_EQ(repairs.size(), 2U);
  EXPECT_EQ(repairs[0].container_id(), shared.container);  // the newest
  EXPECT_EQ(repairs[0].times(), GetParam() ? 2U : 1U);
  EXPECT_EQ(repairs[1].container_id(), pinned.container);
  EXPECT_EQ(repairs[1].pod_uid(), "pinned");
  EXPECT_EQ(repairs[1].pod(), "default/pod-pinned");
  std::smatch times;
  ASSERT_TRUE(std::regex_match(
      repairs[1].message(), times,
      std::regex("another program changed it to CPUs 0-27; restored to CPUs 1-3 within ([0-9]+) ms "
                 "of noticing the change, at most ([0-9]+) ms after the change")))
      << repairs[1].message();
  // The guard saw it correct before, and wrong some time before the update.
  EXPECT_GT(std::stoi(times[1]), 0);
  EXPECT_GE(std::stoi(times[2]), std::stoi(times[1]));
  EXPECT_TRUE(ConflictingManagers().empty());
}

TEST_P(DaemonGuard, ForeignMemoryNodesAreRepaired) {
  Start(
      StaticConfig("memoryManagerPolicy: Static\nreservedMemory:\n- numaNode: 0\n"
                   "  limits: {memory: 1Gi}\nkubeReserved: {memory: 924Mi}\n"
                   "topologyManagerPolicy: best-effort\n"));
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const std::filesystem::path mems =
      CgroupRoot() / (GetParam() ? "" : "cpuset") / CgroupOf(pinned).substr(1) / "cpuset.mems";
  ASSERT_EQ(ReadText(mems), "0\n");
  std::ofstream(mems) << "1\n";
  ASSERT_TRUE(Eventually([&] { return Repairs() > 0; }));
  EXPECT_EQ(ReadText(mems), "0\n");
  const std::string message = Reported(ConditionType::kCpusetRepaired).at(0).message();
  EXPECT_NE(message.find("restored to CPUs 1-3, memory nodes 0 within"), std::string::npos)
      << message;
}

TEST_P(DaemonGuard, WhatRanBeforeItStartedIsGuarded) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  StopDaemon();
  cgroups_.SetCpus(CgroupOf(pinned), "5");
  StartDaemon();
  Disturb(pinned, "6", "1-3");
}

TEST_P(DaemonGuard, ConflictIsReportedAndRepairsStop) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const std::string cgroup = CgroupOf(pinned);
  ASSERT_TRUE(Eventually([&] {
    if (cgroups_.CpusOf(cgroup) == "1-3") cgroups_.SetCpus(cgroup, "0-27");
    return !ConflictingManagers().empty();
  }));
  const Condition sign = ConflictingManagers()[0];
  EXPECT_NE(
      sign.message().find("another program keeps moving container app of pod default/pod-pinned"),
      std::string::npos)
      << sign.message();
  EXPECT_NE(sign.remedy().find("cpuManagerPolicy"), std::string::npos) << sign.remedy();
  EXPECT_EQ(runtime_->Requests("UpdateContainerResources").size(), 5U);
  cgroups_.SetCpus(cgroup, "0-26");
  // No exclusive container starts on these CPUs. The refusal takes so long that another repair
  // would be seen.
  const v1::PodSandboxConfig pod = PodConfig("next");
  const auto created = Create(Run(pod), pod, Pinned(2));
  ASSERT_TRUE(created.status.ok());
  const grpc::Status refused = StartContainer(created.response.container_id());
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(refused.error_message().find("container app of pod default/pod-pinned"),
            std::string::npos)
      << refused.error_message();
  EXPECT_EQ(cgroups_.CpusOf(cgroup), "0-26");
  EXPECT_EQ(runtime_->Requests("UpdateContainerResources").size(), 5U);
  EXPECT_EQ(ConflictingManagers().size(), 1U);
}

// During the backoff, the other program's cpuset can be the correct one for a while. That it does
// not write then does not mean that it has stopped.
TEST_P(DaemonGuard, NoExclusiveContainerStartsOnCpusInConflictDuringTheBackoff) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running first = RunOne(PodConfig("first"), Pinned(3));
  const std::string cgroup = CgroupOf(shared);
  ASSERT_TRUE(Eventually([&] {
    if (cgroups_.CpusOf(cgroup) == "0,4-27") cgroups_.SetCpus(cgroup, "0-27");
    return !ConflictingManagers().empty();
  }));
  const uint64_t repairs = Repairs();
  ASSERT_TRUE(StopSandbox(first.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(first.sandbox).ok());
  ASSERT_TRUE(Eventually([&] { return Repairs() > repairs; }));  // the guard sees it correct
  ASSERT_EQ(cgroups_.CpusOf(cgroup), "0-27");

  const v1::PodSandboxConfig pod = PodConfig("second");
  const auto created = Create(Run(pod), pod, Pinned(3));
  ASSERT_TRUE(created.status.ok());
  ASSERT_TRUE(Eventually([&] { return cgroups_.CpusOf(cgroup) == "0,4-27"; }));
  const grpc::Status refused = StartContainer(created.response.container_id());
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(
      refused.error_message().find("could not be moved: container app of pod default/pod-shared "
                                   "(which another program keeps moving to CPUs 0-27)"),
      std::string::npos)
      << refused.error_message();
}

TEST_P(DaemonGuard, CgroupAboveThatIsNarrowerIsReported) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const std::filesystem::path effective =
      CgroupRoot() / (GetParam() ? "" : "cpuset") / CgroupOf(pinned).substr(1) /
      (GetParam() ? "cpuset.cpus.effective" : "cpuset.effective_cpus");
  cgroups_.SetParent("/kubepods/podpinned", "1-2");
  std::ofstream(effective) << "1-2\n";
  // A read between the truncation and the write finds an empty file; the sign stays the same.
  EXPECT_TRUE(Eventually([&] {
    const auto signs = ConflictingManagers();
    return signs.size() == 1 &&
           signs[0].message().find(
               "has CPUs 1-3, but may use only 1-2, as cgroup "
               "/kubepods/podpinned may use CPUs 1-2 only") != std::string::npos;
  }));
  std::ofstream(effective) << "1-3\n";
  EXPECT_TRUE(Eventually([&] { return ConflictingManagers().empty(); }));
}

// The kernel of cgroup v1 refuses a set that a parent does not have, and the runtime only says so.
TEST_P(DaemonGuard, TheCgroupAboveForWhichAnUpdateFailsIsNamed) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  ASSERT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0,4-27"; }));
  cgroups_.SetParent("/kubepods", "0-27");
  cgroups_.SetParent("/kubepods/burstable", "0,4-27");
  cgroups_.SetParent("/kubepods/burstable/podshared", "0,4-27");
  runtime_->SetFailure("UpdateContainerResources",
                       {grpc::StatusCode::UNKNOWN, "permission denied"});
  ASSERT_TRUE(StopSandbox(pinned.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(pinned.sandbox).ok());
  ASSERT_TRUE(Eventually([&] { return !ConflictingManagers().empty(); }));
  const std::vector<Condition> signs = ConflictingManagers();
  ASSERT_EQ(signs.size(), 1U);
  EXPECT_EQ(signs[0].message(),
            "container app of pod default/pod-shared is to have CPUs 0-27, but cgroup "
            "/kubepods/burstable may use CPUs 0,4-27 only");
  EXPECT_NE(signs[0].remedy().find("widen cpuset.cpus of its parents"), std::string::npos);
  ASSERT_TRUE(Eventually([&] { return !Reported(ConditionType::kCpusetUpdateFailed).empty(); }));
  const Condition failed = Reported(ConditionType::kCpusetUpdateFailed)[0];
  EXPECT_NE(failed.message().find("permission denied"), std::string::npos) << failed.message();
  EXPECT_TRUE(failed.remedy().starts_with("if ConflictingCPUManager names a cgroup above"))
      << failed.remedy();
  // The next cgroup is named once this one is wide.
  cgroups_.SetParent("/kubepods/burstable", "0-27");
  EXPECT_TRUE(Eventually([&] {
    const auto now = ConflictingManagers();
    return now.size() == 1 && now[0].message().ends_with(
                                  "cgroup /kubepods/burstable/podshared may use CPUs 0,4-27 only");
  }));
  cgroups_.SetParent("/kubepods/burstable/podshared", "0-27");
  EXPECT_TRUE(Eventually([&] { return ConflictingManagers().empty(); }));
  EXPECT_FALSE(Reported(ConditionType::kCpusetUpdateFailed).empty());
  runtime_->SetFailure("UpdateContainerResources", grpc::Status::OK);
  EXPECT_TRUE(Eventually([&] { return Reported(ConditionType::kCpusetUpdateFailed).empty(); }));
  EXPECT_TRUE(ConflictingManagers().empty());
}

// It is another cause.
TEST_P(DaemonGuard, AnUpdateThatFailsBelowWideCgroupsIsNoConflict) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  cgroups_.SetParent("/kubepods/burstable/podshared", "0-27");
  runtime_->SetFailure("UpdateContainerResources", {grpc::StatusCode::UNKNOWN, "out of order"});
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  ASSERT_TRUE(Create(Run(pod), pod, Pinned(3)).status.ok());
  EXPECT_TRUE(Eventually([&] {
    const auto failed = Reported(ConditionType::kCpusetUpdateFailed);
    return !failed.empty() && failed[0].times() > 1;
  }));
  EXPECT_TRUE(ConflictingManagers().empty());
}

TEST_P(DaemonGuard, QuotaOfAPodWithExclusiveCpusIsLifted) {
  const std::string quota = GetParam() ? "300000 100000" : "300000";
  const std::string none = GetParam() ? "max" : "-1";
  for (const char* pod : {"/kubepods/podpinned", "/kubepods/burstable/podshared", "/kubepods"}) {
    cgroups_.SetQuota(pod, quota);
  }
  std::string at_start;
  watch_.OnEvent([&](const RuntimeModel::Event& event) {
    cgroups_.Apply(event);
    if (event.change == RuntimeModel::Change::kStarted) {
      at_start = cgroups_.QuotaOf("/kubepods/podpinned");
    }
  });
  Start();
  RunOne(PodConfig("pinned"), Pinned(3));
  EXPECT_EQ(at_start, none);
  watch_.OnEvent([this](const RuntimeModel::Event& event) { cgroups_.Apply(event); });
  RunOne(BurstablePod("shared"), Shared());
  EXPECT_EQ(cgroups_.QuotaOf("/kubepods/burstable/podshared"), quota);
  EXPECT_EQ(cgroups_.QuotaOf("/kubepods"), quota);
  // The kubelet writes the quota again when it resizes the pod.
  cgroups_.SetQuota("/kubepods/podpinned", quota);
  EXPECT_TRUE(Eventually([&] { return cgroups_.QuotaOf("/kubepods/podpinned") == none; }));
}

TEST_P(DaemonGuard, QuotaThatCannotBeLiftedIsReportedUntilItIsOrThePodIsGone) {
  // A directory in place of the file: not even root can write it.
  const auto forbid = [&](const std::string& pod) {
    const std::filesystem::path file = cgroups_.QuotaFile(pod);
    std::filesystem::create_directories(file);
    return file;
  };
  const std::filesystem::path lifted = forbid("/kubepods/podlifted");
  forbid("/kubepods/podremoved");
  Start();
  const Running removed = RunOne(PodConfig("removed"), Pinned(3));
  RunOne(PodConfig("lifted"), Pinned(3));
  ASSERT_TRUE(Eventually([&] { return ThrottledPods().size() == 2; }));
  const Condition first = ThrottledPods()[0];
  EXPECT_EQ(first.pod_uid(), "lifted");
  EXPECT_NE(first.message().find(lifted.string()), std::string::npos) << first.message();
  EXPECT_NE(first.remedy().find("ProtectControlGroups=no"), std::string::npos) << first.remedy();
  std::filesystem::remove(lifted);
  cgroups_.SetQuota("/kubepods/podlifted", GetParam() ? "300000 100000" : "300000");
  ASSERT_TRUE(Eventually([&] { return ThrottledPods().size() == 1; }));
  EXPECT_EQ(ThrottledPods()[0].pod_uid(), "removed");
  ASSERT_TRUE(StopSandbox(removed.sandbox).ok());
  EXPECT_TRUE(Eventually([&] { return ThrottledPods().empty(); }));
}

TEST_P(DaemonGuard, KubeletsStaticPolicyIsReportedWithARemedy) {
  tree_.Write({"kubelet/cpu_manager_state", R"({"policyName":"static","defaultCpuSet":"0-27"})"});
  tree_.Write({"kubelet/config.yaml", StaticConfig()});
  Start();
  ASSERT_TRUE(Eventually([&] { return ConflictingManagers().size() == 2; }));
  for (const Condition& sign : ConflictingManagers()) {
    EXPECT_NE(sign.message().find((tree_.root() / "kubelet").string()), std::string::npos)
        << sign.message();
    EXPECT_NE(sign.remedy().find("cpuManagerPolicy: none"), std::string::npos) << sign.remedy();
  }
  std::ofstream(tree_.root() / "kubelet/cpu_manager_state") << R"({"policyName":"none"})";
  ASSERT_TRUE(Eventually([&] { return ConflictingManagers().size() == 1; }));
  EXPECT_NE(ConflictingManagers()[0].message().find("config.yaml"), std::string::npos);
  std::filesystem::remove(tree_.root() / "kubelet/config.yaml");
  EXPECT_TRUE(Eventually([&] { return ConflictingManagers().empty(); }));
}

// The kubelet uses alignd's state directory: its state file is alignd's and no sign of a policy.
TEST_P(DaemonGuard, SharedStateDirectoryAndForeignWritesAreReported) {
  kubelet_dir_ = StateDir();
  Start();
  ASSERT_TRUE(Eventually([&] { return ConflictingManagers().size() == 1; }));
  EXPECT_NE(ConflictingManagers()[0].message().find("is the kubelet's"), std::string::npos)
      << ConflictingManagers()[0].message();
  EXPECT_NE(ConflictingManagers()[0].remedy().find("--state-dir"), std::string::npos);
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const std::string ours = State();
  const auto write_theirs = [this] {
    std::ofstream(StateDir() / "cpu_manager_state")
        << R"({"policyName":"static","defaultCpuSet":"0,3-27","entries":{"theirs":{"app":"1-2"}}})";
  };
  write_theirs();
  ASSERT_TRUE(Eventually([&] { return ConflictingManagers().size() == 2; }));
  EXPECT_TRUE(std::ranges::any_of(ConflictingManagers(), [](const auto& sign) {
    return sign.message().find("was changed by another program") != std::string::npos;
  }));
  // No assignment is lost, also if alignd stops before it sees the other file.
  EXPECT_TRUE(Eventually([&] { return State() == ours; })) << State();
  EXPECT_NE(ReadText(StateDir() / "cpu_manager_state.foreign").find("theirs"), std::string::npos);
  write_theirs();
  StopDaemon();
  EXPECT_EQ(State(), ours);
  StartDaemon();
  EXPECT_EQ(RunOne(PodConfig("other"), Pinned(2)).container.empty(), false);
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
}

// A sign in one of the two files shows that alignd has read the other one as well.
TEST_P(DaemonGuard, KubeletWithoutStaticPolicyIsNoConflict) {
  const std::string none =
      "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
  const auto only_sign_is_in = [this](const std::string& file) {
    return Eventually([&] {
      const std::vector<Condition> signs = ConflictingManagers();
      return signs.size() == 1 && signs[0].times() > 1 &&
             signs[0].message().find(file) != std::string::npos;
    });
  };
  const std::filesystem::path kubelet = tree_.root() / "kubelet";
  tree_.Write({"kubelet/cpu_manager_state", R"({"policyName":"none","defaultCpuSet":""})"});
  tree_.Write({"kubelet/config.yaml", StaticConfig()});
  std::string config = StaticConfig();
  const std::string period = "cpuManagerReconcilePeriod: 2s";
  Start(config.replace(config.find(period), period.size(), "cpuManagerReconcilePeriod: 200ms"));
  EXPECT_TRUE(only_sign_is_in("config.yaml"));
  std::ofstream(kubelet / "config.yaml") << none;
  ASSERT_TRUE(Eventually([&] { return ConflictingManagers().empty(); }));
  std::ofstream(kubelet / "cpu_manager_state") << R"({"policyName":"static"})";
  EXPECT_TRUE(only_sign_is_in("cpu_manager_state"));
  std::ofstream(kubelet / "cpu_manager_state") << R"({"policyName":"none"})";
  EXPECT_TRUE(Eventually([&] { return ConflictingManagers().empty(); }));
}

TEST_P(DaemonGuard, CpuSetsInUpdatesOfTheCallerAreReported) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(pinned.container);
  request.mutable_linux()->set_memory_limit_in_bytes(200 * 1024 * 1024);
  ASSERT_TRUE(Update(request).ok());
  EXPECT_TRUE(ConflictingManagers().empty());
  request.mutable_linux()->set_cpuset_cpus("0-27");
  ASSERT_TRUE(Update(request).ok());
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
  EXPECT_EQ(ConflictingManagers().size(), 1U);
}

}  // namespace
}  // namespace alignd::daemon
