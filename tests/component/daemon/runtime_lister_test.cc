// How often callers make alignd list the runtime.
#include "reconcile/runtime_lister.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "edge/allocation_node.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"
#include "reconcile/pod_releaser.h"
#include "reconcile/runtime_client.h"
#include "service/client.h"
#include "simulator/embedded_runtime.h"
#include "sync/task_queue.h"

namespace alignd::reconcile {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ListerClock = RuntimeLister::Clock;

// Lists once, on its own, before the test begins; the next listing of its own is hours away.
class RuntimeListerTest : public ::testing::Test {
 protected:
  ~RuntimeListerTest() override {
    if (client_) client_->Stop();
    if (lister_) lister_->Stop();
    if (releaser_) releaser_->Stop();
    background_.Stop();
    io_.Stop();
  }

  void Start(milliseconds pause) {
    world_.Up();
    const std::string endpoint = (world_.tree.root() / "runtime.sock").string();
    runtime_ = *simulator::EmbeddedRuntime::Start(endpoint, {});
    client_.emplace(*service::Client::Dial(endpoint), seconds(600));
    releaser_.emplace(background_, *world_.manager, registry_, PodReleaser::Options());
    lister_.emplace(
        io_, *world_.manager, registry_, *client_, *releaser_, conditions_,
        [this](ListerClock::time_point) {
          if (++ended_ == 1) first_.set_value();
        },
        [] {}, RuntimeLister::Options{.period = hours(24), .pause = pause});
    lister_->Start();
    first_.get_future().get();
    ASSERT_EQ(Listings(), 1U);
  }
  size_t Listings() const { return runtime_->Requests("ListContainers").size(); }
  std::future<bool> Ask(ListerClock::time_point until) {
    const auto answer = std::make_shared<std::promise<bool>>();
    lister_->WhenListedAnew(until, [answer](bool listed) { answer->set_value(listed); });
    return answer->get_future();
  }

  int ended_ = 0;  // listings; used on `io_`
  std::promise<void> first_;
  testing::AllocationNode world_;
  TaskQueue background_{"background"};
  TaskQueue io_{"io"};
  std::unique_ptr<simulator::EmbeddedRuntime> runtime_;
  ContainerRegistry registry_;
  Conditions conditions_;
  std::optional<RuntimeClient> client_;
  std::optional<PodReleaser> releaser_;
  std::optional<RuntimeLister> lister_;
};

// A runtime lists the sandboxes in any order.
TEST(PoliciesIn, AreThoseOfTheNewestSandboxThatIsReady) {
  using Sandbox = RuntimeListing::Sandbox;
  const auto sandbox = [](const std::string& uid, bool ready, int64_t created_at,
                          std::optional<NumaTopologyPolicy> policy) {
    return Sandbox{.id = uid + std::to_string(created_at),
                   .pod_uid = uid,
                   .ready = ready,
                   .policies = {.numa_topology = policy},
                   .created_at = created_at};
  };
  constexpr auto kRestricted = NumaTopologyPolicy::kRestricted;
  constexpr auto kBestEffort = NumaTopologyPolicy::kBestEffort;
  RuntimeListing listing;
  listing.sandboxes = {
      sandbox("ended", false, 1, kBestEffort),   sandbox("ended", false, 2, kRestricted),
      sandbox("ready", true, 1, kRestricted),    sandbox("ready", false, 2, kBestEffort),
      sandbox("newest", true, 1, kBestEffort),   sandbox("newest", true, 2, kRestricted),
      sandbox("removed", false, 1, kRestricted), sandbox("removed", true, 2, std::nullopt),
      sandbox("none", true, 1, std::nullopt)};
  const PodPolicies restricted{.numa_topology = kRestricted};
  const std::map<std::string, PodPolicies> expected = {
      {"ended", restricted}, {"newest", restricted}, {"ready", restricted}};
  EXPECT_EQ(PoliciesIn(listing), expected);
  std::ranges::reverse(listing.sandboxes);
  EXPECT_EQ(PoliciesIn(listing), expected);
}

// Each caller waits for its answer, as updates of unknown containers do.
TEST_F(RuntimeListerTest, CallersDoNotListBackToBack) {
  constexpr milliseconds kPause(100);
  Start(kPause);
  if (HasFatalFailure()) return;
  const ListerClock::time_point begin = ListerClock::now();
  constexpr int kRounds = 6;
  for (int round = 0; round < kRounds; ++round) {
    EXPECT_TRUE(Ask(ListerClock::now() + seconds(600)).get());
  }
  EXPECT_GE(ListerClock::now() - begin, (kRounds - 1) * kPause);
  EXPECT_EQ(Listings(), 1U + kRounds);
}

TEST_F(RuntimeListerTest, FirstCallerDoesNotWaitForThePause) {
  Start(hours(24));
  if (HasFatalFailure()) return;
  EXPECT_TRUE(Ask(ListerClock::now() + seconds(600)).get());
  EXPECT_EQ(Listings(), 2U);
  // The next one would wait, and gives up.
  EXPECT_FALSE(Ask(ListerClock::now() + milliseconds(20)).get());
  lister_->Relist();
  EXPECT_FALSE(Ask(ListerClock::now() + milliseconds(20)).get());
  EXPECT_EQ(Listings(), 2U);
}

TEST_F(RuntimeListerTest, OneListingAnswersAllCallersThatWait) {
  Start(milliseconds(300));
  if (HasFatalFailure()) return;
  ASSERT_TRUE(Ask(ListerClock::now() + seconds(600)).get());
  std::vector<std::future<bool>> answers;
  for (int caller = 0; caller < 1'000; ++caller) {
    answers.push_back(Ask(ListerClock::now() + seconds(600)));
  }
  for (std::future<bool>& answer : answers) EXPECT_TRUE(answer.get());
  // On a slow machine, some callers come after a listing has begun.
  EXPECT_LE(Listings(), 5U);
}

// While the runtime does not answer, callers that come and go again leave little.
TEST_F(RuntimeListerTest, CallersThatHaveGoneAreDropped) {
  Start(hours(24));
  if (HasFatalFailure()) return;
  ASSERT_TRUE(Ask(ListerClock::now() + seconds(600)).get());  // the next listing is hours away
  constexpr int kCallers = 10'000;
  const auto waits = std::make_shared<int>();  // each waiter has a copy
  const ListerClock::time_point until = ListerClock::now() + hours(1);
  const auto patient = std::make_shared<std::atomic<bool>>(false);
  lister_->WhenListedAnew(
      until, [waits](bool) {}, patient);
  for (int caller = 0; caller < kCallers; ++caller) {
    const auto gone = std::make_shared<std::atomic<bool>>(false);
    lister_->WhenListedAnew(
        until, [waits](bool) { FAIL() << "dropped"; }, gone);
    *gone = true;
  }
  EXPECT_LE(waits.use_count(), 1'002);
  *patient = true;
  for (int caller = 0; caller < 1'000; ++caller) {
    lister_->WhenListedAnew(
        until, [](bool) {}, patient);
  }
  EXPECT_EQ(waits.use_count(), 1) << "also those that were there before";
}

}  // namespace
}  // namespace alignd::reconcile
