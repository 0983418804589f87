// Lines of the log about device plugins. What plugins can provoke is limited.
#pragma once

#include <string>

#include "host/log_event.h"

namespace alignd::deviceplugin {

// A fault, or an end. `text` names the resource.
inline void LogPlugin(const std::string& resource, const std::string& text) {
  static host::LineLimit limit("device plugins");
  if (!limit.Allow()) return;
  host::LogEvent(host::kLogPlugin, spdlog::level::warn, {{"RESOURCE", resource}}, text);
}

// What a plugin does rightly, perhaps all the time. `text` follows the name of the resource.
inline void LogPluginNews(const std::string& resource, const std::string& text) {
  static host::LineLimit limit("registrations and devices of device plugins");
  if (!limit.Allow()) return;
  host::LogEvent(host::kLogPlugin, spdlog::level::info, {{"RESOURCE", resource}},
                 resource + ": " + text);
}

}  // namespace alignd::deviceplugin
