// Foreign words on the wire.
#pragma once

#include <string>
#include <string_view>

namespace alignd::control {

// With U+FFFD where the text is no UTF-8: a plugin's or a runtime's words may be any bytes, and one
// that is no UTF-8 would make the whole answer unreadable.
std::string Readable(std::string_view text);

}  // namespace alignd::control
