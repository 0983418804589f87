// Caches and PCI devices of a machine, from a sysfs tree: what a person wants to see beside the
// Machine, and what no decision uses.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/machine/machine.h"

namespace alignd::host {

struct SharedCache {
  int level = 0;
  std::string type{};  // "Data", "Instruction" or "Unified"
  uint64_t bytes = 0;  // 0: not known
  CpuSet cpus{};       // that share it

  friend bool operator==(const SharedCache&, const SharedCache&) = default;
};

enum class PciKind { kDisplay, kAccelerator, kNetwork, kNvme };

struct PciDevice {
  PciKind kind = PciKind::kDisplay;
  std::string address{};             // "0000:3b:00.0"
  std::string id{};                  // "10de:20b0": vendor and device; empty: not known
  std::string driver{};              // empty: none
  std::vector<std::string> names{};  // "eth0", "nvme0", "card0", in order
  std::optional<int> numa{};         // the id of its NUMA node; nullopt: the kernel knows none
  int virtual_functions = 0;         // of SR-IOV; they are not listed themselves

  friend bool operator==(const PciDevice&, const PciDevice&) = default;
};

struct MachineParts {
  std::vector<SharedCache>
      caches;                    // by level from the highest, then by lowest CPU; no CPU is offline
  std::vector<PciDevice> pci{};  // by address: display, accelerators, network and NVMe
  size_t pci_left_out = 0;       // beyond kMaxPciDevices

  friend bool operator==(const MachineParts&, const MachineParts&) = default;
};

inline constexpr size_t kMaxPciDevices = 512;

// Reads `root`/sys. What is absent, unreadable or has an unexpected content is left out, because
// many kernels and most virtual machines have little of it. Thread-safe.
MachineParts ReadParts(const std::filesystem::path& root, const Machine& machine);

}  // namespace alignd::host
