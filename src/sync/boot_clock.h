// The time since the machine started, with the time that it was suspended (CLOCK_BOOTTIME).
#pragma once

#include <chrono>
#include <ctime>

namespace alignd {

// A clock of the standard library's form. std::chrono::steady_clock stands still while the machine
// is suspended: a time limit that others count as well would not be over after that.
struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;

  static time_point now() {
    timespec time{};
    clock_gettime(CLOCK_BOOTTIME, &time);
    return time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }
};

}  // namespace alignd
