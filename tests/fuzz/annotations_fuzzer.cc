// Any annotation is an error or valid containers: unique names, init containers first, a request
// for every limit.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "alignd/pod/annotated_resources.h"
#include "alignd/pod/resource_name.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto parse : {&alignd::ParseAnnotatedResources, &alignd::ParseIntelResources,
                           &alignd::ParseKoordinatorResources}) {
    const auto containers = parse(text);
    if (!containers.ok()) continue;
    std::set<std::string> names;
    bool apps = false;
    for (const alignd::Container& container : *containers) {
      if (!names.insert(container.name).second) std::abort();
      if (apps && container.kind != alignd::ContainerKind::kApp) std::abort();
      apps = container.kind == alignd::ContainerKind::kApp;
      for (const auto& [name, limit] : container.resources.limits) {
        if (alignd::Find(container.resources.requests, name) == nullptr) std::abort();
        if (parse == &alignd::ParseKoordinatorResources && !alignd::IsExtendedResource(name)) {
          std::abort();
        }
      }
    }
  }
  return 0;
}
