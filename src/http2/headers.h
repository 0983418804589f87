// The header fields of one block.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace alignd::http2 {

// In the order in which they came; pseudo-headers (":path") first.
using Headers = std::vector<std::pair<std::string, std::string>>;

// Empty if it is not there.
std::string_view Find(const Headers& headers, std::string_view name);

// Names and values, in bytes.
size_t SizeOf(const Headers& headers);

}  // namespace alignd::http2
