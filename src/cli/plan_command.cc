#include "cli/plan_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "cli/change_text.h"
#include "cli/offline_plan.h"
#include "cli/output.h"
#include "control/control_client.h"
#include "host/file.h"

namespace alignd::cli {
namespace {

namespace v1 = control::v1;

// alignd reads requests of 64 KiB, with the frame around them.
constexpr size_t kMaxChangeBytes = (64 << 10) - 4096;

// How long alignd may take to carry a change out: calls under way get 2 s, and then all starts
// anew.
constexpr std::chrono::seconds kApplyPatience{120};
// Of the file: `systemctl reload` ends the command after the unit's TimeoutStartSec of 30 s.
constexpr std::chrono::seconds kReloadPatience{25};
constexpr std::chrono::milliseconds kApplyPoll{200};

struct ChangeOptions {
  std::string socket;
  std::string output = "text";
  std::string config;
  std::string may_move;
  OfflinePlanOptions files;  // of plan; without a state directory: of the alignd that runs
  std::string topology_policy;
  std::string topology_scope;
  std::string cpu_policy;
  std::string memory_policy;
  std::string reserved_cpus;
  std::vector<std::string> cpu_options;
  std::vector<std::string> topology_options;
};

void AddOption(nlohmann::json& fields, const char* field, const std::string& value) {
  if (!value.empty()) fields[field] = value;
}

void AddOptions(nlohmann::json& fields, const char* field, const std::vector<std::string>& pairs) {
  for (const std::string& pair : pairs) {
    const size_t split = pair.find('=');
    fields[field][pair.substr(0, split)] =
        split == std::string::npos ? "true" : pair.substr(split + 1);
  }
}

Result<v1::ChangeRequest> RequestFor(const ChangeOptions& options) {
  v1::ChangeRequest request;
  if (!options.may_move.empty()) request.set_may_move(options.may_move == "if-needed");
  nlohmann::json fields = nlohmann::json::object();
  AddOption(fields, "topologyManagerPolicy", options.topology_policy);
  AddOption(fields, "topologyManagerScope", options.topology_scope);
  AddOption(fields, "cpuManagerPolicy", options.cpu_policy);
  AddOption(fields, "memoryManagerPolicy", options.memory_policy);
  AddOption(fields, "reservedSystemCPUs", options.reserved_cpus);
  AddOptions(fields, "cpuManagerPolicyOptions", options.cpu_options);
  AddOptions(fields, "topologyManagerPolicyOptions", options.topology_options);
  if (!fields.empty()) request.set_fields(fields.dump());
  if (!options.config.empty()) {
    Result<std::string> text = host::ReadFileOrPipe(options.config);
    if (!text.ok()) return text.error();
    if (text->empty()) {
      return Error{ErrorCode::kInvalidArgument, options.config + ": is empty",
                   "write a KubeletConfiguration to it, or name another file"};
    }
    request.set_config(*std::move(text));
  }
  if (request.ByteSizeLong() > kMaxChangeBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 options.config + ": the configuration has more than " +
                     std::to_string(kMaxChangeBytes) + " bytes, which alignd does not read at once",
                 "remove comments, or write it to the file of --config and send alignd SIGHUP"};
  }
  return request;
}

void Print(const ChangeOptions& options, const v1::ChangeResponse& change, std::ostream& out) {
  if (IsData(options.output)) {
    out << AsData(ChangeJson(change), options.output);
  } else {
    PrintChange(change, out);
  }
}

Result<int> ShowPlan(const ChangeOptions& options, std::ostream& out) {
  const Result<v1::ChangeRequest> request = RequestFor(options);
  if (!request.ok()) return request.error();
  const auto change = options.files.state_dir.empty()
                          ? control::ControlClient(options.socket).PlanChange(*request)
                          : PlanFromFiles(options.files, *request);
  if (!change.ok()) return change.error();
  Print(options, *change, out);
  return change->admitted() ? kSuccess : kFailure;
}

// alignd does not answer while it takes the configuration over.
Result<v1::GetChangeResponse> WaitForOutcome(const ChangeOptions& options, uint64_t change,
                                             std::chrono::steady_clock::time_point until) {
  const control::ControlClient client(options.socket);
  for (;;) {
    auto outcome = client.GetChange(change);
    const bool may_come = !outcome.ok() ? outcome.error().code == ErrorCode::kUnavailable
                                        : outcome->outcome() == "pending";
    if (!may_come || std::chrono::steady_clock::now() >= until) return outcome;
    std::this_thread::sleep_for(kApplyPoll);
  }
}

// A reload right after a start, or beside another change, is repeated: its caller would not do it.
Result<v1::ChangeResponse> BeginChange(const ChangeOptions& options,
                                       const v1::ChangeRequest& request,
                                       std::chrono::steady_clock::time_point until) {
  const control::ControlClient client(options.socket);
  for (;;) {
    Result<v1::ChangeResponse> change = client.ApplyChange(request);
    // alignd has answered that it cannot be now.
    const bool may_come =
        options.config.empty() && !change.ok() && change.error().code == ErrorCode::kIo;
    if (!may_come || std::chrono::steady_clock::now() >= until) return change;
    std::this_thread::sleep_for(kApplyPoll);
  }
}

Result<int> ApplyPlan(const ChangeOptions& options, std::ostream& out) {
  const Result<v1::ChangeRequest> request = RequestFor(options);
  if (!request.ok()) return request.error();
  const auto until = std::chrono::steady_clock::now() +
                     (options.config.empty() ? kReloadPatience : kApplyPatience);
  const auto change = BeginChange(options, *request, until);
  if (!change.ok()) return change.error();
  Print(options, *change, out);
  if (!change->admitted()) return kFailure;
  const Result<v1::GetChangeResponse> outcome = WaitForOutcome(options, change->change(), until);
  if (!outcome.ok()) return outcome.error();
  if (outcome->outcome() == "applied") {
    if (!IsData(options.output)) out << "applied\n";
    return kSuccess;
  }
  const bool is_lost = outcome->outcome() == "unknown";
  return Error{ErrorCode::kIo,
               is_lost ? "alignd has restarted, and does not know what became of the change"
               : outcome->message().empty() ? "the change is still " + outcome->outcome()
                                            : outcome->message(),
               is_lost                      ? "compare `alignctl config show` with the file"
               : outcome->message().empty() ? "it goes on: see `alignctl status` and alignd's log"
                                            : ""};
}

void AddSharedOptions(CLI::App& command, ChangeOptions& options) {
  command
      .add_option("--config", options.config,
                  "The new KubeletConfiguration (YAML or JSON); if not given, the file with "
                  "which alignd runs, as it is now")
      ->type_name("FILE");
  AddSocketOption(command, options.socket);
  AddOutputOption(command, options.output);
}

void AddMoveOption(CLI::App& command, ChangeOptions& options, const char* otherwise) {
  command
      .add_option("--may-move", options.may_move,
                  std::string("Whether running containers with exclusive CPUs may move to other "
                              "CPUs: never (the change is refused) or if-needed; if not given: ") +
                      otherwise)
      ->check(CLI::IsMember({"never", "if-needed"}));
}

void AddFileOptions(CLI::App& command, OfflinePlanOptions& options) {
  CLI::Option* const state_dir =
      command
          .add_option(
              "--state-dir", options.state_dir,
              "Plan from the state files in this directory, for an alignd that does not run")
          ->type_name("DIR");
  command
      .add_option("--device-plugin-dir", options.device_plugin_dir,
                  "With --state-dir: directory of kubelet_internal_checkpoint; if not given, "
                  "device-plugins in the state directory")
      ->type_name("DIR")
      ->needs(state_dir);
  command
      .add_option("--current-config", options.current_config,
                  "With --state-dir: the KubeletConfiguration with which alignd ran; if not given, "
                  "that of the unit alignd.service")
      ->type_name("FILE")
      ->needs(state_dir);
  command
      .add_option("--root", options.root,
                  "With --state-dir: root directory of the node, with its sys/ and its units")
      ->type_name("DIR")
      ->capture_default_str()
      ->needs(state_dir);
  command
      .add_option("--node", options.node,
                  "With --state-dir: a machine as in scenarios, in place of the one below --root")
      ->type_name("FILE")
      ->needs(state_dir);
}

void AddFieldOptions(CLI::App& command, ChangeOptions& options) {
  const auto add = [&command](const char* flag, auto& value, const char* field) {
    command.add_option(flag, value, std::string("In place of the configuration's ") + field);
  };
  add("--policy", options.topology_policy, "topologyManagerPolicy");
  add("--scope", options.topology_scope, "topologyManagerScope");
  add("--cpu-policy", options.cpu_policy, "cpuManagerPolicy");
  add("--memory-policy", options.memory_policy, "memoryManagerPolicy");
  add("--reserved-cpus", options.reserved_cpus, "reservedSystemCPUs");
  add("--cpu-policy-option", options.cpu_options,
      "cpuManagerPolicyOptions: NAME=VALUE, repeated for each");
  add("--topology-policy-option", options.topology_options,
      "topologyManagerPolicyOptions: NAME=VALUE, repeated for each");
}

}  // namespace

void AddPlanCommand(CLI::App& app, Action& action) {
  const auto options = std::make_shared<ChangeOptions>();
  CLI::App* const command = app.add_subcommand(
      "plan",
      "Show what another configuration would mean for the containers that run; changes nothing; "
      "exit status 0: it can be applied, 1: it cannot, 2: the configuration cannot be read or "
      "used");
  AddSharedOptions(*command, *options);
  AddMoveOption(*command, *options, "never");
  AddFieldOptions(*command, *options);
  AddFileOptions(*command, options->files);
  AddExamples(*command, {"alignctl plan --config new.yaml",
                         "alignctl plan --policy restricted --scope pod --reserved-cpus 0-3",
                         "alignctl plan --state-dir /var/lib/alignd --config new.yaml"});
  command->callback([options, &action] {
    action = Action([options](std::ostream& out) { return ShowPlan(*options, out); }, kBadInput);
  });
}

void AddApplyCommand(CLI::App& app, Action& action) {
  const auto options = std::make_shared<ChangeOptions>();
  CLI::App* const command = app.add_subcommand(
      "apply",
      "Change the configuration while containers run, and write it to alignd's file; exit status "
      "0: it is applied, 1: it is not, and nothing has changed");
  AddSharedOptions(*command, *options);
  AddMoveOption(*command, *options, "never with --config, otherwise as alignd's own --may-move");
  AddExamples(*command, {"alignctl apply --config new.yaml",
                         "alignctl apply --config new.yaml --may-move if-needed"});
  command->callback([options, &action] {
    action = [options](std::ostream& out) { return ApplyPlan(*options, out); };
  });
}

}  // namespace alignd::cli
