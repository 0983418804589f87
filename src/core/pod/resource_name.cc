#include "alignd/pod/resource_name.h"

namespace alignd {

bool IsExtendedResource(std::string_view name) {
  return name != "cpu" && name != "memory" && name != "ephemeral-storage" &&
         !name.starts_with("hugepages-");
}

}  // namespace alignd
