#include "alignd/checkpoint/device_checkpoint.h"

#include <gtest/gtest.h>

namespace alignd::checkpoint {
namespace {

using devicemanager::DeviceAllocation;
using devicemanager::DeviceState;

constexpr const char* kDeviceOfOnePod =
    R"({"Data":{"PodDeviceEntries":[{"PodUID":"u1","ContainerName":"app","ResourceName":"r/x",)"
    R"("DeviceIDs":{"0":["d1","d2"]},"AllocResp":"CgD/"}],)"
    R"("RegisteredDevices":{"r/x":["d1","d2"]}},"Checksum":229842288})";

const ContainerKey kApp{"u1", "app"};

DeviceAllocation OneAllocation() {
  return {.devices = {{0, {"d1", "d2"}}}, .response = std::string("\x0a\x00\xff", 3)};
}

DeviceState DeviceOfOnePod() {
  DeviceState state;
  state.resources["r/x"].registered = true;
  state.resources["r/x"].devices = {{"d1", {}}, {"d2", {}}, {"d3", {.healthy = false, .numa = {}}}};
  state.allocations[kApp]["r/x"] = OneAllocation();
  return state;
}

TEST(FormatDeviceCheckpoint, WritesAnEmptyState) {
  EXPECT_EQ(FormatDeviceCheckpoint({}),
            R"({"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":3467439661})");
}

TEST(FormatDeviceCheckpoint, WritesAllocationsAndHealthyDevices) {
  EXPECT_EQ(FormatDeviceCheckpoint(DeviceOfOnePod()), kDeviceOfOnePod);
}

TEST(FormatDeviceCheckpoint, SortsNodesByTheirTextAndIdsOnce) {
  DeviceState state;
  state.allocations[kApp]["r"].devices = {{-1, {}}, {2, {"b", "a", "b"}}, {10, {"c"}}};
  const std::string text = FormatDeviceCheckpoint(state);
  EXPECT_NE(text.find(R"("DeviceIDs":{"-1":[],"10":["c"],"2":["a","b"]},"AllocResp":"")"),
            std::string::npos)
      << text;
}

TEST(ParseDeviceCheckpoint, ReadsWhatIsWritten) {
  const Result<DeviceCheckpoint> read = ParseDeviceCheckpoint(kDeviceOfOnePod);
  ASSERT_TRUE(read.ok()) << read.error().Text();
  DeviceCheckpoint expected;
  expected.allocations[kApp]["r/x"] = OneAllocation();
  expected.registered["r/x"] = {"d1", "d2"};
  EXPECT_EQ(*read, expected);
}

TEST(ParseDeviceCheckpoint, TakesTheLaterOfTwoEntries) {
  const Result<DeviceCheckpoint> read = ParseDeviceCheckpoint(
      R"({"Data":{"PodDeviceEntries":[)"
      R"({"PodUID":"u","ContainerName":"c","ResourceName":"r","DeviceIDs":{"0":["a"]}},)"
      R"({"PodUID":"u","ContainerName":"c","ResourceName":"r","DeviceIDs":{"1":["z","b"]}}]},)"
      R"("Checksum":2045668458})");
  ASSERT_TRUE(read.ok()) << read.error().Text();
  DeviceAllocation later;
  later.devices[1] = {"b", "z"};
  ASSERT_EQ(read->allocations.size(), 1U);
  EXPECT_EQ(read->allocations.at({"u", "c"}).at("r"), later);
}

TEST(ParseDeviceCheckpoint, RefusesADamagedFile) {
  std::string text = kDeviceOfOnePod;
  text.replace(text.find("d2"), 2, "d3");
  const Result<DeviceCheckpoint> read = ParseDeviceCheckpoint(text);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read.error().message, "checkpoint is corrupted");
}

TEST(DeviceCheckpointToState, HasResourcesWithoutTheirDevices) {
  const Result<DeviceCheckpoint> read = ParseDeviceCheckpoint(kDeviceOfOnePod);
  ASSERT_TRUE(read.ok()) << read.error().Text();
  DeviceState expected;
  expected.resources["r/x"] = {};
  expected.allocations[kApp]["r/x"] = OneAllocation();
  EXPECT_EQ(read->ToState(), expected);
  EXPECT_FALSE(expected.resources["r/x"].registered);
}

}  // namespace
}  // namespace alignd::checkpoint
