#include <set>
#include <utility>

#include "alignd/checkpoint/device_checkpoint.h"
#include "host/file.h"
#include "kubelet/attachment.h"
#include "kubelet/policies.h"
#include "moving/handover.h"
#include "moving/handover_steps.h"
#include "moving/state_export.h"

namespace alignd::moving {
namespace {

Result<kubelet::Record> RequireRecord(const BothSetups& both) {
  Result<std::optional<kubelet::Record>> record = kubelet::ReadRecord(both.files);
  if (!record.ok()) return record.error();
  if (*record && (*record)->complete) return **std::move(record);
  if (*record) {
    return Error{ErrorCode::kInvalidArgument, "an earlier attach or detach was interrupted",
                 "run `alignctl kubelet attach` again, then repeat the handover"};
  }
  return Error{
      ErrorCode::kInvalidArgument,
      "the kubelet was not attached by alignctl, so that its former endpoint is not known",
      "follow docs/moving.md by hand: stop both, use `alignctl state export`, and give the "
      "kubelet the runtime's endpoint"};
}

// The kubelet as it will be.
Result<kubelet::Setup> DetachedSetup(const BothSetups& both,
                                     const std::vector<kubelet::Change>& undo) {
  kubelet::FileView after = both.files;
  for (const kubelet::Change& change : undo) after.Set(change.path, change.after.value_or(""));
  Result<kubelet::Setup> setup = FindSetup(after, both.kubelet.unit_name);
  if (!setup.ok() || !kubelet::IsSameEndpoint(setup->endpoint, both.alignd.listen)) return setup;
  return Error{ErrorCode::kInvalidArgument,
               "without the changes of attach, the kubelet would still use alignd (" +
                   DescribeSource(*setup) + ")",
               "set the runtime's endpoint there by hand, without restarting the kubelet"};
}

checkpoint::KubeletRelease ReleaseOf(const KubeletConfig& config) {
  switch (config.compatibility) {
    case Compatibility::k1_20:
      return checkpoint::KubeletRelease::k1_20;
    case Compatibility::k1_36:
      return checkpoint::KubeletRelease::k1_36;
    case Compatibility::k1_37:
      break;
  }
  return checkpoint::KubeletRelease::k1_37;
}

// Resources of plugins that registered with alignd.
std::set<std::string> MovedResources(const AligndSide& alignd) {
  std::set<std::string> resources;
  const allocation::StatePaths own{alignd.options.state_dir, alignd.options.DevicePluginDir()};
  const Result<std::string> text = host::ReadFile(own.DeviceFile());
  if (!text.ok()) return resources;
  const auto devices = checkpoint::ParseDeviceCheckpoint(*text);
  if (!devices.ok()) return resources;  // PlanExport has named it
  for (const auto& [resource, ids] : devices->registered) resources.insert(resource);
  return resources;
}

void AddByHand(const AligndSide& alignd, PreparedHandover& handover) {
  std::string names;
  for (const std::string& resource : MovedResources(alignd)) {
    names += (names.empty() ? "" : ", ") + resource;
  }
  if (!names.empty()) {
    handover.by_hand.push_back(
        "Move the DaemonSets of these device plugins back to the kubelet's "
        "directories: " +
        names + ". Until then, no new container gets these devices.");
  }
  handover.by_hand.push_back(
      "Disable alignd: systemctl disable alignd.service alignd.socket. See docs/installing.md, "
      "Remove.");
}

}  // namespace

Result<PreparedHandover> PrepareToKubelet(const HandoverRequest& request, Services& services) {
  Result<BothSetups> both = BothSetups::Find(request);
  if (!both.ok()) return both.error();
  const Result<kubelet::Record> record = RequireRecord(*both);
  if (!record.ok()) return record.error();
  Result<std::vector<kubelet::Change>> undo =
      PlanDetach(both->files, record->changes, record->endpoint);
  if (!undo.ok()) return undo.error();
  const Result<kubelet::Setup> detached = DetachedSetup(*both, *undo);
  if (!detached.ok()) return detached.error();
  const Result<KubeletConfig> config = kubelet::ConfigOf(*detached);
  if (!config.ok()) return config.error();
  Result<AligndSide> alignd = AligndSide::Make(both->Options(request));
  if (!alignd.ok()) return alignd.error().In("alignd's configuration");
  std::vector<bool> active;
  for (const std::string& unit :
       {request.unit, std::string(kAligndService), std::string(kAligndSocket)}) {
    const Result<bool> is_active = services.IsActive(unit);
    if (!is_active.ok()) return is_active.error();
    active.push_back(*is_active);
  }

  auto run = std::make_shared<HandoverRun>(HandoverRun{.request = request,
                                                       .services = services,
                                                       .both = *std::move(both),
                                                       .alignd = *std::move(alignd),
                                                       .plan = {},
                                                       .moved = {},
                                                       .lock = {},
                                                       .before = {},
                                                       .as_before = {}});
  const checkpoint::KubeletRelease release =
      request.release.value_or(ReleaseOf(run->alignd.node.config));
  run->plan = [state = run.get(), release, config = *config] {
    return PlanExport(state->alignd, {.to = state->both.KubeletPaths(),
                                      .release = release,
                                      .kubelet = config,
                                      .removes_source = true});
  };
  PreparedHandover handover;
  Result<MovePlan> plan = run->plan();
  if (!plan.ok()) return plan.error();
  handover.plan = *std::move(plan);
  Result<ContainerCpusets> before = ContainerCpusets::Read(request.cgroup_root);
  if (!before.ok()) return before.error();
  run->before = *std::move(before);
  if (const Result<Done> placed = CheckContainers(*run, handover.plan.state.cpu); !placed.ok()) {
    handover.plan.problems.push_back(placed.error());
  }
  if (Result<Done> known = RememberConfig(*undo, *run); !known.ok()) return known.error();
  handover.changes = *undo;
  handover.steps = {
      StopStep(run, request.unit, active[0]),
      StopStep(run, kAligndService, active[1]),
      StopStep(run, kAligndSocket, active[2]),
      MoveStep(run, "export", "move alignd's state files to the kubelet"),
      ConfigStep(run, "detach the kubelet from alignd, with its former policies",
                 [run, record = *record, undo = *undo] {
                   return kubelet::Detach(run->both.files, record, undo);
                 }),
      CheckStep(run),
      StartStep(run, request.unit, active[0]),
      CheckStep(run),
  };
  AddByHand(run->alignd, handover);
  return handover;
}

}  // namespace alignd::moving
