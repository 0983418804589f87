#include "host/program_pages.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace alignd::host {
namespace {

// Only of what is never written: its pages are those of the file.
void Leave(const dl_phdr_info& object, const ElfW(Phdr) & segment, uintptr_t page_size) {
  if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) return;
  const uintptr_t begin = (object.dlpi_addr + segment.p_vaddr) & ~(page_size - 1);
  const uintptr_t end = object.dlpi_addr + segment.p_vaddr + segment.p_filesz;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader gives addresses as numbers
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

int LeaveObject(dl_phdr_info* object, size_t /*size*/, void* page_size) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    Leave(*object, object->dlpi_phdr[i], *static_cast<const uintptr_t*>(page_size));
  }
  return 0;  // go on
}

}  // namespace

void LeaveProgramPages() {
  auto page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  dl_iterate_phdr(&LeaveObject, &page_size);
}

}  // namespace alignd::host
