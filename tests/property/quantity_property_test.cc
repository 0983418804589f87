// Random quantities against arithmetic on decimal digits, of any length: what is read, rounded,
// capped, summed, compared and printed; and what a container's CPUs and memory follow from it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/quantity.h"
#include "core/memorymanager/memory_request.h"
#include "core/pod/exclusive_cpu_count.h"
#include "core/property_seed.h"

namespace alignd {
namespace {

// A whole number of any size: its decimal digits, without leading zeros. Empty: zero.
class Digits {
 public:
  Digits() = default;
  explicit Digits(std::string_view text)
      : text_(text.substr(std::min(text.find_first_not_of('0'), text.size()))) {}

  const std::string& text() const { return text_; }

  Digits Times(int factor) const {
    std::string product;
    int carry = 0;
    for (auto digit = text_.rbegin(); digit != text_.rend() || carry > 0;) {
      if (digit != text_.rend()) carry += (*digit++ - '0') * factor;
      product += static_cast<char>('0' + carry % 10);
      carry /= 10;
    }
    std::ranges::reverse(product);
    return Digits(product);
  }

  // Times 10^places; with a negative number divided, and rounded up.
  Digits Shifted(int places) const {
    if (places >= 0) return Digits(text_ + std::string(static_cast<size_t>(places), '0'));
    const size_t dropped = std::min(static_cast<size_t>(-places), text_.size());
    const std::string rest = text_.substr(text_.size() - dropped);
    const Digits kept(text_.substr(0, text_.size() - dropped));
    return rest.find_first_not_of('0') == std::string::npos ? kept : kept.Plus(Digits("1"));
  }

  Digits Plus(const Digits& other) const {
    const size_t length = std::max(text_.size(), other.text_.size()) + 1;
    const std::string a = std::string(length - text_.size(), '0') + text_;
    std::string sum = std::string(length - other.text_.size(), '0') + other.text_;
    int carry = 0;
    for (size_t i = length; i-- > 0;) {
      carry += a[i] - '0' + sum[i] - '0';
      sum[i] = static_cast<char>('0' + carry % 10);
      carry /= 10;
    }
    return Digits(sum);
  }

  // `other` is not larger.
  Digits Minus(const Digits& other) const {
    std::string difference = text_;
    const std::string b = std::string(text_.size() - other.text_.size(), '0') + other.text_;
    int borrowed = 0;
    for (size_t i = difference.size(); i-- > 0;) {
      const int digit = difference[i] - b[i] - borrowed;
      borrowed = digit < 0 ? 1 : 0;
      difference[i] = static_cast<char>('0' + digit + 10 * borrowed);
    }
    return Digits(difference);
  }

  friend bool operator==(const Digits&, const Digits&) = default;
  friend bool operator<(const Digits& a, const Digits& b) {
    return a.text_.size() != b.text_.size() ? a.text_.size() < b.text_.size() : a.text_ < b.text_;
  }

 private:
  std::string text_;
};

const Digits kMaxInt64("9223372036854775807");
const Digits kMinInt64("9223372036854775808");
const Digits kMaxNano("170141183460469231731687303715884105727");  // 2^127 - 1

struct Suffix {
  std::string_view text;
  int thousands = 0;  // of 10^3
  int kibi = 0;       // of 2^10
};

constexpr std::array kSuffixes = {
    Suffix{"n", -3},    Suffix{"u", -2},    Suffix{"m", -1},    Suffix{"", 0},
    Suffix{"k", 1},     Suffix{"M", 2},     Suffix{"G", 3},     Suffix{"T", 4},
    Suffix{"P", 5},     Suffix{"E", 6},     Suffix{"Ki", 0, 1}, Suffix{"Mi", 0, 2},
    Suffix{"Gi", 0, 3}, Suffix{"Ti", 0, 4}, Suffix{"Pi", 0, 5}, Suffix{"Ei", 0, 6},
};

// A text and the value that it stands for, in billionths: rounded up, and capped.
struct Amount {
  std::string text;
  bool negative = false;
  Digits nano;

  int Sign() const { return nano.text().empty() ? 0 : negative ? -1 : 1; }

  // In units of 10^places billionths, away from zero, within 64 bits.
  int64_t In(int places) const {
    const Digits value = nano.Shifted(-places);
    if (negative && !(value < kMinInt64)) return std::numeric_limits<int64_t>::min();
    if (kMaxInt64 < value) return std::numeric_limits<int64_t>::max();
    const int64_t size = value.text().empty() ? 0 : std::stoll(value.text());
    return negative ? -size : size;
  }
};

Amount Plus(const Amount& a, const Amount& b) {
  if (a.negative == b.negative) {
    return {"", a.negative, std::min(a.nano.Plus(b.nano), kMaxNano)};
  }
  if (a.nano < b.nano) return {"", b.negative, b.nano.Minus(a.nano)};
  return {"", a.negative, a.nano.Minus(b.nano)};
}

class Texts {
 public:
  explicit Texts(std::mt19937_64& random) : random_(random) {}

  Amount Next() {
    const bool with_sign = Below(4) == 0;
    Amount amount{.text = "", .negative = with_sign && Below(2) == 0, .nano = {}};
    const std::string fraction = Below(2) == 0 ? "" : RandomDigits(Below(16));
    const int fewest = fraction.empty() ? 1 : 0;
    const std::string whole = Below(3) == 0 ? NearABound() : RandomDigits(fewest + Below(24));
    if (with_sign) amount.text += amount.negative ? "-" : "+";
    amount.text += whole;
    if (!fraction.empty() || Below(8) == 0) amount.text += "." + fraction;
    int shift = 9 - static_cast<int>(fraction.size());
    Digits digits(whole + fraction);
    if (Below(5) == 0) {
      const int exponent = Below(80) - 40;
      amount.text += (Below(2) == 0 ? "e" : "E") + std::to_string(exponent);
      amount.nano = std::min(digits.Shifted(shift + exponent), kMaxNano);
      return amount;
    }
    const Suffix& suffix = kSuffixes.at(static_cast<size_t>(Below(kSuffixes.size())));
    amount.text += suffix.text;
    for (int i = 0; i < suffix.kibi; ++i) digits = digits.Times(1024);
    shift += 3 * suffix.thousands;
    const Digits max = suffix.kibi > 0 ? kMaxInt64.Shifted(9) : kMaxNano;
    amount.nano = std::min(digits.Shifted(shift), max);
    return amount;
  }

 private:
  int Below(size_t bound) { return static_cast<int>(random_() % bound); }

  std::string RandomDigits(int count) {
    const bool sparse = Below(2) == 0;  // many zeros: exact values of many suffixes
    std::string digits;
    for (; count > 0; --count) {
      digits += static_cast<char>('0' + (sparse && Below(4) > 0 ? 0 : Below(10)));
    }
    return digits;
  }

  // A number around one where a type or a rule ends.
  std::string NearABound() {
    static const std::array<Digits, 8> kBounds = {Digits("999"),
                                                  Digits("1023"),
                                                  Digits("2147483647"),
                                                  Digits("9223372036854775"),
                                                  Digits("999999999999999999"),
                                                  kMaxInt64,
                                                  kMinInt64.Plus(kMaxInt64),
                                                  kMaxNano.Shifted(-9)};
    const Digits& bound = kBounds.at(static_cast<size_t>(Below(kBounds.size())));
    const Digits little(std::to_string(Below(4)));
    return (Below(2) == 0 ? bound.Plus(little) : bound.Minus(little)).text();
  }

  std::mt19937_64& random_;
};

Quantity Read(const Amount& amount) {
  const Result<Quantity> quantity = Quantity::Parse(amount.text);
  EXPECT_TRUE(quantity.ok()) << quantity.error().message;
  return quantity.ok() ? *quantity : Quantity();
}

void ExpectEqual(const Quantity& quantity, const Amount& amount) {
  EXPECT_EQ(quantity.Value(), amount.In(9));
  EXPECT_EQ(quantity.MilliValue(), amount.In(6));
  EXPECT_EQ(quantity.Sign(), amount.Sign());
  EXPECT_EQ(quantity.IsZero(), amount.Sign() == 0);
}

// The largest suffix that keeps it exact, and no fraction; the same value when it is read again.
void ExpectCanonical(const Quantity& quantity, bool binary) {
  const std::string text = quantity.ToString();
  SCOPED_TRACE("printed as " + text);
  const Result<Quantity> again = Quantity::Parse(text);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, quantity);
  EXPECT_EQ(again->ToString(), text);
  const size_t end = text.find_first_not_of("-0123456789");
  const std::string number = text.substr(0, end);
  const std::string suffix = end == std::string::npos ? "" : text.substr(end);
  EXPECT_TRUE(!suffix.starts_with('.'));
  if (number == "0") return;
  if (suffix == "Ei" || suffix == "E") return;
  if (binary && (suffix.empty() || suffix.ends_with('i'))) {
    EXPECT_TRUE(quantity < Quantity(1024) || std::stoll(number) % 1024 != 0);
  } else {
    EXPECT_FALSE(number.ends_with("000"));
  }
}

TEST(QuantityProperty, AgreesWithArithmeticOnDigits) {
  std::mt19937_64 random = SeededRandom();
  Texts texts(random);
  Amount last = texts.Next();
  for (int i = Iterations(20'000); i > 0 && !testing::Test::HasFailure(); --i) {
    const Amount amount = texts.Next();
    SCOPED_TRACE(amount.text + " after " + last.text);
    const Quantity quantity = Read(amount);
    const Quantity before = Read(last);
    ExpectEqual(quantity, amount);
    ExpectCanonical(quantity, amount.text.ends_with('i'));

    Amount negated = last;
    negated.negative = !negated.negative;
    ExpectEqual(quantity + before, Plus(amount, last));
    ExpectEqual(quantity - before, Plus(amount, negated));
    const int order = Plus(amount, negated).Sign();
    EXPECT_EQ(quantity < before, order < 0);
    EXPECT_EQ(quantity == before, order == 0);
    last = amount;
  }
}

// Exclusive CPUs: the number in thousandths, rounded up, is one of whole CPUs. Bytes: a whole
// number below 10^18.
TEST(QuantityProperty, DecidesAboutCpusAndMemory) {
  std::mt19937_64 random = SeededRandom();
  Texts texts(random);
  int64_t exclusive = 0;
  int64_t in_bytes = 0;
  for (int i = Iterations(20'000); i > 0 && !testing::Test::HasFailure(); --i) {
    const Amount amount = texts.Next();
    SCOPED_TRACE(amount.text);
    Pod pod;
    pod.stated_qos = QosClass::kGuaranteed;
    pod.containers = {{"app", ContainerKind::kApp, {{{"cpu", Read(amount)}}, {}}}};

    const std::string millis = amount.nano.Shifted(-6).text();
    const bool whole = millis.ends_with("000") || kMaxInt64 < amount.nano.Shifted(-9);
    const int64_t count = amount.Sign() > 0 && whole ? amount.In(9) : 0;
    EXPECT_EQ(ExclusiveCpuCount(pod, pod.containers.front()), count);
    constexpr int64_t kMaxInt = std::numeric_limits<int>::max();
    EXPECT_EQ(ExclusiveCpus(pod, pod.containers.front()), std::min(count, kMaxInt));

    const bool counts = amount.Sign() >= 0 && amount.nano.Shifted(-9).Shifted(9) == amount.nano &&
                        amount.nano.Shifted(-9).text().size() <= 18;
    const std::optional<uint64_t> bytes = memorymanager::WholeBytes(Read(amount));
    const auto size = static_cast<uint64_t>(amount.In(9));
    EXPECT_EQ(bytes, counts ? std::optional(size) : std::nullopt);
    exclusive += count > 0 ? 1 : 0;
    in_bytes += counts ? 1 : 0;
  }
  EXPECT_GT(exclusive, 0);
  EXPECT_GT(in_bytes, 0);
}

}  // namespace
}  // namespace alignd
