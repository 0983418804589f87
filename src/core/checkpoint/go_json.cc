#include "alignd/checkpoint/go_json.h"

#include "alignd/checkpoint/utf8.h"

namespace alignd::checkpoint {
namespace {

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void AppendUnicodeEscape(std::string& out, unsigned int code) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += "\\u";
  for (const unsigned int shift : {12U, 8U, 4U, 0U}) out += kHex[code >> shift & 0xF];
}

void AppendAscii(std::string& out, char c) {
  switch (c) {
    case '"':
    case '\\':
      out += '\\';
      out += c;
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    case '<':
    case '>':
    case '&':
      return AppendUnicodeEscape(out, static_cast<unsigned char>(c));
    default:
      if (static_cast<unsigned char>(c) < 0x20) {
        return AppendUnicodeEscape(out, static_cast<unsigned char>(c));
      }
      out += c;
  }
}

}  // namespace

std::string GoQuoted(std::string_view text) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const Rune rune = DecodeRune(text.substr(at));
    if (!rune.valid) {
      out += "\\ufffd";
    } else if (rune.code < 0x80) {
      AppendAscii(out, text[at]);
    } else if (rune.code == 0x2028 || rune.code == 0x2029) {
      AppendUnicodeEscape(out, rune.code);
    } else {
      out += text.substr(at, rune.bytes);
    }
    at += rune.bytes;
  }
  return out + '"';
}

std::string EncodeBase64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view group = bytes.substr(at, 3);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < group.size() ? static_cast<unsigned char>(group[i]) : 0U);
    }
    for (size_t i = 0; i < 4; ++i) {
      out += i <= group.size() ? kBase64[bits >> (18 - 6 * i) & 0x3F] : '=';
    }
  }
  return out;
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  std::string digits(text);
  std::erase_if(digits, [](char c) { return c == '\r' || c == '\n'; });
  if (digits.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && !digits.empty() && digits.back() == '=') {
    digits.pop_back();
    ++padding;
  }
  std::string out;
  uint32_t bits = 0;
  for (size_t i = 0; i < digits.size(); ++i) {
    const size_t value = kBase64.find(digits[i]);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6 | static_cast<uint32_t>(value)) & 0xFFFFFF;
    if (i % 4 == 3) {
      for (const unsigned int shift : {16U, 8U, 0U}) out += static_cast<char>(bits >> shift & 0xFF);
    }
  }
  if (padding == 2) out += static_cast<char>(bits >> 4 & 0xFF);
  if (padding == 1) {
    out += static_cast<char>(bits >> 10 & 0xFF);
    out += static_cast<char>(bits >> 2 & 0xFF);
  }
  return out;
}

}  // namespace alignd::checkpoint
