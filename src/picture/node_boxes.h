// The boxes of a picture: sockets, NUMA nodes, caches, cores, CPUs, devices.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "picture/box.h"
#include "picture/picture.h"

namespace alignd::picture {

// How a CPU is drawn and named in the legend.
struct CpuLook {
  Paint paint{};
  std::string key{};  // below its number; empty: none
};
CpuLook LookOf(const Picture& picture, int cpu);

// The whole machine: each CPU exactly once.
Box MachineBox(const Picture& picture);

// The devices of that NUMA node, or of none or several (nullopt), in rows of `width`.
std::vector<Box> DeviceBoxes(const Picture& picture, std::optional<int> numa_id, int width);

}  // namespace alignd::picture
