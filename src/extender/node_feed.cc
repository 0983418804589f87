#include "extender/node_feed.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "host/descriptor.h"

namespace alignd::extender {
namespace {

namespace fs = std::filesystem;
using FeedClock = std::chrono::steady_clock;

constexpr uint32_t kFeedEvents = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE |
                                 IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ATTRIB;

Error NotWatched(const fs::path& path, int code) {
  return {ErrorCode::kIo, "watch " + path.string() + ": " + std::generic_category().message(code),
          "raise fs.inotify.max_user_watches and max_user_instances, or name fewer directories"};
}

// When the oldest of the files was written: what is read shows nothing that is younger.
FeedClock::time_point OldestOf(const cli::FleetSources& sources) {
  fs::file_time_type oldest = fs::file_time_type::clock::now();
  const fs::file_time_type now = oldest;
  std::error_code ignored;
  const auto look = [&](const fs::path& file) {
    if (!fs::is_regular_file(file, ignored)) return;
    const fs::file_time_type written = fs::last_write_time(file, ignored);
    if (!ignored) oldest = std::min(oldest, written);
  };
  for (const std::string& name : sources.nodes) {
    look(name);
    std::error_code code;
    for (fs::recursive_directory_iterator entry(name, code), end; !code && entry != end;
         entry.increment(code)) {
      look(entry->path());
    }
  }
  return FeedClock::now() - std::chrono::duration_cast<FeedClock::duration>(now - oldest);
}

}  // namespace

class NodeFeed::State {
 public:
  State(cli::FleetSources sources, Use use, std::chrono::milliseconds quiet,
        std::chrono::milliseconds latest)
      : stop_(eventfd(0, EFD_CLOEXEC)),
        sources_(Stoppable(std::move(sources), stop_)),
        use_(std::move(use)),
        quiet_(quiet),
        latest_(latest),
        thread_([this] { Run(); }) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    const uint64_t one = 1;
    // An eventfd accepts 8 bytes at any time.
    if (write(stop_.fd(), &one, sizeof one) != sizeof one) std::abort();
    thread_.join();
  }

 private:
  // To read a file can take long.
  static cli::FleetSources Stoppable(cli::FleetSources sources, const host::Descriptor& stop) {
    sources.stop = stop.fd();
    return sources;
  }

  bool IsStopped() const {
    pollfd wait{stop_.fd(), POLLIN, 0};
    return poll(&wait, 1, 0) > 0;
  }

  void Run() {
    do {
      // A new instance each time: directories come and go. What changes from here on is seen.
      host::Descriptor watch(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
      const Result<bool> watched = WatchAll(watch);
      if (watched.ok()) {
        const auto as_of = OldestOf(sources_);
        const Result<std::vector<placement::FleetNode>> nodes = cli::ReadFleet(sources_);
        if (IsStopped()) return;  // perhaps before all was read
        use_(nodes, as_of);
      } else {
        use_(watched.error(), FeedClock::now());
      }
      is_watched_ = watched.ok() && *watched;
      watch_ = std::move(watch);
    } while (WaitForChange());
  }

  // Whether all that is read is watched: a directory may not exist yet.
  Result<bool> WatchAll(const host::Descriptor& watch) const {
    if (watch.fd() < 0) return NotWatched("the nodes", errno);
    bool all = true;
    for (const std::string& name : sources_.nodes) {
      const fs::path path = name;
      std::error_code ignored;
      // Of a file, its directory: the file can be replaced.
      const bool is_directory = fs::is_directory(path, ignored);
      const fs::path directory = is_directory                 ? path
                                 : path.parent_path().empty() ? fs::path(".")
                                                              : path.parent_path();
      const Result<bool> watched = Watch(watch, directory);
      if (!watched.ok()) return watched;
      all = all && *watched;
      if (!is_directory) continue;
      std::error_code code;
      for (fs::directory_iterator entry(path, code), end; !code && entry != end;
           entry.increment(code)) {
        if (!entry->is_directory(ignored)) continue;
        // A state directory has the files of the CPU and memory managers, and below it that of the
        // device manager.
        for (const fs::path& read : {entry->path(), entry->path() / "device-plugins"}) {
          const Result<bool> below = Watch(watch, read);
          if (!below.ok()) return below;
        }
      }
    }
    if (sources_.config.empty()) return all;
    const fs::path config = fs::path(sources_.config).parent_path();
    const Result<bool> watched = Watch(watch, config.empty() ? fs::path(".") : config);
    if (!watched.ok()) return watched;
    return all && *watched;
  }

  // False: there is no such directory.
  static Result<bool> Watch(const host::Descriptor& watch, const fs::path& directory) {
    if (inotify_add_watch(watch.fd(), directory.c_str(), kFeedEvents) >= 0) return true;
    if (errno == ENOENT) return false;
    return NotWatched(directory, errno);
  }

  // False: stop.
  bool WaitForChange() {
    if (!WaitFor(std::nullopt)) return false;
    const auto until = FeedClock::now() + latest_;
    bool is_changing = true;
    while (is_changing && FeedClock::now() < until) {
      Drain();
      is_changing = false;
      if (!WaitFor(quiet_, &is_changing)) return false;
    }
    return true;
  }

  // Until an event or the time is over; false: stop.
  bool WaitFor(std::optional<std::chrono::milliseconds> at_most, bool* has_event = nullptr) {
    std::array<pollfd, 2> waits = {pollfd{stop_.fd(), POLLIN, 0}, pollfd{watch_.fd(), POLLIN, 0}};
    // Without a watch, the next try comes after a while.
    constexpr int kRetryMs = 5'000;
    int timeout = is_watched_ ? -1 : kRetryMs;
    if (at_most) timeout = static_cast<int>(at_most->count());
    int ready = 0;
    do {
      ready = poll(waits.data(), waits.size(), timeout);
    } while (ready < 0 && errno == EINTR);
    if (has_event != nullptr) *has_event = (waits[1].revents & POLLIN) != 0;
    return (waits[0].revents & POLLIN) == 0;
  }

  void Drain() {
    alignas(inotify_event) std::array<char, 16'384> buffer{};
    while (read(watch_.fd(), buffer.data(), buffer.size()) > 0) {
    }
  }

  const host::Descriptor stop_;  // first: the sources name it
  const cli::FleetSources sources_;
  const Use use_;
  const std::chrono::milliseconds quiet_;
  const std::chrono::milliseconds latest_;
  host::Descriptor watch_;
  bool is_watched_ = false;  // by watch_: all that is read
  std::thread thread_;       // last: it uses the others
};

NodeFeed::NodeFeed(cli::FleetSources sources, Use use, std::chrono::milliseconds quiet,
                   std::chrono::milliseconds latest)
    : state_(std::make_unique<State>(std::move(sources), std::move(use), quiet, latest)) {}

NodeFeed::~NodeFeed() = default;

}  // namespace alignd::extender
