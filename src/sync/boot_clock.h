// The time since the machine started, with the time that it was suspended (CLOCK_BOOTTIME).
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "alignd/base/result.h"

namespace alignd {

// A clock of the standard library's form. std::chrono::steady_clock stands still while the machine
// is suspended: a time limit that others count as well would not be over after that.
struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;

  // Ends the program if the clock cannot be read: with a clock that stands still, time limits would
  // never be over. Check says it before.
  static time_point now() {
    timespec time{};
    if (clock_gettime(CLOCK_BOOTTIME, &time) != 0) std::abort();
    return time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }

  // Errors: kIo: the clock cannot be read.
  static Result<Done> Check() {
    timespec time{};
    if (clock_gettime(CLOCK_BOOTTIME, &time) == 0) return Done{};
    return Error{ErrorCode::kIo, std::string("read CLOCK_BOOTTIME: ") + strerror(errno),
                 "see what limits the system calls of this process"};
  }
};

}  // namespace alignd
