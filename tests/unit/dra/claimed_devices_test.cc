// The devices of a pod's claims, from the files of kubelet, drivers and kernel.
#include "dra/claimed_devices.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "edge/claims_tree.h"

namespace alignd::dra {
namespace {

using Devices = std::vector<ClaimedDevice>;
using Prepared = std::vector<PreparedDevice>;

std::string Entry(const std::string& pool, const std::string& device,
                  const std::string& attributes) {
  return R"({"driver":"example.com","pool":")" + pool + R"(","name":")" + device +
         R"(","attributes":{)" + attributes + "}}";
}

std::string File(const std::string& entries) {
  return R"({"kind":"DeviceMetadata","requests":[{"devices":[)" + entries + "]}]}";
}

std::string Metadata(const std::string& device, const std::string& attributes) {
  return File(Entry("node", device, attributes));
}

std::string OnNode(int node) {
  return R"("resource.kubernetes.io/numaNode":{"int":)" + std::to_string(node) + "}";
}

class ClaimedDevicesTest : public ::testing::Test {
 protected:
  // The devices, or the error.
  Devices LocateAll(const Prepared& prepared) const {
    const Result<Devices> located = Locate(tree_.places(), prepared);
    return located.ok() ? *located : Devices{{located.error().message}};
  }
  static PreparedDevice Gpu(const std::string& number) { return testing::ClaimsTree::Gpu(number); }

  const testing::ClaimsTree tree_;
};

TEST_F(ClaimedDevicesTest, AreThoseThatArePreparedForThePod) {
  EXPECT_TRUE(PreparedFor(tree_.places(), "p")->empty());  // a kubelet without DRA
  const PreparedDevice unnamed = {"example.com", "node", "without-cdi", {}};
  tree_.Prepare("p", {Gpu("0"), unnamed});
  EXPECT_EQ(*PreparedFor(tree_.places(), "p"), (Prepared{Gpu("0"), unnamed}));
  EXPECT_TRUE(PreparedFor(tree_.places(), "q")->empty());
  tree_.Write({"kubelet/dra_manager_state", "{}"});
  const Result<Prepared> unreadable = PreparedFor(tree_.places(), "p");
  ASSERT_FALSE(unreadable.ok());
  EXPECT_EQ(unreadable.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(unreadable.error().message.find("dra_manager_state"), std::string::npos);
}

// The API server cuts the name that the scheduler asks for.
TEST_F(ClaimedDevicesTest, ClaimForExtendedResourcesIsRecognisedByItsNameOrItsRequests) {
  const std::string short_name = "pod-extended-resources-x2x4z";
  const std::string cut(63, 'n');
  const std::string request = "container-1-request-12";
  struct Case {
    std::string name;
    std::string request;
    std::set<std::string> expected;
  };
  const Case cases[] = {
      {short_name, request, {request}},
      {short_name, "gpus", {"gpus"}},
      {short_name, "", {"all its requests"}},
      {cut, request, {request}},
      {cut, "gpus", {}},
      {cut, "container-1-request-", {}},
      {cut, "container--request-1", {}},
      {cut, "container-1-request-1x", {}},
      {cut, "my-container-1-request-1", {}},
      {cut, "", {}},
      {cut + "n", request, {}},
      {"gpus", request, {}},
  };
  for (const Case& c : cases) {
    tree_.Prepare("p", {Gpu("0")}, c.name, c.request);
    const Result<Prepared> prepared = PreparedFor(tree_.places(), "p");
    ASSERT_TRUE(prepared.ok() && prepared->size() == 1) << c.name;
    EXPECT_EQ(prepared->front().extended_requests, c.expected) << c.name << " " << c.request;
  }
}

TEST_F(ClaimedDevicesTest, AreWhereTheKernelSeesTheirNodes) {
  tree_.AddGpu("0", 0);
  tree_.AddGpu("1", 1);
  EXPECT_EQ(LocateAll({Gpu("0"), Gpu("1")}),
            (Devices{{"example.com/node/gpu0", {0}}, {"example.com/node/gpu1", {1}}}));
  EXPECT_EQ(LocateAll({}), Devices());
}

TEST_F(ClaimedDevicesTest, AreWhereTheKernelSeesTheirNetworkInterfaces) {
  tree_.AddGpu("0", 0);
  tree_.Write({"sys/devices/pci0000:80/0000:81:00.0/numa_node", "1\n"});
  tree_.Write({"sys/devices/pci0000:80/0000:81:00.0/net/eth1/mtu", "1500\n"});
  tree_.Write(testing::FakeEntry::Link("sys/class/net/eth1",
                                       "../../devices/pci0000:80/0000:81:00.0/net/eth1"));
  const nlohmann::json interfaces = {{{"hostInterfaceName", "eth1"}, {"name", "net0"}}};
  tree_.Specify("example.com/gpu", "nic", {{"netDevices", interfaces}});
  tree_.Specify("example.com/gpu", "both",
                {{"netDevices", interfaces}, {"deviceNodes", {{{"path", "/dev/gpu0"}}}}});
  const auto device = [](const std::string& name) {
    return PreparedDevice{"example.com", "node", name, {"example.com/gpu=" + name}};
  };
  EXPECT_EQ(LocateAll({device("nic"), device("both")}),
            (Devices{{"example.com/node/nic", {1}}, {"example.com/node/both", {0, 1}}}));
}

// A driver in a container: the nodes are below a directory of the host, or named otherwise there.
TEST_F(ClaimedDevicesTest, NodesAreFoundByTheirPathOnTheHostOrInTheContainer) {
  tree_.AddGpu("1", 1);
  tree_.Specify("example.com/gpu", "below",
                {{"deviceNodes", {{{"path", "/dev/x"}, {"hostPath", "/run/driver/dev/gpu1"}}}}});
  tree_.Specify("example.com/gpu", "inside",
                {{"deviceNodes", {{{"path", "/dev/gpu1"}, {"hostPath", "/run/driver/gpu"}}}}});
  for (const char* const name : {"below", "inside"}) {
    const PreparedDevice device = {
        "example.com", "node", "gpu", {"example.com/gpu=" + std::string(name)}};
    EXPECT_EQ(LocateAll({device}), (Devices{{"example.com/node/gpu", {1}}})) << name;
  }
}

// The runtime makes the node by its number, and does not look at the paths. A number that the
// kernel does not show, as of NVIDIA's driver before 555, says nothing.
TEST_F(ClaimedDevicesTest, StatedNumberOfANodeGoesBeforeItsPaths) {
  tree_.AddGpu("0", 0);
  tree_.AddGpu("1", 1);
  struct Case {
    const char* path;
    int minor;
    int64_t node;
  };
  for (const auto& [path, minor, node] :
       {Case{"/dev/x", 1, 1}, Case{"/dev/gpu0", 1, 1}, Case{"/dev/gpu1", 7, 1}}) {
    tree_.Specify(
        "example.com/gpu", "numbered",
        {{"deviceNodes", {{{"path", path}, {"type", "c"}, {"major", 500}, {"minor", minor}}}}});
    const PreparedDevice device = {"example.com", "node", "gpu", {"example.com/gpu=numbered"}};
    EXPECT_EQ(LocateAll({device}), (Devices{{"example.com/node/gpu", {node}}})) << path;
  }
}

// The kind of the metadata has another vendor than that of the device, as in NVIDIA's driver.
TEST_F(ClaimedDevicesTest, DriverOverridesTheKernelForEachDeviceOfItsOwn) {
  tree_.AddGpu("0", 0);
  tree_.AddGpu("1", 0);
  tree_.AddMetadata("k8s.example.com/metadata", "claim",
                    Metadata("gpu0", R"("resource.kubernetes.io/numaNode":{"int":1})"));
  PreparedDevice described = Gpu("0");
  PreparedDevice other = Gpu("1");
  for (PreparedDevice* device : {&described, &other}) {
    device->cdi_names.push_back("k8s.example.com/metadata=claim");
  }
  EXPECT_EQ(LocateAll({described, other}),
            (Devices{{"example.com/node/gpu0", {1}}, {"example.com/node/gpu1", {0}}}));
}

TEST_F(ClaimedDevicesTest, DriverNamesAPciDeviceOrARoot) {
  tree_.AddGpu("1", 1);
  tree_.Write(testing::FakeEntry::Link("sys/bus/pci/devices/0000:01:00.0",
                                       "../../../devices/pci0000:00/0000:01:00.0"));
  for (const char* const attribute :
       {R"("resource.kubernetes.io/pciBusID":{"string":"0000:01:00.0"})",
        R"("resource.kubernetes.io/pcieRoot":{"string":"pci0000:00"})",
        R"("resource.kubernetes.io/pcieRoot":{"strings":["pci0000:00"]})"}) {
    tree_.AddMetadata("example.com/metadata", "claim", Metadata("nic", attribute));
    EXPECT_EQ(LocateAll({{"example.com", "node", "nic", {"example.com/metadata=claim"}}}),
              (Devices{{"example.com/node/nic", {1}}}))
        << attribute;
  }
}

TEST_F(ClaimedDevicesTest, FileThatTheDriverHasNotFilledSaysNothing) {
  tree_.AddGpu("1", 1);
  tree_.AddMetadata("example.com/metadata", "claim", "");
  PreparedDevice device = Gpu("1");
  device.cdi_names.push_back("example.com/metadata=claim");
  EXPECT_EQ(LocateAll({device}), (Devices{{"example.com/node/gpu1", {1}}}));
  device.cdi_names.erase(device.cdi_names.begin());
  EXPECT_EQ(LocateAll({device}), (Devices{{"example.com/node/gpu1", {}}}));
}

TEST_F(ClaimedDevicesTest, DeviceWithoutSpecificationIsAnError) {
  const Result<Devices> located = Locate(tree_.places(), {Gpu("7")});
  ASSERT_FALSE(located.ok());
  EXPECT_EQ(located.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(located.error().message,
            "example.com/node/gpu7: no CDI specification describes example.com/gpu=7");
}

// The device s of the pool, with the metadata of these claims.
PreparedDevice InPool(const std::string& pool, const std::vector<std::string>& claims) {
  PreparedDevice device = {"example.com", pool, "s", {}};
  for (const std::string& claim : claims) {
    device.cdi_names.push_back("example.com/metadata=" + claim);
  }
  return device;
}

TEST_F(ClaimedDevicesTest, DevicesOfOneNameInTwoPoolsUnite) {
  tree_.AddMetadata("example.com/metadata", "a", File(Entry("a", "s", OnNode(0))));
  tree_.AddMetadata("example.com/metadata", "b", File(Entry("b", "s", OnNode(1))));
  EXPECT_EQ(LocateAll({InPool("a", {"a"}), InPool("b", {"b"})}),
            (Devices{{"example.com/a/s", {0}}, {"example.com/b/s", {1}}}));
}

// In either order, and beside a device of another driver.
TEST_F(ClaimedDevicesTest, MetadataAreMatchedByDriverPoolAndName) {
  const std::string other =
      R"({"driver":"other.com","pool":"b","name":"s","attributes":{)" + OnNode(0) + "}}";
  const std::string a = Entry("a", "s", OnNode(0));
  const std::string b = Entry("b", "s", OnNode(1));
  for (const std::string& entries : {a + "," + b, b + "," + a, other + "," + b}) {
    tree_.AddMetadata("example.com/metadata", "both", File(entries));
    EXPECT_EQ(LocateAll({InPool("b", {"both"})}), (Devices{{"example.com/b/s", {1}}})) << entries;
  }
  EXPECT_EQ(LocateAll({InPool("c", {"both"})}), (Devices{{"example.com/c/s", {}}}));
}

TEST_F(ClaimedDevicesTest, MetadataThatDoNotSayWhichDeviceOrNodeAreAnError) {
  const auto error = [&](const std::vector<std::string>& claims) {
    const Result<Devices> located = Locate(tree_.places(), {InPool("a", claims)});
    if (located.ok()) return std::string("none");
    EXPECT_EQ(located.error().code, ErrorCode::kUnavailable);
    EXPECT_TRUE(located.error().message.starts_with("example.com/a/s: "));
    return located.error().message;
  };
  const std::string a0 = Entry("a", "s", OnNode(0));
  tree_.AddMetadata("example.com/metadata", "zero", File(a0));
  tree_.AddMetadata("example.com/metadata", "same", File(a0 + "," + a0));
  EXPECT_EQ(error({"zero", "same"}), "none");
  tree_.AddMetadata("example.com/metadata", "one", File(Entry("a", "s", OnNode(1))));
  EXPECT_NE(error({"zero", "one"}).find("have different NUMA nodes of it"), std::string::npos);
  tree_.AddMetadata("example.com/metadata", "twice", File(a0 + "," + Entry("a", "s", OnNode(1))));
  EXPECT_NE(error({"twice"}).find("has it twice, on different NUMA nodes"), std::string::npos);
  tree_.AddMetadata("example.com/metadata", "no-pool",
                    File(R"({"driver":"example.com","name":"s"})"));
  EXPECT_NE(error({"no-pool"}).find("has a device s without driver or pool"), std::string::npos);
  tree_.AddMetadata("example.com/metadata", "text",
                    File(Entry("a", "s", R"("resource.kubernetes.io/numaNode":{"string":"1"})")));
  EXPECT_NE(error({"text"}).find(R"(numaNode {"string":"1"} is no NUMA node)"), std::string::npos);
  tree_.AddMetadata("example.com/metadata", "damaged", "{");
  EXPECT_NE(error({"damaged"}).find("metadata.json: not JSON"), std::string::npos);
}

TEST_F(ClaimedDevicesTest, UnknownPlaceHasItsReason) {
  tree_.AddMetadata("example.com/metadata", "net",
                    File(Entry("a", "s", R"("dra.cpu/numaNode":{"int":1})")));
  EXPECT_EQ(LocateAll({InPool("a", {"net"}), InPool("b", {})}),
            (Devices{{"example.com/a/s (attribute dra.cpu/numaNode is not used)", {}},
                     {"example.com/b/s (without a CDI name)", {}}}));
}

// The attribute of dranet says where a network device is, which has no device node.
TEST_F(ClaimedDevicesTest, AttributeOfDranetIsTheLastSource) {
  tree_.AddGpu("0", 0);
  const auto net = [](const std::string& device, const std::string& more, int node) {
    return Metadata(device, more + R"("dra.net/numaNode":{"int":)" + std::to_string(node) + "}");
  };
  const auto place = [&](const std::string& device, std::vector<std::string> names) {
    return LocateAll({{"example.com", "node", device, std::move(names)}});
  };
  tree_.AddMetadata("example.com/metadata", "nic", net("nic", "", 1));
  EXPECT_EQ(place("nic", {"example.com/metadata=nic"}), (Devices{{"example.com/node/nic", {1}}}));
  // Kubernetes' own attribute goes first, and so does the kernel.
  tree_.AddMetadata("example.com/metadata", "own", net("nic", OnNode(0) + ",", 1));
  EXPECT_EQ(place("nic", {"example.com/metadata=own"}), (Devices{{"example.com/node/nic", {0}}}));
  tree_.AddMetadata("example.com/metadata", "gpu", net("gpu0", "", 1));
  EXPECT_EQ(place("gpu0", {"example.com/metadata=gpu", "example.com/gpu=0"}),
            (Devices{{"example.com/node/gpu0", {0}}}));
  tree_.AddMetadata("example.com/metadata", "other", net("nic", "", 0));
  const Devices error = place("nic", {"example.com/metadata=nic", "example.com/metadata=other"});
  EXPECT_NE(error[0].name.find("have different NUMA nodes of it"), std::string::npos)
      << error[0].name;
}

TEST_F(ClaimedDevicesTest, PreparedDeviceWithoutPoolIsAnError) {
  const Result<Devices> located = Locate(tree_.places(), {InPool("", {"x"})});
  ASSERT_FALSE(located.ok());
  EXPECT_EQ(located.error().message,
            "example.com//s: its driver has prepared it without a pool or a name");
}

}  // namespace
}  // namespace alignd::dra
