// What a picture of a node shows: the machine, its caches and PCI devices, and the owner of each
// CPU and device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/control/v1/control.pb.h"
#include "alignd/machine/machine.h"
#include "host/sysfs_parts.h"

namespace alignd::picture {

// A container with exclusive CPUs or devices.
struct Owner {
  std::string key{};  // "A", "B", ..., "AA": short, for a CPU; unique in a picture
  size_t colour = 0;  // index in kOwnerColours (palette.h)
  std::string pod{};  // namespace/name; if that is not known, the pod's UID
  std::string container{};
  CpuSet cpus{};                            // exclusive ones; may be empty
  std::map<std::string, size_t> devices{};  // how many, by resource
};

// A device of a device plugin.
struct PluginDevice {
  std::string resource{};
  std::string id{};
  std::vector<int64_t> numa{};    // ids; empty: no NUMA node
  std::string problem{};          // empty: none
  std::optional<size_t> owner{};  // index in Owners::containers
};

// Devices of a resource that the report does not list, at one NUMA node or elsewhere.
struct DevicesLeftOut {
  std::string resource{};
  std::optional<int> numa{};  // nullopt: without a NUMA node of the machine, or with several
  uint64_t devices = 0;
  uint64_t free = 0;  // of them
};

// A value, made of a report of alignd.
struct Owners {
  std::string node{};  // host name
  std::string version{};
  int64_t time_unix_ms = 0;  // of the report
  bool has_cpus = false;     // false: cpuManagerPolicy none
  CpuSet reserved{};
  CpuSet free{};       // can be allocated exclusively; shared containers use them until then
  CpuSet exclusive{};  // all of them
  // By lowest exclusive CPU; those without exclusive CPUs last, by name.
  std::vector<Owner> containers{};
  std::vector<PluginDevice> devices{};     // by resource, then id
  std::vector<DevicesLeftOut> left_out{};  // by resource, then NUMA node
  // Free and total bytes by NUMA node, for the memory manager.
  std::map<int, control::v1::Availability> memory{};

  // The container that has the CPU exclusively, or null.
  const Owner* OwnerOf(int cpu) const;
};

struct Picture {
  Machine machine;
  host::MachineParts parts{};
  std::optional<Owners> owners{};  // nullopt: not known
  std::string note{};              // why they are not known; empty: nothing to say
};

// The owners that `status` reports (with list_devices). If it is of another machine than `machine`,
// they are left out, and the note says so.
Picture MakePicture(Machine machine, host::MachineParts parts,
                    const control::v1::GetStatusResponse& status);

}  // namespace alignd::picture
