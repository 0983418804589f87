#include "metrics/liveness.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sync/task_queue.h"

namespace alignd::metrics {
namespace {

using Silent = std::vector<std::string>;

TEST(Liveness, NamesTheThreadsThatDoNotAnswer) {
  TaskQueue works("works");
  std::atomic<int> posted = 0;
  Liveness liveness({{"hangs", [&](const auto&) { ++posted; }},
                     {"works", [&](auto task) { works.Post(std::move(task)); }}},
                    std::chrono::seconds(5));
  // While one round is pending, there is no second task, whichever caller asks.
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] { EXPECT_EQ(liveness.Silent(), Silent{"hangs"}); });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(posted, 1);
}

TEST(Liveness, IsBackWhenTheThreadAnswersLate) {
  std::function<void()> late;
  bool hangs = true;
  const auto post = [&](std::function<void()> task) {
    if (!hangs) return task();
    EXPECT_FALSE(late) << "a second task, while the first is pending";
    late = std::move(task);
  };
  Liveness liveness({{"late", post}}, std::chrono::milliseconds(20));
  EXPECT_EQ(liveness.Silent(), Silent{"late"});
  EXPECT_EQ(liveness.Silent(), Silent{"late"});
  late();
  hangs = false;
  EXPECT_EQ(liveness.Silent(), Silent());
}

// A caller that asks without end costs the threads four tasks a second.
TEST(Liveness, AnswersAreUsedAgainForAWhile) {
  int posted = 0;
  Liveness liveness({{"works",
                      [&](const auto& task) {
                        ++posted;
                        task();
                      }}},
                    std::chrono::seconds(5));
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(liveness.Silent(), Silent());
  const auto periods = (std::chrono::steady_clock::now() - begun) / Liveness::kReuse;
  EXPECT_LE(posted, 1 + periods);
  std::this_thread::sleep_for(Liveness::kReuse);
  const int before = posted;
  EXPECT_EQ(liveness.Silent(), Silent());
  EXPECT_EQ(posted, before + 1);
}

}  // namespace
}  // namespace alignd::metrics
