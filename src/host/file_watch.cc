#include "host/file_watch.h"

#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "host/descriptor.h"
#include "sync/mutex.h"

namespace alignd::host {
namespace {

ErrorCode CodeOf(int error) {
  if (error == ENOENT) return ErrorCode::kNotFound;
  return error == EMFILE || error == ENOSPC ? ErrorCode::kUnavailable : ErrorCode::kIo;
}

std::string WatchRemedy(int error) {
  if (error == ENOSPC) return "increase the sysctl fs.inotify.max_user_watches";
  if (error == EMFILE) return "increase the sysctl fs.inotify.max_user_instances";
  return "check that it exists and that alignd may read it";
}

}  // namespace

// The watch descriptors. The loop's tasks share it, so that it is there for as long as the loop
// watches its descriptor.
class FileWatch::State final : public EventLoop::Watcher {
 public:
  explicit State(OnChange on_change) : on_change_(std::move(on_change)) {}

  // Makes the inotify instance, unless there is one. The instance, if it was made by this call.
  std::optional<int> Open() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (inotify_.fd() >= 0) return std::nullopt;
    inotify_ = Descriptor(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    if (inotify_.fd() < 0) return std::nullopt;
    return inotify_.fd();
  }

  // -1: there is none
  int fd() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return inotify_.fd();
  }

  Result<Done> Add(const std::string& key, const std::filesystem::path& file, uint32_t events)
      EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    errno = EMFILE;  // the reason if there is no instance
    const int watch =
        inotify_.fd() < 0 ? -1 : inotify_add_watch(inotify_.fd(), file.c_str(), events);
    if (watch < 0) {
      const int error = errno;
      return Error{CodeOf(error),
                   "watch " + file.string() + ": " + std::generic_category().message(error),
                   WatchRemedy(error)};
    }
    keys_[watch] = key;
    watches_[key].insert(watch);
    return Done{};
  }

  void Remove(const std::string& key) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto watches = watches_.find(key);
    if (watches == watches_.end()) return;
    for (const int watch : watches->second) {
      inotify_rm_watch(inotify_.fd(), watch);  // fails if the file is gone, and the watch with it
      keys_.erase(watch);
    }
    watches_.erase(watches);
  }

  void OnReady(uint32_t) override {
    const std::vector<Change> changes = Read();
    const MutexLock lock(calling_);
    for (const Change& change : changes) {
      if (closed_) return;
      on_change_(change);
    }
  }

  void Close(bool in_callback) {
    closed_ = true;
    if (in_callback) return;
    const MutexLock lock(calling_);  // waits for a callback under way
  }

 private:
  std::vector<Change> Read() EXCLUDES(mutex_) {
    std::vector<Change> changes;
    alignas(inotify_event) char buffer[4096];
    const int instance = fd();
    for (;;) {
      const ssize_t size = read(instance, buffer, sizeof buffer);
      if (size <= 0) return changes;
      const MutexLock lock(mutex_);
      for (ssize_t at = 0; at < size;) {
        inotify_event event;
        std::memcpy(&event, buffer + at, sizeof event);
        const char* const name = buffer + at + sizeof event;
        at += static_cast<ssize_t>(sizeof event + event.len);
        if ((event.mask & IN_Q_OVERFLOW) != 0) {
          for (const auto& [key, watches] : watches_) changes.push_back({key, "", IN_Q_OVERFLOW});
          continue;
        }
        const auto found = keys_.find(event.wd);
        if (found == keys_.end()) continue;
        changes.push_back({found->second, event.len > 0 ? name : "", event.mask});
        if ((event.mask & IN_IGNORED) == 0) continue;
        const auto watches = watches_.find(found->second);
        watches->second.erase(event.wd);
        if (watches->second.empty()) watches_.erase(watches);
        keys_.erase(found);
      }
    }
  }

  const OnChange on_change_;
  std::atomic<bool> closed_ = false;
  Mutex calling_;  // while callbacks run

  Mutex mutex_;
  Descriptor inotify_ GUARDED_BY(mutex_);
  std::map<int, std::string> keys_ GUARDED_BY(mutex_);               // by watch descriptor
  std::map<std::string, std::set<int>> watches_ GUARDED_BY(mutex_);  // by key
};

FileWatch::FileWatch(std::shared_ptr<EventLoop> loop, OnChange on_change)
    : loop_(std::move(loop)), state_(std::make_shared<State>(std::move(on_change))) {
  Open();
}

void FileWatch::Open() {
  const std::optional<int> made = state_->Open();
  if (!made) return;
  // The loop outlives its tasks.
  loop_->Post([&loop = *loop_, state = state_, fd = *made] {
    const Result<Done> watched = loop.Watch(fd, EPOLLIN, *state);
    if (!watched.ok()) spdlog::error("watch files: {}", watched.error().Text());
  });
}

FileWatch::~FileWatch() {
  state_->Close(loop_->OnThisThread());
  loop_->Post([&loop = *loop_, state = state_] {
    if (const int fd = state->fd(); fd >= 0) loop.Unwatch(fd);
  });
}

Result<Done> FileWatch::Add(const std::string& key, const std::filesystem::path& file,
                            uint32_t events) {
  Open();
  return state_->Add(key, file, events);
}

void FileWatch::Remove(const std::string& key) { state_->Remove(key); }

}  // namespace alignd::host
