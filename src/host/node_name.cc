#include "host/node_name.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace alignd::host {

std::string DefaultNodeName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "";
  std::string text = name.data();
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace alignd::host
