// Private to the module.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace alignd {

// The value of an annotation or a label as a message names it.
inline std::string ShownValue(std::string_view value) {
  constexpr size_t kLongestValue = 64;
  const bool is_plain = value.size() <= kLongestValue && std::ranges::all_of(value, [](char c) {
                          return c >= 0x20 && c < 0x7f && c != '"';
                        });
  return is_plain ? "\"" + std::string(value) + "\"" : "the value";
}

}  // namespace alignd
