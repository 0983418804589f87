#include "deviceplugin/plugin_watcher.h"

#include <spdlog/spdlog.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "host/durable_file.h"
#include "host/file_watch.h"
#include "host/log_event.h"

namespace alignd::deviceplugin {
namespace {

namespace fs = std::filesystem;

// A directory with more entries is a mistake, such as a wrong bind mount.
constexpr size_t kMaxEntries = 10'000;
constexpr uint32_t kEvents = IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM | IN_ONLYDIR;

bool IsHidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

}  // namespace

// All methods run on the loop's thread, except Open, which runs before.
class PluginWatcher::Worker final : public std::enable_shared_from_this<Worker> {
 public:
  Worker(fs::path directory, PluginRegistry& registry, std::shared_ptr<host::EventLoop> loop,
         WatcherSettings settings)
      : directory_(std::move(directory)),
        registry_(registry),
        loop_(std::move(loop)),
        settings_(settings) {}
  // On another thread if the loop has stopped before.
  ~Worker() { Close(); }

  Result<Done> Open();
  void Begin();
  // Cancels all attempts, and stops watching. May run twice.
  void Close();

 private:
  using Clock = std::chrono::steady_clock;

  // Distinguishes a socket from an earlier one of the same path: inode number, which can be reused,
  // and time of modification in ns, which for a socket is the time of its creation.
  using Identity = std::pair<uint64_t, int64_t>;

  struct Known {
    Identity identity;
    std::shared_ptr<PluginOffer> attempt;  // under way
    Clock::time_point began;               // of that attempt
    std::optional<Registered> registered;
    std::optional<Clock::time_point> next_attempt;
    std::chrono::milliseconds pause;
    bool has_failed = false;
  };

  void OnChange();
  // Finds and updates all sockets. Has it run again later if a directory cannot be watched.
  void Look();
  // All sockets by path; watches every directory on the way.
  std::map<std::string, Identity> Scan();
  // Notes why if all inotify instances or watches are in use.
  Result<Done> Watch(const fs::path& directory);
  void Update(const std::map<std::string, Identity>& found);
  void Forget(Known& known);
  void StartDueAttempts();
  // Ends attempts that have not been answered within `crowded_info`, oldest first, at most so many.
  // Answers how many; `next`: when the next one can be ended, if it is earlier.
  size_t EndUnanswered(size_t wanted, std::optional<Clock::time_point>& next);
  void StartAttempt(const std::string& socket, Known& known);
  void OnEnd(const std::string& socket, const Result<Registered>& outcome);
  void Failed(const std::string& socket, Known& known, const Error& error);
  void WakeAt(Clock::time_point time);

  const fs::path directory_;
  PluginRegistry& registry_;
  const std::shared_ptr<host::EventLoop> loop_;
  const WatcherSettings settings_;
  std::optional<host::FileWatch> directories_;

  std::map<std::string, Known> known_;  // by socket
  std::optional<Clock::time_point> wake_at_;
  std::string unwatched_;        // why directories are not watched; empty: all are
  bool looks_again_ = false;     // without a change
  Clock::time_point next_scan_;  // not before
  bool scans_soon_ = false;
  bool closed_ = false;
};

Result<Done> PluginWatcher::Worker::Open() {
  directories_.emplace(loop_, [weak = weak_from_this()](const host::FileWatch::Change&) {
    if (const std::shared_ptr<Worker> worker = weak.lock()) worker->OnChange();
  });
  const Result<Done> watched = directories_->Add(directory_.string(), directory_, kEvents);
  // alignd is in the path of each container: it starts in any case.
  if (!watched.ok() && watched.error().code == ErrorCode::kUnavailable) return Done{};
  return watched;
}

void PluginWatcher::Worker::Begin() {
  if (!closed_) Look();
}

void PluginWatcher::Worker::Close() {
  closed_ = true;
  directories_.reset();
  for (const auto& [socket, known] : known_) {
    if (known.attempt != nullptr) known.attempt->Cancel();
  }
  known_.clear();
}

// A change is only a signal: the directory is scanned as a whole, once for all changes at hand. The
// scans take at most a tenth of the loop's time, however large the directory is.
void PluginWatcher::Worker::OnChange() {
  if (std::exchange(scans_soon_, true)) return;
  loop_->After(std::max(Clock::duration(0), next_scan_ - Clock::now()),
               [self = shared_from_this()] {
                 self->scans_soon_ = false;
                 if (self->closed_) return;
                 const Clock::time_point begin = Clock::now();
                 self->Look();
                 const Clock::time_point end = Clock::now();
                 self->next_scan_ = end + 9 * (end - begin);
               });
}

void PluginWatcher::Worker::Look() {
  const std::string before = std::exchange(unwatched_, {});
  Update(Scan());
  if (unwatched_.empty()) {
    if (!before.empty()) spdlog::info("{} is watched again; resolved", directory_.string());
    return;
  }
  if (before.empty()) {
    spdlog::warn("{}; meanwhile, {} is listed every {} ms", unwatched_, directory_.string(),
                 settings_.look_again.count());
  }
  if (std::exchange(looks_again_, true)) return;
  loop_->After(settings_.look_again, [weak = weak_from_this()] {
    const std::shared_ptr<Worker> self = weak.lock();
    if (self == nullptr || self->closed_) return;
    self->looks_again_ = false;
    self->OnChange();
  });
}

Result<Done> PluginWatcher::Worker::Watch(const fs::path& directory) {
  Result<Done> watched = directories_->Add(directory.string(), directory, kEvents);
  if (!watched.ok() && watched.error().code == ErrorCode::kUnavailable) {
    unwatched_ = watched.error().Text();
    return Done{};
  }
  return watched;
}

std::map<std::string, PluginWatcher::Worker::Identity> PluginWatcher::Worker::Scan() {
  std::map<std::string, Identity> found;
  if (const Result<Done> watched = Watch(directory_); !watched.ok()) {
    spdlog::error("{}", watched.error().Text());
  }
  std::error_code code;
  size_t entries = 0;
  for (fs::recursive_directory_iterator entry(directory_, code), end; !code && entry != end;
       entry.increment(code)) {
    if (++entries > kMaxEntries) {
      spdlog::error("watch {}: more than {} entries, the rest is ignored; remove foreign files",
                    directory_.string(), kMaxEntries);
      break;
    }
    const fs::path& path = entry->path();
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0) continue;  // removed meanwhile
    if (S_ISDIR(status.st_mode)) {
      const Result<Done> watched = Watch(path);
      const bool removed = !watched.ok() && watched.error().code == ErrorCode::kNotFound;
      if (!watched.ok() && !removed) spdlog::error("{}", watched.error().Text());
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

void PluginWatcher::Worker::Update(const std::map<std::string, Identity>& found) {
  for (auto entry = known_.begin(); entry != known_.end();) {
    const auto now = found.find(entry->first);
    if (now != found.end() && now->second == entry->second.identity) {
      ++entry;
      continue;
    }
    Forget(entry->second);
    entry = known_.erase(entry);
  }
  for (const auto& [socket, identity] : found) {
    const auto [place, is_new] = known_.try_emplace(socket);
    if (!is_new) continue;
    place->second.identity = identity;
    place->second.pause = settings_.first_pause;
    place->second.next_attempt = Clock::now();
  }
  StartDueAttempts();
}

void PluginWatcher::Worker::Forget(Known& known) {
  if (known.attempt != nullptr) known.attempt->Cancel();
  if (!known.registered) return;
  registry_.Deregister(known.registered->resource, known.registered->registration);
}

void PluginWatcher::Worker::StartDueAttempts() {
  const Clock::time_point now = Clock::now();
  size_t running = 0;
  std::optional<Clock::time_point> next;
  // A plugin that is new does not wait behind all the sockets that have not answered before.
  std::multimap<std::pair<bool, Clock::time_point>, const std::string*> due;
  for (const auto& [socket, known] : known_) {
    if (known.attempt != nullptr) ++running;
    if (!known.next_attempt) continue;
    if (*known.next_attempt <= now) {
      due.emplace(std::pair(known.has_failed, *known.next_attempt), &socket);
    } else if (!next || *known.next_attempt < *next) {
      next = known.next_attempt;
    }
  }
  const size_t wanted = running + due.size();
  if (wanted > settings_.max_attempts)
    running -= EndUnanswered(wanted - settings_.max_attempts, next);
  for (const auto& [time, socket] : due) {
    if (running == settings_.max_attempts) break;  // the end of an attempt starts the next one
    StartAttempt(*socket, known_.at(*socket));
    ++running;
  }
  if (next) WakeAt(*next);
}

size_t PluginWatcher::Worker::EndUnanswered(size_t wanted, std::optional<Clock::time_point>& next) {
  const Clock::time_point now = Clock::now();
  std::multimap<Clock::time_point, const std::string*> unanswered;  // by when they can be ended
  for (const auto& [socket, known] : known_) {
    if (known.attempt == nullptr || known.attempt->HasAnswered()) continue;
    unanswered.emplace(known.began + settings_.crowded_info, &socket);
  }
  size_t ended = 0;
  for (const auto& [time, socket] : unanswered) {
    if (ended == wanted) break;
    if (time > now) {
      next = next ? std::min(*next, time) : time;
      break;
    }
    Known& known = known_.at(*socket);
    known.attempt->Cancel();
    Failed(*socket, known,
           {ErrorCode::kUnavailable,
            "no answer to GetInfo within " + std::to_string(settings_.crowded_info.count()) +
                " ms, while other sockets wait to be asked",
            "delete the sockets in " + directory_.string() + " that no plugin serves"});
    if (!next || *known.next_attempt < *next) next = known.next_attempt;
    ++ended;
  }
  return ended;
}

void PluginWatcher::Worker::StartAttempt(const std::string& socket, Known& known) {
  known.next_attempt.reset();
  known.began = Clock::now();
  const auto run = [loop = loop_, weak = weak_from_this()](std::function<void()> task) {
    loop->Post([weak, task = std::move(task)] {
      const std::shared_ptr<Worker> self = weak.lock();
      if (self != nullptr && !self->closed_) task();
    });
  };
  known.attempt = std::make_shared<PluginOffer>(
      socket, registry_, settings_.deadlines, run,
      [this, socket](const Result<Registered>& outcome) { OnEnd(socket, outcome); });
  known.attempt->Start();
}

void PluginWatcher::Worker::OnEnd(const std::string& socket, const Result<Registered>& outcome) {
  Known& known = known_.at(socket);  // a forgotten socket's attempt was cancelled
  if (outcome.ok()) {
    known.attempt.reset();
    known.registered = *outcome;
  } else {
    Failed(socket, known, outcome.error());
  }
  StartDueAttempts();
}

void PluginWatcher::Worker::Failed(const std::string& socket, Known& known, const Error& error) {
  static host::LineLimit limit("plugins that are not registered");
  if (limit.Allow()) spdlog::warn("plugin at {} is not registered: {}", socket, error.Text());
  known.attempt.reset();
  known.has_failed = true;
  known.next_attempt = Clock::now() + known.pause;
  known.pause = std::min(known.pause * 2, settings_.last_pause);
}

void PluginWatcher::Worker::WakeAt(Clock::time_point time) {
  if (wake_at_ && *wake_at_ <= time) return;
  wake_at_ = time;
  loop_->After(time - Clock::now(), [weak = weak_from_this()] {
    const std::shared_ptr<Worker> self = weak.lock();
    if (self == nullptr || self->closed_) return;
    self->wake_at_.reset();
    self->StartDueAttempts();
  });
}

Result<std::unique_ptr<PluginWatcher>> PluginWatcher::Start(fs::path directory,
                                                            PluginRegistry& registry,
                                                            std::shared_ptr<host::EventLoop> loop,
                                                            WatcherSettings settings) {
  if (const Result<Done> made = host::MakeDirectory(directory); !made.ok()) return made.error();
  auto worker = std::make_shared<Worker>(fs::absolute(directory), registry, loop, settings);
  const Result<Done> opened = worker->Open();
  if (!opened.ok()) return opened.error();
  loop->Post([worker] { worker->Begin(); });
  return std::unique_ptr<PluginWatcher>(new PluginWatcher(std::move(loop), std::move(worker)));
}

PluginWatcher::PluginWatcher(std::shared_ptr<host::EventLoop> loop, std::shared_ptr<Worker> worker)
    : loop_(std::move(loop)), worker_(std::move(worker)) {}

PluginWatcher::~PluginWatcher() {
  // The future becomes ready when the task has run, or when the stopped loop drops it.
  auto closed = std::make_shared<std::promise<void>>();
  const std::future<void> done = closed->get_future();
  loop_->Post([worker = worker_, closed = std::move(closed)] {
    worker->Close();
    closed->set_value();
  });
  done.wait();
}

}  // namespace alignd::deviceplugin
