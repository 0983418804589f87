// How deeply a JSON text is nested, before a parser sees it.
#pragma once

#include <string_view>

namespace alignd {

// Real texts have about ten levels. Of deeper ones, work on a value could exhaust the stack, and
// takes minutes.
inline constexpr int kMaxJsonDepth = 100;

// The most brackets that are open at a time; brackets in strings do not count. Of a text that is
// not JSON, some number.
int JsonDepthOf(std::string_view text);

}  // namespace alignd
