// The text behind the first line of saved decisions, with a checksum that matches, and without: it
// is refused or read, and what was read can be saved again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "alignd/checkpoint/go_checksum.h"
#include "control/decision_history.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace alignd;
  const std::string body(reinterpret_cast<const char*>(data), size);
  (void)control::ParseDecisions(body);
  const std::string first = "alignd-decisions 1 " + std::to_string(checkpoint::Fnv1a32(body)) +
                            " " + std::to_string(body.size()) + "\n";
  const auto read = control::ParseDecisions(first + body);
  if (!read.ok()) return 0;
  const auto again = control::ParseDecisions(control::FormatDecisions(*read));
  if (!again.ok() || again->size() > read->size()) std::abort();
  return 0;
}
