#include "cri/verbose_status.h"

#include <gtest/gtest.h>

namespace alignd::cri {
namespace {

TEST(VerboseStatus, TellsTheCgroup) {
  const Result<std::string> path =
      CgroupInStatus(R"({"pid":7,"runtimeSpec":{"linux":{"cgroupsPath":"/kubepods/pod1/abc"}}})");
  ASSERT_TRUE(path.ok()) << path.error().Text();
  EXPECT_EQ(*path, "/kubepods/pod1/abc");
  EXPECT_EQ(*CgroupInStatus(
                R"({"runtimeSpec":{"linux":{"cgroupsPath":"kubepods-pod1.slice:crio:abc"}}})"),
            "/kubepods.slice/kubepods-pod1.slice/crio-abc.scope");
}

TEST(VerboseStatus, WhatDoesNotTellItIsNotFound) {
  for (const char* info :
       {"", "{", "[]", "{}", R"({"runtimeSpec":{"linux":{}}})",
        R"({"runtimeSpec":{"linux":{"cgroupsPath":7}}})", R"({"runtimeSpec":[]})"}) {
    EXPECT_EQ(CgroupInStatus(info).error().code, ErrorCode::kNotFound) << info;
  }
  EXPECT_EQ(CgroupInStatus(R"({"runtimeSpec":{"linux":{"cgroupsPath":"../etc"}}})").error().code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace alignd::cri
