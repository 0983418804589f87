#include "moving/handover_steps.h"

#include <utility>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "host/file.h"

namespace alignd::moving {
namespace {

using RunPointer = std::shared_ptr<HandoverRun>;

Result<Done> TakeLock(HandoverRun& run) {
  if (run.lock) return Done{};
  if (Result<Done> made = host::MakeDirectory(run.alignd.options.state_dir); !made.ok()) {
    return made;
  }
  Result<host::DirectoryLock> lock = host::LockDirectory(run.alignd.options.state_dir);
  if (!lock.ok()) return lock.error();
  run.lock = *std::move(lock);
  return Done{};
}

Result<Done> Move(HandoverRun& run, const char* what) {
  if (Result<Done> locked = TakeLock(run); !locked.ok()) return locked;
  const std::filesystem::path& state_dir = run.alignd.options.state_dir;
  const Result<bool> recovered = Recover(state_dir, run.alignd.config_text);
  if (!recovered.ok()) return recovered.error();
  // The kubelet or alignd may have written its files since the first plan.
  Result<MovePlan> plan = run.plan();
  if (!plan.ok()) return plan.error();
  if (Result<Done> lawful = RequireNoProblem(*plan, what); !lawful.ok()) return lawful;
  const Result<Done> done = CarryOut(run.alignd, *plan, BackupDirectory(state_dir, what));
  if (!done.ok()) return done;
  run.moved = *std::move(plan);
  run.lock.reset();
  return Done{};
}

// Containers that were created after the move with exclusive CPUs: the former files lack them.
std::string CreatedSince(const HandoverRun& run) {
  std::string created;
  const allocation::StatePaths own{run.alignd.options.state_dir,
                                   run.alignd.options.DevicePluginDir()};
  for (const auto& file : {own.CpuFile(), run.both.KubeletPaths().CpuFile()}) {
    const Result<std::string> text = host::ReadFile(file);
    if (!text.ok()) continue;
    const auto now = checkpoint::ParseCpuCheckpoint(*text);
    if (!now.ok()) continue;
    for (const auto& [uid, containers] : now->state.assignments) {
      if (run.moved->state.cpu.assignments.contains(uid)) continue;
      created += (created.empty() ? "" : ", ") + uid;
    }
  }
  return created;
}

Result<Done> MoveBack(HandoverRun& run) {
  if (!run.moved) {
    run.lock.reset();
    return Done{};
  }
  if (Result<Done> locked = TakeLock(run); !locked.ok()) return locked;
  const std::string created = CreatedSince(run);
  const Result<Done> back =
      SwitchBack(run.alignd.options.state_dir, run.alignd.config_text, run.moved->files);
  run.lock.reset();
  if (!back.ok()) return back;
  run.moved.reset();
  if (created.empty()) return Done{};
  return Error{ErrorCode::kInvalidArgument,
               "the files are restored, but pods have got exclusive CPUs meanwhile that the files "
               "do not have: " +
                   created,
               "delete these pods"};
}

}  // namespace

Result<Done> CheckContainers(const HandoverRun& run, const cpumanager::CpuState& state) {
  const Result<ContainerCpusets> now = ContainerCpusets::Read(run.request.cgroup_root);
  if (!now.ok()) return now.error();
  const std::vector<std::string> misplaced = FindMisplaced(run.before, *now, state);
  if (misplaced.empty()) return Done{};
  Error error{ErrorCode::kInvalidArgument, "", "delete these pods, then repeat the handover"};
  for (const std::string& one : misplaced) {
    error.message += (error.message.empty() ? "" : "; ") + one;
  }
  return error;
}

Result<Done> RememberConfig(const std::vector<kubelet::Change>& changes, HandoverRun& run) {
  std::vector<std::string> paths = {std::string(kubelet::kRecordDirectory) + "/attachment.json"};
  for (const kubelet::Change& change : changes) paths.push_back(change.path);
  for (const std::string& path : paths) {
    Result<FileChange> now = ChangeTo(run.both.files.OnThisMachine(path), std::nullopt);
    if (!now.ok()) return now.error();
    now->after = now->before;
    run.as_before.push_back(*std::move(now));
  }
  return Done{};
}

Step StopStep(const RunPointer& run, const std::string& unit, bool was_active) {
  Step step{.what = "stop " + unit, .run = [run, unit] { return run->services.Stop(unit); }};
  if (!was_active) return step;
  step.undo_what = "start " + unit;
  step.undo = [run, unit] { return run->services.Start(unit); };
  return step;
}

Step StartStep(const RunPointer& run, const std::string& unit, bool was_active) {
  return {
      .what = "start " + unit,
      .run = [run, unit]() -> Result<Done> {
        if (Result<Done> started = run->services.Start(unit); !started.ok()) return started;
        const Result<bool> active = run->services.IsActive(unit);
        if (!active.ok()) return active.error();
        if (*active) return Done{};
        return Error{ErrorCode::kUnavailable, unit + " has ended again",
                     "see in the journal why (journalctl -u " + unit + ")"};
      },
      // What was active before is started again when its stop is undone.
      .undo_what = was_active ? "stop " + unit + " until its files are restored" : "stop " + unit,
      .undo = [run, unit] { return run->services.Stop(unit); }};
}

Step MoveStep(const RunPointer& run, const char* what, std::string text) {
  return {.what = std::move(text),
          .run = [run, what] { return Move(*run, what); },
          .undo_what = "restore the state files",
          .undo = [run] { return MoveBack(*run); }};
}

Step ConfigStep(const RunPointer& run, std::string text, std::function<Result<Done>()> change) {
  return {.what = std::move(text),
          .run = [run, change = std::move(change)]() -> Result<Done> {
            if (Result<Done> changed = change(); !changed.ok()) return changed;
            return run->services.ReloadUnits();
          },
          .undo_what = "restore the kubelet's configuration",
          .undo = [run]() -> Result<Done> {
            if (Result<Done> locked = TakeLock(*run); !locked.ok()) return locked;
            const Result<Done> back =
                SwitchBack(run->alignd.options.state_dir, run->alignd.config_text, run->as_before);
            run->lock.reset();
            return back.ok() ? run->services.ReloadUnits() : back;
          }};
}

Step CheckStep(const RunPointer& run) {
  return {.what = "check that the running containers have what the state says",
          .run = [run] { return CheckContainers(*run, run->moved->state.cpu); }};
}

}  // namespace alignd::moving
