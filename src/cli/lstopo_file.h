// A machine from a file that `lstopo --of xml` of hwloc 2 has written on a node.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "alignd/base/result.h"

namespace alignd::cli {

// More than lstopo writes for a machine of thousands of CPUs.
inline constexpr size_t kMaxLstopoBytes = size_t{16} << 20;

// Whether the text is XML: it begins with '<'. No description in JSON or YAML does.
bool IsXml(std::string_view text);

// The machine as MachineToNodeJson writes it, equal to the one that host::ReadMachine reads on that
// node. libhwloc reads the file in a process of its own: what a damaged file makes it do ends
// there. Errors: kInvalidArgument: no file of hwloc 2; it has not all that decisions depend on
// (cores, packages, NUMA nodes, memory, huge pages, distances), or has it in a way that does not
// show what the kernel says.
Result<std::string> NodeJsonOfLstopo(const std::string& xml);

}  // namespace alignd::cli
