// What the name of a resource tells.
#pragma once

#include <string_view>

namespace alignd {

// Whether it is neither cpu, memory, ephemeral-storage nor huge pages: a resource that the node
// counts without knowing it, such as a device plugin's.
bool IsExtendedResource(std::string_view name);

}  // namespace alignd
