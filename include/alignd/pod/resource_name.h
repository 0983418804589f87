// Kinds of resources, by name.
#pragma once

#include <string_view>

namespace alignd {

// Whether the name is neither cpu, memory, ephemeral-storage nor huge pages, such as a resource of
// a device plugin.
bool IsExtendedResource(std::string_view name);

}  // namespace alignd
