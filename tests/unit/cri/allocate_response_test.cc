#include "cri/allocate_response.h"

#include <gtest/gtest.h>

#include "deviceplugin/v1beta1/deviceplugin.pb.h"

namespace alignd::cri {
namespace {

v1beta1::ContainerAllocateResponse Gpu() {
  v1beta1::ContainerAllocateResponse answer;
  (*answer.mutable_envs())["VISIBLE"] = "gpu-1";
  (*answer.mutable_envs())["ONLY_GPU"] = "1";
  v1beta1::DeviceSpec& node = *answer.add_devices();
  node.set_container_path("/dev/shared");
  node.set_host_path("/dev/gpu1");
  node.set_permissions("rw");
  v1beta1::Mount& mount = *answer.add_mounts();
  mount.set_container_path("/lib/driver");
  mount.set_host_path("/opt/gpu/lib");
  mount.set_read_only(true);
  (*answer.mutable_annotations())["note"] = "gpu";
  answer.add_cdi_devices()->set_name("gpu.com/gpu=1");
  return answer;
}

TEST(MergeResponses, OneAnswerStaysAsItIs) {
  const Result<MergedResponse> merged =
      MergeResponses({{"example.com/gpu", Gpu().SerializeAsString()}});
  ASSERT_TRUE(merged.ok()) << merged.error().message;
  EXPECT_EQ(*merged, (MergedResponse{.envs = {{"ONLY_GPU", "1"}, {"VISIBLE", "gpu-1"}},
                                     .mounts = {{"/lib/driver", "/opt/gpu/lib", true}},
                                     .devices = {{"/dev/shared", "/dev/gpu1", "rw"}},
                                     .annotations = {{"note", "gpu"}},
                                     .cdi_devices = {"gpu.com/gpu=1"},
                                     .conflicts = {}}));
}

TEST(MergeResponses, FirstResourceByNameWinsAndConflictsNameBothSides) {
  v1beta1::ContainerAllocateResponse nic = Gpu();
  (*nic.mutable_envs())["VISIBLE"] = "nic-1";
  nic.mutable_devices(0)->set_host_path("/dev/nic1");
  nic.mutable_mounts(0)->set_read_only(false);
  (*nic.mutable_annotations())["note"] = "nic";
  const Result<MergedResponse> merged =
      MergeResponses({{"z.example.com/gpu", Gpu().SerializeAsString()},
                      {"a.example.com/nic", nic.SerializeAsString()}});
  ASSERT_TRUE(merged.ok()) << merged.error().message;
  EXPECT_EQ(merged->envs.at("VISIBLE"), "nic-1");
  EXPECT_EQ(merged->devices, (std::vector<DeviceNode>{{"/dev/shared", "/dev/nic1", "rw"}}));
  EXPECT_EQ(merged->mounts, (std::vector<DeviceMount>{{"/lib/driver", "/opt/gpu/lib", false}}));
  EXPECT_EQ(merged->annotations.at("note"), "nic");
  EXPECT_EQ(merged->cdi_devices, std::vector<std::string>{"gpu.com/gpu=1"});
  ASSERT_EQ(merged->conflicts.size(), 4U);  // the equal env and CDI device are no conflicts
  EXPECT_EQ(merged->conflicts[0].ToString(),
            "env VISIBLE: \"nic-1\" of a.example.com/nic is kept, \"gpu-1\" of z.example.com/gpu "
            "is dropped");
  EXPECT_EQ(merged->conflicts[1].what, "mount /lib/driver");
  EXPECT_EQ(merged->conflicts[2].what, "device /dev/shared");
  EXPECT_EQ(merged->conflicts[3].what, "annotation note");
}

TEST(MergeResponses, PathTwiceInOneAnswerIsUsedOnce) {
  v1beta1::ContainerAllocateResponse gpu = Gpu();
  *gpu.add_devices() = gpu.devices(0);
  const Result<MergedResponse> merged =
      MergeResponses({{"example.com/gpu", gpu.SerializeAsString()}});
  ASSERT_TRUE(merged.ok()) << merged.error().message;
  EXPECT_EQ(merged->devices.size(), 1U);
  EXPECT_TRUE(merged->conflicts.empty());
}

TEST(MergeResponses, DeviceAndMountOfOnePathAreNoConflict) {
  v1beta1::ContainerAllocateResponse answer;
  answer.add_devices()->set_container_path("/dev/x");
  answer.add_mounts()->set_container_path("/dev/x");
  const Result<MergedResponse> merged = MergeResponses({{"a.com/b", answer.SerializeAsString()}});
  ASSERT_TRUE(merged.ok()) << merged.error().message;
  EXPECT_EQ(merged->devices.size() + merged->mounts.size(), 2U);
  EXPECT_TRUE(merged->conflicts.empty());
}

TEST(MergeResponses, EmptyAnswerAddsNothing) {
  const Result<MergedResponse> merged = MergeResponses({{"example.com/gpu", ""}});
  ASSERT_TRUE(merged.ok()) << merged.error().message;
  EXPECT_EQ(*merged, MergedResponse{});
}

TEST(MergeResponses, UnreadableAnswerNamesItsResource) {
  const Result<MergedResponse> merged =
      MergeResponses({{"example.com/a", Gpu().SerializeAsString()}, {"example.com/b", "\x0a\xff"}});
  ASSERT_FALSE(merged.ok());
  EXPECT_EQ(merged.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(merged.error().message.find("example.com/b"), std::string::npos);
}

}  // namespace
}  // namespace alignd::cri
