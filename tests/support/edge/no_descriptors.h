// All file descriptors of this process are in use.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace alignd::testing {

// While it exists, no thread of the process gets a new descriptor (EMFILE).
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
