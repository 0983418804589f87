#include "simulator/socket_watch.h"

#include <sys/inotify.h>

#include <system_error>
#include <utility>

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
  Result<std::shared_ptr<host::EventLoop>> loop = host::EventLoop::Make("sockets");
  if (!loop.ok()) return loop.error();
  std::unique_ptr<SocketWatch> watch(new SocketWatch(*std::move(loop)));
  const Result<Done> traversed = watch->Traverse(fs::absolute(directory));
  if (!traversed.ok()) return traversed.error();
  watch->loop_->Start();
  return watch;
}

SocketWatch::SocketWatch(std::shared_ptr<host::EventLoop> loop)
    : loop_(std::move(loop)),
      directories_(loop_, [this](const auto& change) { OnChange(change); }) {}

SocketWatch::~SocketWatch() { loop_->Stop(); }

std::map<std::string, uint64_t> SocketWatch::Sockets() const {
  const MutexLock lock(mutex_);
  return sockets_;
}

void SocketWatch::OnChange(const host::FileWatch::Change& change) {
  if (change.name.empty()) return;
  const fs::path path = fs::path(change.key) / change.name;
  if ((change.events & kCreated) != 0) {
    Created(path);
  } else if ((change.events & IN_DELETE) != 0) {
    const MutexLock lock(mutex_);
    sockets_.erase(path.string());
  }
}

Result<Done> SocketWatch::Traverse(const fs::path& directory) {
  const Result<Done> watched =
      directories_.Add(directory.string(), directory, kCreated | IN_DELETE);
  if (!watched.ok()) return watched;
  std::error_code code;
  for (fs::directory_iterator entry(directory, code), end; !code && entry != end;
       entry.increment(code)) {
    Created(entry->path());
  }
  return Done{};
}

void SocketWatch::Created(const fs::path& path) {
  std::error_code gone;
  const fs::file_status status = fs::status(path, gone);
  if (gone || path.filename().native().starts_with('.')) return;
  if (fs::is_directory(status)) {
    (void)Traverse(path);  // fails if the directory has been removed since
    return;
  }
  if (!fs::is_socket(status)) return;
  const MutexLock lock(mutex_);
  sockets_[path.string()] = ++last_;
}

}  // namespace alignd::simulator
