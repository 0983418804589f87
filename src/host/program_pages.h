// The memory that the program itself takes: its code and constants, and those of its libraries.
#pragma once

namespace alignd::host {

// Leaves those pages to the kernel's page cache. The few that are used return at once: a start
// uses many that are not needed afterwards, and they count as memory of the process (RSS).
// What cannot be left, such as locked memory, stays. What a debugger has written into the code
// before, such as breakpoints, is lost. Thread-safe.
void LeaveProgramPages();

}  // namespace alignd::host
