#include "cli/bypass_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>

#include "cli/output.h"
#include "control/control_client.h"

namespace alignd::cli {
namespace {

struct BypassOptions {
  std::string socket;
  std::string output = "text";
};

std::string BypassJson(const control::v1::BypassResponse& bypass) {
  const nlohmann::ordered_json since =
      bypass.on() ? nlohmann::ordered_json(IsoTime(bypass.since_unix_ms())) : nullptr;
  const nlohmann::ordered_json json = {{"on", bypass.on()},
                                       {"since", since},
                                       {"mirrors_devices", bypass.mirrors_devices()},
                                       {"ends_at_restart", bypass.ends_at_restart()}};
  return json.dump();
}

void PrintBypass(const control::v1::BypassResponse& bypass, std::ostream& out) {
  if (!bypass.on()) {
    out << "bypass: off\n";
    return;
  }
  out << "bypass: on since " << IsoTime(bypass.since_unix_ms())
      << "\n  All calls are relayed as they come. New containers get no exclusive CPUs, memory "
         "nodes or devices.\n";
  if (bypass.mirrors_devices()) {
    out << "  Containers with devices that the kubelet allocates from alignd are refused.\n";
  }
  if (bypass.ends_at_restart()) {
    out << "  The bypass ends when alignd restarts, because its file could not be written.\n"
           "  What to do: free space on the disk or make it writable, then run `alignctl bypass "
           "on` "
           "again.\n";
  }
  out << "  What to do: run `alignctl bypass off` as soon as possible.\n";
}

Result<int> SwitchBypass(const BypassOptions& options, control::v1::BypassRequest::Action wanted,
                         std::ostream& out) {
  const Result<control::v1::BypassResponse> bypass =
      control::ControlClient(options.socket).Bypass(wanted);
  if (!bypass.ok()) return bypass.error();
  if (IsData(options.output)) {
    out << AsData(BypassJson(*bypass), options.output);
  } else {
    PrintBypass(*bypass, out);
  }
  return wanted == control::v1::BypassRequest::STATUS && bypass->on() ? kFailure : kSuccess;
}

}  // namespace

void AddBypassCommand(CLI::App& app, Action& action) {
  CLI::App* const group =
      app.add_subcommand("bypass", "Emergency switch: relay all calls as they come");
  group->require_subcommand(1);
  const auto options = std::make_shared<BypassOptions>();
  using control::v1::BypassRequest;
  const auto add = [&](const char* name, const char* what, BypassRequest::Action wanted) {
    CLI::App* const command = group->add_subcommand(name, what);
    AddSocketOption(*command, options->socket);
    if (wanted == BypassRequest::STATUS) AddOutputOption(*command, options->output);
    AddExamples(*command, {std::string("alignctl bypass ") + name});
    command->callback([options, &action, wanted] {
      action = [options, wanted](std::ostream& out) { return SwitchBypass(*options, wanted, out); };
    });
  };
  add("on", "Relay all calls as they come, also after a restart of alignd", BypassRequest::ON);
  add("off", "Decide about new containers again", BypassRequest::OFF);
  add("status", "Show whether the bypass is on; exit status 1 if it is", BypassRequest::STATUS);
}

}  // namespace alignd::cli
