#include "simulator/device_profile.h"

#include <gtest/gtest.h>

namespace alignd::simulator {
namespace {

TEST(ParseDevice, ReadsIdsWithColons) {
  const struct {
    const char* text;
    SimulatedDevice device;
  } kCases[] = {
      {"GPU-0", {"GPU-0", {}, true}},
      {"GPU-0:numa=1", {"GPU-0", {1}, true}},
      {"GPU-0:numa=0,1:unhealthy", {"GPU-0", {0, 1}, false}},
      {"GPU-0:unhealthy:numa=-1", {"GPU-0", {-1}, false}},
      {"0000:3b:00.1:numa=0", {"0000:3b:00.1", {0}, true}},
  };
  for (const auto& c : kCases) {
    const Result<SimulatedDevice> device = ParseDevice(c.text);
    ASSERT_TRUE(device.ok()) << device.error().message;
    EXPECT_EQ(*device, c.device) << c.text;
  }
  for (const char* bad : {"", ":numa=0", "a:numa=", "a:numa=x", "a:numa=0,", ":unhealthy"}) {
    EXPECT_FALSE(ParseDevice(bad).ok()) << bad;
  }
}

TEST(ParsePathPair, ReadsFlags) {
  EXPECT_EQ(*ParsePathPair("/dev/null:/dev/x"), (PathPair{"/dev/null", "/dev/x", ""}));
  EXPECT_EQ(*ParsePathPair("/a:/b:ro"), (PathPair{"/a", "/b", "ro"}));
  for (const char* bad : {"", "/a", ":/b", "/a:", "/a::ro", "/a:/b:r:w"}) {
    EXPECT_FALSE(ParsePathPair(bad).ok()) << bad;
  }
}

TEST(ParseNameValue, KeepsFurtherEqualSigns) {
  EXPECT_EQ(*ParseNameValue("A=b=c"), std::pair(std::string("A"), std::string("b=c")));
  EXPECT_EQ(*ParseNameValue("A="), std::pair(std::string("A"), std::string()));
  for (const char* bad : {"", "A", "=b"}) EXPECT_FALSE(ParseNameValue(bad).ok()) << bad;
}

TEST(AnswerTo, FillsTextsInAndRepeatsThoseOfOneDevice) {
  DeviceProfile profile;
  profile.devices = {{"g0", {}, true}, {"g1", {}, true}, {"g2", {}, true}};
  profile.envs = {{"VISIBLE", "{ids}"}, {"UUID_{index}", "{id}"}};
  profile.device_nodes = {{"/dev/null", "/dev/gpu{index}", ""}, {"/dev/ctl", "/dev/ctl", "r"}};
  profile.mounts = {{"/opt/lib", "/lib/x", "ro"}};
  profile.annotations = {{"ids", "{ids}"}};
  profile.cdi_devices = {"v.com/gpu={id}"};
  v1beta1::ContainerAllocateRequest request;
  request.add_devices_ids("g2");
  request.add_devices_ids("g0");
  const v1beta1::ContainerAllocateResponse answer = AnswerTo(profile, request);
  EXPECT_EQ(answer.envs().at("VISIBLE"), "g2,g0");
  EXPECT_EQ(answer.envs().at("UUID_2"), "g2");
  EXPECT_EQ(answer.envs().at("UUID_0"), "g0");
  ASSERT_EQ(answer.devices_size(), 3);
  EXPECT_EQ(answer.devices(0).container_path(), "/dev/gpu2");
  EXPECT_EQ(answer.devices(0).permissions(), "rw");
  EXPECT_EQ(answer.devices(1).container_path(), "/dev/gpu0");
  EXPECT_EQ(answer.devices(2).permissions(), "r");
  ASSERT_EQ(answer.mounts_size(), 1);
  EXPECT_TRUE(answer.mounts(0).read_only());
  EXPECT_EQ(answer.annotations().at("ids"), "g2,g0");
  ASSERT_EQ(answer.cdi_devices_size(), 2);
  EXPECT_EQ(answer.cdi_devices(1).name(), "v.com/gpu=g0");
}

TEST(PreferenceFor, IncludesWhatMustBeAndFillsUpFromTheEnd) {
  DeviceProfile profile;
  profile.devices = {{"g0", {}, true}, {"g1", {}, true}, {"g2", {}, true}, {"g3", {}, true}};
  v1beta1::ContainerPreferredAllocationRequest request;
  for (const char* id : {"g0", "g1", "g2"}) request.add_available_deviceids(id);
  request.add_must_include_deviceids("g0");
  request.set_allocation_size(2);
  const v1beta1::ContainerPreferredAllocationResponse answer = PreferenceFor(profile, request);
  EXPECT_EQ(std::vector<std::string>(answer.deviceids().begin(), answer.deviceids().end()),
            (std::vector<std::string>{"g0", "g2"}));
}

}  // namespace
}  // namespace alignd::simulator
