// The files of DRA drivers (metadata.json) and of the kubelet (dra_manager_state).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dra/device_metadata.h"
#include "dra/prepared_claims.h"

namespace alignd::dra {
namespace {

TEST(DeviceMetadataFile, HasTheAttributesOfThePlace) {
  const auto devices = ParseDeviceMetadata(R"({"apiVersion":"metadata.resource.k8s.io/v1alpha1",
    "kind":"DeviceMetadata","requests":[{"name":"gpus","devices":[
      {"name":"gpu-0","attributes":{"resource.kubernetes.io/pciBusID":{"string":"0000:81:00.0"},
        "resource.kubernetes.io/pcieRoot":{"string":"pci0000:80"},"model":{"string":"x"}}},
      {"name":"gpu-1","attributes":{"resource.kubernetes.io/numaNode":{"int":1}}},
      {"name":"gpu-2","attributes":{"resource.kubernetes.io/numaNode":{"ints":[3,2]}}},
      {"name":"gpu-3"}]}]})");
  const std::vector<DeviceMetadata> expected = {{"gpu-0", {}, "0000:81:00.0", "pci0000:80"},
                                                {"gpu-1", 1, "", ""},
                                                {"gpu-2", 3, "", ""},
                                                {"gpu-3", {}, "", ""}};
  EXPECT_EQ(devices, expected);
}

TEST(DeviceMetadataFile, OfSeveralTextsTheFirstIsRead) {
  const auto devices = ParseDeviceMetadata(
      R"({"kind":"DeviceMetadata","requests":[{"devices":[{"name":"a\"}{"}]}]}
         {"kind":"DeviceMetadata","requests":[{"devices":[{"name":"b"}]}]})");
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices.front().name, "a\"}{");
}

TEST(DeviceMetadataFile, WhatHasAnotherFormSaysNothing) {
  for (const char* const text :
       {"", "{", "[]", "{}", R"({"kind":"Other","requests":[{"devices":[{"name":"a"}]}]})",
        R"({"kind":"DeviceMetadata"})", R"({"kind":"DeviceMetadata","requests":{"devices":[]}})"}) {
    EXPECT_TRUE(ParseDeviceMetadata(text).empty()) << text;
  }
  for (const char* const node : {R"({"int":-1})", R"({"int":1024})", R"({"string":"1"})", "1",
                                 R"({"ints":["1"]})", "[[[[1]]]]"}) {
    const auto devices = ParseDeviceMetadata(
        R"({"kind":"DeviceMetadata","requests":[{"devices":[{"name":"a","attributes":)"
        R"({"numaNode":{"int":1},"resource.kubernetes.io/numaNode":)" +
        std::string(node) + "}}]}]}");
    ASSERT_EQ(devices.size(), 1U) << node;
    EXPECT_FALSE(devices[0].numa_node) << node;
  }
}

TEST(DeviceMetadataFile, IsKnownByItsPath) {
  EXPECT_TRUE(IsMetadataPath(
      "/var/lib/kubelet/plugins/gpu.example.com/dra-device-metadata/ns_claim/gpus/metadata.json"));
  EXPECT_FALSE(IsMetadataPath("/etc/metadata.json"));
}

// As the kubelet writes it: the content is a JSON text within the JSON text.
constexpr char kPrepared[] =
    R"({"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/)"
    R"(v1\",\"ClaimInfoStateList\":[{\"ClaimUID\":\"c1\",\"ClaimName\":\"gpus\",\"Namespace)"
    R"(\":\"ns\",\"PodUIDs\":{\"p1\":{},\"p2\":{}},\"DriverState\":{\"gpu.example.com\":{\")"
    R"(Devices\":[{\"PoolName\":\"n\",\"DeviceName\":\"gpu-0\",\"RequestNames\":[\"one\"],\)"
    R"("CDIDeviceIDs\":[\"k8s.gpu.example.com/claim=c1-gpu-0\",\"gpu.example.com/metadata=c)"
    R"(1_one\"]},{\"PoolName\":\"n\",\"DeviceName\":\"gpu-1\",\"RequestNames\":null,\"CDIDe)"
    R"(viceIDs\":null}]}}},{\"ClaimUID\":\"c2\",\"ClaimName\":\"nic\",\"Namespace\":\"ns\",)"
    R"(\"PodUIDs\":{\"p2\":{}},\"DriverState\":{\"nic.example.com\":{\"Devices\":[{\"PoolNa)"
    R"(me\":\"n\",\"DeviceName\":\"eth1\",\"RequestNames\":[\"nic\"],\"CDIDeviceIDs\":[\"ni)"
    R"(c.example.com/nic=eth1\"]}]}}}]}","Checksum":995577216})";
// An example of Kubernetes' own tests, with its checksum.
constexpr char kPublished[] =
    R"({"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/)"
    R"(v1\",\"ClaimInfoStateList\":[{\"ClaimUID\":\"067798be-454e-4be4-9047-1aa06aea63f7\",)"
    R"(\"ClaimName\":\"example\",\"Namespace\":\"default\",\"PodUIDs\":{\"139cdb46-f989-4f1)"
    R"(7-9561-ca10cfb509a6\":{}},\"DriverState\":{\"test-driver.cdi.k8s.io\":{\"Devices\":[)"
    R"({\"PoolName\":\"worker-1\",\"DeviceName\":\"dev-1\",\"RequestNames\":[\"test request)"
    R"(\"],\"CDIDeviceIDs\":[\"example.com/example=cdi-example\"]}]}}}]}","Checksum":165601)"
    R"(6162})";

TEST(PreparedClaimsFile, HasTheDevicesOfEachPod) {
  const auto claims = ParsePreparedClaims(kPrepared);
  ASSERT_TRUE(claims.ok()) << claims.error().Text();
  const PreparedDevice gpu = {
      "gpu.example.com",
      "gpu-0",
      {"k8s.gpu.example.com/claim=c1-gpu-0", "gpu.example.com/metadata=c1_one"}};
  const PreparedDevice nic = {"nic.example.com", "eth1", {"nic.example.com/nic=eth1"}};
  EXPECT_EQ(DevicesOf(*claims, "p1"), std::vector<PreparedDevice>{gpu});
  EXPECT_EQ(DevicesOf(*claims, "p2"), (std::vector<PreparedDevice>{gpu, nic}));
  EXPECT_TRUE(DevicesOf(*claims, "p3").empty());
}

TEST(PreparedClaimsFile, PublishedExampleIsRead) {
  const auto claims = ParsePreparedClaims(kPublished);
  ASSERT_TRUE(claims.ok()) << claims.error().Text();
  const PreparedDevice device = {
      "test-driver.cdi.k8s.io", "dev-1", {"example.com/example=cdi-example"}};
  EXPECT_EQ(DevicesOf(*claims, "139cdb46-f989-4f17-9561-ca10cfb509a6"),
            std::vector<PreparedDevice>{device});
}

// As Go writes an empty list.
TEST(PreparedClaimsFile, FreshFileHasNoClaims) {
  const auto claims =
      ParsePreparedClaims(R"({"Data":"{\"ClaimInfoStateList\":null}","Checksum":237854392})");
  ASSERT_TRUE(claims.ok()) << claims.error().Text();
  EXPECT_TRUE(claims->empty());
}

TEST(PreparedClaimsFile, AnyOtherTextIsAnError) {
  std::string changed = kPrepared;
  changed.replace(changed.find("gpu-0"), 5, "gpu-9");
  for (const std::string& wrong :
       {changed, std::string("{"), std::string("{}"),
        std::string(R"({"Data":"{\"Entries\":[]}","Checksum":3524825195})"),
        std::string(R"({"version":"v1","entries":{},"checksum":1})")}) {
    const auto claims = ParsePreparedClaims(wrong);
    ASSERT_FALSE(claims.ok()) << wrong;
    EXPECT_EQ(claims.error().code, ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace alignd::dra
