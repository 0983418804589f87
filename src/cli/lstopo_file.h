// A machine from a file that `lstopo --of xml` of hwloc 2 has written on a node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "alignd/base/result.h"

namespace alignd::cli {

// More than lstopo writes for a machine of thousands of CPUs.
inline constexpr size_t kMaxLstopoBytes = size_t{16} << 20;

// Whether the text is XML: it begins with '<'. No description in JSON or YAML does.
bool IsXml(std::string_view text);

// Whether the text is XML with the root element that lstopo writes, of whatever version.
bool IsLstopo(std::string_view text);

// What reading a file may take.
struct LstopoLimits {
  uint32_t cpu_seconds = 20;
  uint32_t seconds = 60;
  uint64_t bytes = uint64_t{1} << 30;     // of memory; with a sanitizer, there is no such limit
  size_t answer_bytes = kMaxLstopoBytes;  // what the process may write
  int stop = -1;                          // a descriptor: readable, it ends the reading
};

// The machine as MachineToNodeJson writes it, equal to the one that host::ReadMachine reads on that
// node. libhwloc reads the file in a process of its own, which has no other file and ends with the
// calling thread: what a damaged file makes it do ends there. Errors: kInvalidArgument: no file of
// hwloc 2; reading it exceeds a limit or is stopped; it has not all that decisions depend on
// (cores, packages, NUMA nodes, memory, huge pages, distances), or has it in a way that does not
// show what the kernel says.
Result<std::string> NodeJsonOfLstopo(const std::string& xml, const LstopoLimits& limits = {});

}  // namespace alignd::cli
