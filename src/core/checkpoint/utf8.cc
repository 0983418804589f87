#include "alignd/checkpoint/utf8.h"

namespace alignd::checkpoint {
namespace {

bool IsSurrogate(uint32_t code) { return code >= 0xD800 && code <= 0xDFFF; }

}  // namespace

Rune DecodeRune(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {lead, 1, true};
  size_t bytes = 0;
  uint32_t code = 0;
  uint32_t smallest = 0;  // of this length; less is an overlong form
  if ((lead & 0xE0) == 0xC0) {
    bytes = 2, code = lead & 0x1FU, smallest = 0x80;
  } else if ((lead & 0xF0) == 0xE0) {
    bytes = 3, code = lead & 0x0FU, smallest = 0x800;
  } else if ((lead & 0xF8) == 0xF0) {
    bytes = 4, code = lead & 0x07U, smallest = 0x10000;
  } else {
    return {};
  }
  if (text.size() < bytes) return {};
  for (const char c : text.substr(1, bytes - 1)) {
    const auto next = static_cast<unsigned char>(c);
    if ((next & 0xC0) != 0x80) return {};
    code = code << 6 | (next & 0x3FU);
  }
  if (code < smallest || code > 0x10FFFF || IsSurrogate(code)) return {};
  return {code, bytes, true};
}

void AppendRune(std::string& out, uint32_t code) {
  const auto continuation = [&out, code](unsigned int shift) {
    out += static_cast<char>(0x80 | (code >> shift & 0x3F));
  };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    continuation(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    continuation(6);
    continuation(0);
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

std::string ToValidUtf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const Rune rune = DecodeRune(text);
    AppendRune(valid, rune.valid ? rune.code : kReplacementRune);
    text.remove_prefix(rune.bytes);
  }
  return valid;
}

}  // namespace alignd::checkpoint
