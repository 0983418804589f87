#include "sync/task_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "edge/no_threads.h"

namespace alignd {
namespace {

using testing::NoThreads;

constexpr std::chrono::milliseconds kShort{1};
constexpr std::chrono::hours kForever{1};

void AwaitEndOfThread(const TaskQueue& queue) {
  while (queue.has_thread()) std::this_thread::sleep_for(kShort);
}

TEST(TaskQueue, RunsTasksInTheOrderOfTheirPosting) {
  std::vector<int> order;  // used by the worker only, read after Stop
  TaskQueue queue("order");
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(queue.Post([&order, i] { order.push_back(i); }));
  queue.Stop();
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(TaskQueue, KeepsTheOrderOfEachOfManyPosters) {
  constexpr int kPosters = 4;
  constexpr int kEach = 500;
  std::vector<std::vector<int>> order(kPosters);  // used by the worker only
  TaskQueue queue("posters");
  std::vector<std::thread> posters;
  for (size_t p = 0; p < kPosters; ++p) {
    posters.emplace_back([&queue, &order, p] {
      for (int i = 0; i < kEach; ++i) queue.Post([&order, p, i] { order[p].push_back(i); });
    });
  }
  for (std::thread& poster : posters) poster.join();
  queue.Stop();
  for (const std::vector<int>& of_one : order) {
    ASSERT_EQ(of_one.size(), static_cast<size_t>(kEach));
    for (int i = 0; i < kEach; ++i) EXPECT_EQ(of_one[static_cast<size_t>(i)], i);
  }
}

TEST(TaskQueue, RunsTasksThatArePostedWhileItDrains) {
  int runs = 0;
  TaskQueue queue("drain");
  std::latch stopping(1);
  queue.Post([&] {
    stopping.wait();
    queue.Post([&] {
      ++runs;
      queue.Post([&] { ++runs; });
    });
  });
  stopping.count_down();
  queue.Stop();
  EXPECT_EQ(runs, 2);
}

TEST(TaskQueue, RunsTimedTasksInTheOrderOfTheirTimes) {
  std::vector<int> order;  // used by the worker only
  TaskQueue queue("timed");
  std::latch last(1);
  const auto now = TaskQueue::Clock::now();
  queue.PostAt(now + std::chrono::milliseconds(30), [&] {
    order.push_back(3);
    last.count_down();
  });
  queue.PostAt(now + std::chrono::milliseconds(20), [&] { order.push_back(1); });
  queue.PostAt(now + std::chrono::milliseconds(20), [&] { order.push_back(2); });
  queue.Post([&] { order.push_back(0); });
  last.wait();
  EXPECT_GE(TaskQueue::Clock::now(), now + std::chrono::milliseconds(30));
  queue.Stop();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
}

TEST(TaskQueue, DropsTasksWhoseTimeHasNotComeAtTheStop) {
  bool ran = false;
  TaskQueue queue("undue");
  EXPECT_TRUE(queue.PostAt(TaskQueue::Clock::now() + std::chrono::hours(1), [&] { ran = true; }));
  queue.Stop();
  EXPECT_FALSE(ran);
  EXPECT_FALSE(queue.PostAt(TaskQueue::Clock::now(), [&] { ran = true; }));
}

TEST(TaskQueue, DropsTasksAfterTheStop) {
  TaskQueue queue("late");
  queue.Stop();
  bool ran = false;
  EXPECT_FALSE(queue.Post([&ran] { ran = true; }));
  queue.Stop();
  EXPECT_FALSE(ran);
}

TEST(TaskQueue, KnowsItsOwnThread) {
  TaskQueue queue("own");
  TaskQueue other("other");
  bool on_own = false;
  bool on_other = true;
  queue.Post([&] {
    on_own = queue.OnThisThread();
    on_other = other.OnThisThread();
    queue.AssertOnThisThread();
  });
  queue.Stop();
  EXPECT_TRUE(on_own);
  EXPECT_FALSE(on_other);
  EXPECT_FALSE(queue.OnThisThread());
}

TEST(TaskQueue, HasAThreadFromTheBeginning) {
  TaskQueue queue("permanent");
  EXPECT_TRUE(queue.has_thread());
  const NoThreads none;
  std::promise<void> ran;
  EXPECT_TRUE(queue.Post([&] { ran.set_value(); }));
  ran.get_future().wait();
  EXPECT_TRUE(queue.has_thread());
}

TEST(TaskQueue, HasAThreadOnlyWhileThereIsWork) {
  TaskQueue queue("rare", kShort);
  EXPECT_FALSE(queue.has_thread());
  std::vector<int> order;  // used by the workers only
  for (int round = 0; round < 20; ++round) {
    std::latch first(1);
    ASSERT_TRUE(queue.Post([&] {
      first.wait();
      order.push_back(2 * round);
    }));
    ASSERT_TRUE(queue.Post([&order, &queue, round] {
      queue.AssertOnThisThread();
      order.push_back(2 * round + 1);
    }));
    EXPECT_TRUE(queue.has_thread());
    first.count_down();
    AwaitEndOfThread(queue);
    EXPECT_FALSE(queue.OnThisThread());
  }
  queue.Stop();
  ASSERT_EQ(order.size(), 40U);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  EXPECT_FALSE(queue.Post([] {}));
  EXPECT_FALSE(queue.PostAt(TaskQueue::Clock::now(), [] {}));
  EXPECT_FALSE(queue.has_thread());
}

TEST(TaskQueue, StopsAtOnceWhileItsThreadIsIdle) {
  TaskQueue queue("idle", kForever);
  std::promise<void> ran;
  ASSERT_TRUE(queue.Post([&] { ran.set_value(); }));
  ran.get_future().wait();
  queue.Stop();
  EXPECT_FALSE(queue.has_thread());
}

TEST(TaskQueue, KeepsItsThreadForATaskWhoseTimeHasNotCome) {
  TaskQueue queue("timers", kShort);
  std::promise<void> ran;
  ASSERT_TRUE(queue.PostAt(TaskQueue::Clock::now() + 50 * kShort, [&] { ran.set_value(); }));
  EXPECT_TRUE(queue.has_thread());
  ran.get_future().wait();
  AwaitEndOfThread(queue);
  ASSERT_TRUE(queue.PostAt(TaskQueue::Clock::now() + kForever, [] {}));
  std::this_thread::sleep_for(20 * kShort);
  EXPECT_TRUE(queue.has_thread());
  queue.Stop();
  EXPECT_FALSE(queue.has_thread());
}

// The thread ends and starts again in the midst of the posts.
TEST(TaskQueue, KeepsTheOrderOfEachOfManyPostersAcrossThreads) {
  constexpr size_t kPosters = 4;
  constexpr int kEach = 300;
  std::vector<std::vector<int>> order(kPosters);  // used by the workers only
  std::atomic<int> at_a_time = 0;
  std::atomic<bool> overlap = false;
  TaskQueue queue("restarts", std::chrono::microseconds(20));
  std::vector<std::thread> posters;
  for (size_t p = 0; p < kPosters; ++p) {
    posters.emplace_back([&, p] {
      for (int i = 0; i < kEach; ++i) {
        EXPECT_TRUE(queue.Post([&, p, i] {
          if (++at_a_time > 1) overlap = true;
          order[p].push_back(i);
          --at_a_time;
        }));
        std::this_thread::sleep_for(std::chrono::microseconds(i % 150));
      }
    });
  }
  for (std::thread& poster : posters) poster.join();
  queue.Stop();
  EXPECT_FALSE(overlap);
  for (const std::vector<int>& of_one : order) {
    ASSERT_EQ(of_one.size(), static_cast<size_t>(kEach));
    for (int i = 0; i < kEach; ++i) EXPECT_EQ(of_one[static_cast<size_t>(i)], i);
  }
}

// Each task that was taken runs, whether Stop finds the thread running, idle or ended.
TEST(TaskQueue, RunsWhatItTookBeforeAStopAtAnyTime) {
  for (int round = 0; round < 100; ++round) {
    TaskQueue queue("stops", std::chrono::microseconds(10 * (round % 10)));
    std::atomic<int> taken = 0;
    std::atomic<int> ran = 0;
    std::thread poster([&] {
      while (queue.Post([&] { ++ran; })) {
        ++taken;
        std::this_thread::sleep_for(std::chrono::microseconds(taken % 50));
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
    queue.Stop();
    poster.join();
    EXPECT_EQ(ran, taken);
    EXPECT_FALSE(queue.has_thread());
  }
}

TEST(TaskQueue, RefusesATaskForWhichThereIsNoThread) {
  TaskQueue queue("starved", kShort);
  std::promise<void> before;
  ASSERT_TRUE(queue.Post([&] { before.set_value(); }));
  before.get_future().wait();
  AwaitEndOfThread(queue);
  const auto witness = std::make_shared<int>(0);
  {
    const NoThreads none;
    EXPECT_FALSE(queue.Post([witness] { ADD_FAILURE() << "a refused task runs"; }));
    EXPECT_FALSE(queue.PostAt(TaskQueue::Clock::now(), [witness] { ADD_FAILURE(); }));
    EXPECT_FALSE(queue.has_thread());
    EXPECT_THROW(TaskQueue("permanent"), std::system_error);
  }
  EXPECT_EQ(witness.use_count(), 1);
  EXPECT_EQ(queue.size(), 0U);
  std::promise<void> after;
  EXPECT_TRUE(queue.Post([&] { after.set_value(); }));
  after.get_future().wait();
}

TEST(TaskQueueDeathTest, EndsTheProgramOnAnotherThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TaskQueue queue("strict");
  EXPECT_DEATH(queue.AssertOnThisThread(), "not on the thread of task queue strict");
}

}  // namespace
}  // namespace alignd
