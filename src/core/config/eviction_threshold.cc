#include "core/config/eviction_threshold.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>

namespace alignd {
namespace {

// As Go's strconv.ParseFloat with 32 bits, for finite decimal numbers.
std::optional<float> ReadFloat(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  float number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Error NotAThreshold(std::string_view text, std::string_view expected) {
  return {ErrorCode::kInvalidArgument,
          '"' + std::string(text) + "\": must be " + std::string(expected)};
}

}  // namespace

Quantity EvictionThreshold::Of(uint64_t capacity) const {
  if (const Quantity* const amount = std::get_if<Quantity>(&value)) return *amount;
  if (const float* const share = std::get_if<float>(&value)) {
    // In the kubelet's order of conversions. Half the range is safe against rounding up.
    constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max() / 2);
    const auto bytes = static_cast<double>(std::min(capacity, kMax));
    return Quantity(static_cast<int64_t>(bytes * static_cast<double>(*share)),
                    Quantity::Format::kBinarySi);
  }
  return Quantity();
}

Result<EvictionThreshold> ParseEvictionThreshold(std::string_view text) {
  if (text.empty() || text == "0%" || text == "100%") return EvictionThreshold{};
  if (text.ends_with('%')) {
    const std::string_view number = text.substr(0, text.find_last_not_of('%') + 1);
    const std::optional<float> percent = ReadFloat(number);
    if (!percent || !(*percent >= 0.0F && *percent / 100.0F <= 1.0F)) {
      return NotAThreshold(text, "a percentage from 0% to 100%");
    }
    return EvictionThreshold{*percent / 100.0F};
  }
  const Result<Quantity> amount = Quantity::Parse(text);
  if (!amount.ok()) return amount.error();
  if (amount->Sign() <= 0) return NotAThreshold(text, "positive");
  return EvictionThreshold{*amount};
}

}  // namespace alignd
