#include "cli/state_move.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "cli/output.h"
#include "daemon/change_undo.h"
#include "daemon/options.h"
#include "host/config_file.h"
#include "host/durable_file.h"
#include "kubelet/agreement.h"
#include "kubelet/policies.h"
#include "kubelet/setup.h"
#include "moving/container_cgroups.h"
#include "moving/handover.h"
#include "moving/state_export.h"
#include "moving/state_import.h"

namespace alignd::cli {
namespace {

namespace fs = std::filesystem;

// Options of both commands.
struct MoveOptions {
  std::string kubelet_dir;  // --from or --to; empty: that of the node
  std::string state_dir;
  std::string device_plugin_dir;
  std::string config;
  std::string kubelet_config;
  std::string root = "/";
  std::string node;
  std::string unit = "kubelet.service";
  std::string cgroup_root;
  std::string release;
  bool no_devices = false;
  bool removes_source = false;
  bool dry_run = false;
};

// The kubelet and alignd of this node, with the stated options in place of what was found.
struct MovingNode {
  kubelet::FileView files;
  kubelet::Setup kubelet;
  moving::AligndSide alignd;
  allocation::StatePaths kubelet_paths;
  bool is_nodes_kubelet = false;  // the directory is that of this node's kubelet

  static Result<MovingNode> Find(const MoveOptions& stated);
};

Result<MovingNode> MovingNode::Find(const MoveOptions& stated) {
  const kubelet::FileView files(stated.root);
  Result<kubelet::Setup> setup = kubelet::FindSetup(files, stated.unit);
  if (!setup.ok()) return setup.error();
  const Result<kubelet::AligndSetup> found = kubelet::FindAligndSetup(files);
  if (!found.ok()) return found.error().In("alignd's configuration");
  daemon::Options options;
  options.root = stated.root;
  options.node = stated.node;
  moving::TakeFlags(*found, options);
  options.config = stated.config;
  if (stated.config.empty() && !found->config_file.empty()) {
    options.config = files.OnThisMachine(found->config_file);
  }
  const bool has_state_dir = !stated.state_dir.empty();
  options.state_dir =
      has_state_dir ? fs::path(stated.state_dir) : files.OnThisMachine(found->state_dir);
  if (!stated.device_plugin_dir.empty()) {
    options.device_plugin_dir = stated.device_plugin_dir;
  } else if (!has_state_dir) {
    options.device_plugin_dir = files.OnThisMachine(found->device_plugin_dir);
  }
  Result<moving::AligndSide> alignd = moving::AligndSide::Make(options);
  if (!alignd.ok()) return alignd.error();
  allocation::StatePaths paths = moving::KubeletPathsOf(files, *setup);
  bool is_nodes = true;
  if (!stated.kubelet_dir.empty()) {
    std::error_code fault;
    const fs::path directory = stated.kubelet_dir;
    is_nodes = directory == paths.state_dir || fs::equivalent(directory, paths.state_dir, fault);
    if (!is_nodes) paths = {directory, directory / "device-plugins"};
  }
  return MovingNode{files, *std::move(setup), *std::move(alignd), std::move(paths), is_nodes};
}

// A kubelet reads these files only at its start, and writes them at any time. What its
// configuration says may be newer than the process.
Result<Done> RequireNoKubelet(const MovingNode& node) {
  if (!node.is_nodes_kubelet || !node.kubelet.process) return Done{};
  return Error{ErrorCode::kInvalidArgument,
               "a kubelet runs (process " + std::to_string(node.kubelet.process->pid) +
                   "): it writes these files at any time",
               "stop it first: systemctl stop " + node.kubelet.unit_name};
}

// The state must be that of the containers that run.
void CompareWithContainers(const MoveOptions& options, const MovingNode& node,
                           moving::MovePlan& plan) {
  const fs::path root = options.cgroup_root.empty() ? node.files.OnThisMachine("/sys/fs/cgroup")
                                                    : fs::path(options.cgroup_root);
  const Result<moving::ContainerCpusets> now = moving::ContainerCpusets::Read(root);
  if (!now.ok() || (now->pods.empty() && !(plan.state.cpu.assignments.empty() &&
                                           plan.state.memory.assignments.empty()))) {
    plan.notes.push_back(
        "the running containers were not compared with the state: " +
        (now.ok() ? "there is no cgroup of any pod below " + root.string() : now.error().message));
    return;
  }
  const std::optional<cpumanager::StaticPolicy>& policy = node.alignd.node.cpu;
  for (std::string& one :
       FindMisplaced({}, *now, plan.state, policy ? policy->reserved : CpuSet())) {
    plan.problems.push_back({ErrorCode::kInvalidArgument, std::move(one),
                             "delete this pod, or use the state files of this node as they are "
                             "now, then repeat this"});
  }
  for (std::string& note : FindNarrowedByOthers(*now, plan.state)) {
    plan.notes.push_back(std::move(note));
  }
}

// Plans, prints, and carries the plan out unless that is not wanted. `plan` is asked for after an
// interrupted move has been undone.
template <typename Plan>
Result<int> MoveState(const MoveOptions& options, const MovingNode& node, const char* what,
                      const Plan& plan, std::ostream& out) {
  const fs::path& state_dir = node.alignd.options.state_dir;
  std::optional<host::DirectoryLock> lock;
  std::error_code fault;
  if (!options.dry_run) {
    if (Result<Done> none = RequireNoKubelet(node); !none.ok()) return none.error();
    if (Result<Done> made = host::MakeDirectory(state_dir); !made.ok()) return made.error();
    Result<host::DirectoryLock> locked = host::LockDirectory(state_dir);
    if (!locked.ok()) {
      Error error = locked.error();
      if (error.code == ErrorCode::kUnavailable) {
        error.remedy = "stop alignd (systemctl stop alignd), and repeat this";
      }
      return error;
    }
    lock = *std::move(locked);
    const Result<bool> recovered = moving::Recover(state_dir, node.alignd.config_text);
    if (!recovered.ok()) return recovered.error();
    if (*recovered) out << "An earlier move was interrupted. Its files were restored first.\n";
  } else if (const Result<Done> none = moving::RequireNoMoves(state_dir); !none.ok()) {
    return none.error();
  } else if (fs::exists(state_dir / daemon::ChangeUndo::kFileName, fault)) {
    return Error{ErrorCode::kUnavailable,
                 "an earlier move or a change of the configuration was interrupted (" +
                     (state_dir / daemon::ChangeUndo::kFileName).string() + ")",
                 "run this command without --dry-run, or start alignd: both restore the files "
                 "first"};
  }
  Result<moving::MovePlan> planned = plan();
  if (!planned.ok()) return planned.error();
  if (planned->problems.empty()) CompareWithContainers(options, node, *planned);
  moving::PrintPlan(*planned, out);
  if (Result<Done> lawful = RequireNoProblem(*planned, what); !lawful.ok()) return lawful.error();
  if (options.dry_run || planned->files.empty()) return kSuccess;
  const fs::path backup = moving::BackupDirectory(state_dir, what);
  const Result<Done> done = moving::CarryOut(node.alignd, *planned, backup);
  if (!done.ok()) return done.error();
  out << "done; copies of what was replaced are in " << backup.string() << '\n';
  return kSuccess;
}

Result<int> ImportState(const MoveOptions& options, std::ostream& out) {
  const Result<MovingNode> node = MovingNode::Find(options);
  if (!node.ok()) return node.error();
  const Result<int> moved = MoveState(
      options, *node, "import",
      [&] {
        return moving::PlanImport(node->alignd, {.from = node->kubelet_paths,
                                                 .devices = !options.no_devices,
                                                 .removes_source = options.removes_source});
      },
      out);
  if (!moved.ok() || options.removes_source) return moved;
  out << "A kubelet with cpuManagerPolicy none does not start with "
      << node->kubelet_paths.CpuFile().string() << ": remove it before (--move)\n";
  return moved;
}

Result<int> ExportState(const MoveOptions& options, std::ostream& out) {
  const Result<MovingNode> node = MovingNode::Find(options);
  if (!node.ok()) return node.error();
  moving::ExportRequest request{
      .to = node->kubelet_paths,
      .release = checkpoint::ParseKubeletRelease(options.release)
                     .value_or(checkpoint::ReleaseOf(node->alignd.node.config)),
      .kubelet = std::nullopt,
      .removes_source = options.removes_source};
  if (!options.kubelet_config.empty()) {
    Result<KubeletConfig> config = host::ReadConfigFile(options.kubelet_config);
    if (!config.ok()) return config.error();
    request.kubelet = *std::move(config);
  } else if (node->is_nodes_kubelet && node->kubelet.unit && !node->kubelet.distribution) {
    Result<KubeletConfig> config = kubelet::ConfigOf(node->kubelet);
    if (!config.ok()) return config.error();
    request.kubelet = *std::move(config);
  }
  return MoveState(
      options, *node, "export", [&] { return moving::PlanExport(node->alignd, request); }, out);
}

void AddCommon(CLI::App& command, MoveOptions& options) {
  command
      .add_option("--state-dir", options.state_dir,
                  "alignd's state directory; if not given, that of alignd.service")
      ->type_name("DIR");
  command
      .add_option("--device-plugin-dir", options.device_plugin_dir,
                  "Directory of alignd's kubelet_internal_checkpoint; if not given, that of "
                  "alignd.service, or device-plugins in the state directory")
      ->type_name("DIR");
  command
      .add_option("--config", options.config,
                  "alignd's KubeletConfiguration; if not given, that of alignd.service")
      ->type_name("FILE");
  command
      .add_option("--root", options.root,
                  "Root directory of the node, with its sys/, proc/ and the files of its services")
      ->type_name("DIR")
      ->capture_default_str();
  command
      .add_option("--node", options.node,
                  "Check it for this node (JSON, as `alignctl topology -o json` prints it) instead "
                  "of this machine")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  command
      .add_option("--cgroup-root", options.cgroup_root,
                  "Mount point of the cgroups; if not given, sys/fs/cgroup in --root")
      ->type_name("DIR");
  command.add_option("--unit", options.unit, "systemd unit of the kubelet")
      ->type_name("UNIT")
      ->capture_default_str();
  command.add_flag("--dry-run", options.dry_run,
                   "Only show what would be written; also while alignd and the kubelet run");
}

}  // namespace

void AddStateImport(CLI::App& state, Action& action) {
  const auto options = std::make_shared<MoveOptions>();
  CLI::App* const command = state.add_subcommand(
      "import",
      "Take over a kubelet's state files, so that running pods keep CPUs, memory and devices when "
      "alignd starts; what cannot be kept is refused. Neither program may run");
  command
      ->add_option("--from", options->kubelet_dir,
                   "The kubelet's directory; if not given, its --root-dir or /var/lib/kubelet")
      ->type_name("DIR");
  AddCommon(*command, *options);
  command->add_flag("--no-devices", options->no_devices,
                    "Leave kubelet_internal_checkpoint: the device plugins stay with the kubelet");
  command->add_flag("--move", options->removes_source,
                    "Remove the kubelet's cpu_manager_state and memory_manager_state");
  AddExamples(*command,
              {"alignctl state import --dry-run", "alignctl state import --no-devices --move"});
  command->callback([options, &action] {
    action = [options](std::ostream& out) { return ImportState(*options, out); };
  });
}

void AddStateExport(CLI::App& state, Action& action) {
  const auto options = std::make_shared<MoveOptions>();
  CLI::App* const command = state.add_subcommand(
      "export",
      "Write alignd's state files into a kubelet's directory, so that running pods keep CPUs, "
      "memory and devices when the kubelet manages them again; what cannot be kept is refused. "
      "Neither program may run");
  command
      ->add_option("--to", options->kubelet_dir,
                   "The kubelet's directory; if not given, its --root-dir or /var/lib/kubelet")
      ->type_name("DIR");
  command
      ->add_option("--compatibility", options->release,
                   "The kubelet release that is to read the files; if not given, that of alignd's "
                   "configuration")
      ->check(CLI::IsMember({"1.20", "1.24", "1.36", "1.36-pod-level", "1.37"}));
  command
      ->add_option("--kubelet-config", options->kubelet_config,
                   "The KubeletConfiguration that the kubelet will have; if not given, what its "
                   "unit says")
      ->type_name("FILE");
  AddCommon(*command, *options);
  command->add_flag("--move", options->removes_source,
                    "Remove alignd's own files, which are out of date from then on");
  AddExamples(*command, {"alignctl state export --dry-run",
                         "alignctl state export --compatibility 1.36 --move"});
  command->callback([options, &action] {
    action = [options](std::ostream& out) { return ExportState(*options, out); };
  });
}

}  // namespace alignd::cli
