// Any text is refused or read. Bindings that were read are sound, and are the same after writing.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "alignd/checkpoint/binding_checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using alignd::checkpoint::ParseBindingCheckpoint;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto bindings = ParseBindingCheckpoint(text);
  if (!bindings.ok()) return 0;
  for (const auto& [key, resources] : *bindings) {
    if (resources.empty()) std::abort();
    for (const auto& [resource, binding] : resources) {
      if (binding.empty()) std::abort();
    }
  }
  const auto again = ParseBindingCheckpoint(alignd::checkpoint::FormatBindingCheckpoint(*bindings));
  if (!again.ok() || *again != *bindings) std::abort();
  return 0;
}
