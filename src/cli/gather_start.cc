#include "cli/gather_start.h"

#include <string>
#include <utility>
#include <vector>

#include "daemon/options.h"

namespace alignd::cli {
namespace {

namespace fs = std::filesystem;

// The flags of alignd in the command line of its unit. Without a unit, none.
Result<std::vector<std::string>> FlagsOf(const kubelet::AligndSetup& unit) {
  if (!unit.has_unit) return std::vector<std::string>();
  // Before the path: how systemd starts it. After @, the next word is the name of the process.
  constexpr char kPrefixes[] = "-@:+!";
  const std::string program = unit.words.empty() ? "" : unit.words.front();
  const size_t path = program.find_first_not_of(kPrefixes);
  const bool is_renamed = program.substr(0, path).find('@') != std::string::npos;
  if (is_renamed ||
      fs::path(program.substr(path == std::string::npos ? 0 : path)).filename() != "alignd") {
    return Error{ErrorCode::kInvalidArgument,
                 "the ExecStart= of alignd.service does not start alignd directly: \"" + program +
                     "\", so its flags are not known",
                 "run alignd's command line with --check instead"};
  }
  return std::vector<std::string>(unit.words.begin() + 1, unit.words.end());
}

// Also among the settings, which are shown.
void Take(const StartPlaces& places, daemon::Options& options) {
  options.config = places.config;
  options.state_dir = places.state_dir;
  options.device_plugin_dir = places.device_plugin_dir;
  for (daemon::GivenOption& option : options.given) {
    const auto take = [&option](const char* name, const fs::path& path) {
      if (option.name != name || option.value == path.string()) return;
      option.value = path.string();
      option.source = "flag";
    };
    take("--config", places.config);
    take("--state-dir", places.state_dir);
    take("--device-plugin-dir", places.device_plugin_dir);
    // Below the state directory, if it is not given.
    if (option.name == "--plugins-registry") option.value = options.PluginsRegistry().string();
  }
}

}  // namespace

Result<daemon::StartCheck> CheckStartOfUnit(const Result<kubelet::AligndSetup>& unit,
                                            const StartPlaces& places) {
  if (!unit.ok()) return unit.error();
  if (!unit->has_unit && places.config.empty()) {
    return Error{ErrorCode::kNotFound,
                 "alignd does not run, and there is no alignd.service that names its configuration",
                 "give --config"};
  }
  const Result<std::vector<std::string>> flags = FlagsOf(*unit);
  if (!flags.ok()) return flags.error();
  Result<daemon::Options> options = daemon::OptionsOf(*flags);
  if (!options.ok()) {
    daemon::StartCheck check;
    check.config = places.config;
    check.state_dir = places.state_dir;
    check.problems.push_back({"alignd.service", "", "", options.error()});
    return check;
  }
  Take(places, *options);
  return daemon::CheckStart(*options, {.paths = false, .state = true});
}

}  // namespace alignd::cli
