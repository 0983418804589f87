// Texts of any bytes, one after the other, in alignd's own records.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace alignd::daemon {

// "LENGTH\n" and as many bytes and "\n".
inline std::string Framed(std::string_view text) {
  return std::to_string(text.size()) + "\n" + std::string(text) + "\n";
}

// Takes one framed text from the front of `rest`; nullopt: there is none.
inline std::optional<std::string> TakeFramed(std::string_view& rest) {
  size_t size = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
  const auto digits = static_cast<size_t>(end - rest.data());
  if (error != std::errc() || digits >= rest.size() || rest[digits] != '\n') return std::nullopt;
  rest.remove_prefix(digits + 1);
  if (rest.size() <= size || rest[size] != '\n') return std::nullopt;
  std::string text(rest.substr(0, size));
  rest.remove_prefix(size + 1);
  return text;
}

}  // namespace alignd::daemon
