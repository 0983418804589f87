// Asks one device plugin for preferred devices, and skips it after it has missed a deadline.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/devicemanager/device_policy.h"
#include "deviceplugin/plugin_connection.h"
#include "deviceplugin/v1beta1/deviceplugin.pb.h"
#include "sync/mutex.h"

namespace alignd::deviceplugin {

// Thread-safe. A preference is optional. If the plugin misses a deadline, then for a pause all
// callers with this deadline or a shorter one continue without a preference, those that wait
// already too. Otherwise every pod would wait for the full deadline.
class PluginPreferences : public std::enable_shared_from_this<PluginPreferences> {
 public:
  // The ids that the plugin prefers, of those available; nullopt: none, or it failed or was late.
  using Given = std::function<void(std::optional<std::vector<std::string>>)>;

  // `pause`: how long the plugin is skipped after a missed deadline.
  PluginPreferences(std::string resource, std::chrono::milliseconds pause);

  // Asks the plugin. `given` runs exactly once, on any thread, perhaps before this returns.
  void Ask(PluginConnection& plugin, const devicemanager::PreferenceQuery& query,
           std::chrono::milliseconds within, Given given) EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;
  using Waiting = std::vector<Given>;

  struct Question {
    devicemanager::PreferenceQuery query;
    std::chrono::milliseconds within;
    Clock::time_point asked;
    Given given;  // empty once it has run; guarded by the asker's mutex
  };

  bool IsSkipped(std::chrono::milliseconds within) const REQUIRES(mutex_);
  void OnAnswer(const std::shared_ptr<Question>& question,
                const Result<v1beta1::PreferredAllocationResponse>& response) EXCLUDES(mutex_);
  // The callers that continue without a preference, the one of `question` among them.
  Waiting OnLate(const Question& question) EXCLUDES(mutex_);
  void OnInTime(const Question& question) EXCLUDES(mutex_);

  const std::string resource_;
  const std::chrono::milliseconds pause_;

  Mutex mutex_;
  std::set<std::shared_ptr<Question>> open_ GUARDED_BY(mutex_);
  // By missed deadline: until when the plugin is skipped. An answer in that time removes the entry.
  std::map<std::chrono::milliseconds, Clock::time_point> skipped_until_ GUARDED_BY(mutex_);
};

}  // namespace alignd::deviceplugin
