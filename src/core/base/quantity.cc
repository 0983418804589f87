#include "alignd/base/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

namespace alignd {
namespace {

__extension__ typedef __int128 Int128;

constexpr int64_t kNanoPerUnit = 1'000'000'000;
constexpr int64_t kNanoPerMilli = 1'000'000;
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr Int128 kMaxBinaryNano = Int128{kMaxInt64} * kNanoPerUnit;
constexpr Int128 kMaxNano = ~(Int128{1} << 127);

// A suffix of a quantity.
struct Suffix {
  std::string_view text;
  Quantity::Format format;
  int exponent;  // of 2 in the binary family, of 10 in the others
};

using enum Quantity::Format;

constexpr std::array kSuffixes = {
    Suffix{"Ki", kBinarySi, 10}, Suffix{"Mi", kBinarySi, 20}, Suffix{"Gi", kBinarySi, 30},
    Suffix{"Ti", kBinarySi, 40}, Suffix{"Pi", kBinarySi, 50}, Suffix{"Ei", kBinarySi, 60},
    Suffix{"n", kDecimalSi, -9}, Suffix{"u", kDecimalSi, -6}, Suffix{"m", kDecimalSi, -3},
    Suffix{"", kDecimalSi, 0},   Suffix{"k", kDecimalSi, 3},  Suffix{"M", kDecimalSi, 6},
    Suffix{"G", kDecimalSi, 9},  Suffix{"T", kDecimalSi, 12}, Suffix{"P", kDecimalSi, 15},
    Suffix{"E", kDecimalSi, 18},
};

std::string_view SuffixText(Quantity::Format format, int exponent) {
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.exponent == exponent && suffix.format == format) return suffix.text;
  }
  return "";
}

std::optional<Suffix> ReadSuffix(std::string_view text) {
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.text == text) return suffix;
  }
  if (text.size() < 2 || (text[0] != 'e' && text[0] != 'E')) return std::nullopt;
  std::string_view digits = text.substr(1);
  if (digits[0] == '+') {
    digits.remove_prefix(1);
    if (digits.empty() || digits[0] == '-') return std::nullopt;
  }
  int64_t exponent = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  // Far outside the range in both directions; small enough to add to the length of a text.
  constexpr int64_t kFar = 1'000'000'000;
  return Suffix{"", kDecimalExponent, static_cast<int>(std::clamp(exponent, -kFar, kFar))};
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string_view TakeDigits(std::string_view& text) {
  const size_t count =
      static_cast<size_t>(std::find_if_not(text.begin(), text.end(), IsDigit) - text.begin());
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

// 10 * value + digit, or the largest number if that is too large.
Int128 Append(Int128 value, int digit) {
  return value > (kMaxNano - digit) / 10 ? kMaxNano : 10 * value + digit;
}

// `whole`.`fraction` * 10^exponent in billionths, rounded up.
Int128 DecimalNano(std::string_view whole, std::string_view fraction, int exponent) {
  // The number of digits before the point once the value is in billionths.
  const int64_t kept = static_cast<int64_t>(whole.size()) + exponent + 9;
  Int128 nano = 0;
  int64_t position = 0;
  bool rest = false;
  for (const std::string_view digits : {whole, fraction}) {
    for (const char digit : digits) {
      if (position++ < kept) {
        nano = Append(nano, digit - '0');
      } else {
        rest = rest || digit != '0';
      }
    }
  }
  for (; position < kept && nano != 0 && nano != kMaxNano; ++position) nano = Append(nano, 0);
  return rest && nano != kMaxNano ? nano + 1 : nano;
}

// `whole`.`fraction` * 2^exponent in billionths, rounded up and capped.
Int128 BinaryNano(std::string_view whole, std::string_view fraction, int exponent) {
  Int128 units = 0;
  for (const char digit : whole) units = Append(units, digit - '0');
  const Int128 scale = Int128{1} << exponent;
  if (units > kMaxInt64 / scale) return kMaxBinaryNano;

  // From the last digit to the first, so that the intermediate value stays below the result. The
  // parts that are cut off are a fraction of the result: only whether there is one matters.
  Int128 fraction_nano = 0;
  bool rest = false;
  for (auto digit = fraction.rbegin(); digit != fraction.rend(); ++digit) {
    const Int128 sum = fraction_nano + (*digit - '0') * scale * kNanoPerUnit;
    fraction_nano = sum / 10;
    rest = rest || sum % 10 != 0;
  }
  const Int128 nano = units * scale * kNanoPerUnit + fraction_nano + (rest ? 1 : 0);
  return std::min(nano, kMaxBinaryNano);
}

std::string PrintInteger(Int128 value) {
  const bool negative = value < 0;
  std::string reversed;
  do {
    const int digit = static_cast<int>(value % 10);
    reversed += static_cast<char>('0' + (negative ? -digit : digit));
    value /= 10;
  } while (value != 0);
  if (negative) reversed += '-';
  return {reversed.rbegin(), reversed.rend()};
}

Error NotAQuantity(std::string_view text, std::string_view why) {
  constexpr size_t kShown = 64;
  std::string shown(text.substr(0, kShown));
  if (text.size() > kShown) shown += "...";
  return {ErrorCode::kInvalidArgument, '"' + shown + "\": not a quantity: " + std::string(why)};
}

}  // namespace

Quantity::Quantity(int64_t value, Format format)
    : nano_(Int128{value} * kNanoPerUnit), format_(format) {}

Result<Quantity> Quantity::Parse(std::string_view text) {
  if (text.empty()) return NotAQuantity(text, "empty");
  std::string_view rest = text;
  const bool negative = rest[0] == '-';
  if (negative || rest[0] == '+') rest.remove_prefix(1);
  std::string_view whole = TakeDigits(rest);
  whole.remove_prefix(std::min(whole.find_first_not_of('0'), whole.size()));
  std::string_view fraction;
  if (!rest.empty() && rest[0] == '.') {
    rest.remove_prefix(1);
    fraction = TakeDigits(rest);
  }

  const std::optional<Suffix> suffix = ReadSuffix(rest);
  if (!suffix) return NotAQuantity(text, "expected a number and a suffix such as m, k, Mi or e3");
  const bool binary = suffix->format == kBinarySi;
  const Int128 nano = binary ? BinaryNano(whole, fraction, suffix->exponent)
                             : DecimalNano(whole, fraction, suffix->exponent);
  Quantity quantity;
  quantity.nano_ = negative ? -nano : nano;
  quantity.format_ = binary && nano < kNanoPerUnit ? kDecimalSi : suffix->format;
  return quantity;
}

std::string Quantity::ToString() const {
  if (nano_ == 0) return "0";
  const Int128 size = nano_ < 0 ? -nano_ : nano_;
  if (format_ == kBinarySi && size >= Int128{1024} * kNanoPerUnit && size % kNanoPerUnit == 0) {
    Int128 number = nano_ / kNanoPerUnit;
    int exponent = 0;
    for (; exponent < 60 && number % 1024 == 0; exponent += 10) number /= 1024;
    return PrintInteger(number) + std::string(SuffixText(kBinarySi, exponent));
  }
  Int128 number = nano_;
  int exponent = -9;
  const int largest = format_ == kDecimalExponent ? std::numeric_limits<int>::max() : 18;
  for (; exponent < largest && number % 1000 == 0; exponent += 3) number /= 1000;
  if (format_ != kDecimalExponent) {
    return PrintInteger(number) + std::string(SuffixText(kDecimalSi, exponent));
  }
  return PrintInteger(number) + (exponent == 0 ? "" : "e" + std::to_string(exponent));
}

int64_t Quantity::RoundUpTo(int64_t unit) const {
  Int128 value = nano_ / unit;
  if (nano_ % unit != 0) value += nano_ < 0 ? -1 : 1;
  return static_cast<int64_t>(
      std::clamp(value, Int128{std::numeric_limits<int64_t>::min()}, Int128{kMaxInt64}));
}

int64_t Quantity::Value() const { return RoundUpTo(kNanoPerUnit); }
int64_t Quantity::MilliValue() const { return RoundUpTo(kNanoPerMilli); }

Quantity& Quantity::operator+=(const Quantity& other) {
  if (nano_ == 0) format_ = other.format_;
  Int128 sum = 0;
  if (__builtin_add_overflow(nano_, other.nano_, &sum)) sum = nano_ < 0 ? -kMaxNano : kMaxNano;
  nano_ = std::max(sum, -kMaxNano);  // symmetric bounds, so that every value can be negated
  return *this;
}

Quantity& Quantity::operator-=(const Quantity& other) {
  Quantity negated = other;
  negated.nano_ = -negated.nano_;
  return *this += negated;
}

}  // namespace alignd
