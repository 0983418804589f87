// Any text is an error or a set. A set is equal to its printed text read again, and its functions
// agree with each other.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "alignd/base/cpu_set.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using alignd::CpuSet;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const alignd::Result<CpuSet> cpus = CpuSet::Parse(text);
  if (!cpus.ok()) {
    Require(cpus.error().message.find(text) != std::string::npos);
    return 0;
  }
  const std::string canonical = cpus->ToString();
  const alignd::Result<CpuSet> again = CpuSet::Parse(canonical);
  Require(again.ok() && *again == *cpus && again->ToString() == canonical);
  int count = 0;
  int last = -1;
  for (const int cpu : *cpus) {
    Require(cpu > last && cpu <= CpuSet::kMaxCpu && cpus->Contains(cpu));
    last = cpu;
    ++count;
  }
  Require(count == cpus->Count() && (count == 0) == cpus->empty());
  Require((*cpus - *cpus).empty() && (*cpus & *cpus) == *cpus && (*cpus | *cpus) == *cpus);
  return 0;
}
