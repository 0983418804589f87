#include "metrics/instruments.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace alignd::metrics {
namespace {

TEST(Instruments, BucketsAreCumulativeAndIncludeTheirBounds) {
  Histogram histogram({0.5, 2});
  for (const double value : {0.1, 0.5, 0.6, 2.0, 2.1, 100.0}) histogram.Observe(value);
  const prometheus::ClientMetric metric = histogram.Collect();
  ASSERT_EQ(metric.histogram.bucket.size(), 2U);
  EXPECT_EQ(metric.histogram.bucket[0].cumulative_count, 2U);
  EXPECT_EQ(metric.histogram.bucket[1].cumulative_count, 4U);
  EXPECT_EQ(metric.histogram.sample_count, 6U);
  EXPECT_DOUBLE_EQ(metric.histogram.sample_sum, 105.3);
}

TEST(Instruments, NamesFromOutsideAreBounded) {
  ByName<Counter> counters;
  const auto make = [] { return std::make_unique<Counter>(); };
  constexpr size_t kMany = 10'000;
  for (size_t i = 0; i < kMany; ++i) counters.Of("name" + std::to_string(i), make).Add();
  counters.Of("name0", make).Add();
  std::vector<std::string> names;
  uint64_t first = 0;
  uint64_t other = 0;
  counters.ForEach([&](const std::string& name, const Counter& counter) {
    names.push_back(name);
    if (name == "name0") first = counter.value();
    if (name == "other") other = counter.value();
  });
  EXPECT_EQ(names.size(), ByName<Counter>::kMaxNames + 1);
  EXPECT_EQ(first, 2U);
  EXPECT_EQ(other, kMany - ByName<Counter>::kMaxNames);
}

}  // namespace
}  // namespace alignd::metrics
