// The times of the plugin registry, as configured.
#pragma once

#include "daemon/options.h"
#include "deviceplugin/plugin_registry.h"

namespace alignd::daemon {

inline deviceplugin::PluginSettings PluginTimes(const Options& options) {
  deviceplugin::PluginSettings settings;
  settings.deadlines = {.connect = options.plugin_connect_timeout,
                        .preferred = options.plugin_preference_timeout,
                        .allocate = options.plugin_timeout,
                        .pre_start = options.plugin_pre_start_timeout};
  settings.grace = options.plugin_grace;
  settings.patience = options.plugin_patience;
  return settings;
}

}  // namespace alignd::daemon
