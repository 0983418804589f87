#include "sync/task_queue.h"

#include <gtest/gtest.h>

#include <latch>
#include <vector>

namespace alignd {
namespace {

TEST(TaskQueue, RunsTasksInTheOrderOfTheirPosting) {
  std::vector<int> order;  // touched by the worker alone, read after Stop
  TaskQueue queue("order");
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(queue.Post([&order, i] { order.push_back(i); }));
  queue.Stop();
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(TaskQueue, KeepsTheOrderOfEachOfManyPosters) {
  constexpr int kPosters = 4;
  constexpr int kEach = 500;
  std::vector<std::vector<int>> order(kPosters);  // touched by the worker alone
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

TEST(TaskQueue, RunsAlsoWhatIsPostedWhileItDrains) {
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

TEST(TaskQueue, DropsWhatComesAfterTheStop) {
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

#ifndef NDEBUG
TEST(TaskQueueDeathTest, EndsTheProgramOnAnotherThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TaskQueue queue("strict");
  EXPECT_DEATH(queue.AssertOnThisThread(), "not on the thread of task queue strict");
}
#endif

}  // namespace
}  // namespace alignd
