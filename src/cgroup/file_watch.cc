#include "cgroup/file_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <system_error>

namespace alignd::cgroup {

FileWatch::FileWatch()
    : inotify_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

FileWatch::~FileWatch() {
  if (inotify_ >= 0) close(inotify_);
  if (wake_ >= 0) close(wake_);
}

Result<Done> FileWatch::Add(const std::string& key,
                            const std::vector<std::filesystem::path>& files) {
  for (const std::filesystem::path& file : files) {
    errno = EMFILE;  // what it means that we have no instance
    const int watch = inotify_ < 0 ? -1 : inotify_add_watch(inotify_, file.c_str(), IN_MODIFY);
    if (watch < 0) {
      const int error = errno;
      Remove(key);
      return Error{error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                   "watch " + file.string() + ": " + std::generic_category().message(error)};
    }
    keys_[watch] = key;
    watches_[key].insert(watch);
  }
  return Done{};
}

void FileWatch::Remove(const std::string& key) {
  const auto watches = watches_.find(key);
  if (watches == watches_.end()) return;
  for (const int watch : watches->second) {
    inotify_rm_watch(inotify_, watch);  // fails if the file is gone, and the watch with it
    keys_.erase(watch);
  }
  watches_.erase(watches);
}

std::set<std::string> FileWatch::Wait(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd files[] = {{wake_, POLLIN, 0}, {inotify_, POLLIN, 0}};  // one that is < 0 is passed over
  poll(files, 2, static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX)));
  uint64_t wakes = 0;
  // Nothing to read is as good: the next Wait looks again.
  if (read(wake_, &wakes, sizeof wakes) < 0 && inotify_ < 0) return {};
  return ReadEvents();
}

std::set<std::string> FileWatch::ReadEvents() {
  std::set<std::string> changed;
  alignas(inotify_event) char buffer[4096];
  for (;;) {
    const ssize_t size = inotify_ < 0 ? -1 : read(inotify_, buffer, sizeof buffer);
    if (size <= 0) return changed;
    for (ssize_t at = 0; at < size;) {
      inotify_event event;
      std::memcpy(&event, buffer + at, sizeof event);
      at += static_cast<ssize_t>(sizeof event + event.len);
      if ((event.mask & IN_Q_OVERFLOW) != 0) {
        for (const auto& [key, watches] : watches_) changed.insert(key);
        continue;
      }
      const auto key = keys_.find(event.wd);
      if (key == keys_.end()) continue;
      changed.insert(key->second);
      if ((event.mask & IN_IGNORED) == 0) continue;
      // The file is gone, and the watch with it.
      watches_[key->second].erase(event.wd);
      keys_.erase(key);
    }
  }
}

void FileWatch::Wake() {
  const uint64_t one = 1;
  // Fails only if it counts to 2^64 unread: then there is enough to wake for.
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
}

}  // namespace alignd::cgroup
