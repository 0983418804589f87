// The files of DRA drivers (metadata.json) and of the kubelet (dra_manager_state).
#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "dra/device_metadata.h"
#include "dra/prepared_claims.h"

namespace alignd::dra {
namespace {

TEST(DeviceMetadataFile, HasTheAttributesOfThePlace) {
  const auto devices = ParseDeviceMetadata(R"({"apiVersion":"metadata.resource.k8s.io/v1alpha1",
    "kind":"DeviceMetadata","requests":[{"name":"gpus","devices":[
      {"name":"gpu-0","driver":"gpu.example.com","pool":"n","attributes":{"resource.kubernetes.io/pciBusID":{"string":"0000:81:00.0"},
        "resource.kubernetes.io/pcieRoot":{"string":"pci0000:80"},"model":{"string":"x"}}},
      {"name":"gpu-1","attributes":{"resource.kubernetes.io/numaNode":{"int":1}}},
      {"name":"gpu-2","attributes":{"resource.kubernetes.io/numaNode":{"ints":[3,2]}}},
      {"name":"gpu-3"}]}]})");
  std::vector<DeviceMetadata> expected(4);
  expected[0].driver = "gpu.example.com";
  expected[0].pool = "n";
  expected[0].pci_bus_id = "0000:81:00.0";
  expected[0].pcie_roots = {"pci0000:80"};
  expected[1].numa_node = 1;
  expected[2].numa_node = 3;
  for (size_t i = 0; i < expected.size(); ++i) expected[i].name = "gpu-" + std::to_string(i);
  ASSERT_TRUE(devices.ok()) << devices.error().Text();
  EXPECT_EQ(*devices, expected);
}

TEST(DeviceMetadataFile, OfSeveralTextsTheFirstIsRead) {
  const auto devices = ParseDeviceMetadata(
      R"({"kind":"DeviceMetadata","requests":[{"devices":[{"name":"a\"}{"}]}]}
         {"kind":"DeviceMetadata","requests":[{"devices":[{"name":"b"}]}]})");
  ASSERT_TRUE(devices.ok()) << devices.error().Text();
  ASSERT_EQ(devices->size(), 1U);
  EXPECT_EQ(devices->front().name, "a\"}{");
}

// A driver writes what it says in each version of the format.
TEST(DeviceMetadataFile, OfSeveralVersionsTheKnownOneIsRead) {
  const auto text = [](const std::string& version, const std::string& kind, int node) {
    return R"({"apiVersion":"metadata.resource.k8s.io/)" + version + R"(","kind":")" + kind +
           R"(","requests":[{"devices":[{"name":"a","attributes":{)"
           R"("resource.kubernetes.io/numaNode":{"int":)" +
           std::to_string(node) + "}}}]}]}\n";
  };
  const auto node_in = [](const std::string& all) {
    const auto devices = ParseDeviceMetadata(all);
    if (!devices.ok()) return devices.error().message;
    return devices->size() == 1 && devices->front().numa_node
               ? std::to_string(*devices->front().numa_node)
               : "none";
  };
  const std::string known = text("v1alpha1", "DeviceMetadata", 1);
  const std::string later = text("v1beta1", "DeviceMetadata", 0);
  const std::string other = text("v2", "DeviceFacts", 0);
  EXPECT_EQ(node_in(other + known), "1");
  EXPECT_EQ(node_in(later + known), "1");
  EXPECT_EQ(node_in(known + later), "1");
  EXPECT_EQ(node_in(later), "0");
  EXPECT_EQ(node_in(other + later), "0");
  EXPECT_EQ(node_in(later + later + "{"), "0");
  EXPECT_EQ(node_in(known + "{\"kind"), "1");
  EXPECT_EQ(node_in(other), "its kind is not DeviceMetadata");
  EXPECT_EQ(node_in(other + "{\"kind"), "not JSON");
  EXPECT_EQ(node_in("{" + known), "not JSON");
}

TEST(DeviceMetadataFile, WhatIsMissingSaysNothing) {
  for (const char* const text : {"", " \n", R"({"kind":"DeviceMetadata"})",
                                 R"({"kind":"DeviceMetadata","requests":{"devices":[]}})"}) {
    const auto devices = ParseDeviceMetadata(text);
    ASSERT_TRUE(devices.ok()) << text << devices.error().Text();
    EXPECT_TRUE(devices->empty()) << text;
  }
}

TEST(DeviceMetadataFile, AnyOtherTextIsAnError) {
  for (const char* const text :
       {"{", "[]", "{}", R"({"kind":"Other","requests":[{"devices":[{"name":"a"}]}]})"}) {
    const auto devices = ParseDeviceMetadata(text);
    ASSERT_FALSE(devices.ok()) << text;
    EXPECT_EQ(devices.error().code, ErrorCode::kInvalidArgument) << text;
  }
}

DeviceMetadata WithAttributes(const std::string& attributes) {
  const auto devices = ParseDeviceMetadata(
      R"({"kind":"DeviceMetadata","requests":[{"devices":[{"name":"a","attributes":{)" +
      attributes + "}}]}]}");
  EXPECT_TRUE(devices.ok() && devices->size() == 1U) << attributes;
  return devices.ok() && !devices->empty() ? devices->front() : DeviceMetadata();
}

TEST(DeviceMetadataFile, ValueThatIsNoNumaNodeIsKept) {
  for (const char* const node : {R"({"int":-2})", R"({"int":1024})", R"({"string":"1"})", "1",
                                 R"({"ints":["1"]})", "[[[[1]]]]"}) {
    const DeviceMetadata device =
        WithAttributes(R"("resource.kubernetes.io/numaNode":)" + std::string(node));
    EXPECT_FALSE(device.numa_node) << node;
    EXPECT_EQ(device.wrong_node, node);
  }
  const DeviceMetadata unknown = WithAttributes(R"("resource.kubernetes.io/numaNode":{"int":-1})");
  EXPECT_FALSE(unknown.numa_node);
  EXPECT_EQ(unknown.wrong_node, "");
}

TEST(DeviceMetadataFile, NodeOfAnotherDomainIsNamedAndNotUsed) {
  for (const char* const name : {"dra.cpu/numaNode", "numaNode"}) {
    const DeviceMetadata device = WithAttributes("\"" + std::string(name) + R"(":{"int":1})");
    EXPECT_FALSE(device.numa_node) << name;
    EXPECT_EQ(device.foreign_attribute, name);
  }
  EXPECT_EQ(WithAttributes(R"("resource.kubernetes.io/numaNode":{"int":1})").foreign_attribute, "");
}

// What dranet publishes, and others after it.
TEST(DeviceMetadataFile, NodeOfDranetIsReadByItself) {
  const DeviceMetadata device = WithAttributes(R"("dra.net/numaNode":{"int":1})");
  EXPECT_EQ(device.dranet_node, 1);
  EXPECT_FALSE(device.numa_node);
  EXPECT_EQ(device.foreign_attribute, "");
  EXPECT_FALSE(WithAttributes(R"("dra.net/numaNode":{"int":-1})").dranet_node);
  for (const char* const wrong : {R"({"string":"1"})", R"({"int":1024})", "1"}) {
    const DeviceMetadata odd = WithAttributes(R"("dra.net/numaNode":)" + std::string(wrong));
    EXPECT_FALSE(odd.dranet_node) << wrong;
    EXPECT_EQ(odd.foreign_attribute, "dra.net/numaNode") << wrong;
  }
}

// KEP-5491: attributes may be lists.
TEST(DeviceMetadataFile, MayHaveSeveralPcieRoots) {
  EXPECT_EQ(
      WithAttributes(R"("resource.kubernetes.io/pcieRoot":{"strings":["pci0","pci8"]})").pcie_roots,
      (std::vector<std::string>{"pci0", "pci8"}));
  EXPECT_TRUE(
      WithAttributes(R"("resource.kubernetes.io/pcieRoot":{"strings":[]})").pcie_roots.empty());
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
      "n",
      "gpu-0",
      {"k8s.gpu.example.com/claim=c1-gpu-0", "gpu.example.com/metadata=c1_one"}};
  const PreparedDevice nic = {"nic.example.com", "n", "eth1", {"nic.example.com/nic=eth1"}};
  const PreparedDevice unnamed = {"gpu.example.com", "n", "gpu-1", {}};
  EXPECT_EQ(DevicesOf(*claims, "p1"), (std::vector<PreparedDevice>{gpu, unnamed}));
  EXPECT_EQ(DevicesOf(*claims, "p2"), (std::vector<PreparedDevice>{gpu, unnamed, nic}));
  EXPECT_TRUE(DevicesOf(*claims, "p3").empty());
}

TEST(PreparedClaimsFile, PublishedExampleIsRead) {
  const auto claims = ParsePreparedClaims(kPublished);
  ASSERT_TRUE(claims.ok()) << claims.error().Text();
  const PreparedDevice device = {
      "test-driver.cdi.k8s.io", "worker-1", "dev-1", {"example.com/example=cdi-example"}};
  EXPECT_EQ(DevicesOf(*claims, "139cdb46-f989-4f17-9561-ca10cfb509a6"),
            std::vector<PreparedDevice>{device});
}

TEST(PreparedClaims, ExtendedRequestsOfAllClaimsAreKept) {
  PreparedDevice one = {"d", "a", "s", {"d/g=1"}};
  PreparedDevice two = one;
  one.extended_requests = {"container-0-request-1"};
  two.extended_requests = {"container-1-request-1"};
  const std::vector<PreparedDevice> devices = DevicesOf({{{"p"}, {one}}, {{"p"}, {two}}}, "p");
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].extended_requests,
            (std::set<std::string>{"container-0-request-1", "container-1-request-1"}));
}

TEST(PreparedClaims, DeviceIsKnownByDriverPoolAndName) {
  const PreparedClaim first = {{"p"}, {{"d", "a", "s", {"d/g=1"}}, {"d", "b", "s", {"d/g=2"}}}};
  const PreparedClaim second = {{"p"}, {{"d", "a", "s", {"d/g=1", "d/m=2"}}, {"e", "a", "s", {}}}};
  EXPECT_EQ(
      DevicesOf({first, second}, "p"),
      (std::vector<PreparedDevice>{
          {"d", "a", "s", {"d/g=1", "d/m=2"}}, {"d", "b", "s", {"d/g=2"}}, {"e", "a", "s", {}}}));
  EXPECT_EQ(IdOf(first.devices[1]), "d/b/s");
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
