// Finds device plugins by their sockets in a directory, as the kubelet's plugin watcher does in
// `plugins_registry`: a plugin that offers itself there need not know when we start.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "alignd/base/result.h"
#include "deviceplugin/plugin_offer.h"
#include "deviceplugin/plugin_registry.h"
#include "sync/mutex.h"

namespace alignd::deviceplugin {

struct WatcherSettings {
  OfferDeadlines deadlines;
  // Pause before a plugin that could not be registered is tried again: the first, each twice the
  // one before, up to the last.
  std::chrono::milliseconds first_pause{500};
  std::chrono::milliseconds last_pause{std::chrono::minutes(2)};
};

// Registers what it finds in the directory and below, and deregisters it when its socket goes. A
// socket that is made anew is another plugin. Names that begin with a dot are left alone, and so
// is whatever is no socket.
// Source: kubelet pkg/kubelet/pluginmanager/pluginwatcher/plugin_watcher.go; reconciler.
class PluginWatcher {
 public:
  // Makes `directory` if it is not there. Removes nothing: a socket there is its plugin's.
  // `registry` outlives the watcher.
  // Errors: kIo.
  static Result<std::unique_ptr<PluginWatcher>> Start(std::filesystem::path directory,
                                                      PluginRegistry& registry,
                                                      WatcherSettings settings = {});
  PluginWatcher(const PluginWatcher&) = delete;
  PluginWatcher& operator=(const PluginWatcher&) = delete;
  // Stops looking. What is registered stays so.
  ~PluginWatcher();

 private:
  using Clock = std::chrono::steady_clock;

  // Applies a socket from the one that was there before: inode number, which may come back, and
  // time of modification in ns, which for a socket is when it was made.
  using Identity = std::pair<uint64_t, int64_t>;

  struct Known {
    Identity identity;
    std::unique_ptr<PluginOffer> attempt;  // under way
    std::optional<Offer> registered;
    std::optional<Clock::time_point> next_attempt;
    std::chrono::milliseconds pause;
  };

  PluginWatcher(std::filesystem::path directory, PluginRegistry& registry,
                WatcherSettings settings);

  Result<Done> Open();
  void Run();
  void DrainEvents();
  // All sockets by path; watches every folder on the way.
  std::map<std::string, Identity> Scan();
  void TakeOver(const std::map<std::string, Identity>& found);
  void Conclude(const std::string& socket, Known& known);
  void Wake();
  // Until the next attempt is due; -1: forever.
  int PauseMs() const;

  const std::filesystem::path directory_;
  PluginRegistry& registry_;
  const WatcherSettings settings_;
  int inotify_ = -1;     // set by Open, as wake_event_
  int wake_event_ = -1;  // an attempt has ended, or we are to stop

  std::map<std::string, Known> known_;  // by socket; of the thread

  Mutex mutex_;
  bool stopping_ GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace alignd::deviceplugin
