// Any text is refused or read. Original CPUs that were read are sound, and are the same after
// writing.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "alignd/checkpoint/originals_checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using alignd::checkpoint::ParseOriginalsCheckpoint;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto originals = ParseOriginalsCheckpoint(text);
  if (!originals.ok()) return 0;
  for (const auto& [pod_uid, containers] : *originals) {
    if (pod_uid.empty() || containers.empty()) std::abort();
    for (const auto& [container, cpus] : containers) {  // no CPUs: it was moved to shared ones
      if (container.empty()) std::abort();
    }
  }
  const auto again =
      ParseOriginalsCheckpoint(alignd::checkpoint::FormatOriginalsCheckpoint(*originals));
  if (!again.ok() || *again != *originals) std::abort();
  return 0;
}
