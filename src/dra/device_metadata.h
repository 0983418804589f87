// What a DRA driver says about the devices of a claim (KEP-5304, beta in Kubernetes 1.37).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::dra {

// One device, with the attributes that say where it is. Empty: the driver does not say.
struct DeviceMetadata {
  // Only the three together identify a device.
  std::string driver;
  std::string pool;
  std::string name;
  std::optional<int64_t> numa_node;
  std::string pci_bus_id;               // "0000:81:00.0"
  std::vector<std::string> pcie_roots;  // "pci0000:80"
  // dra.net/numaNode: dranet, the SR-IOV driver and others have the kernel's number of the node
  // there, as Kubernetes had no attribute for it. Source: dranet pkg/apis/attributes.go,
  // pkg/inventory/db.go.
  std::optional<int64_t> dranet_node;
  // A value of numaNode that is no NUMA node, as JSON; empty: it has none.
  std::string wrong_node;
  // An attribute numaNode of another domain, or a dra.net/numaNode that is no NUMA node: alignd
  // does not use it.
  std::string foreign_attribute;

  friend bool operator==(const DeviceMetadata&, const DeviceMetadata&) = default;
};

// Reads a metadata.json. Of several JSON texts, the first is read: the others are of other
// versions. Whatever is missing is empty in the result, and a text of spaces has no devices: a
// driver fills the file when it can, and not at once.
// Errors: kInvalidArgument: any other text.
Result<std::vector<DeviceMetadata>> ParseDeviceMetadata(std::string_view text);

// Whether a file that a driver mounts into containers is one: its path on the host.
// Source: KEP-5304: plugins/DRIVER/dra-device-metadata/NAMESPACE_CLAIM/REQUEST/metadata.json.
bool IsMetadataPath(std::string_view path);

}  // namespace alignd::dra
