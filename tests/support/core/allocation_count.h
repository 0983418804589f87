// Counts allocations, for tests of code that must not allocate. The source replaces operator new of
// the program that it is linked into.
#pragma once

#include <cstdint>

namespace alignd {

// How often this thread called operator new.
int64_t AllocationCount();

}  // namespace alignd
