#include "daemon/reload.h"

#include <spdlog/spdlog.h>
#include <time.h>

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "alignd/admission/cpu_moves.h"
#include "alignd/admission/transition.h"
#include "allocation/checkpoint_store.h"
#include "control/change_report.h"
#include "daemon/change_undo.h"
#include "daemon/container_moves.h"
#include "daemon/managed_node.h"
#include "daemon/moves_file.h"
#include "daemon/sd_notify.h"
#include "host/config_file.h"
#include "host/durable_file.h"
#include "host/file.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;
using admission::Node;
using admission::NodeState;
using admission::Transition;

constexpr char kConfigBefore[] = "the configuration before the change";

using Moves = std::vector<admission::CpuMove>;

// The plan without moves: they come before the change.
Transition PlanFor(const Node& before, const Node& after, const NodeState& state) {
  return admission::PlanTransition(before, after, state, admission::MayMove::kNever);
}

Result<Done> RequireAdmitted(const Node& before, const Node& after, const Transition& transition,
                             const control::PodNames& names) {
  if (!transition.IsAdmitted()) {
    return Error{
        ErrorCode::kInvalidArgument,
        "the change of the configuration is refused, and nothing has changed: " +
            control::WhyRefused(control::ReportTransition(before, after, transition, names)),
        control::kSeePlan};
  }
  return Done{};
}

allocation::StatePaths PathsOf(const Options& options) {
  return {options.state_dir, options.DevicePluginDir()};
}

// The file of --config gets the text of the request, if it has one.
Result<Done> WriteConfig(const Options& options, const WantedChange& change) {
  if (change.request.config().empty()) return Done{};
  return ReplaceKeepingOwner(options.config, change.request.config());
}

// `moves`: they have been made, and the files have both sides of them.
Result<Done> WriteFiles(const Options& options, const Node& before, const Node& after,
                        const WantedChange& change, const Moves& moves) {
  allocation::CheckpointStore store(PathsOf(options));
  Result<NodeState> state = store.Load(before);
  if (!state.ok()) return state.error();
  state = admission::AfterStep(admission::MoveStep::kEnd, before, *state, moves);
  if (!state.ok()) return state.error();
  // Decided again: pods may have come since the first plan.
  const Transition transition = PlanFor(before, after, *state);
  if (Result<Done> lawful = RequireAdmitted(before, after, transition, {}); !lawful.ok()) {
    return lawful;
  }
  if (Result<Done> saved = store.Save(after, transition.next); !saved.ok()) return saved;
  if (Result<Done> kept = WriteConfig(options, change); !kept.ok()) return kept;
  const Result<NodeState> read = allocation::CheckpointStore(PathsOf(options)).Load(after);
  if (!read.ok()) return read.error();
  if (!(read->cpu == transition.next.cpu) || !(read->memory == transition.next.memory) ||
      read->devices.allocations != transition.next.devices.allocations) {
    return Error{ErrorCode::kInternal, "the state files are read back as something else",
                 "report this as a bug of alignd"};
  }
  return Done{};
}

std::vector<fs::path> FilesOf(const Options& options, const WantedChange& change) {
  const allocation::StatePaths paths = PathsOf(options);
  std::vector<fs::path> files = {paths.CpuFile(), paths.MemoryFile(), paths.OriginalsFile(),
                                 paths.SharesFile()};
  if (!change.request.config().empty()) files.push_back(options.config);
  return files;
}

// The files are as before. If containers have to move back, the record stays, without files, until
// they have: a start in between needs the configuration of before.
Result<Done> UndoFiles(const ChangeUndo& undo, const Moves& moves) {
  return moves.empty() ? undo.Undo() : undo.UndoFiles();
}

// Writes all files of the change, or none. `begun`: the record without files, which is replaced and
// then removed, or written again for moves. nullopt: the files are in an uncertain state, and a
// record of the undo is there.
std::optional<Result<ChangeUndo>> SwitchFiles(const Options& options, const Node& before,
                                              const Node& after, const WantedChange& change,
                                              const Moves& moves, const ChangeUndo& begun) {
  Result<ChangeUndo> undo =
      ChangeUndo::Begin(options.state_dir, FilesOf(options, change), change.applied);
  if (!undo.ok()) {
    // No file has changed. Whichever record is there, one with files must not outlive this.
    const Result<Done> ended = moves.empty() ? begun.Commit() : begun.Keep();
    if (ended.ok()) return undo;
    spdlog::error("{}; the record of the change could not be removed: {}", undo.error().Text(),
                  ended.error().Text());
    return std::nullopt;
  }
  Result<Done> written = WriteFiles(options, before, after, change, moves);
  if (written.ok()) written = undo->Commit();
  if (written.ok()) return undo;
  const Result<Done> undone = UndoFiles(*undo, moves);
  if (undone.ok()) return Result<ChangeUndo>(written.error());
  spdlog::error("{}; the files could not be restored: {}", written.error().Text(),
                undone.error().Text());
  return std::nullopt;
}

// The former file is kept as `.previous`. It also shows that a file with this owner can be written
// in the directory.
Result<Done> KeepPrevious(const Options& options, const WantedChange& change) {
  if (change.request.config().empty()) return Done{};
  const Result<std::string> text = host::ReadFile(options.config);
  if (!text.ok()) return text.error();
  Result<Done> kept =
      ReplaceWithOwnerOf(options.config, options.config.string() + ".previous", *text);
  if (kept.ok()) return kept;
  if (kept.error().code == ErrorCode::kInvalidArgument) {
    return kept.error().In("cannot replace " + options.config.string());
  }
  return Error{kept.error().code, kept.error().message,
               "make the directory writable for alignd; or write the file yourself, and run "
               "`alignctl apply` without --config"};
}

// Type=notify-reload waits for this; other units ignore it. Source: sd_notify(3).
void NotifyReloading() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  NotifySystemd("RELOADING=1\nMONOTONIC_USEC=" +
                std::to_string(now.tv_sec * 1'000'000 + now.tv_nsec / 1'000));
}

// The node with the configuration from before a change.
Result<Node> NodeBefore(const Options& options, const std::string& config, const Node& node) {
  const Result<host::ConfigFile> file = host::ParseConfigText(config, kConfigBefore);
  if (!file.ok()) return file.error();
  return MakeNode(options, node.machine, file->config, kConfigBefore);
}

// The daemon, or why it cannot start.
Result<Done> StartNext(std::unique_ptr<Daemon>& daemon, const Options& options,
                       ConfigChanges& changes, Handover handover) {
  Result<std::unique_ptr<Daemon>> next = Daemon::Start(options, &changes, std::move(handover));
  if (!next.ok()) return next.error();
  daemon = *std::move(next);
  return Done{};
}

admission::MayMove MayMoveIn(const WantedChange& change) {
  return change.request.may_move() ? admission::MayMove::kIfNeeded : admission::MayMove::kNever;
}

Result<Done> NoteMoves(const Options& options, const Moves& moves) {
  return moves.empty() ? Done{} : MovesFile(options.state_dir).Write(moves);
}

// Makes the moves, if there are some. After an error, the record of the change is gone, unless
// that of the moves had to stay.
Result<Done> MoveFirst(Daemon& daemon, const Options& options, const Moves& moves,
                       const ChangeUndo& begun) {
  if (moves.empty()) return Done{};
  Result<Done> moved = MoveContainers(daemon, options, moves);
  if (moved.ok()) return moved;
  const Result<Moves> left = MovesFile(options.state_dir).Read();
  if (left.ok() && left->empty()) {
    if (const Result<Done> removed = begun.Commit(); !removed.ok()) {
      spdlog::error("the record of the change could not be removed: {}", removed.error().Text());
    }
  }
  return moved;
}

// After the files of the change have been written, or restored. Gives the result of the change.
Result<Done> EndMoves(Daemon& daemon, const Options& options, const Moves& moves,
                      const Result<Done>& result) {
  if (result.ok()) {
    // They have ended in the new files.
    const Result<Done> removed = MovesFile(options.state_dir).Remove();
    if (!removed.ok()) spdlog::error("the record of moves is left: {}", removed.error().Text());
    return result;
  }
  const Result<Done> back = FinishMovesOnceListed(daemon, options, moves);
  if (back.ok()) return result;
  Error error = result.error();
  error.message += "; " + back.error().message;
  error.remedy = back.error().remedy;
  return error;
}

}  // namespace

Result<Done> ChangeConfig(std::unique_ptr<Daemon>& daemon, const Options& options,
                          ConfigChanges& changes, const WantedChange& change) {
  if (!daemon->HasAdopted()) return control::NotAdoptedYet();
  if (Result<Done> finished = FinishMoves(*daemon, options); !finished.ok()) return finished;
  const Node before = daemon->node();
  Result<Node> after = changes.NodeFor(before.machine, change);
  if (!after.ok()) return after.error();
  if (after->config == before.config) {
    spdlog::info("no setting changes");
    const Result<Done> kept = KeepPrevious(options, change);
    return kept.ok() ? WriteConfig(options, change) : kept;
  }
  const Transition plan =
      admission::PlanTransition(before, *after, daemon->State(), MayMoveIn(change));
  const Result<Done> lawful = RequireAdmitted(before, *after, plan, daemon->PodNames());
  if (!lawful.ok()) return lawful;
  const Moves moves = admission::MovesIn(plan);
  if (Result<Done> kept = KeepPrevious(options, change); !kept.ok()) return kept;
  // Before the record of the change, which says nothing of moves.
  if (Result<Done> noted = NoteMoves(options, moves); !noted.ok()) return noted;
  // From here on, a start after a crash repeats the change. The state files are recorded later:
  // until the daemon has stopped, they change.
  const Result<ChangeUndo> begun = ChangeUndo::Begin(options.state_dir, {}, change.applied);
  if (!begun.ok()) return begun.error();
  if (Result<Done> moved = MoveFirst(*daemon, options, moves, *begun); !moved.ok()) return moved;

  NotifyReloading();
  Handover handover = daemon->Leave();
  daemon.reset();
  handover.node = before;
  Handover spare = handover.Spare();
  const std::optional<Result<ChangeUndo>> undo =
      SwitchFiles(options, before, *after, change, moves, *begun);
  if (!undo) {
    return Error{ErrorCode::kIo, "files of a refused change could not be restored",
                 "see the log, and start alignd again: it then restores them"};
  }
  Result<Done> result = Done{};
  if (!undo->ok()) {
    result = undo->error();
  } else {
    handover.node = *std::move(after);
  }
  const Result<Done> started = StartNext(daemon, options, changes, std::move(handover));
  if (started.ok()) return EndMoves(*daemon, options, moves, result);
  if (!result.ok()) return started;
  // No call has been served with the new configuration: nothing has been decided with it.
  spdlog::error("cannot start with the new configuration: {}", started.error().Text());
  if (Result<Done> undone = UndoFiles(**undo, moves); !undone.ok()) return undone;
  if (Result<Done> again = StartNext(daemon, options, changes, std::move(spare)); !again.ok()) {
    return again;
  }
  return EndMoves(*daemon, options, moves, started);
}

bool HasUnfinishedChange(const Options& options) {
  std::error_code code;
  return fs::exists(options.state_dir / ChangeUndo::kFileName, code);
}

Result<std::optional<std::string>> RestoreUnfinishedChange(const Options& options) {
  const Result<std::optional<ChangeUndo>> found = ChangeUndo::Find(options.state_dir);
  if (!found.ok()) return found.error();
  if (!*found) return std::optional<std::string>();
  spdlog::warn(
      "alignd ended in the middle of a change of its configuration; the files from before it are "
      "restored");
  if (Result<Done> restored = (*found)->Restore(); !restored.ok()) {
    Error error = restored.error();
    // The unit of alignd may not write the kubelet's files.
    error.remedy += (error.remedy.empty() ? "" : "; ") +
                    std::string(
                        "if a handover, import or export was interrupted, repeat it: it "
                        "restores the files first");
    return error;
  }
  return std::optional<std::string>((*found)->config());
}

Result<bool> GoBackToMoves(const Options& options, const std::string& config, Node& node) {
  const Result<Moves> moves = MovesFile(options.state_dir).Read();
  if (!moves.ok()) return moves.error();
  if (moves->empty()) return false;
  Result<Node> before = NodeBefore(options, config, node);
  if (!before.ok()) return before.error();
  // The record has no files from here on: they change while alignd runs.
  if (const Result<ChangeUndo> kept = ChangeUndo::Begin(options.state_dir, {}, config);
      !kept.ok()) {
    return kept.error();
  }
  spdlog::warn(
      "alignd ended while it moved containers for a new configuration: it starts with the one from "
      "before, moves them back, and then repeats the change if the file asks for it");
  node = *std::move(before);
  return true;
}

Result<Done> RepeatChange(const Options& options, const std::string& config, const Node& node) {
  const fs::path record = options.state_dir / ChangeUndo::kFileName;
  const Result<Node> before = NodeBefore(options, config, node);
  if (!before.ok()) {
    return Error{before.error().code, before.error().Text(),
                 "this configuration does not fit the node any more: drain the node, then remove " +
                     record.string() + " and the state files"};
  }
  if (before->config == node.config) return host::RemoveFile(record);
  // The former record is replaced in one step: at each moment, one of them is there.
  const WantedChange change{.request = {}, .number = 0, .applied = config};
  const Result<ChangeUndo> undo =
      ChangeUndo::Begin(options.state_dir, FilesOf(options, change), config);
  if (!undo.ok()) return undo.error();
  const Result<Done> written = WriteFiles(options, *before, node, change, /*moves=*/{});
  if (written.ok()) return undo->Commit();
  if (Result<Done> restored = undo->Restore(); !restored.ok()) {
    spdlog::error("the state files could not be restored; the next start does that: {}",
                  restored.error().Text());
  }
  if (written.error().code != ErrorCode::kInvalidArgument) return written;
  return Error{written.error().code,
               "alignd has ended in the middle of a change of its configuration, which cannot be "
               "repeated: " +
                   written.error().message,
               "write the former configuration back to " + options.config.string() +
                   " (its text is at the beginning of " + record.string() +
                   "); then alignd starts, and `alignctl plan` shows what is in the way"};
}

}  // namespace alignd::daemon
