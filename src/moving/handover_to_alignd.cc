#include <utility>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "host/file.h"
#include "kubelet/attachment.h"
#include "kubelet/policies.h"
#include "moving/handover.h"
#include "moving/handover_steps.h"
#include "moving/state_import.h"

namespace alignd::moving {
namespace {

Result<Done> RequireNoRecord(const BothSetups& both) {
  const Result<std::optional<kubelet::Record>> record = kubelet::ReadRecord(both.files);
  if (!record.ok()) return record.error();
  if (!*record) return Done{};
  return Error{
      ErrorCode::kInvalidArgument,
      "there is a record of an earlier `alignctl kubelet attach`, and the kubelet does not "
      "use alignd",
      "run `alignctl kubelet detach`, then repeat the handover"};
}

// With a mirror, alignd reads the kubelet's allocations itself when a plugin moves.
Result<Done> RequireNoMirror(const BothSetups& both) {
  if (both.alignd.mirror.empty()) return Done{};
  return Error{ErrorCode::kInvalidArgument,
               "alignd has a mirror (" + both.alignd.mirror +
                   "), with which --devices would assign devices twice",
               "hand over without --devices, then move the plugins: see docs/moving.md, Devices"};
}

// What disagrees between alignd and the kubelet as it will be.
Result<Done> AddDisagreements(const BothSetups& both, const std::vector<kubelet::Change>& changes,
                              MovePlan& plan) {
  kubelet::FileView after = both.files;
  for (const kubelet::Change& change : changes) after.Set(change.path, change.after.value_or(""));
  after.Set("/var/lib/kubelet/cpu_manager_state", "");  // it is moved
  const Result<kubelet::Setup> setup = FindSetup(after, both.kubelet.unit_name);
  if (!setup.ok()) return setup.error();
  for (kubelet::Disagreement& one : Compare(after, *setup, both.alignd, both.kubelet.endpoint)) {
    if (one.dangerous) {
      plan.problems.push_back({ErrorCode::kInvalidArgument, std::move(one.what), one.remedy});
    } else {
      plan.notes.push_back(one.what + ": " + one.remedy);
    }
  }
  return Done{};
}

// The kubelet's alignment is not saved anywhere: pods that wait can be decided otherwise.
void NoteOtherTopology(const KubeletConfig& kubelet, const KubeletConfig& alignd, MovePlan& plan) {
  if (kubelet.topology_manager_policy == alignd.topology_manager_policy &&
      kubelet.topology_manager_scope == alignd.topology_manager_scope) {
    return;
  }
  plan.notes.push_back("the kubelet has topologyManagerPolicy " +
                       std::string(ToString(kubelet.topology_manager_policy)) + " and scope " +
                       std::string(ToString(kubelet.topology_manager_scope)) + ", alignd has " +
                       std::string(ToString(alignd.topology_manager_policy)) + " and " +
                       std::string(ToString(alignd.topology_manager_scope)) +
                       ": new pods are aligned as alignd's configuration says");
}

// The undo of a handover would start a kubelet that refuses its own file.
void NotePoliciesTurnedOffBefore(const KubeletConfig& kubelet, MovePlan& plan) {
  if (kubelet.cpu_manager_policy != CpuManagerPolicy::kNone || plan.state.cpu.assignments.empty()) {
    return;
  }
  plan.notes.push_back(
      "the kubelet's configuration has cpuManagerPolicy: none already, and its state file is of "
      "the "
      "static policy: if the handover fails, set it to static again before the kubelet can start");
}

// A kubelet with the policies none does not start with this file.
bool HasStaticFile(const BothSetups& both) {
  const Result<std::string> text = host::ReadFile(both.KubeletPaths().CpuFile());
  if (!text.ok()) return false;
  const auto read = checkpoint::ParseCpuCheckpoint(*text);
  return read.ok() && read->policy_name == ToString(CpuManagerPolicy::kStatic);
}

// The kubelet is attached already: what an interrupted handover has left to do.
Result<PreparedHandover> PrepareRestToAlignd(const HandoverRequest& request, Services& services,
                                             BothSetups both, const KubeletConfig& config) {
  const bool manages = config.cpu_manager_policy != CpuManagerPolicy::kNone ||
                       config.memory_manager_policy != MemoryManagerPolicy::kNone ||
                       HasStaticFile(both);
  const std::string source = DescribeSource(both.kubelet);
  Result<AligndSide> alignd = AligndSide::Make(both.Options(request));
  if (!alignd.ok()) return alignd.error().In("alignd would not start");
  const allocation::StatePaths own{alignd->options.state_dir, alignd->options.DevicePluginDir()};
  Result<RunPointer> started = StartRun(request, services, std::move(both), *std::move(alignd));
  if (!started.ok()) return started.error();
  const RunPointer& run = *started;
  if (manages || (run->kubelet_runs && run->alignd_runs)) {
    return Error{ErrorCode::kInvalidArgument,
                 "the kubelet is attached to alignd already (" + source + ")",
                 manages ? "stop both, use `alignctl state import --no-devices --move`, set the "
                           "kubelet's policies to none, and start both"
                         : "there is nothing to hand over"};
  }
  Result<PreparedHandover> handover = PlanRest(run->alignd.node, own, *run);
  if (!handover.ok()) return handover;
  handover->steps = {StartStep(run, kAligndService, run->alignd_runs), CheckStep(run),
                     StartStep(run, request.unit, run->kubelet_runs), CheckStep(run)};
  return handover;
}

}  // namespace

Result<PreparedHandover> PrepareToAlignd(const HandoverRequest& request, Services& services) {
  Result<BothSetups> both = BothSetups::Find(request);
  if (!both.ok()) return both.error();
  const Result<KubeletConfig> config = kubelet::ConfigOf(both->kubelet);
  if (!config.ok()) return config.error();
  if (kubelet::IsSameEndpoint(both->kubelet.endpoint, both->alignd.listen)) {
    return PrepareRestToAlignd(request, services, *std::move(both), *config);
  }
  if (Result<Done> free = RequireNoRecord(*both); !free.ok()) return free.error();
  if (request.devices) {
    if (Result<Done> none = RequireNoMirror(*both); !none.ok()) return none.error();
  }
  Result<std::vector<kubelet::Change>> changes =
      PlanAttach(both->files, both->kubelet, both->alignd.listen);
  if (!changes.ok()) return changes.error();
  changes = PlanWithoutManagers(both->files, both->kubelet, *std::move(changes));
  if (!changes.ok()) return changes.error();
  Result<AligndSide> alignd = AligndSide::Make(both->Options(request));
  if (!alignd.ok()) return alignd.error().In("alignd would not start");
  Result<RunPointer> started = StartRun(request, services, *std::move(both), *std::move(alignd));
  if (!started.ok()) return started.error();
  const RunPointer& run = *started;
  // A pointer, as the run has the function.
  run->plan = [state = run.get()] {
    return PlanImport(state->alignd, {.from = state->both.KubeletPaths(),
                                      .devices = state->request.devices,
                                      .removes_source = true});
  };
  Result<PreparedHandover> handover = PlanMove(*run, *changes);
  if (!handover.ok()) return handover;
  NotePoliciesTurnedOffBefore(*config, handover->plan);
  NoteOtherTopology(*config, run->alignd.node.config, handover->plan);
  if (Result<Done> added = AddDisagreements(run->both, *changes, handover->plan); !added.ok()) {
    return added.error();
  }
  const kubelet::Record record{.complete = true,
                               .endpoint = run->both.alignd.listen,
                               .runtime = run->both.kubelet.endpoint,
                               .changes = *changes};
  if (Result<Done> planned = PlanConfig(*changes, record, *run); !planned.ok()) {
    return planned.error();
  }
  handover->steps = {
      StopStep(run, request.unit, run->kubelet_runs),
      StopStep(run, kAligndService, run->alignd_runs),
      MoveStep(run, "import",
               "move the kubelet's state files to alignd, and attach the kubelet to it, with the "
               "policies none"),
      StartStep(run, kAligndService, run->alignd_runs),
      CheckStep(run),
      StartStep(run, request.unit, run->kubelet_runs),
      CheckStep(run),
  };
  if (!request.devices) {
    handover->by_hand.push_back(
        "The device plugins stay with the kubelet, which keeps what it has allocated. To move "
        "them, "
        "follow docs/moving.md, Devices.");
  }
  return handover;
}

}  // namespace alignd::moving
