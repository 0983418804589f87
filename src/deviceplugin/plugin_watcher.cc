#include "deviceplugin/plugin_watcher.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <vector>

namespace alignd::deviceplugin {
namespace {

namespace fs = std::filesystem;

// What a mistaken bind mount may hold; plugins are a handful.
constexpr size_t kMaxEntries = 10'000;
constexpr uint32_t kEvents = IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM | IN_ONLYDIR;

Error SystemError(const std::string& what) {
  return {ErrorCode::kIo, what + ": " + std::generic_category().message(errno)};
}

bool IsHidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

}  // namespace

Result<std::unique_ptr<PluginWatcher>> PluginWatcher::Start(fs::path directory,
                                                            PluginRegistry& registry,
                                                            WatcherSettings settings) {
  std::error_code code;
  fs::create_directories(directory, code);
  if (code) {
    return Error{ErrorCode::kIo, "make directory " + directory.string() + ": " + code.message()};
  }
  std::unique_ptr<PluginWatcher> watcher(
      new PluginWatcher(fs::absolute(directory), registry, settings));
  const Result<Done> opened = watcher->Open();
  if (!opened.ok()) return opened.error();
  watcher->thread_ = std::thread([self = watcher.get()] { self->Run(); });
  return watcher;
}

PluginWatcher::PluginWatcher(fs::path directory, PluginRegistry& registry, WatcherSettings settings)
    : directory_(std::move(directory)), registry_(registry), settings_(settings) {}

PluginWatcher::~PluginWatcher() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) {
    Wake();
    thread_.join();
  }
  known_.clear();  // their threads wake us up to their end
  if (inotify_ >= 0) close(inotify_);
  if (wake_event_ >= 0) close(wake_event_);
}

Result<Done> PluginWatcher::Open() {
  wake_event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_event_ < 0) return SystemError("eventfd");
  inotify_ = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (inotify_ < 0) return SystemError("inotify_init1");
  if (inotify_add_watch(inotify_, directory_.c_str(), kEvents) < 0) {
    return SystemError("watch " + directory_.string());
  }
  return Done{};
}

// Cannot fail: the counter takes more ones than there are plugins.
void PluginWatcher::Wake() { (void)eventfd_write(wake_event_, 1); }

void PluginWatcher::Run() {
  while (true) {
    // What comes while we look makes an event, so that we look once more.
    DrainEvents();
    {
      const MutexLock lock(mutex_);
      if (stopping_) return;
    }
    TakeOver(Scan());
    std::array<pollfd, 2> events{pollfd{wake_event_, POLLIN, 0}, pollfd{inotify_, POLLIN, 0}};
    if (poll(events.data(), events.size(), PauseMs()) < 0 && errno != EINTR) {
      spdlog::error("watch {}: {}", directory_.string(), std::generic_category().message(errno));
      return;
    }
  }
}

void PluginWatcher::DrainEvents() {
  eventfd_t count = 0;
  (void)eventfd_read(wake_event_, &count);
  std::array<char, 4096> buffer{};
  while (read(inotify_, buffer.data(), buffer.size()) > 0) {
  }
}

std::map<std::string, PluginWatcher::Identity> PluginWatcher::Scan() {
  std::map<std::string, Identity> found;
  std::error_code code;
  size_t entries = 0;
  for (fs::recursive_directory_iterator entry(directory_, code), end; !code && entry != end;
       entry.increment(code)) {
    if (++entries > kMaxEntries) {
      spdlog::error("watch {}: more than {} entries, the rest is left alone", directory_.string(),
                    kMaxEntries);
      break;
    }
    const fs::path& path = entry->path();
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0) continue;  // gone by now
    if (S_ISDIR(status.st_mode) && inotify_add_watch(inotify_, path.c_str(), kEvents) < 0 &&
        errno != ENOENT) {
      spdlog::error("{}", SystemError("watch " + path.string()).message);
    }
    if (!S_ISSOCK(status.st_mode) || IsHidden(path)) continue;
    const int64_t made = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
    found.emplace(path.string(), Identity{status.st_ino, made});
  }
  if (code && code != std::errc::no_such_file_or_directory) {
    spdlog::error("list {}: {}", directory_.string(), code.message());
  }
  return found;
}

void PluginWatcher::TakeOver(const std::map<std::string, Identity>& found) {
  for (auto entry = known_.begin(); entry != known_.end();) {
    auto& [socket, known] = *entry;
    const auto now = found.find(socket);
    if (now != found.end() && now->second == known.identity) {
      ++entry;
      continue;
    }
    if (known.attempt != nullptr) {
      // It may have registered the plugin since we last asked.
      const Result<Offer> ended = known.attempt->End();
      if (ended.ok()) known.registered = *ended;
    }
    if (known.registered) {
      registry_.Deregister(known.registered->resource, known.registered->endpoint);
    }
    entry = known_.erase(entry);
  }
  for (const auto& [socket, identity] : found) {
    const auto [place, is_new] = known_.try_emplace(socket);
    Known& known = place->second;
    if (is_new) {
      known.identity = identity;
      known.pause = settings_.first_pause;
      known.next_attempt = Clock::now();
    }
    Conclude(socket, known);
    if (!known.next_attempt || *known.next_attempt > Clock::now()) continue;
    known.next_attempt.reset();
    known.attempt =
        std::make_unique<PluginOffer>(socket, registry_, settings_.deadlines, [this] { Wake(); });
  }
}

void PluginWatcher::Conclude(const std::string& socket, Known& known) {
  if (known.attempt == nullptr) return;
  const std::optional<Result<Offer>> outcome = known.attempt->Outcome();
  if (!outcome) return;
  known.attempt.reset();
  if (outcome->ok()) {
    known.registered = **outcome;
    return;
  }
  spdlog::warn("plugin at {} is not registered: {}", socket, outcome->error().Text());
  known.next_attempt = Clock::now() + known.pause;
  known.pause = std::min(known.pause * 2, settings_.last_pause);
}

int PluginWatcher::PauseMs() const {
  std::optional<Clock::time_point> next;
  for (const auto& [socket, known] : known_) {
    if (known.next_attempt && (!next || *known.next_attempt < *next)) next = known.next_attempt;
  }
  if (!next) return -1;
  const auto pause = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(pause.count(), 0, 600'000));
}

}  // namespace alignd::deviceplugin
