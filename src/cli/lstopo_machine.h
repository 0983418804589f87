// Reads lstopo's XML with libhwloc, in this process. lstopo_file.h does it in another one: libhwloc
// is not made for damaged files.
#pragma once

#include <string>

#include "alignd/base/result.h"
#include "alignd/machine/machine.h"

namespace alignd::cli {

// What always helps: this output has all that decisions depend on.
inline constexpr char kGiveOwnForm[] =
    "give the output of alignctl topology -o json, made on that node, instead";
inline constexpr char kWriteAgain[] =
    "write it again with lstopo --of xml, as root and without other options, on the node itself; "
    "or give the output of alignctl topology -o json, made there";

// "lstopo's XML: WHAT". kInvalidArgument.
Error BadLstopo(const std::string& what, const char* remedy = kWriteAgain);

// Errors: as NodeJsonOfLstopo. A damaged file can end the process.
Result<Machine> MachineOfLstopo(const std::string& xml);

}  // namespace alignd::cli
