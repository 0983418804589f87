// Cpusets that another program changes, and another CPU manager on the node.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "control/control_client.h"
#include "daemon_fixture.h"
#include "fake_cgroups.h"
#include "reconcile/cpuset_guard.h"

namespace alignd::daemon {
namespace {

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
  control::ConditionReports ConditionReports() const {
    const auto status = control::ControlClient(DaemonOptions().ControlSocket()).GetStatus();
    EXPECT_TRUE(status.ok()) << status.error().Text();
    return status.ok() ? status->conditions : control::ConditionReports();
  }
  // Writes `wrong`, and waits until it is repaired.
  void Disturb(const Running& running, const std::string& wrong, const std::string& right) {
    const std::string cgroup = CgroupOf(running);
    const uint64_t repairs = ConditionReports().repairs;
    ASSERT_TRUE(Eventually([&] { return cgroups_.CpusOf(cgroup) == right; }));
    cgroups_.SetCpus(cgroup, wrong);
    ASSERT_TRUE(Eventually([&] { return cgroups_.CpusOf(cgroup) == right; }))
        << cgroups_.CpusOf(cgroup);
    ASSERT_TRUE(Eventually([&] { return ConditionReports().repairs == repairs + 1; }));
  }

  FakeCgroups cgroups_;
  std::filesystem::path kubelet_dir_;  // empty: one of its own
};
INSTANTIATE_TEST_SUITE_P(CgroupVersions, DaemonGuard, ::testing::Values(false, true),
                         [](const auto& unified) { return unified.param ? "v2" : "v1"; });

TEST_P(DaemonGuard, ForeignWriteIsRepairedAndReported) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  Disturb(pinned, "0-27", "1-3");
  Disturb(shared, "1", "0,4-27");
  if (GetParam()) Disturb(shared, "", "0,4-27");  // as if the cgroup had no cpuset of its own
  const control::ConditionReport first = ConditionReports().last_repairs.back();
  EXPECT_EQ(first.container_id, pinned.container);
  EXPECT_EQ(first.pod_uid, "pinned");
  EXPECT_EQ(first.pod, "default/pod-pinned");
  // It was correct before; the change happened some time before alignd was notified.
  EXPECT_GT(first.noticed_ms, 0);
  EXPECT_GE(first.lasted_ms, first.noticed_ms);
  EXPECT_EQ(first.was, "CPUs 0-27");
  EXPECT_EQ(first.should, "CPUs 1-3");
  EXPECT_EQ(ConditionReports().conflicting_managers, std::vector<control::ConditionReport>());
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
  ASSERT_TRUE(Eventually([&] { return ConditionReports().repairs > 0; }));
  EXPECT_EQ(ReadText(mems), "0\n");
  EXPECT_EQ(ConditionReports().last_repairs.back().should, "CPUs 1-3, memory nodes 0");
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
    return !ConditionReports().conflicting_managers.empty();
  }));
  const control::ConditionReport sign = ConditionReports().conflicting_managers[0];
  EXPECT_NE(sign.text.find("somebody keeps moving container app of pod default/pod-pinned from"),
            std::string::npos)
      << sign.text;
  EXPECT_NE(sign.remedy.find("cpuManagerPolicy none"), std::string::npos) << sign.remedy;
  cgroups_.SetCpus(cgroup, "0-27");
  const auto updates = [this] { return runtime_->Requests("UpdateContainerResources").size(); };
  constexpr size_t kRepairs = 5;
  ASSERT_TRUE(Eventually([&] { return updates() >= kRepairs; }));
  // alignd leaves the container there, and starts no other container on its CPUs.
  const v1::PodSandboxConfig pod = PodConfig("next");
  const auto created = Create(Run(pod), pod, Pinned(2));
  ASSERT_TRUE(created.status.ok());
  v1::StartContainerRequest request;
  request.set_container_id(created.response.container_id());
  EXPECT_FALSE(
      Call<v1::StartContainerResponse>("StartContainer", request, milliseconds(1500)).status.ok());
  EXPECT_EQ(cgroups_.CpusOf(cgroup), "0-27");
  EXPECT_EQ(updates(), kRepairs);
}

// The cpuset that the other program wants may be correct for a while. It writes nothing during that
// time; the condition must stay.
TEST_P(DaemonGuard, NoContainerStartsOnCpusInConflictDuringTheBackoff) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running first = RunOne(PodConfig("first"), Pinned(3));
  const std::string cgroup = CgroupOf(shared);
  ASSERT_TRUE(Eventually([&] {
    if (cgroups_.CpusOf(cgroup) == "0,4-27") cgroups_.SetCpus(cgroup, "0-27");
    return !ConditionReports().conflicting_managers.empty();
  }));
  const uint64_t repairs = ConditionReports().repairs;
  ASSERT_TRUE(StopSandbox(first.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(first.sandbox).ok());
  ASSERT_TRUE(Eventually(
      [&] { return ConditionReports().repairs > repairs; }));  // the next check finds it correct
  ASSERT_EQ(cgroups_.CpusOf(cgroup), "0-27");

  const v1::PodSandboxConfig pod = PodConfig("second");
  const auto created = Create(Run(pod), pod, Pinned(3));
  ASSERT_TRUE(created.status.ok());
  ASSERT_TRUE(Eventually([&] { return cgroups_.CpusOf(cgroup) == "0,4-27"; }));
  const grpc::Status refused = StartContainer(created.response.container_id());
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(
      refused.error_message().find("could not be moved: container app of pod default/pod-shared "
                                   "(which somebody else keeps moving to CPUs 0-27)"),
      std::string::npos)
      << refused.error_message();
}

TEST_P(DaemonGuard, CgroupAboveThatIsNarrowerIsReported) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const std::filesystem::path effective =
      CgroupRoot() / (GetParam() ? "" : "cpuset") / CgroupOf(pinned).substr(1) /
      (GetParam() ? "cpuset.cpus.effective" : "cpuset.effective_cpus");
  std::ofstream(effective) << "1-2\n";
  // Between truncation and write the file is empty; the condition must name the same sign.
  EXPECT_TRUE(Eventually([&] {
    const auto signs = ConditionReports().conflicting_managers;
    return signs.size() == 1 &&
           signs[0].text.find("has CPUs 1-3, but may use only 1-2") != std::string::npos;
  }));
  std::ofstream(effective) << "1-3\n";
  EXPECT_TRUE(Eventually([&] { return ConditionReports().conflicting_managers.empty(); }));
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

TEST_P(DaemonGuard, QuotaThatCannotBeRemovedIsReportedUntilItIsRemovedOrThePodEnds) {
  // Not even root can write there.
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
  ASSERT_TRUE(Eventually([&] { return ConditionReports().throttled_pods.size() == 2; }));
  const control::ConditionReport first = ConditionReports().throttled_pods[0];
  EXPECT_EQ(first.pod_uid, "lifted");
  EXPECT_NE(first.text.find(lifted.string()), std::string::npos) << first.text;
  EXPECT_NE(first.remedy.find("ProtectControlGroups=no"), std::string::npos) << first.remedy;
  std::filesystem::remove(lifted);
  cgroups_.SetQuota("/kubepods/podlifted", GetParam() ? "300000 100000" : "300000");
  ASSERT_TRUE(Eventually([&] { return ConditionReports().throttled_pods.size() == 1; }));
  EXPECT_EQ(ConditionReports().throttled_pods[0].pod_uid, "removed");
  ASSERT_TRUE(StopSandbox(removed.sandbox).ok());
  EXPECT_TRUE(Eventually([&] { return ConditionReports().throttled_pods.empty(); }));
}

TEST_P(DaemonGuard, KubeletsStaticPolicyIsReportedWithTheRemedy) {
  tree_.Write({"kubelet/cpu_manager_state", R"({"policyName":"static","defaultCpuSet":"0-27"})"});
  tree_.Write({"kubelet/config.yaml", StaticConfig()});
  Start();
  ASSERT_TRUE(Eventually([&] { return ConditionReports().conflicting_managers.size() == 2; }));
  const control::ConditionReports conditions = ConditionReports();
  for (const control::ConditionReport& sign : conditions.conflicting_managers) {
    EXPECT_NE(sign.text.find((tree_.root() / "kubelet").string()), std::string::npos) << sign.text;
    EXPECT_NE(sign.remedy.find("cpuManagerPolicy: none"), std::string::npos) << sign.remedy;
  }
  // Resolved conflicts are not reported.
  std::ofstream(tree_.root() / "kubelet/cpu_manager_state") << R"({"policyName":"none"})";
  ASSERT_TRUE(Eventually([&] { return ConditionReports().conflicting_managers.size() == 1; }));
  EXPECT_NE(ConditionReports().conflicting_managers[0].text.find("config.yaml"), std::string::npos);
  std::filesystem::remove(tree_.root() / "kubelet/config.yaml");
  EXPECT_TRUE(Eventually([&] { return ConditionReports().conflicting_managers.empty(); }));
}

// A kubelet that uses alignd's state directory: the file is alignd's, and its content is no sign.
TEST_P(DaemonGuard, SharedStateDirectoryAndForeignWritesAreReported) {
  kubelet_dir_ = StateDir();
  Start();
  ASSERT_TRUE(Eventually([&] { return ConditionReports().conflicting_managers.size() == 1; }));
  EXPECT_NE(ConditionReports().conflicting_managers[0].text.find("is the kubelet's"),
            std::string::npos)
      << ConditionReports().conflicting_managers[0].text;
  EXPECT_NE(ConditionReports().conflicting_managers[0].remedy.find("--state-dir"),
            std::string::npos);
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const std::string ours = State();
  const auto write_theirs = [this] {
    std::ofstream(StateDir() / "cpu_manager_state")
        << R"({"policyName":"static","defaultCpuSet":"0,3-27","entries":{"theirs":{"app":"1-2"}}})";
  };
  write_theirs();
  ASSERT_TRUE(Eventually([&] { return ConditionReports().conflicting_managers.size() == 2; }));
  EXPECT_TRUE(std::ranges::any_of(ConditionReports().conflicting_managers, [](const auto& sign) {
    return sign.text.find("was not what alignd wrote") != std::string::npos;
  }));
  // Allocations are kept, also if alignd stops before it detects the conflict.
  EXPECT_TRUE(Eventually([&] { return State() == ours; })) << State();
  EXPECT_NE(ReadText(StateDir() / "cpu_manager_state.foreign").find("theirs"), std::string::npos);
  write_theirs();
  StopDaemon();
  EXPECT_EQ(State(), ours);
  StartDaemon();
  EXPECT_EQ(RunOne(PodConfig("other"), Pinned(2)).container.empty(), false);
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
}

TEST_P(DaemonGuard, KubeletWithoutStaticPolicyIsNoSign) {
  tree_.Write({"kubelet/cpu_manager_state", R"({"policyName":"none","defaultCpuSet":""})"});
  tree_.Write({"kubelet/config.yaml", StaticConfig()});
  Start();
  // The sign of config.yaml shows that alignd has read both files.
  ASSERT_TRUE(Eventually([&] { return !ConditionReports().conflicting_managers.empty(); }));
  ASSERT_EQ(ConditionReports().conflicting_managers.size(), 1U);
  EXPECT_NE(ConditionReports().conflicting_managers[0].text.find("config.yaml"), std::string::npos);
  tree_.Write({"kubelet/config.yaml",
               "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"});
  EXPECT_TRUE(Eventually([&] { return ConditionReports().conflicting_managers.empty(); }));
}

TEST_P(DaemonGuard, CpuSetsInUpdatesOfTheCallerAreASign) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(pinned.container);
  request.mutable_linux()->set_memory_limit_in_bytes(200 * 1024 * 1024);
  ASSERT_TRUE(Update(request).ok());
  EXPECT_TRUE(ConditionReports().conflicting_managers.empty());
  request.mutable_linux()->set_cpuset_cpus("0-27");
  ASSERT_TRUE(Update(request).ok());
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
  EXPECT_EQ(ConditionReports().conflicting_managers.size(), 1U);
}

}  // namespace
}  // namespace alignd::daemon
