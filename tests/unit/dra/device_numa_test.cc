// The NUMA nodes of devices, in trees of sysfs and of the driver of NVIDIA.
#include "dra/device_numa.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "edge/fake_tree.h"

namespace alignd::dra {
namespace {

using testing::FakeEntry;

constexpr char kSlot[] = "sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0";

class DeviceNumaTest : public ::testing::Test {
 protected:
  // The PCI device 0000:81:00.0 behind a root port.
  void AddPci(const std::string& numa_node) const {
    tree_.Write({std::string(kSlot) + "/numa_node", numa_node});
    tree_.Write({"sys/devices/pci0000:80/0000:80:01.0/numa_node", "1\n"});
    tree_.Write(FakeEntry::Link("sys/bus/pci/devices/0000:81:00.0",
                                "../../../devices/pci0000:80/0000:80:01.0/0000:81:00.0"));
  }
  // A device node that the kernel has made for it.
  void AddNode(const std::string& number, const std::string& name,
               const std::string& below = kSlot) const {
    const std::string directory = below + "/class/" + name;
    tree_.Write({directory + "/uevent", "MAJOR=1\nDEVNAME=" + name + "\n"});
    tree_.Write(FakeEntry::Link("sys/dev/" + number, "../../../" + directory));
  }
  // As a link of the kernel: from sys/kernel/iommu_groups/GROUP/devices to the device.
  void AddToGroup(const std::string& group, const std::string& name,
                  const std::string& directory) const {
    tree_.Write(FakeEntry::Link("sys/kernel/iommu_groups/" + group + "/devices/" + name,
                                "../../../../../" + directory));
  }
  Result<NumaIds> OfNode(const std::string& path) const {
    return DeviceNuma(tree_.root()).OfDeviceNode(path);
  }

  const testing::FakeTree tree_;
};

TEST_F(DeviceNumaTest, DeviceNodeIsFoundByTheNameThatTheKernelGaveIt) {
  AddPci("1\n");
  AddNode("char/226:128", "dri/renderD128");
  AddNode("block/259:0", "nvme0n1");
  EXPECT_EQ(*OfNode("/dev/dri/renderD128"), NumaIds{1});
  EXPECT_EQ(*OfNode("/dev/nvme0n1"), NumaIds{1});
}

TEST_F(DeviceNumaTest, DeviceThatIsNoHardwareIsNowhere) {
  AddPci("1\n");
  AddNode("char/1:3", "null", "sys/devices/virtual/mem");
  EXPECT_EQ(*OfNode("/dev/null"), NumaIds());
  EXPECT_EQ(*OfNode("/dev/missing"), NumaIds());
  EXPECT_EQ(*OfNode("/opt/file"), NumaIds());
}

TEST_F(DeviceNumaTest, NetworkInterfaceIsWhereItsDeviceIs) {
  AddPci("1\n");
  tree_.Write({std::string(kSlot) + "/net/eth1/mtu", "1500\n"});
  tree_.Write(
      FakeEntry::Link("sys/class/net/eth1", "../../../" + std::string(kSlot) + "/net/eth1"));
  tree_.Write({"sys/devices/virtual/net/veth0/mtu", "1500\n"});
  tree_.Write(FakeEntry::Link("sys/class/net/veth0", "../../devices/virtual/net/veth0"));
  const DeviceNuma kernel(tree_.root());
  EXPECT_EQ(*kernel.OfInterface("eth1"), NumaIds{1});
  for (const char* const other : {"veth0", "eth2", "", ".", "..", "../net/eth1"}) {
    EXPECT_EQ(*kernel.OfInterface(other), NumaIds()) << other;
  }
}

// Not the node of the root port above it.
TEST_F(DeviceNumaTest, FirmwareThatSaysNothingLeavesThePlaceOpen) {
  AddPci("-1\n");
  AddNode("char/226:128", "dri/renderD128");
  EXPECT_EQ(*OfNode("/dev/dri/renderD128"), NumaIds());
}

TEST_F(DeviceNumaTest, NvidiaGpuIsFoundByItsMinorNumber) {
  AddPci("1\n");
  tree_.Write({"proc/driver/nvidia/gpus/0000:81:00.0/information",
               "Model: \t\t NVIDIA H200\nBus Location: \t 0000:81:00.0\nDevice Minor: \t 3\n"});
  EXPECT_EQ(*OfNode("/dev/nvidia3"), NumaIds{1});
  EXPECT_EQ(*OfNode("/run/nvidia/driver/dev/nvidia3"), NumaIds{1});
  EXPECT_EQ(*OfNode("/dev/nvidia2"), NumaIds());
  EXPECT_EQ(*OfNode("/dev/nvidiactl"), NumaIds());
}

TEST_F(DeviceNumaTest, VfioGroupIsWhereItsDevicesAre) {
  AddPci("1\n");
  AddToGroup("12", "0000:81:00.0", kSlot);
  EXPECT_EQ(*OfNode("/dev/vfio/12"), NumaIds{1});
  EXPECT_EQ(*OfNode("/dev/vfio/noiommu-12"), NumaIds{1});
  for (const char* const other : {"vfio", "13", "noiommu-13", "noiommu-", "12x", "noiommu-12/x"}) {
    EXPECT_EQ(*OfNode("/dev/vfio/" + std::string(other)), NumaIds()) << other;
  }
}

// As those of virtual GPUs: no PCI devices, but parts of one.
TEST_F(DeviceNumaTest, MediatedDeviceIsWhereItsParentIs) {
  AddPci("1\n");
  const std::string uuid = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001";
  tree_.Write({std::string(kSlot) + "/" + uuid + "/uevent", "DRIVER=vfio_mdev\n"});
  AddToGroup("12", uuid, std::string(kSlot) + "/" + uuid);
  EXPECT_EQ(*OfNode("/dev/vfio/12"), NumaIds{1});
}

TEST_F(DeviceNumaTest, GroupUnitesItsDevicesAndSkipsThoseThatAreNowhere) {
  AddPci("1\n");
  tree_.Write({"sys/devices/pci0000:00/0000:00:01.0/numa_node", "0\n"});
  tree_.Write({"sys/devices/platform/dma/uevent", ""});
  AddToGroup("12", "0000:81:00.0", kSlot);
  AddToGroup("12", "dma", "sys/devices/platform/dma");
  AddToGroup("12", "gone", "sys/devices/platform/gone");
  EXPECT_EQ(*OfNode("/dev/vfio/12"), NumaIds{1});
  AddToGroup("12", "0000:00:01.0", "sys/devices/pci0000:00/0000:00:01.0");
  EXPECT_EQ(*OfNode("/dev/vfio/12"), (NumaIds{0, 1}));
}

TEST_F(DeviceNumaTest, DeviceIsFoundByItsNumber) {
  AddPci("1\n");
  AddNode("char/226:128", "dri/renderD128");
  AddNode("block/226:129", "nvme0n1");
  AddNode("char/1:3", "null", "sys/devices/virtual/mem");
  AddNode("char/511:0", "vfio/12", "sys/devices/virtual/vfio");
  AddToGroup("12", "0000:81:00.0", kSlot);
  const DeviceNuma kernel(tree_.root());
  EXPECT_EQ(*kernel.OfDeviceNumber({false, 226, 128}), NumaIds{1});
  EXPECT_EQ(*kernel.OfDeviceNumber({true, 226, 129}), NumaIds{1});
  EXPECT_EQ(*kernel.OfDeviceNumber({false, 1, 3}), NumaIds());
  EXPECT_EQ(*kernel.OfDeviceNumber({false, 511, 0}), NumaIds{1}) << "by the group of its name";
  EXPECT_EQ(*kernel.OfDeviceNumber({true, 226, 128}), std::nullopt);
  EXPECT_EQ(*kernel.OfDeviceNumber({false, 226, 129}), std::nullopt);
}

TEST_F(DeviceNumaTest, PciDeviceAndPcieRootAreFoundByName) {
  AddPci("1\n");
  const DeviceNuma kernel(tree_.root());
  EXPECT_EQ(*kernel.OfPciDevice("0000:81:00.0"), NumaIds{1});
  EXPECT_EQ(*kernel.OfPciDevice("0000:82:00.0"), NumaIds());
  EXPECT_EQ(*kernel.OfPciDevice(""), NumaIds());
  EXPECT_EQ(*kernel.OfPciDevice("../pci/devices/0000:81:00.0"), NumaIds());
  EXPECT_EQ(*kernel.OfPcieRoot("pci0000:80"), NumaIds{1});
  EXPECT_EQ(*kernel.OfPcieRoot("pci0000:00"), NumaIds());
  EXPECT_EQ(*kernel.OfPcieRoot("../devices/pci0000:80"), NumaIds());
}

TEST_F(DeviceNumaTest, WithoutSysfsNothingIsKnown) {
  EXPECT_EQ(*OfNode("/dev/nvidia0"), NumaIds());
  EXPECT_EQ(*OfNode("/dev/dri/renderD128"), NumaIds());
  EXPECT_EQ(*DeviceNuma(tree_.root() / "missing").OfPciDevice("0000:81:00.0"), NumaIds());
}

TEST_F(DeviceNumaTest, UnreadableNumberIsAnErrorWithTheFile) {
  AddPci("one\n");
  const Result<NumaIds> ids = DeviceNuma(tree_.root()).OfPciDevice("0000:81:00.0");
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(ids.error().message.find("0000:81:00.0/numa_node: \"one\""), std::string::npos)
      << ids.error().message;
}

}  // namespace
}  // namespace alignd::dra
