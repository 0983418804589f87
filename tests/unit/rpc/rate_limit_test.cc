#include "rpc/rate_limit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace alignd::rpc {
namespace {

using std::chrono::milliseconds;

TEST(RateLimit, AllowsABurstAndThenSoManyASecond) {
  RateLimit limit(100, 10);
  RateLimit::Clock::time_point now = RateLimit::Clock::now();
  for (int call = 0; call < 10; ++call) EXPECT_TRUE(limit.Allow(now)) << call;
  EXPECT_FALSE(limit.Allow(now));
  now += milliseconds(5);
  EXPECT_FALSE(limit.Allow(now));
  now += milliseconds(6);
  EXPECT_TRUE(limit.Allow(now));
  EXPECT_FALSE(limit.Allow(now));
  EXPECT_FALSE(limit.Allow(now - milliseconds(1000)));  // another thread's earlier look
  now += milliseconds(60'000);                          // no more than the burst is saved up
  int allowed = 0;
  while (limit.Allow(now)) ++allowed;
  EXPECT_EQ(allowed, 10);
}

TEST(RateLimit, LimitsTheCallsOfAllThreadsTogether) {
  RateLimit limit(1, 100);
  const RateLimit::Clock::time_point now = RateLimit::Clock::now();
  std::atomic<int> allowed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 100; ++call) allowed += limit.Allow(now) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allowed, 100);
}

}  // namespace
}  // namespace alignd::rpc
