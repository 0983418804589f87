#include "core/placement/names.h"

#include <algorithm>

namespace alignd::placement {
namespace {

bool IsLowerOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool IsAlphanumeric(char c) { return IsLowerOrDigit(c) || (c >= 'A' && c <= 'Z'); }

bool IsLabelOfAnyLength(std::string_view text) {
  return !text.empty() && IsLowerOrDigit(text.front()) && IsLowerOrDigit(text.back()) &&
         std::ranges::all_of(text, [](char c) { return IsLowerOrDigit(c) || c == '-'; });
}

}  // namespace

bool IsDnsLabel(std::string_view text) {
  constexpr size_t kMaxLabel = 63;
  return text.size() <= kMaxLabel && IsLabelOfAnyLength(text);
}

bool IsDnsSubdomain(std::string_view text) {
  constexpr size_t kMaxSubdomain = 253;
  if (text.size() > kMaxSubdomain) return false;
  while (true) {
    const size_t dot = text.find('.');
    if (!IsLabelOfAnyLength(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

bool IsQualifiedName(std::string_view text) {
  constexpr size_t kMaxName = 63;
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    if (!IsDnsSubdomain(text.substr(0, slash))) return false;
    text.remove_prefix(slash + 1);
  }
  return !text.empty() && text.size() <= kMaxName && IsAlphanumeric(text.front()) &&
         IsAlphanumeric(text.back()) && std::ranges::all_of(text, [](char c) {
           return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.';
         });
}

bool IsLabelValue(std::string_view text) {
  return text.empty() || (text.find('/') == std::string_view::npos && IsQualifiedName(text));
}

}  // namespace alignd::placement
