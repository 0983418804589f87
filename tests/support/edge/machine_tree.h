// A machine as the sysfs files that host::ReadMachine reads it from.
#pragma once

#include <cstdint>
#include <string>

#include "alignd/machine/machine.h"
#include "edge/fake_tree.h"

namespace alignd::testing {

// The kernel's mask of CPUs: groups of 32 bits in hexadecimal, the highest group first.
inline std::string CpuMask(const CpuSet& cpus) {
  constexpr int kBits = 32;
  std::string mask;
  for (int group = cpus.ToVector().back() / kBits; group >= 0; --group) {
    uint32_t bits = 0;
    for (const int cpu : cpus) {
      if (cpu / kBits == group) bits |= uint32_t{1} << static_cast<unsigned>(cpu % kBits);
    }
    char digits[16];
    std::snprintf(digits, sizeof digits, "%08x", bits);
    mask += (mask.empty() ? "" : ",") + std::string(digits);
  }
  return mask;
}

// Writes sys/devices/system below `directory` of the tree. The machine's uncore caches become its
// level 3 caches.
inline void WriteMachine(const Machine& machine, const std::string& directory,
                         const FakeTree& tree) {
  constexpr uint64_t kKi = 1024;
  const std::string system = directory + "/sys/devices/system/";
  tree.Write({system + "cpu/online", machine.cpus().ToString() + "\n"});
  for (const Cpu& cpu : machine.cpu_rows()) {
    const std::string path = system + "cpu/cpu" + std::to_string(cpu.cpu);
    tree.Write({path + "/topology/core_id", std::to_string(cpu.core) + "\n"});
    tree.Write({path + "/topology/physical_package_id", std::to_string(cpu.socket) + "\n"});
    for (const CpuGroup& cache : machine.uncores()) {
      if (!cache.cpus.Contains(cpu.cpu)) continue;
      tree.Write({path + "/cache/index3/level", "3\n"});
      tree.Write({path + "/cache/index3/type", "Unified\n"});
      tree.Write({path + "/cache/index3/size", "32768K\n"});
      tree.Write({path + "/cache/index3/id", std::to_string(cache.id) + "\n"});
      tree.Write({path + "/cache/index3/shared_cpu_map", CpuMask(cache.cpus) + "\n"});
    }
  }
  for (const NumaNode& node : machine.numa()) {
    const std::string path = system + "node/node" + std::to_string(node.id);
    const std::string memory = std::to_string(node.memory_bytes / kKi);
    tree.Write(
        {path + "/meminfo", "Node " + std::to_string(node.id) + " MemTotal: " + memory + " kB\n"});
    std::string distances;
    for (const int distance : node.distances) distances += std::to_string(distance) + " ";
    tree.Write({path + "/distance", distances + "\n"});
    for (const auto& [size, pages] : node.hugepages) {
      tree.Write({path + "/hugepages/hugepages-" + std::to_string(size / kKi) + "kB/nr_hugepages",
                  std::to_string(pages) + "\n"});
    }
  }
  for (const Cpu& cpu : machine.cpu_rows()) {
    const std::string name = "cpu" + std::to_string(cpu.cpu);
    tree.Write(FakeEntry::Link(system + "node/node" + std::to_string(cpu.numa) + "/" + name,
                               "../../cpu/" + name));
  }
}

}  // namespace alignd::testing
