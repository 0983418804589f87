// Kubernetes quantities (`1500m`, `2Gi`): exact values, rounded and printed as Kubernetes does.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "alignd/base/result.h"

namespace alignd {

// A value: an exact decimal number in steps of one billionth, with the suffix family it was written
// in. Source: apimachinery pkg/api/resource/quantity.go.
class Quantity {
 public:
  // The suffix family, which decides how the value is printed.
  enum class Format { kDecimalSi, kBinarySi, kDecimalExponent };

  Quantity() = default;
  // A whole number.
  explicit Quantity(int64_t value, Format format = Format::kDecimalSi);

  // Reads the same texts as Kubernetes: sign, digits, suffix (n u m k M G T P E, Ki Mi Gi Ti Pi Ei,
  // or an exponent such as e3). A sign, a point or a suffix without digits means zero, as in
  // Kubernetes. Values finer than 1n are rounded up (away from zero); binary forms are capped at
  // 2^63-1. Errors: kInvalidArgument, quoting the text. Source: apimachinery
  // pkg/api/resource/quantity.go, ParseQuantity. Differs: decimal forms are capped too, at
  // about 1.7e29; in Kubernetes an exponent wraps at 32 bits.
  static Result<Quantity> Parse(std::string_view text);

  // Canonical form: no fraction, the largest suffix that keeps the value exact, in the family in
  // which the value was written. A binary form that is not whole or is below 1024 prints in the
  // decimal family.
  // Source: apimachinery pkg/api/resource/quantity.go, CanonicalizeBytes.
  // Differs: always canonical, where Kubernetes repeats some spellings as written ("1.500"); keeps
  // the largest suffix where Kubernetes, beyond 999E, drops it.
  std::string ToString() const;

  // Whole units (bytes, CPUs, pieces), rounded up (away from zero); capped to the 64-bit range.
  int64_t Value() const;
  // Thousandths, rounded up (away from zero); capped to the 64-bit range.
  int64_t MilliValue() const;

  bool IsZero() const { return nano_ == 0; }
  int Sign() const { return nano_ == 0 ? 0 : nano_ < 0 ? -1 : 1; }

  // A sum has the format of the left side, or of the right side if the left is zero. It saturates
  // at the ends of the range. Source: apimachinery pkg/api/resource/quantity.go, Add and Sub.
  Quantity& operator+=(const Quantity& other);
  Quantity& operator-=(const Quantity& other);
  friend Quantity operator+(Quantity a, const Quantity& b) { return a += b; }
  friend Quantity operator-(Quantity a, const Quantity& b) { return a -= b; }

  // By value; the format makes no difference.
  friend bool operator==(const Quantity& a, const Quantity& b) { return a.nano_ == b.nano_; }
  friend std::strong_ordering operator<=>(const Quantity& a, const Quantity& b) {
    return a.nano_ <=> b.nano_;
  }

 private:
  __extension__ typedef __int128 Int128;

  // This many billionths, divided by `unit` and rounded away from zero, within 64 bits.
  int64_t RoundUpTo(int64_t unit) const;

  Int128 nano_ = 0;  // billionths
  Format format_ = Format::kDecimalSi;
};

}  // namespace alignd
