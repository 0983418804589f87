// Scans of a /proc that the test writes.
#include "reconcile/process_scan.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "edge/allocation_node.h"
#include "edge/fake_tree.h"

namespace alignd::reconcile {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Two pods: `pinned` with two exclusive CPUs, and `shared`.
class ProcessScanTest : public ::testing::TestWithParam<bool> {
 protected:
  ProcessScanTest() {
    testing::FakeEntry controllers("cgroup.controllers", "cpuset cpu\n");
    if (GetParam()) controllers.WriteInto(tree_.root() / "cgroup");
    std::filesystem::create_directories(tree_.root() / "proc");
    cgroups_.emplace(tree_.root() / "cgroup");
    node_.Up();
    (void)node_.Admit(testing::AppPod("pinned", 2));
    cpus_ = node_.published().cpu.Find({"pinned", "app"})->ToString();
    Put(2, 0, "kthreadd", "/", "0-15");
    Put(5, 1, "sshd", "/", "0-15");
    Put(10, 5, "web", "/shared", "0");
    Put(20, 5, "calc", "/pinned", cpus_);
  }
  ~ProcessScanTest() override {
    scan_.reset();
    io_.Stop();
    node_.Down();
  }

  void Start() {
    scan_.emplace(
        io_, node_.node, *node_.manager, *cgroups_, conditions_,
        [this] {
          ++scans_;
          std::vector<ContainerCgroup> containers = {
              {{"c1", {"pinned", "app"}, "default/pinned"}, "/pinned"}};
          if (!ended_) {
            containers.push_back({{"c2", {"shared", "app"}, "default/shared"}, "/shared"});
          }
          return containers;
        },
        ProcessScan::Options{.proc = tree_.root() / "proc",
                             .period = milliseconds(5),
                             .confirm = milliseconds(5),
                             .at_once = 3});
    scan_->Start();
    Scans();
  }
  // Three whole scans.
  void Scans() {
    const uint64_t goal = scans_ + 4;
    ASSERT_TRUE(Eventually([&] { return scans_ >= goal; }));
  }
  static bool Eventually(const std::function<bool()>& is_so) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(30);
    while (!is_so()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(2));
    }
    return true;
  }

  // At once: a file of the kernel never has a part of its text.
  void Replace(const std::filesystem::path& file, const std::string& text) const {
    std::filesystem::create_directories(file.parent_path());
    tree_.Write({"new", text});
    std::filesystem::rename(tree_.root() / "new", file);
  }
  void Put(int pid, int parent, const std::string& name, const std::string& cgroup,
           const std::string& cpus, int started = 100, char state = 'S', int threads = 1) {
    const std::filesystem::path directory = tree_.root() / "proc" / std::to_string(pid);
    std::string stat =
        std::to_string(pid) + " (" + name + ") " + state + " " + std::to_string(parent);
    for (int field = 5; field < 20; ++field) stat += " 0";
    stat += " " + std::to_string(threads) + " 0";
    Replace(directory / "status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t" + cpus +
                                      "\nMems_allowed_list:\t0\n");
    const std::string line = GetParam() ? "0::" : "3:cpuset:";
    Replace(directory / "cgroup", "5:memory:/elsewhere\n" + line + cgroup + "\n");
    Replace(directory / "stat", stat + " " + std::to_string(started) + " 0 0\n");
  }
  void End(int pid) { std::filesystem::remove_all(tree_.root() / "proc" / std::to_string(pid)); }
  std::vector<Condition> Reported() const { return conditions_.Report(); }
  bool ReportsOnly(const std::string& process) const {
    const std::vector<Condition> report = Reported();
    return report.size() == 1 && report[0].message.find("process " + process) != std::string::npos;
  }

  const testing::FakeTree tree_;
  testing::AllocationNode node_;
  std::optional<cgroup::CgroupTree> cgroups_;
  Conditions conditions_;
  std::string cpus_;
  std::atomic<uint64_t> scans_ = 0;  // that have begun
  std::atomic<bool> ended_ = false;  // the container of `shared`
  TaskQueue io_{"io"};
  std::optional<ProcessScan> scan_;
};
INSTANTIATE_TEST_SUITE_P(CgroupVersions, ProcessScanTest, ::testing::Values(false, true),
                         [](const auto& unified) { return unified.param ? "v2" : "v1"; });

TEST_P(ProcessScanTest, MovedProcessIsReportedUntilItEnds) {
  Start();
  EXPECT_TRUE(Reported().empty());
  Put(10, 5, "web", "/", "0-15");
  ASSERT_TRUE(Eventually([&] { return ReportsOnly("10 (web) is in the cgroup /,"); }));
  const Condition moved = Reported()[0];
  EXPECT_EQ(moved.type, ConditionType::kProcessOutsideCgroup);
  EXPECT_EQ(NameOf(moved.subject), "container app of pod default/shared");
  EXPECT_NE(moved.message.find("may run on the exclusive CPUs " + cpus_ +
                               " of container app of pod default/pinned"),
            std::string::npos)
      << moved.message;
  End(10);
  EXPECT_TRUE(Eventually([&] { return Reported().empty(); }));
}

// It was never seen in the container's cgroup, but its parent was.
TEST_P(ProcessScanTest, DescendantsOfAContainersProcessBelongToIt) {
  Start();
  Put(11, 10, "sh) R 1 (", "/shared/nested", "0");
  Put(12, 11, "busy", "/system.slice", "0-15");
  EXPECT_TRUE(Eventually([&] { return ReportsOnly("12 (busy) is in the cgroup /system.slice,"); }));
}

TEST_P(ProcessScanTest, ProcessInTheCgroupOfAnotherContainerIsReported) {
  Start();
  Put(10, 5, "web", "/pinned", cpus_);
  EXPECT_TRUE(Eventually([&] { return ReportsOnly("10 (web) is in the cgroup /pinned,"); }));
}

// As in a container that runs systemd, whose first process is a child of the container's shim.
TEST_P(ProcessScanTest, ProcessOfANestedCgroupBelongsToItsContainer) {
  Put(14, 5, "systemd", "/shared/init.scope", "0-15");
  Put(15, 14, "unit", "/shared/system.slice/unit.service", "0-15");
  Put(16, 5, "sharing", "/shared2/init.scope", "0-15");  // of no container
  Start();
  EXPECT_TRUE(Reported().empty());
  Put(14, 5, "systemd", "/pinned/init.scope", cpus_);
  EXPECT_TRUE(Eventually([&] { return ReportsOnly("14 (systemd) is in the cgroup /pinned/"); }));
}

// Version 1 shows the root as the cgroup of a process that has ended.
TEST_P(ProcessScanTest, ProcessThatHasEndedIsNotReportedBeforeItsParentNotices) {
  Start();
  Put(10, 5, "web", "/", "0-15", /*started=*/100, 'Z');
  Put(13, 5, "last", "/shared", "0");
  Scans();
  Put(13, 5, "last", "/", "0-15");
  EXPECT_TRUE(Eventually([&] { return ReportsOnly("13 (last)"); }));
  Scans();
  EXPECT_TRUE(ReportsOnly("13 (last)"));
  // Here only the first thread has ended.
  End(13);
  Put(10, 5, "web", "/shared", "0");
  Scans();
  Put(10, 5, "web", "/", "0-15", /*started=*/100, 'Z', /*threads=*/2);
  EXPECT_TRUE(Eventually([&] { return ReportsOnly("10 (web)"); }));
}

TEST_P(ProcessScanTest, WhatDisturbsNoOtherContainerIsNotReported) {
  Start();
  // Of the host; of the holder itself; outside, but on no exclusive CPU.
  Put(6, 5, "stress", "/", "0-15");
  Put(20, 5, "calc", "/", "0-15");
  Put(10, 5, "web", "/", "0");
  // The scan goes on: one more is found.
  Put(13, 10, "last", "/", "0-15");
  EXPECT_TRUE(Eventually([&] { return ReportsOnly("13 (last)"); }));
  Scans();
  EXPECT_TRUE(ReportsOnly("13 (last)"));
}

TEST_P(ProcessScanTest, AnotherProcessWithTheSameIdIsNotTheContainers) {
  Start();
  Put(10, 5, "other", "/", "0", /*started=*/200);
  Scans();
  Put(10, 5, "other", "/", "0-15", /*started=*/200);
  Scans();
  EXPECT_TRUE(Reported().empty());
}

TEST_P(ProcessScanTest, ProcessThatOutlivesItsContainerIsReported) {
  Start();
  ended_ = true;
  Put(10, 1, "web", "/", "0-15");
  EXPECT_TRUE(Eventually([&] { return ReportsOnly("10 (web)"); }));
}

TEST_P(ProcessScanTest, NothingIsReportedOnceNoCpusAreExclusive) {
  Start();
  Put(10, 5, "web", "/", "0-15");
  ASSERT_TRUE(Eventually([&] { return ReportsOnly("10 (web)"); }));
  ASSERT_TRUE(node_.Release("pinned").ok());
  EXPECT_TRUE(Eventually([&] { return Reported().empty(); }));
}

}  // namespace
}  // namespace alignd::reconcile
