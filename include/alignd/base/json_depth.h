// How deeply a JSON text is nested, before a parser sees it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace alignd {

// Real texts have about ten levels. Of deeper ones, work on a value could exhaust the stack, and
// takes minutes.
inline constexpr int kMaxJsonDepth = 100;

// The most brackets that are open at a time; brackets in strings do not count. Of a text that is
// not JSON, some number.
constexpr int JsonDepthOf(std::string_view text) {
  int depth = 0;
  int most = 0;
  bool is_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_text) {
      if (c == '\\') ++i;
      is_text = c != '"';
      continue;
    }
    is_text = c == '"';
    if (c == '[' || c == '{') most = std::max(most, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  return most;
}

}  // namespace alignd
