// How much of a text fits into a width.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace alignd::picture {

// Whether the byte goes on with a character of UTF-8 that began before it.
constexpr bool IsContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// The bytes of the longest beginning of `text`, of whole characters, that fits into `width`
// together with an ellipsis of the width `ellipsis`; 0 if none does. nullopt: the whole text fits.
//
// `width_of` is asked for at most once for each byte, and not for bytes beyond the width: the texts
// are those of other programs.
template <typename WidthOf>
std::optional<size_t> FittingBytes(std::string_view text, int width, int ellipsis,
                                   WidthOf width_of) {
  size_t end = 0;
  int taken = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!IsContinuation(text[i]) && taken + ellipsis <= width) end = i;
    taken += width_of(static_cast<unsigned char>(text[i]));
    if (taken > width) return end;
  }
  return std::nullopt;
}

}  // namespace alignd::picture
