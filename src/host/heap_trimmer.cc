#include "host/heap_trimmer.h"

#include <malloc.h>
#include <unistd.h>

#include <fstream>

namespace alignd::host {
namespace {

constexpr size_t kWorthIt = size_t{1} << 20;

// Bytes in memory that are no pages of files; 0: not known.
size_t OwnMemory() {
  std::ifstream file("/proc/self/statm");
  size_t virtual_pages = 0;
  size_t resident = 0;
  size_t of_files = 0;
  if (!(file >> virtual_pages >> resident >> of_files) || of_files > resident) return 0;
  return (resident - of_files) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

bool HeapTrimmer::Look() {
  if (OwnMemory() < left_ + kWorthIt) return false;
  malloc_trim(0);
  left_ = OwnMemory();
  return true;
}

}  // namespace alignd::host
