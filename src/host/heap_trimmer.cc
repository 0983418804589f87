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

// Bytes of it that are not allocated.
size_t Unused() {
  const struct mallinfo2 heap = mallinfo2();
  const size_t used = heap.uordblks + heap.hblkhd;
  const size_t own = OwnMemory();
  return own > used ? own - used : 0;
}

}  // namespace

bool HeapTrimmer::Look() {
  if (Unused() < left_ + kWorthIt) return false;
  malloc_trim(0);
  left_ = Unused();
  return true;
}

}  // namespace alignd::host
