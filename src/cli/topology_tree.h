// A machine as text for people.
#pragma once

#include <string>

#include "alignd/machine/machine.h"
#include "picture/picture.h"
#include "picture/words.h"

namespace alignd::cli {

using picture::ReadableBytes;

// One block of lines per NUMA node, with sockets, uncore caches and cores below it. A socket or
// cache that reaches beyond the NUMA node says so. Then the devices, and which containers have
// which CPUs, as far as that is known. Ends with a line end.
std::string TopologyTree(const picture::Picture& picture);

// The machine alone.
std::string TopologyTree(const Machine& machine);

}  // namespace alignd::cli
