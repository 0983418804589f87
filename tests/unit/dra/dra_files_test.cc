// The files of DRA drivers (metadata.json) and of the kubelet (dra_manager_state).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dra/device_metadata.h"
#include "dra/prepared_claims.h"

namespace alignd::dra {
namespace {

using Texts = std::vector<std::string>;

TEST(DeviceMetadataFile, HasTheAttributesThatTellThePlace) {
  const auto devices = ParseDeviceMetadata(R"({"apiVersion":"metadata.resource.k8s.io/v1alpha1",
    "kind":"DeviceMetadata","requests":[{"name":"gpus","devices":[
      {"name":"gpu-0","attributes":{"resource.kubernetes.io/pciBusID":{"string":"0000:81:00.0"},
        "resource.kubernetes.io/pcieRoot":{"string":"pci0000:80"},"model":{"string":"x"}}},
      {"name":"gpu-1","attributes":{"numaNode":{"int":1}}},
      {"name":"gpu-2","attributes":{"resource.kubernetes.io/numaNode":{"ints":[3,2]}}},
      {"name":"gpu-3"}]}]})");
  ASSERT_TRUE(devices.ok()) << devices.error().Text();
  const std::vector<DeviceMetadata> expected = {{"gpu-0", {}, "0000:81:00.0", "pci0000:80"},
                                                {"gpu-1", 1, "", ""},
                                                {"gpu-2", 3, "", ""},
                                                {"gpu-3", {}, "", ""}};
  EXPECT_EQ(*devices, expected);
}

TEST(DeviceMetadataFile, IsEmptyUntilTheDriverFillsIt) {
  for (const char* const text : {"", "\n", R"({"kind":"DeviceMetadata"})"}) {
    const auto devices = ParseDeviceMetadata(text);
    ASSERT_TRUE(devices.ok()) << text;
    EXPECT_TRUE(devices->empty());
  }
}

TEST(DeviceMetadataFile, OfSeveralTextsTheFirstCounts) {
  const auto devices = ParseDeviceMetadata(
      R"({"kind":"DeviceMetadata","requests":[{"devices":[{"name":"a\"}{"}]}]}
         {"kind":"DeviceMetadata","requests":[{"devices":[{"name":"b"}]}]})");
  ASSERT_TRUE(devices.ok()) << devices.error().Text();
  ASSERT_EQ(devices->size(), 1U);
  EXPECT_EQ(devices->front().name, "a\"}{");
}

TEST(DeviceMetadataFile, OtherTextIsAnError) {
  for (const char* const text : {"{", "[]", "{}",
                                 R"({"kind":"DeviceMetadata","requests":[{"devices":[)"
                                 R"({"name":"a","attributes":{"numaNode":{"int":-1}}}]}]})",
                                 R"({"kind":"DeviceMetadata","requests":[{"devices":[)"
                                 R"({"name":"a","attributes":{"numaNode":{"string":"1"}}}]}]})"}) {
    const auto devices = ParseDeviceMetadata(text);
    ASSERT_FALSE(devices.ok()) << text;
    EXPECT_EQ(devices.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(DeviceMetadataFile, IsKnownByItsPath) {
  EXPECT_TRUE(IsMetadataPath(
      "/var/lib/kubelet/plugins/gpu.example.com/dra-device-metadata/ns_claim/gpus/metadata.json"));
  EXPECT_FALSE(IsMetadataPath("/etc/metadata.json"));
}

// As the kubelet writes it: the content is a JSON text within the JSON text. Its checksum is
// CRC-32 (python3: zlib.crc32).
constexpr char kPrepared[] =
    R"({"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",)"
    R"(\"Entries\":[{\"ClaimUID\":\"c1\",\"ClaimName\":\"gpus\",\"Namespace\":\"ns\",)"
    R"(\"PodUIDs\":{\"p1\":{},\"p2\":{}},\"DriverState\":{\"gpu.example.com\":{\"Devices\":[)"
    R"({\"PoolName\":\"n\",\"DeviceName\":\"gpu-0\",\"RequestNames\":[\"one\"],)"
    R"(\"CDIDeviceIDs\":[\"example.com/gpu=0\"]},)"
    R"({\"PoolName\":\"n\",\"DeviceName\":\"gpu-1\",\"RequestNames\":[\"many/large\"],)"
    R"(\"CDIDeviceIDs\":[\"example.com/gpu=1\",\"example.com/gpu=2\"]},)"
    R"({\"PoolName\":\"n\",\"DeviceName\":\"x\",\"RequestNames\":null,)"
    R"(\"CDIDeviceIDs\":[\"example.com/all=x\"]}]}}}]}","Checksum":1898021706})";

TEST(PreparedClaimsFile, HasTheDevicesOfEachClaim) {
  const auto claims = ParsePreparedClaims(kPrepared);
  ASSERT_TRUE(claims.ok()) << claims.error().Text();
  const auto names = [&](const char* claim, const char* request, const char* pod = "p2") {
    const auto found = NamesOf(*claims, pod, "ns", {claim, request});
    return found.ok() ? *found : Texts{found.error().message};
  };
  EXPECT_EQ(names("gpus", ""), (Texts{"example.com/gpu=0", "example.com/gpu=1", "example.com/gpu=2",
                                      "example.com/all=x"}));
  EXPECT_EQ(names("gpus", "one"), (Texts{"example.com/gpu=0", "example.com/all=x"}));
  EXPECT_EQ(names("gpus", "many"),
            (Texts{"example.com/gpu=1", "example.com/gpu=2", "example.com/all=x"}));
  EXPECT_EQ(names("other", ""),
            Texts{"the kubelet has not prepared ResourceClaim ns/other for this pod"});
  EXPECT_EQ(names("gpus", "", "p3"),
            Texts{"the kubelet has not prepared ResourceClaim ns/gpus for this pod"});
}

TEST(PreparedClaimsFile, OtherContentThanItsChecksumIsAnError) {
  std::string text = kPrepared;
  text.replace(text.find("gpu-0"), 5, "gpu-9");
  for (const std::string& wrong : {text, std::string("{"), std::string("{}")}) {
    const auto claims = ParsePreparedClaims(wrong);
    ASSERT_FALSE(claims.ok()) << wrong;
    EXPECT_EQ(claims.error().code, ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace alignd::dra
