#include "host/node_name.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace alignd::host {

std::string DefaultNodeName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "";
  std::string text = name.data();
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool IsObjectName(const std::string& name) {
  constexpr size_t kMaxBytes = 253;  // Source: DNS1123SubdomainMaxLength
  const auto is_inner = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  const auto is_end = [&](char c) { return is_inner(c) && c != '-' && c != '.'; };
  return !name.empty() && name.size() <= kMaxBytes && std::ranges::all_of(name, is_inner) &&
         is_end(name.front()) && is_end(name.back());
}

}  // namespace alignd::host
