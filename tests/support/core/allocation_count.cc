#include "core/allocation_count.h"

#include <cstdlib>
#include <new>

namespace alignd {
namespace {

thread_local int64_t allocations = 0;

}  // namespace

int64_t AllocationCount() { return allocations; }

}  // namespace alignd

void* operator new(size_t size) {
  ++alignd::allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*size*/) noexcept { std::free(memory); }
