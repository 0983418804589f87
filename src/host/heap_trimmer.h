// Memory that was allocated once and is free now.
#pragma once

#include <cstddef>

namespace alignd::host {

// Gives it back to the kernel. malloc itself does so at the end of its heaps only: after the start
// of hundreds of pods, several MiB of free memory lie between what is still allocated.
class HeapTrimmer {
 public:
  // Trims if this process has at least 1 MiB more memory that is not allocated than after the last
  // time. While it trims, other threads that allocate memory may wait, for less than a millisecond
  // per MiB. Returns whether it has trimmed. Source: proc(5), statm; mallinfo(3); malloc_trim(3).
  bool Look();

 private:
  size_t left_ = 0;  // such bytes after the last trim
};

}  // namespace alignd::host
