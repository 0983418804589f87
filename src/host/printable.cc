#include "host/printable.h"

#include <algorithm>
#include <cstdint>

#include "alignd/checkpoint/utf8.h"

namespace alignd::host {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

// C0, DEL and C1.
bool IsControl(uint32_t code) { return code < 0x20 || (code >= 0x7f && code <= 0x9f); }

bool IsVisible(uint32_t code) {
  if (IsControl(code)) return false;
  if (code == 0xad || code == 0x61c) return false;     // soft hyphen, Arabic letter mark
  if (code >= 0x200b && code <= 0x200f) return false;  // zero width; marks of direction
  if (code >= 0x2028 && code <= 0x202e) return false;  // line ends; embedding, override
  if (code >= 0x2060 && code <= 0x206f) return false;  // invisible; isolates
  if (code == 0xfeff) return false;                    // byte order mark
  return code < 0xfff9 || code > 0xfffb;               // interlinear annotation
}

void AppendHexByte(std::string& out, char c) {
  const auto byte = static_cast<unsigned char>(c);
  out += {'\\', 'x', kHexDigits[byte >> 4], kHexDigits[byte & 15]};
}

bool IsPartOfText(const checkpoint::Rune& rune) { return rune.valid && !IsControl(rune.code); }

// All codes that are not visible have at most four digits.
void AppendEscaped(std::string& out, uint32_t code) {
  switch (code) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u";
      for (int shift = 12; shift >= 0; shift -= 4) out += kHexDigits[code >> shift & 15];
  }
}

}  // namespace

std::string Printable(std::string_view text) {
  const auto plain = [](char c) { return c >= ' ' && c <= '~'; };
  std::string shown(text.begin(), std::ranges::find_if_not(text, plain));
  text.remove_prefix(shown.size());
  while (!text.empty()) {
    const checkpoint::Rune rune = checkpoint::DecodeRune(text);
    if (!rune.valid) {
      AppendHexByte(shown, text.front());
    } else if (IsVisible(rune.code)) {
      shown += text.substr(0, rune.bytes);
    } else {
      AppendEscaped(shown, rune.code);
    }
    text.remove_prefix(rune.bytes);
  }
  return shown;
}

bool IsText(std::string_view text) {
  while (!text.empty()) {
    const checkpoint::Rune rune = checkpoint::DecodeRune(text);
    if (!IsPartOfText(rune)) return false;
    text.remove_prefix(rune.bytes);
  }
  return true;
}

std::string Escaped(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const checkpoint::Rune rune = checkpoint::DecodeRune(text);
    const std::string_view bytes = text.substr(0, rune.bytes);
    if (IsPartOfText(rune)) {
      escaped += bytes;
    } else {
      for (const char c : bytes) AppendHexByte(escaped, c);
    }
    text.remove_prefix(rune.bytes);
  }
  return escaped;
}

PrintableStream::PrintableStream(std::ostream& stream) : stream_(stream), buffer_(stream.rdbuf()) {
  if (buffer_.target() != nullptr) stream_.rdbuf(&buffer_);  // clears the stream's state
}

PrintableStream::~PrintableStream() {
  if (buffer_.target() == nullptr) return;
  const std::ios_base::iostate state = (stream_.flush(), stream_.rdstate());
  stream_.rdbuf(buffer_.target());
  stream_.clear(state);
}

void PrintableStream::WriteRaw(std::ostream& stream, std::string_view text) {
  auto* const buffer = dynamic_cast<Buffer*>(stream.rdbuf());
  if (buffer == nullptr) {
    stream << text;
  } else if (!buffer->WriteAsIs(text)) {
    stream.setstate(std::ios_base::badbit);
  }
}

bool PrintableStream::Buffer::WriteAsIs(std::string_view text) {
  const auto size = static_cast<std::streamsize>(text.size());
  return WriteLine() && target_->sputn(text.data(), size) == size;
}

PrintableStream::Buffer::int_type PrintableStream::Buffer::overflow(int_type byte) {
  if (traits_type::eq_int_type(byte, traits_type::eof())) return traits_type::not_eof(byte);
  const char c = traits_type::to_char_type(byte);
  return xsputn(&c, 1) == 1 ? byte : traits_type::eof();
}

std::streamsize PrintableStream::Buffer::xsputn(const char* text, std::streamsize size) {
  for (std::string_view rest(text, static_cast<size_t>(size)); !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    line_ += rest.substr(0, end);
    rest.remove_prefix(end);
    if (rest.empty()) break;
    rest.remove_prefix(1);
    if (!WriteLine()) return 0;
    if (traits_type::eq_int_type(target_->sputc('\n'), traits_type::eof())) return 0;
  }
  return size;
}

int PrintableStream::Buffer::sync() { return WriteLine() ? target_->pubsync() : -1; }

bool PrintableStream::Buffer::WriteLine() {
  const std::string shown = Printable(line_);
  line_.clear();
  const auto size = static_cast<std::streamsize>(shown.size());
  return target_->sputn(shown.data(), size) == size;
}

}  // namespace alignd::host
