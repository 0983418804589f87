#include "cli/offline_plan.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "alignd/admission/transition.h"
#include "allocation/boot_record.h"
#include "allocation/checkpoint_store.h"
#include "control/change_report.h"
#include "daemon/change_undo.h"
#include "daemon/config_changes.h"
#include "daemon/options.h"
#include "host/durable_file.h"
#include "host/file.h"
#include "kubelet/agreement.h"
#include "kubelet/file_view.h"
#include "moving/handover.h"
#include "moving/move_plan.h"

namespace alignd::cli {
namespace {

namespace fs = std::filesystem;

Result<daemon::Options> DaemonOptionsFor(const OfflinePlanOptions& stated) {
  const kubelet::FileView files(stated.root);
  const Result<kubelet::AligndSetup> found = kubelet::FindAligndSetup(files);
  if (!found.ok()) return found.error().In("alignd's configuration");
  daemon::Options options;
  options.root = stated.root;
  options.node = stated.node;
  options.state_dir = stated.state_dir;
  options.device_plugin_dir = stated.device_plugin_dir;
  options.compatibility = moving::CompatibilityOf(*found);
  options.config = stated.current_config;
  if (stated.current_config.empty() && !found->config_file.empty()) {
    options.config = files.OnThisMachine(found->config_file);
  }
  return options;
}

// The files are those of a process that does not run and has ended in order.
Result<Done> RequireAtRest(const fs::path& state_dir) {
  std::error_code fault;
  if (!fs::is_directory(state_dir, fault)) {
    return Error{ErrorCode::kNotFound, state_dir.string() + " is not a directory that can be read",
                 "give alignd's state directory (--state-dir), or run it as root"};
  }
  if (fs::exists(state_dir / daemon::ChangeUndo::kFileName, fault)) {
    return Error{ErrorCode::kUnavailable,
                 "a change of the files was interrupted (" +
                     (state_dir / daemon::ChangeUndo::kFileName).string() +
                     "): which of them apply is decided when they are restored",
                 "start alignd, or repeat the handover, import or export; then plan again"};
  }
  if (!fs::exists(state_dir / "alignd.lock", fault)) return Done{};
  const Result<host::DirectoryLock> lock = host::LockDirectory(state_dir);
  if (lock.ok()) return Done{};
  if (lock.error().code != ErrorCode::kUnavailable) return lock.error();
  return Error{ErrorCode::kUnavailable, lock.error().message,
               "leave out --state-dir: `alignctl plan` then asks the alignd that runs"};
}

Result<Done> RequireFiles(const admission::Node& node, const allocation::StatePaths& paths) {
  std::vector<fs::path> needed;
  if (node.cpu) needed.push_back(paths.CpuFile());
  if (node.memory) needed.push_back(paths.MemoryFile());
  for (const fs::path& file : needed) {
    std::error_code fault;
    if (fs::exists(file, fault)) continue;
    return Error{ErrorCode::kNotFound,
                 file.string() +
                     " is missing: what running containers are assigned is only known from their "
                     "marks at the runtime",
                 "start alignd, which rebuilds the file, then run `alignctl plan` without "
                 "--state-dir"};
  }
  return Done{};
}

Result<admission::NodeState> LoadState(const admission::Node& node,
                                       const allocation::StatePaths& paths,
                                       std::vector<std::string>& notes) {
  moving::MovePlan read;
  const std::vector<allocation::FileProblem> problems = moving::LoadFiles(node, paths, read);
  notes = std::move(read.notes);
  if (problems.empty()) return std::move(read.state);
  Error error = problems.front().error;
  error.remedy =
      "give the configuration with which alignd ran (--current-config); if a file is "
      "damaged or of another machine, start alignd, which rebuilds it from the running "
      "containers, then run `alignctl plan` without --state-dir";
  return error;
}

// What a daemon knows and files do not.
std::vector<std::string> LimitsOf(const daemon::Options& options) {
  std::vector<std::string> limits = {
      "planned from the state files: pods that have ended since alignd stopped count as running, "
      "and what only marks of running containers say is not considered"};
  const Result<std::string> written = host::ReadFile(options.state_dir / allocation::kBootFileName);
  const Result<std::string> running = allocation::RunningBoot(options.root);
  if (written.ok() && running.ok() && !running->empty() && *written != *running) {
    limits.push_back("the files are from before the last boot: no container of theirs runs");
  }
  return limits;
}

}  // namespace

Result<control::v1::ChangeResponse> PlanFromFiles(const OfflinePlanOptions& stated,
                                                  const control::v1::ChangeRequest& request) {
  const Result<daemon::Options> options = DaemonOptionsFor(stated);
  if (!options.ok()) return options.error();
  if (Result<Done> rests = RequireAtRest(options->state_dir); !rests.ok()) return rests.error();
  const Result<moving::AligndSide> alignd = moving::AligndSide::Make(*options);
  if (!alignd.ok()) return alignd.error().In("the present configuration");
  const admission::Node& before = alignd->node;
  const allocation::StatePaths paths{options->state_dir, options->DevicePluginDir()};
  if (Result<Done> there = RequireFiles(before, paths); !there.ok()) return there.error();
  std::vector<std::string> notes;
  const Result<admission::NodeState> state = LoadState(before, paths, notes);
  if (!state.ok()) return state.error();
  const daemon::ConfigChanges changes(*options, [] {});
  const Result<admission::Node> after = changes.NodeFor(before.machine, request);
  if (!after.ok()) return after.error();
  const auto may_move =
      request.may_move() ? admission::MayMove::kIfNeeded : admission::MayMove::kNever;
  control::v1::ChangeResponse report = control::ReportTransition(
      before, *after, admission::PlanTransition(before, *after, *state, may_move), /*names=*/{});
  for (std::string& note : notes) *report.add_notes() = std::move(note);
  for (std::string& limit : LimitsOf(*options)) *report.add_notes() = std::move(limit);
  return report;
}

}  // namespace alignd::cli
