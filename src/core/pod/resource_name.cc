#include "alignd/pod/resource_name.h"

namespace alignd {

bool IsExtendedResource(std::string_view name) {
  return name != "cpu" && name != "memory" && name != "ephemeral-storage" &&
         !name.starts_with("hugepages-");
}

bool IsMemoryName(std::string_view name) {
  return name == "memory" || name.starts_with("hugepages-");
}

bool MayBeDevice(std::string_view name) {
  return IsExtendedResource(name) && name.find("kubernetes.io/") == std::string_view::npos;
}

}  // namespace alignd
