// The sizes of state files, without their text.
#include "allocation/state_limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/go_json.h"

namespace alignd::allocation {
namespace {

using namespace std::string_view_literals;

TEST(JsonBytes, AreThoseOfTheStateFiles) {
  for (const std::string_view text : {""sv, "gpu-0"sv, "a\"b\\c"sv, "<&>"sv, "\x01\x1f\x7f"sv,
                                      "\u00e4\u4e16\U0001f600"sv, "\u2028\u2029"sv, "\xff\xc3"sv}) {
    EXPECT_EQ(JsonBytes(text), checkpoint::GoQuoted(text).size()) << text;
  }
  for (const std::string_view text : {"\n\t"sv, "\b\f\r"sv}) {  // counted as \u000a
    EXPECT_GE(JsonBytes(text), checkpoint::GoQuoted(text).size());
  }
}

// Otherwise the whole file is formatted at each decision, although it is far from the limit.
TEST(MaxDeviceFileBytes, IsCloseToTheSizeOfTheFile) {
  devicemanager::DeviceState state;
  size_t entries = 1;
  for (const std::string resource : {"example.com/gpu", "example.com/nic"}) {
    devicemanager::Resource offered;
    for (int i = 0; i < 4000; ++i) {
      offered.devices[resource + std::to_string(i) + std::string(1000, 'd')] = {true, {0}};
    }
    state.resources[resource] = offered;
    devicemanager::DeviceAllocation& allocation = state.allocations[{"pod", "app"}][resource];
    allocation.devices[0] = {"<\u4e16>", "second"};
    allocation.devices[1] = {"third"};
    allocation.response = std::string(10'000, '\x80');
    entries += 4;
  }
  const size_t bytes = checkpoint::FormatDeviceCheckpoint(state).size();
  EXPECT_GT(bytes, kMaxStateBytes / 4);
  EXPECT_GE(MaxDeviceFileBytes(state), bytes);
  EXPECT_LE(MaxDeviceFileBytes(state), bytes + 256 * entries);
}

}  // namespace
}  // namespace alignd::allocation
