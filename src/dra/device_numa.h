// On which NUMA node a device is, as the kernel shows it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "alignd/base/result.h"

namespace alignd::dra {

using NumaIds = std::set<int64_t>;

// The kernel's number of a character or block device.
struct DeviceNumber {
  bool is_block = false;
  uint64_t major = 0;
  uint64_t minor = 0;

  friend bool operator==(const DeviceNumber&, const DeviceNumber&) = default;
};

// Reads sys/ and proc/ below a root, not dev/: a service may have a /dev of its own. One object
// serves one question: it keeps what it has read. May block. All answers are NUMA node ids; empty:
// the kernel does not show it, or the device is no hardware. Errors: kIo, kCorrupt.
class DeviceNuma {
 public:
  explicit DeviceNuma(std::filesystem::path root) : root_(std::move(root)) {}

  // Of a device node: "/dev/nvidia0", "/dev/vfio/12" or "/dev/vfio/noiommu-12", or one that the
  // kernel has named ("/dev/dri/renderD128"; not a symbolic link of udev's). What stands before
  // "/dev/" is ignored: a driver in a container has its devices below a directory of the host.
  // Source: kernel Documentation/ABI/testing/sysfs-dev, sysfs-bus-pci (numa_node),
  // sysfs-kernel-iommu_groups; drivers/vfio/group.c; uevent's DEVNAME. NVIDIA:
  // /proc/driver/nvidia/gpus.
  Result<NumaIds> OfDeviceNode(const std::string& whole);

  // Of the device with this number; nullopt: the kernel does not show it.
  Result<std::optional<NumaIds>> OfDeviceNumber(const DeviceNumber& number) const;

  // Of a PCI device: "0000:81:00.0".
  Result<NumaIds> OfPciDevice(const std::string& address) const;

  // Of a network interface: "eth1". The kernel shows those of alignd's own network namespace, which
  // is the host's: not one that is in the namespace of a pod already.
  Result<NumaIds> OfInterface(const std::string& name) const;

  // Of all devices below a PCIe root complex: "pci0000:80".
  Result<NumaIds> OfPcieRoot(const std::string& root) const;

 private:
  // Of a device whose place its name below /dev shows: "nvidia0", "vfio/12". nullopt: another name.
  Result<std::optional<NumaIds>> OfSpecialName(std::string_view name) const;
  Result<NumaIds> OfNvidiaMinor(const std::string& minor) const;
  // Of PCI devices, and of others: a mediated device is below the device that it is a part of.
  Result<NumaIds> OfIommuGroup(const std::string& group) const;
  // The numa_node of this directory of sysfs or of the nearest one above that has one.
  Result<NumaIds> OfDirectory(std::filesystem::path directory) const;
  // Fills `directories_`.
  Result<Done> ReadNames();

  const std::filesystem::path root_;
  bool has_names_ = false;
  // Path below /dev -> directories in sysfs. A character and a block device may share a name.
  std::map<std::string, std::set<std::filesystem::path>> directories_;
};

}  // namespace alignd::dra
