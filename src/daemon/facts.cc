#include "daemon/facts.h"

#include <sys/utsname.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "control/config_report.h"
#include "control/readable.h"
#include "host/config_file.h"

namespace alignd::daemon {

std::vector<control::v1::Setting> SettingsOf(const Options& options, const host::ConfigFile& file) {
  const KubeletConfig& config = file.config;
  const std::vector<control::v1::Setting> defaults = control::ReportFields(KubeletConfig(), {});
  std::vector<control::v1::Setting> settings = control::ReportFields(config, file.given);
  for (size_t i = 0; i < settings.size(); ++i) {
    // Also if the file, which alignd has just read, cannot be read again.
    if (settings[i].value() != defaults[i].value()) settings[i].set_source("file");
  }
  for (control::v1::Setting& setting : settings) {
    if (setting.name() == "compatibility" && options.compatibility) setting.set_source("flag");
    if (setting.name() == "podPolicies" && options.pod_policies) setting.set_source("flag");
    const bool has_handlers = options.shared_pool_handlers.has_value();
    if (setting.name() == "sharedPoolHandlers" && has_handlers) setting.set_source("flag");
    if (setting.name() == "notDevices" && options.not_devices) setting.set_source("flag");
    if (setting.name() == "annotatedExtendedResources" && options.annotated_extended_resources) {
      setting.set_source("flag");
    }
    const bool is_off = options.pod_policies && options.pod_policies->empty();
    if (setting.name() == "namespacePolicies" && is_off) setting.set_source("flag");
  }
  for (const GivenOption& option : options.given) {
    control::v1::Setting& setting = settings.emplace_back();
    setting.set_kind(option.source == "environment" ? "variable" : "flag");
    setting.set_name(option.name);
    setting.set_value(control::Readable(option.value));
    setting.set_source(option.source);
  }
  return settings;
}

std::chrono::system_clock::time_point ProcessStarted() {
  static const auto started = std::chrono::system_clock::now();
  return started;
}

control::DaemonFacts FactsOf(const Options& options, const KubeletConfig& config) {
  host::ConfigFile file;
  if (!options.config.empty()) {
    Result<host::ConfigFile> read = host::ReadConfigFields(options.config);
    if (read.ok()) file.given = std::move(read->given);
  }
  file.config = config;
  utsname names{};
  const bool is_known = uname(&names) == 0;
  return {.version = ALIGND_VERSION,
          .node = is_known ? names.nodename : "",
          .started = ProcessStarted(),
          .state_dir = std::filesystem::absolute(options.state_dir),
          .config = options.config.empty() ? "" : std::filesystem::absolute(options.config),
          .runtime_endpoint = options.runtime_endpoint,
          .device_plugin_dir = std::filesystem::absolute(options.DevicePluginDir()),
          .settings = SettingsOf(options, file)};
}

}  // namespace alignd::daemon
