#include "cli/config_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <system_error>
#include <vector>

#include "cli/example_config.h"
#include "cli/message_text.h"
#include "cli/output.h"
#include "control/control_client.h"
#include "daemon/options.h"
#include "daemon/start_check.h"

namespace alignd::cli {
namespace {

namespace v1 = control::v1;

struct ConfigOptions {
  std::string socket;
  std::string output = "text";
  std::string file;
  std::string node;
  std::string root = "/";
  std::string state_dir;
};

constexpr char kDefaultStateDir[] = "/var/lib/alignd";

std::string SettingsJson(const v1::GetConfigResponse& config) {
  nlohmann::ordered_json settings = nlohmann::ordered_json::array();
  for (const v1::Setting& setting : config.settings()) {
    settings.push_back({{"name", setting.name()},
                        {"value", setting.value()},
                        {"source", setting.source()},
                        {"kind", setting.kind()}});
  }
  const nlohmann::ordered_json json = {{"config", config.config()}, {"settings", settings}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<int> ShowConfig(const ConfigOptions& options, std::ostream& out) {
  const auto config = control::ControlClient(options.socket).GetConfig();
  if (!config.ok()) return config.error();
  PrintSettings(*config, options.output, out);
  return kSuccess;
}

// As alignd at its start. Flags that it may have are not known here, so its sockets are not
// checked.
Result<int> CheckConfig(const ConfigOptions& options, std::ostream& out) {
  daemon::Options start;
  start.config = options.file;
  start.node = options.node;
  start.root = options.root;
  std::error_code fault;
  const bool is_here = options.node.empty() && options.root == "/" &&
                       std::filesystem::is_directory(kDefaultStateDir, fault);
  start.state_dir = options.state_dir.empty() ? kDefaultStateDir : options.state_dir;
  const daemon::StartCheck check =
      daemon::CheckStart(start, {.paths = false, .state = !options.state_dir.empty() || is_here});
  if (IsData(options.output)) {
    out << AsData(daemon::StartCheckJson(check), options.output);
  } else {
    daemon::PrintStartCheck(check, options.output == "wide", out);
  }
  return check.ExitStatus();
}

}  // namespace

void PrintSettings(const v1::GetConfigResponse& report, const std::string& output,
                   std::ostream& out) {
  if (IsData(output)) {
    out << AsData(SettingsJson(report), output);
    return;
  }
  v1::GetConfigResponse config = report;
  MakePrintable(config);
  out << "file: " << (config.config().empty() ? "none (--config is not given)" : config.config())
      << '\n';
  constexpr size_t kMaxValue = 60;
  std::vector<std::vector<std::string>> rows = {{"NAME", "SOURCE", "VALUE"}};
  for (const v1::Setting& setting : config.settings()) {
    std::string value = OrDash(setting.value());
    if (output != "wide" && value.size() > kMaxValue) value = value.substr(0, kMaxValue) + "...";
    rows.push_back({setting.name(), setting.source(), value});
  }
  PrintTable(rows, out);
}

void AddConfigCommand(CLI::App& app, Action& action) {
  CLI::App* const group = app.add_subcommand("config", "Show, check or begin a configuration");
  group->require_subcommand(1);
  const auto options = std::make_shared<ConfigOptions>();
  CLI::App* const show = group->add_subcommand(
      "show",
      "Show every setting with which alignd runs, and its source: default, file, flag or "
      "environment");
  AddSocketOption(*show, options->socket);
  AddOutputOption(*show, options->output);
  AddExamples(*show, {"alignctl config show", "alignctl config show -o json"});
  show->callback([options, &action] {
    action = [options](std::ostream& out) { return ShowConfig(*options, out); };
  });
  CLI::App* const check = group->add_subcommand(
      "check",
      "Check a KubeletConfiguration, and what is saved, as alignd does at its start on this "
      "machine; "
      "exit status 1 if alignd would not start with it, 2 if it would with warnings");
  check->add_option("file", options->file, "A KubeletConfiguration (YAML or JSON)")
      ->type_name("FILE")
      ->required();
  check
      ->add_option(
          "--node", options->node,
          "Check it for this node (JSON, as `alignctl topology -o json` prints it) instead "
          "of this machine")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  check->add_option("--root", options->root, "Directory with the sys/ and proc/ of the machine")
      ->type_name("DIR")
      ->capture_default_str();
  check
      ->add_option("--state-dir", options->state_dir,
                   "State directory to check against the configuration; if not given, "
                   "/var/lib/alignd if it exists, unless --node or --root is given")
      ->type_name("DIR");
  AddOutputOption(*check, options->output);
  AddExamples(*check, {"alignctl config check /etc/alignd/kubelet-config.yaml"});
  check->callback([options, &action] {
    action = [options](std::ostream& out) { return CheckConfig(*options, out); };
  });
  CLI::App* const standard = group->add_subcommand(
      "default", "Print a commented configuration file with every field and its default");
  AddExamples(*standard, {"alignctl config default > kubelet-config.yaml"});
  standard->callback([&action] {
    action = [](std::ostream& out) -> Result<int> {
      out << ExampleConfig();
      return kSuccess;
    };
  });
}

}  // namespace alignd::cli
