// A Machine as JSON: the `node` form of scenarios, of `alignctl topology` and of captured machines.
#pragma once

#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/machine/machine.h"

namespace alignd {

// One compact line without a line end; equal machines give equal bytes:
// {"cpus":[[cpu,core,socket,numa,uncore],...],
//  "numa":[{"id":0,"memory":BYTES,"hugepages":{"PAGE SIZE":PAGES},"distances":[10,21]},...],
//  "isolated":"2-5,8"}
// Unknown distances are null. Without isolated CPUs, there is no `isolated`.
std::string MachineToNodeJson(const Machine& machine);

// Reads that form from untrusted input. Every key but `cpus`, `numa` and `id` may be absent or
// null; other keys (`devices`, `preferred`) are ignored. Numbers are whole and in range: CPUs 0 to
// CpuSet::kMaxCpu, ids of NUMA nodes 0 and above, ids of cores, sockets and caches 32 bits, memory
// 64 bits, and likewise all bytes in a node's huge pages together.
// Errors: kInvalidArgument, naming the place (`numa[1].distances[0]: 1.5 is not a whole number from
// 0 to 2147483647`) or what is wrong with the machine as a whole.
Result<Machine> MachineFromNodeJson(std::string_view json);

}  // namespace alignd
