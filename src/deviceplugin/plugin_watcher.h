// Finds device plugins by their sockets in a directory, as the kubelet's plugin watcher does in
// `plugins_registry`. Such a plugin need not know when alignd starts.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>

#include "alignd/base/result.h"
#include "deviceplugin/plugin_offer.h"
#include "deviceplugin/plugin_registry.h"
#include "host/event_loop.h"

namespace alignd::deviceplugin {

struct WatcherSettings {
  OfferDeadlines deadlines;
  // Pause before the next attempt to register a plugin. It doubles after each failure.
  std::chrono::milliseconds first_pause{500};
  std::chrono::milliseconds last_pause{std::chrono::minutes(2)};
  // Attempts at a time; one takes a connection, and no thread. Further sockets wait: first those
  // that have never been asked, then in the order in which their attempts are due.
  size_t max_attempts = 64;
  // While sockets wait, a plugin that has not answered GetInfo within this time is asked again
  // later. So a plugin waits at most this time for each `max_attempts` sockets before it that never
  // answer: 1,500 delay a new one by 24 s. If none waits, `deadlines.info` applies.
  std::chrono::milliseconds crowded_info{1'000};
  // While the directory cannot be watched, it is listed this often.
  std::chrono::milliseconds look_again{1'000};
};

// Registers the plugins whose sockets are in the directory and below. Deregisters a plugin when its
// socket disappears. A recreated socket is another plugin. Names that begin with a dot, and files
// that are no sockets, are ignored. All work is done on the loop's thread.
// Source: kubelet pkg/kubelet/pluginmanager/pluginwatcher/plugin_watcher.go; reconciler.
class PluginWatcher {
 public:
  // Makes `directory` if it does not exist. Removes no sockets: they belong to the plugins.
  // `registry` outlives the watcher.
  // Errors: kIo.
  static Result<std::unique_ptr<PluginWatcher>> Start(std::filesystem::path directory,
                                                      PluginRegistry& registry,
                                                      std::shared_ptr<host::EventLoop> loop,
                                                      WatcherSettings settings = {});
  PluginWatcher(const PluginWatcher&) = delete;
  PluginWatcher& operator=(const PluginWatcher&) = delete;
  // Cancels the attempts under way; registered plugins stay registered. The loop must run or have
  // been stopped. Not on the loop's thread.
  ~PluginWatcher();

 private:
  class Worker;

  PluginWatcher(std::shared_ptr<host::EventLoop> loop, std::shared_ptr<Worker> worker);

  const std::shared_ptr<host::EventLoop> loop_;
  const std::shared_ptr<Worker> worker_;
};

}  // namespace alignd::deviceplugin
