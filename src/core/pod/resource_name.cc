#include "alignd/pod/resource_name.h"

#include <string>

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

Result<Done> CheckNotDevice(std::string_view name) {
  if (!name.empty() && MayBeDevice(name)) return Done{};
  return Error{ErrorCode::kInvalidArgument,
               "\"" + std::string(name) + "\" is not the name of an extended resource",
               "name a resource such as example.com/licence"};
}

}  // namespace alignd
