// The devices of a pod's claims, from the files of kubelet, drivers and kernel.
#include "dra/claimed_devices.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "edge/claims_tree.h"

namespace alignd::dra {
namespace {

using Devices = std::vector<ClaimedDevice>;
using Prepared = std::vector<PreparedDevice>;

std::string Metadata(const std::string& device, const std::string& attributes) {
  return R"({"kind":"DeviceMetadata","requests":[{"devices":[{"name":")" + device +
         R"(","attributes":{)" + attributes + "}}]}]}";
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
  tree_.Prepare("p", {Gpu("0"), {"example.com", "without-cdi", {}}});
  EXPECT_EQ(*PreparedFor(tree_.places(), "p"), Prepared{Gpu("0")});
  EXPECT_TRUE(PreparedFor(tree_.places(), "q")->empty());
  tree_.Write({"kubelet/dra_manager_state", "{}"});
  const Result<Prepared> unreadable = PreparedFor(tree_.places(), "p");
  ASSERT_FALSE(unreadable.ok());
  EXPECT_EQ(unreadable.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(unreadable.error().message.find("dra_manager_state"), std::string::npos);
}

TEST_F(ClaimedDevicesTest, AreWhereTheKernelSeesTheirNodes) {
  tree_.AddGpu("0", 0);
  tree_.AddGpu("1", 1);
  EXPECT_EQ(LocateAll({Gpu("0"), Gpu("1")}),
            (Devices{{"example.com/gpu0", {0}}, {"example.com/gpu1", {1}}}));
  EXPECT_EQ(LocateAll({}), Devices());
}

// A driver in a container: the nodes are below a directory of the host, or named otherwise there.
TEST_F(ClaimedDevicesTest, NodesAreFoundByTheirPathOnTheHostOrInTheContainer) {
  tree_.AddGpu("1", 1);
  tree_.Specify("example.com/gpu", "below",
                {{"deviceNodes", {{{"path", "/dev/x"}, {"hostPath", "/run/driver/dev/gpu1"}}}}});
  tree_.Specify("example.com/gpu", "inside",
                {{"deviceNodes", {{{"path", "/dev/gpu1"}, {"hostPath", "/run/driver/gpu"}}}}});
  for (const char* const name : {"below", "inside"}) {
    const PreparedDevice device = {"example.com", "gpu", {"example.com/gpu=" + std::string(name)}};
    EXPECT_EQ(LocateAll({device}), (Devices{{"example.com/gpu", {1}}})) << name;
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
            (Devices{{"example.com/gpu0", {1}}, {"example.com/gpu1", {0}}}));
}

TEST_F(ClaimedDevicesTest, DriverNamesAPciDeviceOrARoot) {
  tree_.AddGpu("1", 1);
  tree_.Write(testing::FakeEntry::Link("sys/bus/pci/devices/0000:01:00.0",
                                       "../../../devices/pci0000:00/0000:01:00.0"));
  for (const char* const attribute :
       {R"("resource.kubernetes.io/pciBusID":{"string":"0000:01:00.0"})",
        R"("resource.kubernetes.io/pcieRoot":{"string":"pci0000:00"})"}) {
    tree_.AddMetadata("example.com/metadata", "claim", Metadata("nic", attribute));
    EXPECT_EQ(LocateAll({{"example.com", "nic", {"example.com/metadata=claim"}}}),
              (Devices{{"example.com/nic", {1}}}))
        << attribute;
  }
}

TEST_F(ClaimedDevicesTest, FileThatTheDriverHasNotFilledSaysNothing) {
  tree_.AddGpu("1", 1);
  tree_.AddMetadata("example.com/metadata", "claim", "");
  PreparedDevice device = Gpu("1");
  device.cdi_names.push_back("example.com/metadata=claim");
  EXPECT_EQ(LocateAll({device}), (Devices{{"example.com/gpu1", {1}}}));
  device.cdi_names.erase(device.cdi_names.begin());
  EXPECT_EQ(LocateAll({device}), (Devices{{"example.com/gpu1", {}}}));
}

TEST_F(ClaimedDevicesTest, DeviceWithoutSpecificationIsAnError) {
  const Result<Devices> located = Locate(tree_.places(), {Gpu("7")});
  ASSERT_FALSE(located.ok());
  EXPECT_EQ(located.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(located.error().message,
            "example.com/gpu7: no CDI specification describes example.com/gpu=7");
}

TEST_F(ClaimedDevicesTest, DeviceOfTwoClaimsIsListedOnce) {
  tree_.AddGpu("0", 0);
  EXPECT_EQ(LocateAll({Gpu("0"), Gpu("0")}), (Devices{{"example.com/gpu0", {0}}}));
}

}  // namespace
}  // namespace alignd::dra
