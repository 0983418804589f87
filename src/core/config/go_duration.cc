#include "alignd/config/go_duration.h"

#include <array>
#include <limits>
#include <utility>

namespace alignd {
namespace {

__extension__ typedef __int128 Int128;

constexpr int64_t kMaxNanos = std::numeric_limits<int64_t>::max();

// "ms" is before "m", so that the longer unit is found first.
constexpr std::array<std::pair<std::string_view, int64_t>, 8> kUnits = {{
    {"ns", 1},
    {"us", 1'000},
    {"\u00b5s", 1'000},  // micro sign
    {"\u03bcs", 1'000},  // Greek mu
    {"ms", 1'000'000},
    {"s", 1'000'000'000},
    {"m", 60'000'000'000},
    {"h", 3'600'000'000'000},
}};

bool IsDurationDigit(char c) { return c >= '0' && c <= '9'; }

// Takes one unit from the front; 0 if there is none.
int64_t TakeUnit(std::string_view& text) {
  for (const auto& [name, nanos] : kUnits) {
    if (!text.starts_with(name)) continue;
    text.remove_prefix(name.size());
    return nanos;
  }
  return 0;
}

// Takes one number with its unit from the front.
std::optional<int64_t> TakeTerm(std::string_view& text) {
  Int128 number = 0;
  Int128 scale = 1;  // of the fraction
  bool any_digit = false;
  bool fraction = false;
  for (; !text.empty() && (IsDurationDigit(text[0]) || (text[0] == '.' && !fraction));
       text.remove_prefix(1)) {
    if (text[0] == '.') {
      fraction = true;
      continue;
    }
    any_digit = true;
    // More decimal places than this are below a nanosecond in every unit.
    if (fraction && scale >= Int128{kMaxNanos}) continue;
    number = 10 * number + (text[0] - '0');
    if (fraction) scale *= 10;
    if (number / scale > kMaxNanos) return std::nullopt;
  }
  if (!any_digit) return std::nullopt;
  const int64_t unit = TakeUnit(text);
  if (unit == 0) return std::nullopt;
  const Int128 whole = number / scale * unit;
  if (whole > kMaxNanos) return std::nullopt;
  const Int128 nanos = whole + number % scale * unit / scale;
  if (nanos > kMaxNanos) return std::nullopt;
  return static_cast<int64_t>(nanos);
}

}  // namespace

std::optional<int64_t> ParseGoDuration(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text == "0") return 0;
  if (text.empty()) return std::nullopt;
  int64_t total = 0;
  while (!text.empty()) {
    const std::optional<int64_t> term = TakeTerm(text);
    if (!term || *term > kMaxNanos - total) return std::nullopt;
    total += *term;
  }
  return negative ? -total : total;
}

}  // namespace alignd
