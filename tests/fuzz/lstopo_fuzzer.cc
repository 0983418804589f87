// Any text is a machine, or an error with a remedy. libhwloc reads it in a process of its own, so
// that this one goes on whatever happens there.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "alignd/machine/node_json.h"
#include "cli/lstopo_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMaxBytes = size_t{1} << 18;
  if (size > kMaxBytes) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const alignd::Result<std::string> json = alignd::cli::NodeJsonOfLstopo(text);
  if (!json.ok()) {
    if (json.error().message.empty() || json.error().remedy.empty()) std::abort();
    return 0;
  }
  const alignd::Result<alignd::Machine> machine = alignd::MachineFromNodeJson(*json);
  if (!machine.ok() || alignd::MachineToNodeJson(*machine) != *json) std::abort();
  return 0;
}
