// Any bytes are refused or parsed as a v1.Pod in protobuf. All functions work on the resulting pod.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "podsource/v1_pod.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const alignd::Result<alignd::Pod> pod = alignd::podsource::ParseV1Pod(bytes);
  if (!pod.ok()) return 0;
  if (pod->uid.empty() || pod->containers.empty()) std::abort();
  for (const alignd::Container& container : pod->containers) {
    if (container.name.empty() || alignd::ExclusiveCpus(*pod, container) < 0) std::abort();
  }
  return 0;
}
