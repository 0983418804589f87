// Facts of a picture as words: for its texts and tool tips.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "host/sysfs_parts.h"
#include "picture/picture.h"

namespace alignd::picture {

// `65.5 GiB`: binary units, one decimal unless it is zero; rounded to the nearest.
std::string ReadableBytes(uint64_t bytes);

// "CPU 3", "CPUs 0-3".
std::string CpuWords(const CpuSet& cpus);

// "L3 32M", "L1i 32K", "L2": without a size if that is not known. As lscpu, in units of 1024.
std::string CacheName(const host::SharedCache& cache);

// "GPU", "accelerator", "NIC", "NVMe".
std::string_view KindName(host::PciKind kind);

// "NIC eth0 at 0000:3b:00.0, 15b3:101d, driver mlx5_core, NUMA node 0".
std::string PciWords(const host::PciDevice& device);

// "NUMA node 0", "NUMA nodes 0,1", "no NUMA node".
std::string NodeWords(const std::vector<int64_t>& ids);

enum class CpuUse { kUnknown, kExclusive, kReserved, kFree, kShared };

// kUnknown: the owners are not known, or alignd does not manage CPUs.
CpuUse UseOf(const Picture& picture, int cpu);

// "exclusive to default/a, container app".
std::string UseWords(const Picture& picture, int cpu);

// "default/a, container app".
std::string OwnerWords(const Owner& owner);

}  // namespace alignd::picture
