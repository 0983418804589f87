#include "sync/recurring_task.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <thread>

namespace alignd {
namespace {

using Clock = RecurringTask::Clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kPatience{30};

bool Eventually(const std::function<bool()>& is_so) {
  const auto deadline = Clock::now() + kPatience;
  while (!is_so()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

TEST(RecurringTask, RunsOnRequestOnly) {
  TaskQueue queue("queue");
  std::atomic<int> runs = 0;
  RecurringTask task(queue, [&] {
    ++runs;
    return RecurringTask::kNever;
  });
  EXPECT_EQ(runs, 0);
  task.RunSoon();
  EXPECT_TRUE(Eventually([&] { return runs == 1; }));
  task.RunSoon();
  EXPECT_TRUE(Eventually([&] { return runs == 2; }));
}

TEST(RecurringTask, RunBeginsAfterTheRequestAlsoWhileOneIsUnderWay) {
  TaskQueue queue("queue");
  std::latch first_began(1);
  std::latch requested(1);
  std::atomic<int> runs = 0;
  RecurringTask task(queue, [&] {
    if (++runs == 1) {
      first_began.count_down();
      requested.wait();
    }
    return RecurringTask::kNever;
  });
  task.RunSoon();
  first_began.wait();
  task.RunSoon();
  task.RunSoon();
  requested.count_down();
  EXPECT_TRUE(Eventually([&] { return runs == 2; }));
}

TEST(RecurringTask, RunsAtTheTimeThatItAskedForLast) {
  TaskQueue queue("queue");
  const auto began = Clock::now();
  std::atomic<int> runs = 0;
  std::promise<Clock::time_point> third;
  // The first time is far away, the second near: the nearer one applies.
  RecurringTask task(queue, [&]() -> Clock::time_point {
    switch (++runs) {
      case 1:
        return began + std::chrono::hours(1);
      case 2:
        return began + milliseconds(50);
      default:
        third.set_value(Clock::now());
        return RecurringTask::kNever;
    }
  });
  task.RunSoon();
  ASSERT_TRUE(Eventually([&] { return runs == 1; }));
  task.RunSoon();
  std::future<Clock::time_point> ran = third.get_future();
  ASSERT_EQ(ran.wait_for(kPatience), std::future_status::ready);
  EXPECT_GE(ran.get(), began + milliseconds(50));
}

// A queue keeps a timer that is too early: the task does not run then.
TEST(RecurringTask, TimeThatWasPutOffDoesNotRunIt) {
  TaskQueue queue("queue");
  const auto began = Clock::now();
  std::atomic<int> runs = 0;
  RecurringTask task(queue, [&]() -> Clock::time_point {
    return ++runs == 1 ? began + milliseconds(100) : began + std::chrono::hours(1);
  });
  task.RunSoon();
  ASSERT_TRUE(Eventually([&] { return runs == 1; }));
  task.RunSoon();
  ASSERT_TRUE(Eventually([&] { return runs == 2; }));
  std::promise<void> later;
  queue.PostAt(began + milliseconds(200), [&] { later.set_value(); });
  later.get_future().get();
  EXPECT_EQ(runs, 2);
}

TEST(RecurringTask, StopWaitsForTheRunUnderWayAndLetsNoneFollow) {
  TaskQueue queue("queue");
  std::latch began(1);
  std::atomic<bool> ended = false;
  std::atomic<int> runs = 0;
  auto task = std::make_unique<RecurringTask>(queue, [&] {
    ++runs;
    began.count_down();
    std::this_thread::sleep_for(milliseconds(50));
    ended = true;
    return Clock::now();
  });
  task->RunSoon();
  began.wait();
  task->RunSoon();
  task->Stop();
  EXPECT_TRUE(ended);
  task->RunSoon();
  task.reset();
  queue.Stop();
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace alignd
