// A Machine as text for people.
#pragma once

#include <cstdint>
#include <string>

#include "alignd/machine/machine.h"

namespace alignd::cli {

// One block of lines per NUMA node, with sockets, uncore caches and cores below it. A socket or
// cache that reaches beyond the NUMA node says so. Ends with a line end.
std::string TopologyTree(const Machine& machine);

// `65.5 GiB`: binary units, one decimal unless it is zero; rounded to the nearest.
std::string ReadableBytes(uint64_t bytes);

}  // namespace alignd::cli
