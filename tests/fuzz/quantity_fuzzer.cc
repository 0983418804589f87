// Any text is an error or a quantity. A quantity is equal to its printed text read again, and sums
// keep their sign.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "alignd/base/quantity.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using alignd::Quantity;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const alignd::Result<Quantity> quantity = Quantity::Parse(text);
  if (!quantity.ok()) return 0;
  const alignd::Result<Quantity> again = Quantity::Parse(quantity->ToString());
  if (!again.ok() || *again != *quantity) std::abort();
  if (again->ToString() != quantity->ToString()) std::abort();
  const Quantity twice = *quantity + *quantity;
  if (twice.Sign() != quantity->Sign()) std::abort();
  if (!(*quantity - *quantity).IsZero()) std::abort();
  if (twice.Value() / 2 > quantity->Value() && quantity->Sign() > 0) std::abort();
  return 0;
}
