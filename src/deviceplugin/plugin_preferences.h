// One device plugin's preferences: a wish, for which nobody waits long, or twice.
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

// Thread-safe. A plugin that was late is left alone for a while: whoever waits for it already, or
// comes in that time, and would not wait longer, goes on without. Otherwise the pods that come
// after each other would each wait anew, since their questions differ.
class PluginPreferences : public std::enable_shared_from_this<PluginPreferences> {
 public:
  // The ids that the plugin prefers, of those available; nullopt: none, or it failed or was late.
  using Given = std::function<void(std::optional<std::vector<std::string>>)>;

  // `pause`: how long a plugin that was late is left alone.
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

  bool IsLeftAlone(std::chrono::milliseconds within) const REQUIRES(mutex_);
  void OnAnswer(const std::shared_ptr<Question>& question,
                const Result<v1beta1::PreferredAllocationResponse>& response) EXCLUDES(mutex_);
  // Who goes on without, `question` among them.
  Waiting OnLate(const Question& question) EXCLUDES(mutex_);
  void OnInTime(const Question& question) EXCLUDES(mutex_);

  const std::string resource_;
  const std::chrono::milliseconds pause_;

  Mutex mutex_;
  std::set<std::shared_ptr<Question>> open_ GUARDED_BY(mutex_);
  // Until when it is left alone, by the time in which it has given nothing; until it is fast again.
  std::map<std::chrono::milliseconds, Clock::time_point> left_alone_ GUARDED_BY(mutex_);
};

}  // namespace alignd::deviceplugin
