// Any text is an error or a pod. Every function works on the pod.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "alignd/pod/kubernetes_pod.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const alignd::Result<alignd::Pod> pod = alignd::ParseKubernetesPod(text);
  if (!pod.ok()) return 0;
  if (pod->uid.empty() || pod->containers.empty()) std::abort();
  for (const alignd::Container& container : pod->containers) {
    if (alignd::ExclusiveCpus(*pod, container) < 0) std::abort();
    for (const auto& [name, limit] : container.resources.limits) {
      if (limit.Sign() < 0 || alignd::Find(container.resources.requests, name) == nullptr) {
        std::abort();
      }
    }
  }
  return 0;
}
