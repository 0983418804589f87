// All file descriptors of this process are in use.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace alignd::testing {

// False where a sanitizer opens a pipe whenever it meets a type for the first time (`vptr`), and
// takes each object for a broken one if it cannot.
#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
#define ALIGND_CAN_LACK_DESCRIPTORS false
#endif
#endif
#if !defined(ALIGND_CAN_LACK_DESCRIPTORS)
#define ALIGND_CAN_LACK_DESCRIPTORS true
#endif
constexpr bool kCanLackDescriptors = ALIGND_CAN_LACK_DESCRIPTORS;
#undef ALIGND_CAN_LACK_DESCRIPTORS

// While it exists, no thread of the process gets a new descriptor (EMFILE). Only where
// `kCanLackDescriptors`.
class NoDescriptors {
 public:
  NoDescriptors() {
    const int lowest_free = dup(STDIN_FILENO);
    if (lowest_free < 0 || getrlimit(RLIMIT_NOFILE, &before_) != 0) Fail();
    close(lowest_free);
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(lowest_free);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) Fail();
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  [[noreturn]] static void Fail() {
    throw std::system_error(errno, std::generic_category(), "limit the file descriptors");
  }

  rlimit before_{};
};

}  // namespace alignd::testing
