#include "cli/gather_command.h"

#include <sys/utsname.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "alignd/checkpoint/binding_checkpoint.h"
#include "alignd/checkpoint/originals_checkpoint.h"
#include "alignd/checkpoint/shares_checkpoint.h"
#include "alignd/checkpoint/verify.h"
#include "alignd/machine/node_json.h"
#include "allocation/boot_record.h"
#include "cli/config_command.h"
#include "cli/gather_archive.h"
#include "cli/gather_start.h"
#include "cli/kubelet_report.h"
#include "cli/output.h"
#include "cli/redact.h"
#include "cli/report_json.h"
#include "cli/report_text.h"
#include "cli/topology_tree.h"
#include "control/control_client.h"
#include "control/decision_history.h"
#include "daemon/command_line.h"
#include "daemon/known_cpus.h"
#include "daemon/start_check.h"
#include "host/file.h"
#include "host/subprocess.h"
#include "host/sysfs_machine.h"
#include "kubelet/agreement.h"
#include "kubelet/file_view.h"

namespace alignd::cli {
namespace {

namespace fs = std::filesystem;

struct GatherOptions {
  std::string file;  // empty: a name with host and time
  std::string socket;
  // What is empty is that of the alignd that runs, else that of the unit alignd.service.
  std::string state_dir;
  std::string device_plugin_dir;
  std::string config;
  int64_t log_lines = 5'000;
};

std::string HostName() {
  utsname names{};
  return uname(&names) == 0 ? names.nodename : "unknown";
}

std::string Now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return IsoTime(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

template <typename Report, typename Write>
Result<std::string> TextOf(const Result<Report>& report, const Write& write) {
  if (!report.ok()) return report.error();
  std::ostringstream text;
  write(*report, text);
  return text.str();
}

Result<control::v1::GetConfigResponse> WithoutSecretSettings(
    Result<control::v1::GetConfigResponse> config) {
  if (!config.ok()) return config;
  for (control::v1::Setting& setting : *config->mutable_settings()) {
    if (IsSecretName(setting.name())) setting.set_value(kRemoved);
  }
  return config;
}

// Where the pieces are, and what alignd answers.
struct Sources {
  Result<control::v1::GetStatusResponse> status;
  fs::path state_dir;
  fs::path device_plugin_dir;
  fs::path config;                    // empty: alignd has none
  Result<kubelet::AligndSetup> unit;  // read if there is no answer
};

// Without an answer, alignd's unit says where the files are: also if alignd does not start because
// of them.
Sources FindSources(const GatherOptions& stated, Collection& collection) {
  Sources found{
      control::ControlClient(stated.socket).GetStatus(), {}, {}, {}, kubelet::AligndSetup()};
  if (found.status.ok()) {
    found.state_dir = found.status->state_dir();
    found.device_plugin_dir = found.status->device_plugin_dir();
    found.config = found.status->config();
  } else {
    found.unit = kubelet::FindAligndFlags(kubelet::FileView("/"));
    const Result<kubelet::AligndSetup>& unit = found.unit;
    if (!unit.ok()) collection.Miss("alignd.service", unit.error());
    const kubelet::AligndSetup setup = unit.ok() ? *unit : kubelet::AligndSetup();
    found.state_dir = unit.ok() ? setup.state_dir : "/var/lib/alignd";
    found.device_plugin_dir = setup.device_plugin_dir;
    found.config = setup.config_file;
    const bool is_unknown = !setup.has_unit && setup.config_file.empty() && stated.config.empty();
    if (is_unknown && unit.ok()) {
      collection.Miss("config.json", {ErrorCode::kNotFound,
                                      "alignd does not run, and there is no alignd.service that "
                                      "names its configuration",
                                      "give --config"});
    }
  }
  if (!stated.config.empty()) found.config = stated.config;
  if (!stated.state_dir.empty()) {
    found.state_dir = stated.state_dir;
    found.device_plugin_dir.clear();
  }
  if (!stated.device_plugin_dir.empty()) found.device_plugin_dir = stated.device_plugin_dir;
  if (found.device_plugin_dir.empty()) found.device_plugin_dir = found.state_dir / "device-plugins";
  return found;
}

void AddDecisions(const Result<control::v1::ExplainResponse>& explained, bool knows_queue,
                  Collection& collection) {
  collection.Add("explain.txt",
                 TextOf(explained, [knows_queue](const auto& report, std::ostream& out) {
                   PrintDecisions(report, knows_queue, out);
                 }));
  collection.Add("explain.json", TextOf(explained, [](const auto& report, std::ostream& out) {
                   out << DecisionsJson(report) << '\n';
                 }));
}

void AddReports(const GatherOptions& options, const control::v1::GetStatusResponse& status,
                Collection& collection) {
  constexpr uint32_t kAllDecisions = 256;
  std::ostringstream text;
  PrintStatus(status, /*wide=*/true, text);
  collection.Add("status.txt", text.str());
  collection.Add("status.json", StatusJson(status) + "\n");
  const control::ControlClient client(options.socket);
  collection.Add("pods.txt", TextOf(client.ListPods(), [](const auto& report, std::ostream& out) {
                   PrintPods(report, /*wide=*/true, out);
                 }));
  AddDecisions(client.Explain("", kAllDecisions), /*knows_queue=*/true, collection);
  const auto settings = WithoutSecretSettings(client.GetConfig());
  for (const auto& [name, output] :
       {std::pair("settings.txt", "wide"), {"settings.json", "json"}}) {
    collection.Add(name, TextOf(settings, [form = output](const auto& report, std::ostream& out) {
                     PrintSettings(report, form, out);
                   }));
  }
}

// What alignd saved of its decisions.
Result<control::v1::ExplainResponse> SavedDecisions(const fs::path& state_dir) {
  const Result<std::string> text =
      host::ReadFile(state_dir / control::DecisionHistory::kFileName, control::kMaxHistoryBytes);
  if (!text.ok()) return text.error();
  const Result<control::KeptDecisions> kept = control::ParseDecisions(*text);
  if (!kept.ok())
    return kept.error().In((state_dir / control::DecisionHistory::kFileName).string());
  control::v1::ExplainResponse explained;
  for (const auto& decision : *kept) *explained.add_decisions() = *decision;
  return explained;
}

// In place of the reports: what alignd saved, and what a start would find.
void AddWithoutAlignd(const Sources& sources, Collection& collection) {
  collection.Miss("status, pods, settings", sources.status.error());
  AddDecisions(SavedDecisions(sources.state_dir), /*knows_queue=*/false, collection);
  Result<daemon::StartCheck> check = CheckStartOfUnit(
      sources.unit, {sources.config, sources.state_dir, sources.device_plugin_dir});
  if (check.ok()) {
    for (control::v1::Setting& setting : check->settings) {
      if (IsSecretName(setting.name())) setting.set_value(kRemoved);
    }
  }
  collection.Add("check.txt", TextOf(check, [](const auto& report, std::ostream& out) {
                   daemon::PrintStartCheck(report, /*wide=*/true, out);
                 }));
}

void AddStateFiles(const fs::path& state_dir, const fs::path& device_plugin_dir,
                   Collection& collection) {
  const fs::path devices = device_plugin_dir / "kubelet_internal_checkpoint";
  std::string verified;
  for (const fs::path& path :
       {state_dir / "cpu_manager_state", state_dir / "memory_manager_state", devices}) {
    const Result<std::string> text = host::ReadFile(path);
    const bool has_answers = path == devices;
    collection.Add(path.filename(), text.ok() && has_answers ? WithoutPluginAnswers(*text) : text);
    if (!text.ok()) continue;
    const auto kind = checkpoint::KindOfFileName(path.string());
    const auto result = checkpoint::VerifyCheckpoint(*kind, *text);
    verified += path.string() + ": " +
                (result.ok() ? "the checksum is correct" : "bad: " + result.error().Text()) + "\n";
  }
  collection.Add("checkpoints.txt", verified);
  for (const std::string_view name :
       {checkpoint::kBindingFileName, checkpoint::kOriginalsFileName, checkpoint::kSharesFileName,
        allocation::kBootFileName, daemon::kKnownCpusFile}) {
    const Result<std::string> text = host::ReadFile(state_dir / name);
    // None is always there.
    if (!text.ok() && text.error().code == ErrorCode::kNotFound) continue;
    collection.Add(std::string(name), text);
  }
}

void AddMachine(Collection& collection) {
  const Result<Machine> machine = host::ReadMachine("/");
  collection.Add("topology.txt", machine.ok() ? Result<std::string>(TopologyTree(*machine))
                                              : Result<std::string>(machine.error()));
  collection.Add("topology.json", machine.ok()
                                      ? Result<std::string>(MachineToNodeJson(*machine) + "\n")
                                      : Result<std::string>(machine.error()));
  utsname names{};
  uname(&names);
  const Result<std::string> system = host::ReadFile("/etc/os-release");
  collection.Add("versions.txt", daemon::VersionOf("alignctl") + "\n" + std::string(names.sysname) +
                                     " " + names.release + " " + names.version + " " +
                                     names.machine + "\n" +
                                     (system.ok() ? *system : system.error().Text() + "\n"));
}

std::string Introduction() {
  return "Gathered by " + daemon::VersionOf("alignctl") + " at " + Now() +
         ".\nLeft out: the plugins' answers in kubelet_internal_checkpoint (environment variables, "
         "mounts\nand annotations of containers), and values of the configuration whose name says "
         "that they are\nsecret. The checksum of kubelet_internal_checkpoint does not match any "
         "more; checkpoints.txt has\nthe result for the file on the node.\n\n";
}

Result<int> Gather(const GatherOptions& options, std::ostream& out) {
  std::string name = "alignd-gather-" + HostName() + "-" + Now();
  std::erase(name, ':');
  const std::string file = options.file.empty() ? name + ".tar.gz" : options.file;
  std::error_code fault;
  if (fs::exists(fs::symlink_status(file, fault))) return AlreadyThere(file);
  const Result<std::unique_ptr<TemporaryDirectory>> work = TemporaryDirectory::Make();
  if (!work.ok()) return work.error();
  const fs::path directory = (*work)->path() / name;
  fs::create_directory(directory, fault);
  if (fault) return IoError("make " + directory.string(), fault.value());
  Collection collection(directory);
  const Sources sources = FindSources(options, collection);
  if (sources.status.ok()) {
    AddReports(options, *sources.status, collection);
  } else {
    AddWithoutAlignd(sources, collection);
  }
  collection.Add("kubelet.txt", TextOf(LookAtKubelet("/", "kubelet.service"),
                                       [](const auto& report, std::ostream& text) {
                                         PrintKubelet(report, text);
                                       }));
  AddStateFiles(sources.state_dir, sources.device_plugin_dir, collection);
  if (!sources.config.empty()) {
    const Result<std::string> config = host::ReadFile(sources.config);
    collection.Add("config.json", config.ok() ? WithoutSecrets(*config) : config);
  }
  AddMachine(collection);
  const Result<host::ProcessResult> log =
      OutputOf({"journalctl", "--unit", "alignd", "--lines", std::to_string(options.log_lines),
                "--no-pager", "--utc", "--output", "short-iso"});
  collection.Add("log.txt",
                 log.ok() ? Result<std::string>(log->output) : Result<std::string>(log.error()),
                 log.ok() && log->is_cut);
  if (const Result<Done> finished = collection.Finish(Introduction()); !finished.ok()) {
    return finished.error();
  }
  if (const Result<Done> packed = Pack((*work)->path(), name, file); !packed.ok()) {
    return packed.error();
  }
  out << file << '\n';
  if (!collection.missing().empty()) out << "not gathered:\n" << collection.missing();
  return kSuccess;
}

}  // namespace

void AddGatherCommand(CLI::App& app, Action& action) {
  const auto options = std::make_shared<GatherOptions>();
  CLI::App* const command = app.add_subcommand(
      "gather",
      "Write one archive for a support case: reports, state files, configuration, topology, log; "
      "without secrets");
  command
      ->add_option(
          "file", options->file,
          "The archive (.tar.gz), which must not exist; if not given, named after host and time, "
          "here")
      ->type_name("FILE");
  AddSocketOption(*command, options->socket);
  command
      ->add_option(
          "--state-dir", options->state_dir,
          "alignd's state directory; if not given, that of the alignd that runs, else that "
          "of alignd.service")
      ->type_name("DIR");
  command
      ->add_option(
          "--device-plugin-dir", options->device_plugin_dir,
          "Directory of kubelet_internal_checkpoint; if not given, that of the alignd that "
          "runs, else that of alignd.service; with --state-dir, device-plugins in it")
      ->type_name("DIR");
  command
      ->add_option(
          "--config", options->config,
          "alignd's KubeletConfiguration; if not given, that of the alignd that runs, else "
          "that of alignd.service")
      ->type_name("FILE");
  command->add_option("--log-lines", options->log_lines, "The last lines of the log")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  AddExamples(*command, {"alignctl gather", "alignctl gather /tmp/case-42.tar.gz"});
  command->callback([options, &action] {
    action = [options](std::ostream& out) { return Gather(*options, out); };
  });
}

}  // namespace alignd::cli
