// Texts of other programs in protobuf messages.
#pragma once

#include <string>
#include <string_view>

namespace alignd::control {

// Replaces bytes that are not UTF-8 with U+FFFD. An error text of a plugin or a runtime can contain
// any bytes, and protobuf rejects a whole message in which one string is not UTF-8.
std::string Readable(std::string_view text);

}  // namespace alignd::control
