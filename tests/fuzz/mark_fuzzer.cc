// Any text is refused or read as the mark of an assignment. A mark that was read says something,
// and is the same after writing.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "alignd/checkpoint/mark_annotation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const alignd::ContainerKey key{"uid", "app"};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto mark = alignd::checkpoint::ParseMark(key, "id", text);
  if (!mark.ok()) return 0;
  if (mark->IsEmpty()) std::abort();
  for (const auto& block : mark->memory) {
    if (block.numa_affinity.empty() || block.type.empty()) std::abort();
  }
  const auto again =
      alignd::checkpoint::ParseMark(key, "id", alignd::checkpoint::FormatMark(key, "id", *mark));
  if (!again.ok() || *again != *mark) std::abort();
  return 0;
}
