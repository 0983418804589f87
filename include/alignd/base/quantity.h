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
  // How it was written, which decides how it is printed.
  enum class Format { kDecimalSi, kBinarySi, kDecimalExponent };

  Quantity() = default;
  // A whole number, in decimal form.
  explicit Quantity(int64_t value);

  // Reads what Kubernetes reads: sign, digits, suffix (n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an
  // exponent). Values finer than 1n are rounded up; values beyond 2^63-1 are capped.
  // Errors: kInvalidArgument, quoting the text.
  static Result<Quantity> Parse(std::string_view text);

  // Canonical form, as Kubernetes prints it (no fraction, largest fitting suffix).
  std::string ToString() const;

  // Whole units (bytes, CPUs, pieces), rounded up (away from zero).
  int64_t Value() const;
  // Thousandths, rounded up (away from zero); capped to the 64-bit range.
  int64_t MilliValue() const;

  bool IsZero() const { return nano_ == 0; }
  int Sign() const { return nano_ == 0 ? 0 : nano_ < 0 ? -1 : 1; }

  Quantity& operator+=(const Quantity& other);
  Quantity& operator-=(const Quantity& other);
  friend Quantity operator+(Quantity a, const Quantity& b) { return a += b; }
  friend Quantity operator-(Quantity a, const Quantity& b) { return a -= b; }

  // By value; the form does not count.
  friend bool operator==(const Quantity& a, const Quantity& b) { return a.nano_ == b.nano_; }
  friend std::strong_ordering operator<=>(const Quantity& a, const Quantity& b) {
    return a.nano_ <=> b.nano_;
  }

 private:
  __extension__ typedef __int128 Int128;

  Int128 nano_ = 0;  // billionths
  Format format_ = Format::kDecimalSi;
};

}  // namespace alignd
