#include "cli/gather_command.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
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
#include "cli/kubelet_report.h"
#include "cli/output.h"
#include "cli/redact.h"
#include "cli/report_json.h"
#include "cli/report_text.h"
#include "cli/topology_tree.h"
#include "control/control_client.h"
#include "daemon/command_line.h"
#include "daemon/known_cpus.h"
#include "host/descriptor.h"
#include "host/file.h"
#include "host/subprocess.h"
#include "host/sysfs_machine.h"

namespace alignd::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLongestProcess{60};

struct GatherOptions {
  std::string file;  // empty: a name with host and time
  std::string socket;
  std::string state_dir = "/var/lib/alignd";
  std::string device_plugin_dir;  // empty: device-plugins in the state directory
  std::string config = "/var/lib/kubelet/config.yaml";
  bool is_state_dir_stated = false;
  bool is_config_stated = false;
  int64_t log_lines = 5'000;
};

Error IoError(const std::string& what, int number) {
  return {ErrorCode::kIo, what + ": " + std::generic_category().message(number),
          "check the disk and your rights there"};
}

// A directory of its own, removed with all that is in it.
class TemporaryDirectory {
 public:
  static Result<std::unique_ptr<TemporaryDirectory>> Make() {
    std::error_code fault;
    std::string path = (fs::temp_directory_path(fault) / "alignd-gather-XXXXXX").string();
    if (fault || mkdtemp(path.data()) == nullptr) return IoError("make " + path, errno);
    return std::make_unique<TemporaryDirectory>(path);
  }
  explicit TemporaryDirectory(fs::path path) : path_(std::move(path)) {}
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;  // what is left is readable by its owner alone
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

std::string HostName() {
  utsname names{};
  return uname(&names) == 0 ? names.nodename : "unknown";
}

std::string Now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return IsoTime(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

// The pieces of the archive. What cannot be had is named in it.
class Collection {
 public:
  explicit Collection(fs::path directory) : directory_(std::move(directory)) {}

  // The first error of a write ends the command; an absent piece does not.
  void Add(const std::string& name, const Result<std::string>& text, bool is_cut = false) {
    if (!text.ok()) {
      missing_ += name + ": " + text.error().Text() + "\n";
      return;
    }
    std::ofstream file(directory_ / name, std::ios::binary);
    file << *text;
    file.close();
    if (!file && write_error_.empty()) write_error_ = (directory_ / name).string();
    contents_ += name + (is_cut ? " (cut: only the first part is here)\n" : "\n");
  }

  Result<Done> Finish() {
    const std::string missing = missing_;
    Add("contents.txt",
        "Gathered by " + daemon::VersionOf("alignctl") + " at " + Now() +
            ".\nLeft out: the plugins' answers in kubelet_internal_checkpoint (environment "
            "variables, mounts\nand annotations of containers), and values of the configuration "
            "whose name says that they are\nsecret. The checksum of kubelet_internal_checkpoint "
            "does not match any more; checkpoints.txt has\nthe result for the file on the "
            "node.\n\n" +
            contents_ + (missing.empty() ? "" : "\nNot gathered:\n" + missing));
    if (write_error_.empty()) return Done{};
    return Error{ErrorCode::kIo, "cannot write " + write_error_, "free space in $TMPDIR"};
  }

  const std::string& missing() const { return missing_; }

 private:
  const fs::path directory_;
  std::string contents_;
  std::string missing_;
  std::string write_error_;
};

Result<host::ProcessResult> ResultOf(const std::vector<std::string>& command) {
  Result<host::ProcessResult> result = host::RunProcess(command, kLongestProcess);
  if (!result.ok() || result->exit_status == 0) return result;
  std::istringstream lines(result->output.substr(0, 200));
  std::string said;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) said += (said.empty() ? "" : " | ") + line;
  }
  return Error{ErrorCode::kIo,
               command.front() + " ended with " + std::to_string(result->exit_status) + ": " + said,
               "remove the cause that it names, or see its manual page"};
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

void AddReports(const GatherOptions& options, Collection& collection) {
  constexpr uint32_t kAllDecisions = 256;
  const control::ControlClient client(options.socket);
  const auto status = client.GetStatus();
  collection.Add("status.txt", TextOf(status, [](const auto& report, std::ostream& out) {
                   PrintStatus(report, /*wide=*/true, out);
                 }));
  collection.Add("status.json", TextOf(status, [](const auto& report, std::ostream& out) {
                   out << StatusJson(report) << '\n';
                 }));
  collection.Add("pods.txt", TextOf(client.ListPods(), [](const auto& report, std::ostream& out) {
                   PrintPods(report, /*wide=*/true, out);
                 }));
  const auto explained = client.Explain("", kAllDecisions);
  collection.Add("explain.txt", TextOf(explained, [](const auto& report, std::ostream& out) {
                   PrintDecisions(report, out);
                 }));
  collection.Add("explain.json", TextOf(explained, [](const auto& report, std::ostream& out) {
                   out << DecisionsJson(report) << '\n';
                 }));
  const auto settings = WithoutSecretSettings(client.GetConfig());
  for (const auto& [name, output] :
       {std::pair("settings.txt", "wide"), {"settings.json", "json"}}) {
    collection.Add(name, TextOf(settings, [form = output](const auto& report, std::ostream& out) {
                     PrintSettings(report, form, out);
                   }));
  }
  collection.Add("kubelet.txt",
                 TextOf(LookAtKubelet("/", "kubelet.service"),
                        [](const auto& report, std::ostream& out) { PrintKubelet(report, out); }));
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

Error AlreadyThere(const std::string& file) {
  return {ErrorCode::kInvalidArgument, file + " exists already: it is not replaced",
          "name another file, or remove this one"};
}

// Replaces no file. Some file systems cannot do that in one step.
Result<Done> MoveInto(const std::string& unfinished, const std::string& file) {
  if (renameat2(AT_FDCWD, unfinished.c_str(), AT_FDCWD, file.c_str(), RENAME_NOREPLACE) == 0) {
    return Done{};
  }
  if (errno == EEXIST) return AlreadyThere(file);
  const bool is_supported = errno != EINVAL && errno != ENOSYS;
  if (is_supported || rename(unfinished.c_str(), file.c_str()) != 0) {
    return IoError("write " + file, errno);
  }
  return Done{};
}

Result<Done> Pack(const fs::path& parent, const std::string& name, const std::string& file) {
  // A new file of a new name, readable by its owner alone: no link is followed.
  std::string unfinished = file + ".XXXXXX";
  const host::Descriptor made(mkostemp(unfinished.data(), O_CLOEXEC));
  if (made.fd() < 0) return IoError("write " + file, errno);
  const Result<host::ProcessResult> packed =
      ResultOf({"tar", "--create", "--gzip", "--force-local", "--file", unfinished, "--directory",
                parent.string(), name});
  if (!packed.ok()) {
    unlink(unfinished.c_str());
    return Error{ErrorCode::kIo, packed.error().message, packed.error().remedy};
  }
  const Result<Done> moved = MoveInto(unfinished, file);
  if (!moved.ok()) unlink(unfinished.c_str());
  return moved;
}

// Paths that are not stated are the daemon's own, if it answers.
GatherOptions Completed(GatherOptions options) {
  const auto status = control::ControlClient(options.socket).GetStatus();
  if (!status.ok()) return options;
  if (!options.is_state_dir_stated) options.state_dir = status->state_dir();
  if (!options.is_config_stated) options.config = status->config();
  if (options.device_plugin_dir.empty() && !options.is_state_dir_stated) {
    options.device_plugin_dir = status->device_plugin_dir();
  }
  return options;
}

Result<int> Gather(const GatherOptions& stated, std::ostream& out) {
  const GatherOptions options = Completed(stated);
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
  AddReports(options, collection);
  const fs::path state_dir = options.state_dir;
  AddStateFiles(state_dir,
                options.device_plugin_dir.empty() ? state_dir / "device-plugins"
                                                  : fs::path(options.device_plugin_dir),
                collection);
  if (!options.config.empty()) {
    const Result<std::string> config = host::ReadFile(options.config);
    collection.Add("config.json", config.ok() ? WithoutSecrets(*config) : config);
  }
  AddMachine(collection);
  const Result<host::ProcessResult> log =
      ResultOf({"journalctl", "--unit", "alignd", "--lines", std::to_string(options.log_lines),
                "--no-pager", "--utc", "--output", "short-iso"});
  collection.Add("log.txt",
                 log.ok() ? Result<std::string>(log->output) : Result<std::string>(log.error()),
                 log.ok() && log->is_cut);
  if (const Result<Done> finished = collection.Finish(); !finished.ok()) return finished.error();
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
  CLI::Option* const state_dir =
      command
          ->add_option("--state-dir", options->state_dir,
                       "alignd's state directory, if alignd does not run")
          ->capture_default_str();
  command->add_option("--device-plugin-dir", options->device_plugin_dir,
                      "Directory of kubelet_internal_checkpoint; if not given, that of the alignd "
                      "that runs, or device-plugins in the state directory");
  CLI::Option* const config =
      command
          ->add_option("--config", options->config,
                       "alignd's KubeletConfiguration, if alignd does not run")
          ->capture_default_str();
  command->add_option("--log-lines", options->log_lines, "The last lines of the log")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  AddExamples(*command, {"alignctl gather", "alignctl gather /tmp/case-42.tar.gz"});
  command->callback([options, state_dir, config, &action] {
    options->is_state_dir_stated = state_dir->count() > 0;
    options->is_config_stated = config->count() > 0;
    action = [options](std::ostream& out) { return Gather(*options, out); };
  });
}

}  // namespace alignd::cli
