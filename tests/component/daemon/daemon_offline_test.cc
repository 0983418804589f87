// CPUs of the machine go offline and come back while alignd runs, or while it does not.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "alignd/machine/node_json.h"
#include "daemon_fixture.h"
#include "edge/machine_tree.h"
#include "edge/status_conditions.h"
#include "fake_cgroups.h"

namespace alignd::daemon {
namespace {

using control::v1::Condition;
using reconcile::ConditionType;

class DaemonOffline : public DaemonTest {
 protected:
  DaemonOffline() : machine_(*MachineFromNodeJson(BlogNode())) {
    testing::WriteMachine(machine_, "machine", tree_);
  }

  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.node.clear();
    options.root = tree_.root() / "machine";
    return options;
  }

  // A container all of whose CPUs are offline runs in the shared pool, which CPU 0 is always in,
  // and has no CFS quota. For the watch, it is no exclusive one.
  void Start() {
    auto runtime =
        simulator::EmbeddedRuntime::Start(RuntimeEndpoint(), [this](RuntimeModel::Event event) {
          v1::LinuxContainerResources& resources = event.container.resources;
          const Result<CpuSet> cpus = CpuSet::Parse(resources.cpuset_cpus());
          if (cpus.ok() && cpus->Contains(0)) resources.set_cpu_quota(0);
          watch_.Note(event);
        });
    ASSERT_TRUE(runtime.ok()) << runtime.error().Text();
    runtime_ = *std::move(runtime);
    StartDaemon();
  }

  // As the kernel shows it: a CPU that is offline has no topology.
  void SetOffline(const CpuSet& offline) const {
    const std::string cpus = "machine/sys/devices/system/cpu/";
    for (const Cpu& row : machine_.cpu_rows()) {
      const std::string cpu = cpus + "cpu" + std::to_string(row.cpu);
      if (offline.Contains(row.cpu)) {
        std::filesystem::remove_all(tree_.root() / cpu / "topology");
        continue;
      }
      tree_.Write({cpu + "/topology/core_id", std::to_string(row.core) + "\n"});
      tree_.Write({cpu + "/topology/physical_package_id", std::to_string(row.socket) + "\n"});
    }
    // In one step, as no reader sees a part of the kernel's list.
    tree_.Write({cpus + "next", (machine_.cpus() - offline).ToString() + "\n"});
    std::filesystem::rename(tree_.root() / cpus / "next", tree_.root() / cpus / "online");
  }
  void SetOffline(const std::string& offline) const { SetOffline(*CpuSet::Parse(offline)); }

  // Of each CPUOffline: the container and the message.
  std::vector<std::string> Reported() const {
    std::vector<std::string> reported;
    for (const Condition& condition :
         testing::ConditionsOf(DaemonOptions().ControlSocket(), ConditionType::kCpuOffline)) {
      EXPECT_NE(condition.remedy().find("set them online"), std::string::npos);
      reported.push_back((condition.pod().empty() ? "" : condition.pod() + ": ") +
                         condition.message());
    }
    return reported;
  }
  bool AwaitReport(const std::vector<std::string>& expected) const {
    return Eventually([&] { return Reported() == expected; });
  }
  bool AwaitCpus(const Running& running, const std::string& cpus) const {
    return Eventually([&] { return CpusOf(running.container) == cpus; });
  }

  const Machine machine_;
};

constexpr char kThree[] =
    "default/pod-pinned: CPUs 3 of its CPUs 1-3 are offline: it runs on CPUs 1-2";

std::string OfNode(const std::string& cpus) {
  return "CPUs " + cpus + " are offline: no container runs on them or is assigned them";
}

TEST_F(DaemonOffline, ContainersRunOnTheirOtherCpusUntilTheCpusAreBack) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  ASSERT_TRUE(AwaitCpus(pinned, "1-3"));
  ASSERT_TRUE(AwaitCpus(shared, "0,4-27"));
  const std::string state = State();

  SetOffline("3,5");
  EXPECT_TRUE(AwaitCpus(shared, "0,4,6-27")) << CpusOf(shared.container);
  EXPECT_TRUE(AwaitCpus(pinned, "1-2")) << CpusOf(pinned.container);
  EXPECT_TRUE(AwaitReport({OfNode("3,5"), kThree}));
  EXPECT_EQ(State(), state);
  const Running next = RunOne(PodConfig("next"), Pinned(2));
  EXPECT_EQ(CpusOf(next.container), "4,6");
  const auto status = control::ControlClient(DaemonOptions().ControlSocket()).GetStatus();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->offline_cpus(), "3,5");
  EXPECT_EQ(status->default_set(), "0,7-27");
  EXPECT_EQ(status->containers(1).exclusive_cpus() + " and " + status->containers(1).offline_cpus(),
            "1-2 and 3");

  SetOffline("");
  EXPECT_TRUE(AwaitCpus(pinned, "1-3")) << CpusOf(pinned.container);
  EXPECT_TRUE(AwaitCpus(shared, "0,5,7-27")) << CpusOf(shared.container);
  EXPECT_TRUE(AwaitReport({}));
  EXPECT_EQ(CpusOf(next.container), "4,6");
}

// The kernel shows CPUs that are offline in no effective set.
TEST_F(DaemonOffline, SystemPartitionWithAllOtherCpusTakesPodsWithWholeCpus) {
  const FakeCgroups cgroups(CgroupRoot(), /*unified=*/true, "0-26");
  const std::filesystem::path partition = CgroupRoot() / "kubepods/system";
  std::filesystem::create_directories(partition);
  std::ofstream(partition / "cpuset.cpus") << "0-27\n";
  std::ofstream(partition / "cpuset.cpus.effective") << "0-26\n";
  std::ofstream(partition / "cpuset.mems") << "\n";
  std::ofstream(partition / "cpuset.mems.effective") << "0-1\n";
  Start();
  SetOffline("27");
  ASSERT_TRUE(AwaitReport({OfNode("27")}));
  v1::PodSandboxConfig pod = PodConfig("p");
  pod.mutable_linux()->set_cgroup_parent("/kubepods/system/podp");
  const auto created = Create(Run(pod), pod, Pinned(2));
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-2");
}

TEST_F(DaemonOffline, AContainerWithoutACpuRunsInTheSharedPool) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(2));
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  SetOffline("1-2");
  EXPECT_TRUE(AwaitCpus(pinned, "0,3-27")) << CpusOf(pinned.container);
  EXPECT_TRUE(AwaitReport({OfNode("1-2"),
                           "default/pod-pinned: all of its CPUs, 1-2, are offline: it runs in the "
                           "shared pool"}));
  // A container that starts now with CPUs of the pool has them for itself.
  const Running next = RunOne(PodConfig("next"), Pinned(2));
  EXPECT_EQ(CpusOf(next.container), "3-4");
  EXPECT_EQ(CpusOf(pinned.container), "0,5-27");
  EXPECT_EQ(CpusOf(shared.container), "0,5-27");
  SetOffline("1");
  EXPECT_TRUE(AwaitCpus(pinned, "2")) << CpusOf(pinned.container);
  SetOffline("");
  EXPECT_TRUE(AwaitCpus(pinned, "1-2")) << CpusOf(pinned.container);
}

TEST_F(DaemonOffline, TheCpusOfAPodThatEndsJoinThePoolOnceTheyAreOnline) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  SetOffline("3");
  ASSERT_TRUE(AwaitCpus(pinned, "1-2"));
  ASSERT_TRUE(StopSandbox(pinned.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(pinned.sandbox).ok());
  EXPECT_TRUE(AwaitCpus(shared, "0-2,4-27")) << CpusOf(shared.container);
  EXPECT_TRUE(AwaitReport({OfNode("3")}));
  const Running all = RunOne(PodConfig("all"), Pinned(26));
  EXPECT_TRUE(AwaitCpus(shared, "0")) << CpusOf(shared.container);
  SetOffline("");
  EXPECT_TRUE(AwaitCpus(shared, "0,3")) << CpusOf(shared.container);
  EXPECT_EQ(CpusOf(all.container), "1-2,4-27");
}

TEST_F(DaemonOffline, TheSameHoldsAfterARestart) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const Running gone = RunOne(PodConfig("gone"), Pinned(1));
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const std::string state = State();
  StopDaemon();
  SetOffline("3-5");
  StartDaemon();
  EXPECT_TRUE(AwaitCpus(pinned, "1-2")) << CpusOf(pinned.container);
  EXPECT_TRUE(AwaitCpus(gone, "0,6-27")) << CpusOf(gone.container);
  EXPECT_TRUE(AwaitCpus(shared, "0,6-27")) << CpusOf(shared.container);
  EXPECT_TRUE(AwaitReport(
      {OfNode("3-5"),
       "default/pod-gone: all of its CPUs, 4, are offline: it runs in the shared pool", kThree}));
  EXPECT_EQ(State(), state);
  StopDaemon();
  StartDaemon();  // it has seen the CPUs only before the last restart
  EXPECT_EQ(State(), state);
  EXPECT_EQ(CpusOf(RunOne(PodConfig("next"), Pinned(2)).container), "6-7");
  SetOffline("");
  EXPECT_TRUE(AwaitCpus(pinned, "1-3")) << CpusOf(pinned.container);
  EXPECT_TRUE(AwaitCpus(gone, "4")) << CpusOf(gone.container);
  EXPECT_TRUE(AwaitCpus(shared, "0,5,8-27")) << CpusOf(shared.container);
  EXPECT_TRUE(AwaitReport({}));
}

TEST_F(DaemonOffline, AfterAnotherBootOnlyOnlineCpusAreOfTheMachine) {
  const std::string boot = "machine/proc/sys/kernel/random/boot_id";
  tree_.Write({boot, "first\n"});
  Start();
  StopDaemon();
  tree_.Write({boot, "second\n"});
  SetOffline("14-27");  // as with nosmt
  std::filesystem::remove(StateDir() / "cpu_manager_state");
  StartDaemon();
  const auto status = control::ControlClient(DaemonOptions().ControlSocket()).GetStatus();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->default_set(), "0-13");
  EXPECT_EQ(status->offline_cpus(), "");
  EXPECT_EQ(Reported(), std::vector<std::string>());
}

TEST_F(DaemonOffline, ACpuThatWasOfflineAtTheStartIsUsedAfterTheNextOne) {
  SetOffline("5");
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  ASSERT_TRUE(AwaitCpus(shared, "0,4,6-27"));
  EXPECT_EQ(Reported(), std::vector<std::string>());
  SetOffline("6");  // and 5 is online
  EXPECT_TRUE(AwaitCpus(shared, "0,4,7-27")) << CpusOf(shared.container);
  StopDaemon();
  StartDaemon();
  EXPECT_TRUE(AwaitCpus(shared, "0,4-5,7-27")) << CpusOf(shared.container);
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
  EXPECT_TRUE(AwaitReport({OfNode("6")}));
}

// The kernel takes a CPU that goes offline out of cgroups of version 1, and does not give it back.
TEST_F(DaemonOffline, TheGuardDoesNotTakeTheKernelForAnotherProgram) {
  const FakeCgroups cgroups(CgroupRoot(), /*unified=*/false, "0-27");
  watch_.OnEvent([&](const RuntimeModel::Event& event) { cgroups.Apply(event); });
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const std::string cgroup = runtime_->FindContainer(pinned.container)->cgroup;
  ASSERT_TRUE(Eventually([&] { return cgroups.CpusOf(cgroup) == "1-3"; }));
  SetOffline("3");
  cgroups.SetCpus(cgroup, "1-2");
  EXPECT_TRUE(AwaitReport({OfNode("3"), kThree}));
  EXPECT_TRUE(AwaitCpus(pinned, "1-2")) << CpusOf(pinned.container);
  SetOffline("");
  EXPECT_TRUE(AwaitCpus(pinned, "1-3")) << CpusOf(pinned.container);
  EXPECT_TRUE(Eventually([&] { return cgroups.CpusOf(cgroup) == "1-3"; }));
  const auto conflicts =
      testing::ConditionsOf(DaemonOptions().ControlSocket(), ConditionType::kConflictingCpuManager);
  EXPECT_EQ(conflicts.size(), 0U);
  watch_.OnEvent({});
}

// What cannot be written at a start, and can wait, does not prevent it.
TEST_F(DaemonOffline, AStartDoesNotNeedTheFileOfKnownCpus) {
  const auto file = StateDir() / "known_cpus";
  std::filesystem::create_directories(file / "in the way");
  StartRuntime();
  StartDaemon();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(2));
  EXPECT_EQ(CpusOf(pinned.container), "1-2");
  const auto unsaved = [this] {
    return testing::ConditionsOf(DaemonOptions().ControlSocket(), ConditionType::kStateNotWritable);
  };
  ASSERT_EQ(unsaved().size(), 1U);  // also after the assignments were saved
  EXPECT_NE(unsaved()[0].message().find("known_cpus cannot be saved: "), std::string::npos)
      << unsaved()[0].message();
  EXPECT_NE(unsaved()[0].message().find("does not know CPUs that are offline then"),
            std::string::npos);
  std::filesystem::remove_all(file);
  EXPECT_TRUE(Eventually([&] { return unsaved().empty(); }));
  EXPECT_NE(ReadText(file).find("\"cpus\""), std::string::npos);
}

}  // namespace
}  // namespace alignd::daemon
