#include "sync/task_queue.h"

#include <gtest/gtest.h>

#include <latch>
#include <vector>

namespace alignd {
namespace {

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

TEST(TaskQueueDeathTest, EndsTheProgramOnAnotherThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TaskQueue queue("strict");
  EXPECT_DEATH(queue.AssertOnThisThread(), "not on the thread of task queue strict");
}

}  // namespace
}  // namespace alignd
