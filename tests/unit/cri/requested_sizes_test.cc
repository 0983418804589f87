#include "cri/requested_sizes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "edge/cri_pods.h"

namespace alignd::cri {
namespace {

using runtime::v1::LinuxContainerResources;

LinuxContainerResources Sizes(int64_t request_millis, int64_t limit_millis) {
  LinuxContainerResources sizes =
      podsource::Kubelet(request_millis, limit_millis, podsource::kMi).linux().resources();
  sizes.set_cpu_shares(std::min<int64_t>(sizes.cpu_shares(), 262'144));  // the kernel's maximum
  return sizes;
}

// Whatever a claim adds to the quota.
TEST(RequestedMillis, IsWhatTheKubeletWroteForTheRequest) {
  for (int64_t millis = 10; millis <= 300'000; millis += millis < 3000 ? 7 : 1009) {
    for (const int64_t claimed : {0, 1, 100, 1000, 40'000}) {
      const bool fits = millis + claimed <= 256'000;  // the largest number that shares can say
      const std::optional<int64_t> read = RequestedMillis(Sizes(millis, millis + claimed));
      ASSERT_TRUE(read);
      if (fits || claimed == 0) {
        EXPECT_EQ(*read, millis) << claimed;
      }
    }
    EXPECT_EQ(RequestedMillis(Sizes(millis, 0)), std::min<int64_t>(millis, 256'000));
  }
}

TEST(RequestedMillis, QuotaAloneCounts) {
  LinuxContainerResources sizes = Sizes(2000, 3000);
  sizes.set_cpu_shares(0);
  EXPECT_EQ(RequestedMillis(sizes), 3000);
  sizes.set_cpu_period(0);
  EXPECT_EQ(RequestedMillis(sizes), 3000);
  sizes.set_cpu_quota(0);
  EXPECT_EQ(RequestedMillis(sizes), std::nullopt);
  sizes.set_cpu_shares(2048);
  EXPECT_EQ(RequestedMillis(sizes), 2000);
  sizes.set_memory_limit_in_bytes(0);  // shares alone, of another caller
  EXPECT_EQ(RequestedMillis(sizes), std::nullopt);
  (*sizes.mutable_unified())["cpu.max"] = "400000 200000";
  EXPECT_EQ(RequestedMillis(sizes), 2000);
}

TEST(RequestedMillis, ExclusiveContainerKeepsItsCountWithAClaim) {
  EXPECT_TRUE(KeepsCount(Sizes(3000, 4000), 3));
  EXPECT_FALSE(KeepsCount(Sizes(4000, 4000), 3));
  EXPECT_FALSE(KeepsCount(Sizes(4000, 5000), 3));
  EXPECT_FALSE(KeepsCount(Sizes(2500, 3000), 3));
}

TEST(RequestedMemory, ReadsTheLimitAndTheFile) {
  LinuxContainerResources sizes;
  EXPECT_EQ(RequestedMemory(sizes), std::nullopt);
  for (const int64_t limit : {int64_t{1}, int64_t{-1}, int64_t{1} << 40}) {
    sizes.set_memory_limit_in_bytes(limit);
    EXPECT_EQ(RequestedMemory(sizes), limit);
  }
  for (const auto& [text, bytes] :
       {std::pair{"max", int64_t{-1}}, std::pair{"4096", int64_t{4096}}, std::pair{"", int64_t{-1}},
        std::pair{"99999999999999999999", int64_t{-1}}}) {
    (*sizes.mutable_unified())["memory.max"] = text;
    EXPECT_EQ(RequestedMemory(sizes), bytes) << text;
  }
}

}  // namespace
}  // namespace alignd::cri
