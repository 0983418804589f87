#include "moving/handover_steps.h"

#include <sys/stat.h>

#include <set>
#include <utility>

#include "host/file.h"

namespace alignd::moving {
namespace {

using admission::NodeState;

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

// Errors: kIo; kNotFound: there is no cgroup of any pod, although the state has containers.
Result<ContainerCpusets> ReadContainers(const HandoverRun& run, const NodeState& state) {
  Result<ContainerCpusets> now = ContainerCpusets::Read(run.request.cgroup_root);
  if (!now.ok()) return now;
  if (now->pods.empty() && !(state.cpu.assignments.empty() && state.memory.assignments.empty())) {
    return Error{ErrorCode::kNotFound,
                 "the state has containers with exclusive CPUs or memory, and below " +
                     run.request.cgroup_root.string() +
                     " there is no cgroup of any pod: what they have cannot be checked",
                 "give the mount point of the cgroups (--cgroup-root); if no pod runs, remove the "
                 "state files of the stopped program instead of a handover"};
  }
  return now;
}

// Errors: kInvalidArgument: a container of `now` does not have what the state says.
Result<Done> RequirePlaced(const HandoverRun& run, const ContainerCpusets& now,
                           const NodeState& state) {
  const std::optional<cpumanager::StaticPolicy>& policy = run.alignd.node.cpu;
  const std::vector<std::string> misplaced =
      FindMisplaced(run.before, now, state, policy ? policy->reserved : CpuSet());
  if (misplaced.empty()) return Done{};
  Error error{ErrorCode::kInvalidArgument, "", "delete these pods, then repeat the handover"};
  for (const std::string& one : misplaced) {
    error.message += (error.message.empty() ? "" : "; ") + one;
  }
  return error;
}

// A state that was read before does not know containers that have come since, in new pods or in
// those that it has: what they have was decided later, by the program that runs then.
void DropContainersSince(const ContainerCpusets& before, ContainerCpusets& now) {
  std::erase_if(now.pods, [&](const auto& pod) { return !before.pods.contains(pod.first); });
  for (auto& [uid, containers] : now.pods) {
    const auto& known = before.pods.at(uid);
    std::erase_if(containers,
                  [&known](const auto& container) { return !known.contains(container.first); });
  }
}

// Another unit, or a person, may have started it.
Result<Done> RequireNoKubelet(const HandoverRun& run) {
  const Result<kubelet::Setup> now = FindSetup(run.both.files, run.request.unit);
  if (!now.ok()) return now.error();
  if (!now->process) return Done{};
  return Error{ErrorCode::kUnavailable,
               "a kubelet runs still (process " + std::to_string(now->process->pid) +
                   "), although " + run.request.unit + " is stopped",
               "give the unit that starts it (--unit), or stop that process"};
}

Result<Done> Move(HandoverRun& run, const char* what) {
  if (Result<Done> stopped = RequireNoKubelet(run); !stopped.ok()) return stopped;
  if (Result<Done> locked = TakeLock(run); !locked.ok()) return locked;
  const std::filesystem::path& state_dir = run.alignd.options.state_dir;
  const Result<bool> recovered = Recover(state_dir, run.alignd.config_text);
  if (!recovered.ok()) return recovered.error();
  // The kubelet or alignd may have written its files since the first plan.
  Result<MovePlan> plan = run.plan();
  if (!plan.ok()) return plan.error();
  if (Result<Done> lawful = RequireNoProblem(*plan, what); !lawful.ok()) return lawful;
  // No program starts containers now: the state has all pods.
  Result<ContainerCpusets> now = ReadContainers(run, plan->state);
  if (!now.ok()) return now.error();
  if (Result<Done> placed = RequirePlaced(run, *now, plan->state); !placed.ok()) return placed;
  run.before = *std::move(now);
  plan->files.insert(plan->files.end(), run.config.begin(), run.config.end());
  const Result<Done> done = CarryOut(run.alignd, *plan, BackupDirectory(state_dir, what));
  if (!done.ok()) return done;
  run.moved = *std::move(plan);
  run.lock.reset();
  return run.services.ReloadUnits();
}

// Pods that were created after the move: the former files lack what they have.
std::string CreatedSince(const MovePlan& moved) {
  std::set<std::string> pods;
  for (const FileChange& file : moved.files) {
    const Result<std::string> now = host::ReadFile(file.path);
    if (!now.ok()) continue;
    for (std::string& pod : PodsAdded(file.path, file.after.value_or(""), *now)) {
      pods.insert(std::move(pod));
    }
  }
  std::string created;
  for (const std::string& pod : pods) created += (created.empty() ? "" : ", ") + pod;
  return created;
}

Result<Done> MoveBack(HandoverRun& run) {
  if (Result<Done> locked = TakeLock(run); !locked.ok()) return locked;
  const std::filesystem::path& state_dir = run.alignd.options.state_dir;
  Result<Done> back = Done{};
  if (run.moved) {
    run.created = CreatedSince(*run.moved);
    back = SwitchBack(state_dir, run.alignd.config_text, run.moved->files);
  } else if (RequireNoMoves(state_dir).ok()) {
    const Result<bool> restored = Recover(state_dir, run.alignd.config_text);
    if (!restored.ok()) back = restored.error();
  }  // with moves, Move has refused before it touched a file, and alignd is to be started

  run.lock.reset();
  if (!back.ok()) return back;
  run.moved.reset();
  return run.services.ReloadUnits();
}

std::string RemarkAboutCreated(const HandoverRun& run) {
  if (run.created.empty()) return "";
  return "pods have got CPUs, memory or devices meanwhile that the restored files do not have: " +
         run.created + ": delete these pods";
}

}  // namespace

Result<RunPointer> StartRun(const HandoverRequest& request, Services& services, BothSetups both,
                            AligndSide alignd) {
  const auto run = std::make_shared<HandoverRun>(HandoverRun{.request = request,
                                                             .services = services,
                                                             .both = std::move(both),
                                                             .alignd = std::move(alignd)});
  for (const auto& [unit, runs] : {std::pair{request.unit, &run->kubelet_runs},
                                   {std::string(kAligndService), &run->alignd_runs},
                                   {std::string(kAligndSocket), &run->socket_is_active}}) {
    const Result<bool> stopped = services.IsStopped(unit);
    if (!stopped.ok()) return stopped.error();
    *runs = !*stopped;
  }
  Result<ContainerCpusets> before = ContainerCpusets::Read(request.cgroup_root);
  if (!before.ok()) return before.error();
  run->before = *std::move(before);
  return run;
}

Result<Done> PlanConfig(const std::vector<kubelet::Change>& changes,
                        const std::optional<kubelet::Record>& record, HandoverRun& run) {
  const auto add = [&run](const std::string& path, std::optional<std::string> after,
                          mode_t mode) -> Result<FileChange*> {
    Result<FileChange> change = ChangeTo(run.both.files.OnThisMachine(path), std::move(after));
    if (!change.ok()) return change.error();
    if (!change->before) change->owner.mode = mode;
    run.config.push_back(*std::move(change));
    return &run.config.back();
  };
  for (const kubelet::Change& change : changes) {
    const Result<FileChange*> added = add(change.path, change.after, 0644);
    if (!added.ok()) return added.error();
    (*added)->before = change.before;  // what was planned; the switch compares it with the file
  }
  std::optional<std::string> text;
  if (record) {
    Result<std::string> made = kubelet::RecordText(*record);
    if (!made.ok()) return made.error();
    text = *std::move(made);
  }
  const Result<FileChange*> added = add(kubelet::kRecordFile, std::move(text), 0600);
  return added.ok() ? Result<Done>(Done{}) : Result<Done>(added.error());
}

Result<PreparedHandover> PlanMove(HandoverRun& run, std::vector<kubelet::Change> changes) {
  Result<MovePlan> plan = run.plan();
  if (!plan.ok()) return plan.error();
  PreparedHandover handover;
  handover.changes = std::move(changes);
  handover.plan = *std::move(plan);
  if (!handover.plan.problems.empty()) return handover;
  Result<ContainerCpusets> now = ReadContainers(run, handover.plan.state);
  if (!now.ok()) {
    handover.plan.problems.push_back(now.error());
    return handover;
  }
  DropContainersSince(run.before, *now);
  if (const Result<Done> placed = RequirePlaced(run, *now, handover.plan.state); !placed.ok()) {
    handover.plan.problems.push_back(placed.error());
  }
  for (std::string& note : FindNarrowedByOthers(*now, handover.plan.state)) {
    handover.plan.notes.push_back(std::move(note));
  }
  return handover;
}

Result<PreparedHandover> PlanRest(const admission::Node& node, const allocation::StatePaths& paths,
                                  HandoverRun& run) {
  run.plan = [node, paths]() -> Result<MovePlan> {
    MovePlan plan;
    for (allocation::FileProblem& problem : LoadFiles(node, paths, plan)) {
      plan.problems.push_back(std::move(problem.error));
    }
    if (plan.problems.empty()) AddKept(node, plan.state, plan);
    return plan;
  };
  Result<PreparedHandover> handover = PlanMove(run, {});
  if (!handover.ok()) return handover;
  handover->plan.notes.push_back(
      "an earlier handover has moved the files, and was interrupted then: these are the remaining "
      "steps");
  run.moved = handover->plan;
  return handover;
}

Result<Done> CheckContainers(const HandoverRun& run, const NodeState& state) {
  Result<ContainerCpusets> now = ReadContainers(run, state);
  if (!now.ok()) return now.error();
  DropContainersSince(run.before, *now);
  return RequirePlaced(run, *now, state);
}

Step StopStep(const RunPointer& run, const std::string& unit, bool was_active) {
  Step step{.what = "stop " + unit, .run = [run, unit]() -> Result<Done> {
              if (Result<Done> stopped = run->services.Stop(unit); !stopped.ok()) return stopped;
              const Result<bool> is_stopped = run->services.IsStopped(unit);
              if (!is_stopped.ok()) return is_stopped.error();
              if (*is_stopped) return Done{};
              return Error{ErrorCode::kUnavailable, unit + " runs still, or again",
                           "find what starts it (journalctl -u " + unit + ")"};
            }};
  if (!was_active) return step;
  step.undo_what = "start " + unit;
  step.undo = [run, unit] { return run->services.Start(unit); };
  step.needs_files = true;
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
          .undo_what = "restore the state files and the kubelet's configuration",
          .undo = [run] { return MoveBack(*run); },
          .restores_files = true,
          .undo_remark = [run] { return RemarkAboutCreated(*run); }};
}

Step CheckStep(const RunPointer& run) {
  return {.what = "check that the running containers have what the state says",
          .run = [run] { return CheckContainers(*run, run->moved->state); }};
}

}  // namespace alignd::moving
