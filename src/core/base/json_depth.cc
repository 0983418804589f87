#include "alignd/base/json_depth.h"

#include <algorithm>

namespace alignd {

int JsonDepthOf(std::string_view text) {
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
