// The brackets of a JSON text, before a parser sees it: how deeply it is nested, and where it ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace alignd {

// Real texts have about ten levels. Of deeper ones, work on a value could exhaust the stack, and
// takes minutes.
inline constexpr int kMaxJsonDepth = 100;

// Calls `see` with the place of each bracket, one of "[]{}", that is in no string, until it answers
// false.
template <typename See>
constexpr void ForEachBracket(std::string_view text, See see) {
  bool is_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_text) {
      if (c == '\\') ++i;
      is_text = c != '"';
      continue;
    }
    is_text = c == '"';
    const bool is_bracket = c == '[' || c == ']' || c == '{' || c == '}';
    if (is_bracket && !see(i)) return;
  }
}

// The most brackets that are open at a time. Of a text that is not JSON, some number.
constexpr int JsonDepthOf(std::string_view text) {
  int depth = 0;
  int most = 0;
  ForEachBracket(text, [&](size_t at) {
    const bool opens = text[at] == '[' || text[at] == '{';
    depth += opens ? 1 : -1;
    most = std::max(most, depth);
    return true;
  });
  return most;
}

// The first object of a text that has several, one after the other; the whole text if none ends.
constexpr std::string_view FirstJsonObject(std::string_view text) {
  int depth = 0;
  size_t size = text.size();
  ForEachBracket(text, [&](size_t at) {
    if (text[at] == '{') ++depth;
    if (text[at] != '}' || --depth != 0) return true;
    size = at + 1;
    return false;
  });
  return text.substr(0, size);
}

}  // namespace alignd
