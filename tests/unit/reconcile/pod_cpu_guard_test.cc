// The cgroup files of one pod, to which a kubelet or another program writes.
#include "reconcile/pod_cpu_guard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "edge/fake_tree.h"
#include "host/file.h"

namespace alignd::reconcile {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kPath[] = "/kubepods/poduid";

class PodCpuGuardTest : public ::testing::TestWithParam<bool> {
 protected:
  PodCpuGuardTest() {
    if (GetParam()) tree_.Write({"cgroup.controllers", "cpuset cpu\n"});
    Write(Quota(), None());
    Write(Shares(), "1024");
    cgroups_.emplace(tree_.root());
    registry_.AddSandbox("sandbox", "uid", "default/web");
    events_->Start();
  }
  ~PodCpuGuardTest() override {
    guard_.reset();
    events_->Stop();
    io_.Stop();
  }

  void Start(const PodCpuGuard::Options& options = {}) {
    Make(options);
    guard_->Guard("uid", kPath);
    Settle();
  }
  void Make(const PodCpuGuard::Options& options) {
    guard_.emplace(io_, events_,
                   PodCpuGuard::Decisions{
                       .has_exclusive =
                           [this](const std::string& uid) {
                             ++runs_;
                             return uid == "uid" && exclusive_;
                           },
                       .was_shared = [this](const std::string&) { return was_shared_.load(); },
                       .quota_of = [this](const std::string&) { return quota_.load(); }},
                   registry_, *cgroups_, conditions_, options);
  }
  // The pod had 50000 us.
  void StartAndLift(const PodCpuGuard::Options& options) {
    if (!GetParam()) Write(Period(), "100000");
    Start(options);
    Write(Quota(), Some());
    EXPECT_TRUE(Eventually([&] { return IsNone(Read(Quota())); })) << Read(Quota());
    Write(Quota(), None());
    Settle();
  }
  // A directory in its place: the file is not missing, and cannot be read.
  void HidePeriod() const {
    std::filesystem::rename(Period(), Period().string() + ".away");
    std::filesystem::create_directory(Period());
  }
  void ShowPeriod() const {
    std::filesystem::remove(Period());
    std::filesystem::rename(Period().string() + ".away", Period());
  }
  // All that was requested has been done.
  void Settle() {
    for (int i = 0; i < 3; ++i) {
      std::atomic<bool> done = false;
      events_->Post([&] { io_.Post([&] { done = true; }); });
      ASSERT_TRUE(Eventually([&] { return done.load(); }));
    }
  }
  static bool Eventually(const std::function<bool()>& is_so) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(30);
    while (!is_so()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(2));
    }
    return true;
  }

  static std::string None() { return GetParam() ? "max 100000" : "-1"; }
  static std::string Some() { return GetParam() ? "50000 100000" : "50000"; }
  // A write of "max" replaces the quota alone only in the kernel's file.
  static bool IsNone(const std::string& text) {
    return text.starts_with(GetParam() ? "max" : "-1");
  }
  std::filesystem::path Quota() const {
    return tree_.root() /
           (GetParam() ? "kubepods/poduid/cpu.max" : "cpu/kubepods/poduid/cpu.cfs_quota_us");
  }
  std::filesystem::path Period() const {
    return GetParam() ? Quota() : tree_.root() / "cpu/kubepods/poduid/cpu.cfs_period_us";
  }
  std::filesystem::path Shares() const {
    return tree_.root() /
           (GetParam() ? "kubepods/poduid/cpu.weight" : "cpu/kubepods/poduid/cpu.shares");
  }
  // One write, as to a cgroup's file, which has a value at any time. What a longer text leaves is
  // not in the first line.
  static void Write(const std::filesystem::path& file, const std::string& text) {
    if (!std::filesystem::exists(file)) {
      std::filesystem::create_directories(file.parent_path());
      std::ofstream(file) << text << "\n";
      return;
    }
    std::fstream(file, std::ios::in | std::ios::out) << text << "\n";
  }
  static std::string Read(const std::filesystem::path& file) {
    const Result<std::string> text = host::ReadFile(file);
    return text.ok() ? text->substr(0, text->find('\n')) : text.error().Text();
  }
  std::optional<Condition> Reported(ConditionType type) const {
    for (const Condition& condition : conditions_.Report()) {
      if (condition.type == type) return condition;
    }
    return std::nullopt;
  }

  const testing::FakeTree tree_;
  std::optional<cgroup::CgroupTree> cgroups_;
  ContainerRegistry registry_;
  Conditions conditions_;
  std::atomic<bool> exclusive_ = true;
  std::atomic<bool> was_shared_ = true;
  std::atomic<allocation::PodQuota> quota_ = allocation::PodQuota::kLift;
  std::atomic<size_t> runs_ = 0;  // of the guard
  TaskQueue io_{"io"};
  const std::shared_ptr<host::EventLoop> events_ = *host::EventLoop::Make();
  std::optional<PodCpuGuard> guard_;
};
INSTANTIATE_TEST_SUITE_P(CgroupVersions, PodCpuGuardTest, ::testing::Values(false, true),
                         [](const auto& unified) { return unified.param ? "v2" : "v1"; });

// There is no other trigger than the write: no round, no refusal.
TEST_P(PodCpuGuardTest, LiftsAQuotaWhenItIsWritten) {
  Start();
  for (int i = 0; i < 3; ++i) {
    Write(Quota(), Some());
    EXPECT_TRUE(Eventually([&] { return IsNone(Read(Quota())); })) << Read(Quota());
  }
  EXPECT_EQ(Read(Shares()), "1024");
  EXPECT_TRUE(Eventually([&] { return conditions_.Report().empty(); }));
}

// The kubelet takes a lifted quota for the smallest one: it writes the new one before the container
// is resized to shared CPUs, and not again.
TEST_P(PodCpuGuardTest, RestoresTheLastQuotaOfAPodWithoutExclusiveCpus) {
  if (!GetParam()) Write(tree_.root() / "cpu/kubepods/poduid/cpu.cfs_period_us", "100000");
  Start();
  for (const char* const quota : {"30000", "50000"}) {
    Write(Quota(), quota + std::string(GetParam() ? " 100000" : ""));
    EXPECT_TRUE(Eventually([&] { return IsNone(Read(Quota())); })) << Read(Quota());
  }
  Write(Quota(), None());  // as the kernel shows it after a write of "max"
  Settle();
  exclusive_ = false;
  guard_->Look();
  EXPECT_TRUE(Eventually([&] { return Read(Quota()) == "50000"; })) << Read(Quota());
  // Exclusive again, and again not: the other program's quota stays.
  exclusive_ = true;
  guard_->Guard("uid", kPath);
  EXPECT_TRUE(Eventually([&] { return IsNone(Read(Quota())); })) << Read(Quota());
  exclusive_ = false;
  Write(Quota(), Some());
  guard_->Look();
  Settle();
  EXPECT_EQ(Read(Quota()), Some());
}

TEST_P(PodCpuGuardTest, AQuotaThatCannotBeRestoredIsTriedAgainAndReported) {
  StartAndLift({.first_retry = milliseconds(20), .last_retry = milliseconds(50)});
  HidePeriod();
  exclusive_ = false;
  guard_->Look();
  const auto failed = [&] { return Reported(ConditionType::kPodQuotaNotRestored); };
  EXPECT_TRUE(Eventually([&] { return failed() && failed()->times >= 3; }));
  EXPECT_EQ(failed()->subject.key.pod_uid, "uid");
  EXPECT_NE(failed()->message.find("to 50000 us again"), std::string::npos) << failed()->message;
  // Exclusive again, and again not.
  exclusive_ = true;
  guard_->Look();
  EXPECT_TRUE(Eventually([&] { return !failed(); }));
  exclusive_ = false;
  guard_->Look();
  EXPECT_TRUE(Eventually([&] { return failed().has_value(); }));
  ShowPeriod();
  EXPECT_TRUE(Eventually([&] { return Read(Quota()).starts_with("50000"); })) << Read(Quota());
  EXPECT_TRUE(Eventually([&] { return !failed(); }));
}

TEST_P(PodCpuGuardTest, TheNextGuardOfTheProcessRestoresIt) {
  StartAndLift({.first_retry = hours(1), .last_retry = hours(1)});
  HidePeriod();
  exclusive_ = false;
  guard_->Look();
  EXPECT_TRUE(
      Eventually([&] { return Reported(ConditionType::kPodQuotaNotRestored).has_value(); }));
  guard_->Stop();
  const LiftedQuotas lifted = guard_->Lifted();
  ASSERT_EQ(lifted.size(), 1U);
  EXPECT_EQ(lifted.at("uid").quota, 50'000);
  guard_.reset();
  ShowPeriod();
  // Once it knows the pod.
  registry_.RemoveSandbox("sandbox");
  Make({.lifted = lifted});
  guard_->Look();
  Settle();
  EXPECT_TRUE(IsNone(Read(Quota()))) << Read(Quota());
  registry_.AddSandbox("sandbox", "uid", "default/web");
  guard_->Look();
  EXPECT_TRUE(Eventually([&] { return Read(Quota()).starts_with("50000"); })) << Read(Quota());
}

// A pod that is released has lost them for another reason.
TEST_P(PodCpuGuardTest, OnlyAResizeIsAReasonToRestore) {
  StartAndLift({});
  was_shared_ = false;
  exclusive_ = false;
  guard_->Look();
  Settle();
  EXPECT_EQ(Read(Quota()), None());
}

TEST_P(PodCpuGuardTest, GivesNoQuotaToAPodThatHadNoneOrIsGone) {
  Start();
  exclusive_ = false;
  guard_->Look();
  Settle();
  EXPECT_EQ(Read(Quota()), None()) << "it has lifted none";
  exclusive_ = true;
  guard_->Guard("uid", kPath);
  Write(Quota(), Some());
  EXPECT_TRUE(Eventually([&] { return IsNone(Read(Quota())); })) << Read(Quota());
  Write(Quota(), None());
  Settle();
  registry_.RemoveSandbox("sandbox");
  exclusive_ = false;
  guard_->Look();
  Settle();
  EXPECT_EQ(Read(Quota()), None());
}

TEST_P(PodCpuGuardTest, AQuotaThatThePodKeepsIsNotLifted) {
  quota_ = allocation::PodQuota::kKeep;
  Start();
  Write(Quota(), Some());
  Settle();
  EXPECT_EQ(Read(Quota()), Some());
}

// With the feature gate, after a restart of alignd: what was lifted before stays so.
TEST_P(PodCpuGuardTest, TheQuotaOfAnUnknownPodStaysAsItWasFound) {
  quota_ = allocation::PodQuota::kAsFound;
  Start();
  Write(Quota(), Some());
  EXPECT_TRUE(Eventually([&] { return IsNone(Read(Quota())); })) << Read(Quota());
}

TEST_P(PodCpuGuardTest, TheQuotaOfAnUnknownPodThatHasOneIsNotLifted) {
  quota_ = allocation::PodQuota::kAsFound;
  Write(Quota(), Some());
  Start();
  EXPECT_EQ(Read(Quota()), Some());
  Write(Quota(), Some());
  Settle();
  EXPECT_EQ(Read(Quota()), Some());
}

// The kubelet's growth: it writes quota and shares, and then asks for the container.
TEST_P(PodCpuGuardTest, RefusedResizeRestoresQuotaAndShares) {
  Start({.settle = hours(1)});
  for (int i = 0; i < 3; ++i) {  // at each try
    Write(Quota(), Some());
    Write(Shares(), "2048");
    guard_->ResizeRefused("uid");
    EXPECT_TRUE(Eventually([&] { return IsNone(Read(Quota())); })) << Read(Quota());
    EXPECT_TRUE(Eventually([&] { return Read(Shares()) == "1024"; })) << Read(Shares());
  }
}

TEST_P(PodCpuGuardTest, SharesOfAnAcceptedResizeAreKept) {
  Start({.settle = milliseconds(0)});
  Write(Shares(), "1536");
  guard_->Guard("uid", kPath);
  Settle();
  guard_->ResizeRefused("uid");
  Settle();
  EXPECT_EQ(Read(Shares()), "1536");
}

TEST_P(PodCpuGuardTest, QuotaThatIsRewrittenIsReportedAndLiftedAtALimitedRate) {
  constexpr milliseconds kPause{300};
  Start({.repairs = 3, .window = hours(1), .pause = kPause});
  const auto lifted_again = [&] {
    Write(Quota(), Some());
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(Eventually([&] { return IsNone(Read(Quota())); })) << Read(Quota());
    return std::chrono::steady_clock::now() - begin;
  };
  for (int i = 0; i < 3; ++i) lifted_again();
  EXPECT_FALSE(Reported(ConditionType::kPodQuotaRewritten));
  lifted_again();
  ASSERT_TRUE(Eventually([&] { return Reported(ConditionType::kPodQuotaRewritten).has_value(); }));
  const Condition rewritten = *Reported(ConditionType::kPodQuotaRewritten);
  EXPECT_EQ(NameOf(rewritten.subject), "pod default/web");
  EXPECT_TRUE(rewritten.message.starts_with("another program")) << rewritten.message;
  // Five more take five pauses, the first of which has begun already.
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) lifted_again();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 4 * kPause);
  guard_->ResizeRefused("uid");
  lifted_again();
  EXPECT_TRUE(Eventually([&] {
    return Reported(ConditionType::kPodQuotaRewritten)->message.starts_with("the kubelet");
  }));
}

TEST_P(PodCpuGuardTest, QuotaOfEachAcceptedResizeIsLiftedAndNotReported) {
  Start({.repairs = 3, .window = hours(1), .pause = hours(1)});
  for (int i = 0; i < 8; ++i) {
    Write(Quota(), Some());
    guard_->ResizeAccepted("uid");
    ASSERT_TRUE(Eventually([&] { return IsNone(Read(Quota())); })) << Read(Quota());
  }
  EXPECT_FALSE(Reported(ConditionType::kPodQuotaRewritten));
}

// By a program that writes them, and a client of which alignd refuses resizes.
TEST_P(PodCpuGuardTest, SharesThatAreRewrittenAreRestoredAtALimitedRate) {
  Start({.repairs = 3, .window = hours(1), .pause = hours(1), .settle = hours(1)});
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(Reported(ConditionType::kPodQuotaRewritten));
    Write(Shares(), "2048");
    guard_->ResizeRefused("uid");
    ASSERT_TRUE(Eventually([&] { return Read(Shares()) == "1024"; })) << Read(Shares());
  }
  ASSERT_TRUE(Eventually([&] { return Reported(ConditionType::kPodQuotaRewritten).has_value(); }));
  EXPECT_TRUE(Reported(ConditionType::kPodQuotaRewritten)
                  ->message.starts_with("the kubelet keeps writing"));
  Write(Shares(), "2048");
  guard_->ResizeRefused("uid");
  Settle();
  EXPECT_EQ(Read(Shares()), "2048");
}

TEST_P(PodCpuGuardTest, WritesThatChangeNothingWakeItAtALimitedRate) {
  Start({.checks = 3, .window = hours(1), .pause = hours(1)});
  for (int i = 0; i < 50; ++i) {
    Write(Quota(), None());
    Settle();
  }
  EXPECT_LE(runs_, 10U);
  EXPECT_TRUE(conditions_.Report().empty());
}

TEST_P(PodCpuGuardTest, RewrittenQuotaIsOverWhenItIsLeftAlone) {
  Start({.repairs = 1, .window = seconds(1), .pause = milliseconds(10)});
  // On a slow machine, two writes may be further apart than the window.
  EXPECT_TRUE(Eventually([&] {
    if (IsNone(Read(Quota()))) Write(Quota(), Some());
    return Reported(ConditionType::kPodQuotaRewritten).has_value();
  }));
  EXPECT_TRUE(Eventually([&] { return !Reported(ConditionType::kPodQuotaRewritten); }));
  EXPECT_TRUE(IsNone(Read(Quota())));
}

TEST_P(PodCpuGuardTest, PodThatLosesItsExclusiveCpusKeepsItsQuota) {
  Start();
  exclusive_ = false;
  Write(Quota(), Some());
  Settle();
  guard_->ResizeRefused("uid");
  Settle();
  EXPECT_EQ(Read(Quota()), Some());
}

TEST_P(PodCpuGuardTest, CgroupThatIsMadeAgainIsWatchedAgain) {
  Start();
  std::filesystem::remove_all(Quota().parent_path());
  Settle();
  Write(Quota(), None());
  Write(Shares(), "1024");
  guard_->Guard("uid", kPath);
  Settle();
  Write(Quota(), Some());
  EXPECT_TRUE(Eventually([&] { return IsNone(Read(Quota())); })) << Read(Quota());
}

TEST_P(PodCpuGuardTest, OnlyThePodsOwnCgroupIsTouched) {
  Start();
  const std::filesystem::path all =
      tree_.root() / (GetParam() ? "kubepods/cpu.max" : "cpu/kubepods/cpu.cfs_quota_us");
  Write(all, Some());
  guard_->Guard("uid", "/kubepods");
  Settle();
  EXPECT_EQ(Read(all), Some());
  Write(Quota(), Some());
  EXPECT_TRUE(Eventually([&] { return IsNone(Read(Quota())); })) << Read(Quota());
}

}  // namespace
}  // namespace alignd::reconcile
