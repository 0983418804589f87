#include "simulator/socket_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "simulator/system_error.h"

namespace alignd::simulator {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kCreated = IN_CREATE | IN_MOVED_TO;

}  // namespace

Result<std::unique_ptr<SocketWatch>> SocketWatch::Start(const fs::path& directory) {
  std::error_code code;
  fs::create_directories(directory, code);
  if (code) {
    return Error{ErrorCode::kIo, "make directory " + directory.string() + ": " + code.message()};
  }
  const int inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (inotify < 0) return SystemError("inotify_init1");
  const int stop_event = eventfd(0, EFD_CLOEXEC);
  if (stop_event < 0) {
    const Error error = SystemError("eventfd");
    close(inotify);
    return error;
  }
  std::unique_ptr<SocketWatch> watch(new SocketWatch(inotify, stop_event));
  watch->Traverse(fs::absolute(directory));
  watch->thread_ = std::thread([self = watch.get()] { self->Run(); });
  return watch;
}

SocketWatch::SocketWatch(int inotify, int stop_event)
    : inotify_(inotify), stop_event_(stop_event) {}

SocketWatch::~SocketWatch() {
  (void)eventfd_write(stop_event_, 1);
  if (thread_.joinable()) thread_.join();
  close(inotify_);
  close(stop_event_);
}

std::map<std::string, uint64_t> SocketWatch::Sockets() const {
  const MutexLock lock(mutex_);
  return sockets_;
}

void SocketWatch::Run() {
  while (true) {
    std::array<pollfd, 2> events{pollfd{stop_event_, POLLIN, 0}, pollfd{inotify_, POLLIN, 0}};
    if (poll(events.data(), events.size(), -1) < 0 && errno != EINTR) return;
    if ((events[0].revents & POLLIN) != 0) return;
    while (ReadEvents()) {
    }
  }
}

bool SocketWatch::ReadEvents() {
  alignas(inotify_event) std::array<char, 4096> buffer{};
  const ssize_t size = read(inotify_, buffer.data(), buffer.size());
  if (size <= 0) return false;
  for (ssize_t at = 0; at < size;) {
    inotify_event event{};
    std::memcpy(&event, buffer.data() + at, sizeof event);
    const char* name = buffer.data() + at + sizeof event;
    at += static_cast<ssize_t>(sizeof event + event.len);
    const auto directory = directories_.find(event.wd);
    if (directory == directories_.end() || event.len == 0) continue;
    const fs::path path = directory->second / name;
    if ((event.mask & kCreated) != 0) {
      Created(path);
    } else if ((event.mask & IN_DELETE) != 0) {
      const MutexLock lock(mutex_);
      sockets_.erase(path.string());
    }
  }
  return true;
}

void SocketWatch::Traverse(const fs::path& directory) {
  const int watch = inotify_add_watch(inotify_, directory.c_str(), kCreated | IN_DELETE);
  if (watch < 0) return;  // already removed
  directories_[watch] = directory;
  std::error_code code;
  for (fs::directory_iterator entry(directory, code), end; !code && entry != end;
       entry.increment(code)) {
    Created(entry->path());
  }
}

void SocketWatch::Created(const fs::path& path) {
  std::error_code gone;
  const fs::file_status status = fs::status(path, gone);
  if (gone || path.filename().native().starts_with('.')) return;
  if (fs::is_directory(status)) return Traverse(path);
  if (!fs::is_socket(status)) return;
  const MutexLock lock(mutex_);
  sockets_[path.string()] = ++last_;
}

}  // namespace alignd::simulator
