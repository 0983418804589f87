// UTF-8 as Go reads and writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace alignd::checkpoint {

struct Rune {
  uint32_t code = 0xFFFD;
  size_t bytes = 1;  // length in the text; 1 if not valid
  bool valid = false;
};

// U+FFFD, which replaces bytes that are not UTF-8.
inline constexpr uint32_t kReplacementRune = 0xFFFD;

// The first code point of `text`, which must not be empty. Not valid: overlong forms, surrogates,
// codes beyond U+10FFFF, truncated sequences. Source: Go unicode/utf8, DecodeRuneInString.
Rune DecodeRune(std::string_view text);

// `code` must be a valid code point, not a surrogate.
void AppendRune(std::string& out, uint32_t code);

// The text with U+FFFD for each byte that is not UTF-8.
std::string ToValidUtf8(std::string_view text);

}  // namespace alignd::checkpoint
