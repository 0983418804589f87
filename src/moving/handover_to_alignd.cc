#include <utility>

#include "kubelet/attachment.h"
#include "kubelet/policies.h"
#include "moving/handover.h"
#include "moving/handover_steps.h"
#include "moving/state_import.h"

namespace alignd::moving {
namespace {

Result<Done> RequireNotAttached(const BothSetups& both) {
  if (kubelet::IsSameEndpoint(both.kubelet.endpoint, both.alignd.listen)) {
    return Error{ErrorCode::kInvalidArgument,
                 "the kubelet is attached to alignd already (" + DescribeSource(both.kubelet) + ")",
                 "if its CPU and memory files were not moved, stop both, and use `alignctl state "
                 "import`"};
  }
  const Result<std::optional<kubelet::Record>> record = kubelet::ReadRecord(both.files);
  if (!record.ok()) return record.error();
  if (!*record) return Done{};
  return Error{
      ErrorCode::kInvalidArgument,
      "there is a record of an earlier `alignctl kubelet attach`, and the kubelet does not "
      "use alignd",
      "run `alignctl kubelet detach`, then repeat the handover"};
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

}  // namespace

Result<PreparedHandover> PrepareToAlignd(const HandoverRequest& request, Services& services) {
  Result<BothSetups> both = BothSetups::Find(request);
  if (!both.ok()) return both.error();
  if (Result<Done> free = RequireNotAttached(*both); !free.ok()) return free.error();
  const Result<KubeletConfig> config = kubelet::ConfigOf(both->kubelet);
  if (!config.ok()) return config.error();
  Result<std::vector<kubelet::Change>> changes =
      PlanAttach(both->files, both->kubelet, both->alignd.listen);
  if (!changes.ok()) return changes.error();
  changes = PlanWithoutManagers(both->files, both->kubelet, *std::move(changes));
  if (!changes.ok()) return changes.error();
  Result<AligndSide> alignd = AligndSide::Make(both->Options(request));
  if (!alignd.ok()) return alignd.error().In("alignd would not start");
  const Result<bool> kubelet_runs = services.IsActive(request.unit);
  if (!kubelet_runs.ok()) return kubelet_runs.error();
  const Result<bool> alignd_runs = services.IsActive(kAligndService);
  if (!alignd_runs.ok()) return alignd_runs.error();

  auto run = std::make_shared<HandoverRun>(HandoverRun{.request = request,
                                                       .services = services,
                                                       .both = *std::move(both),
                                                       .alignd = *std::move(alignd),
                                                       .plan = {},
                                                       .moved = {},
                                                       .lock = {},
                                                       .before = {},
                                                       .as_before = {}});
  run->plan = [state = run.get()] {
    return PlanImport(state->alignd, {.from = state->both.KubeletPaths(),
                                      .devices = state->request.devices,
                                      .removes_source = true});
  };
  PreparedHandover handover;
  Result<MovePlan> plan = run->plan();
  if (!plan.ok()) return plan.error();
  handover.plan = *std::move(plan);
  NotePoliciesTurnedOffBefore(*config, handover.plan);
  NoteOtherTopology(*config, run->alignd.node.config, handover.plan);
  if (Result<Done> added = AddDisagreements(run->both, *changes, handover.plan); !added.ok()) {
    return added.error();
  }
  Result<ContainerCpusets> before = ContainerCpusets::Read(request.cgroup_root);
  if (!before.ok()) return before.error();
  run->before = *std::move(before);
  if (const Result<Done> placed = CheckContainers(*run, handover.plan.state.cpu); !placed.ok()) {
    handover.plan.problems.push_back(placed.error());
  }
  if (Result<Done> known = RememberConfig(*changes, *run); !known.ok()) return known.error();
  handover.changes = *changes;

  handover.steps = {
      StopStep(run, request.unit, *kubelet_runs),
      StopStep(run, kAligndService, *alignd_runs),
      MoveStep(run, "import", "move the kubelet's state files to alignd"),
      ConfigStep(run, "attach the kubelet to alignd, with the policies none",
                 [run, record = kubelet::Record{.complete = true,
                                                .endpoint = run->both.alignd.listen,
                                                .runtime = run->both.kubelet.endpoint,
                                                .changes = *changes}] {
                   return kubelet::Attach(run->both.files, std::nullopt, record);
                 }),
      StartStep(run, kAligndService, *alignd_runs),
      CheckStep(run),
      StartStep(run, request.unit, *kubelet_runs),
      CheckStep(run),
  };
  if (!request.devices) {
    handover.by_hand.push_back(
        "The device plugins stay with the kubelet, which keeps what it has allocated. To move "
        "them, "
        "follow docs/moving.md, Devices.");
  }
  return handover;
}

}  // namespace alignd::moving
