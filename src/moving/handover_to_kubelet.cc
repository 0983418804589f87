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

constexpr char kDisable[] =
    "Disable alignd: systemctl disable alignd.service alignd.socket. See docs/installing.md, "
    "Remove.";

Result<kubelet::Record> RequireRecord(const BothSetups& both) {
  Result<std::optional<kubelet::Record>> record = kubelet::ReadRecord(both.files);
  if (!record.ok()) return record.error();
  if (*record && (*record)->complete) return **std::move(record);
  if (*record) {
    return Error{ErrorCode::kInvalidArgument, "an earlier attach or detach was interrupted",
                 "run `alignctl kubelet attach` again, then repeat the handover"};
  }
  if (!kubelet::IsSameEndpoint(both.kubelet.endpoint, both.alignd.listen)) {
    return Error{ErrorCode::kInvalidArgument,
                 "the kubelet does not use alignd (" + DescribeSource(both.kubelet) +
                     "), and was not attached by alignctl",
                 "there is nothing to hand over"};
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
  handover.by_hand.emplace_back(kDisable);
}

// alignd's containers are those of its runtime.
Result<Done> RequireSameRuntime(const BothSetups& both, const std::string& endpoint) {
  if (kubelet::IsSameEndpoint(endpoint, both.alignd.runtime_endpoint)) return Done{};
  return Error{ErrorCode::kInvalidArgument,
               "the kubelet would use the runtime at " + endpoint + ", alignd uses the one at " +
                   both.alignd.runtime_endpoint + ": the kubelet would lose its containers",
               "correct the endpoint that the kubelet had before, in " +
                   std::string(kubelet::kRecordFile) + " or in the kubelet's configuration"};
}

// The kubelet is detached already: what an interrupted handover has left to do. nullopt: it is not,
// or it runs.
Result<std::optional<PreparedHandover>> PrepareRestToKubelet(const HandoverRequest& request,
                                                             Services& services,
                                                             const BothSetups& both) {
  const Result<std::optional<kubelet::Record>> record = kubelet::ReadRecord(both.files);
  if (!record.ok()) return record.error();
  const bool is_attached = kubelet::IsSameEndpoint(both.kubelet.endpoint, both.alignd.listen);
  const allocation::StatePaths paths = both.KubeletPaths();
  std::error_code fault;
  const bool has_state = std::filesystem::exists(paths.CpuFile(), fault);
  if (*record || is_attached || !has_state) return std::optional<PreparedHandover>();
  const Result<KubeletConfig> config = kubelet::ConfigOf(both.kubelet);
  if (!config.ok()) return config.error();
  Result<AligndSide> alignd = AligndSide::Make(both.Options(request));
  if (!alignd.ok()) return alignd.error().In("alignd's configuration");
  Result<admission::Node> node = admission::Node::Make(alignd->node.machine, *config);
  if (!node.ok()) return node.error().In("the kubelet would not start with its configuration");
  Result<RunPointer> started = StartRun(request, services, both, *std::move(alignd));
  if (!started.ok()) return started.error();
  const RunPointer& run = *started;
  if (run->kubelet_runs) return std::optional<PreparedHandover>();
  Result<PreparedHandover> handover = PlanRest(*node, paths, *run);
  if (!handover.ok()) return handover.error();
  handover->steps = {StopStep(run, kAligndService, run->alignd_runs),
                     StopStep(run, kAligndSocket, run->socket_is_active), CheckStep(run),
                     StartStep(run, request.unit, false), CheckStep(run)};
  handover->by_hand.emplace_back(kDisable);
  return std::optional(*std::move(handover));
}

}  // namespace

Result<PreparedHandover> PrepareToKubelet(const HandoverRequest& request, Services& services) {
  Result<BothSetups> both = BothSetups::Find(request);
  if (!both.ok()) return both.error();
  Result<std::optional<PreparedHandover>> rest = PrepareRestToKubelet(request, services, *both);
  if (!rest.ok()) return rest.error();
  if (*rest) return **std::move(rest);
  const Result<kubelet::Record> record = RequireRecord(*both);
  if (!record.ok()) return record.error();
  Result<std::vector<kubelet::Change>> undo =
      PlanDetach(both->files, record->changes, record->endpoint);
  if (!undo.ok()) return undo.error();
  const Result<kubelet::Setup> detached = DetachedSetup(*both, *undo);
  if (!detached.ok()) return detached.error();
  if (Result<Done> same = RequireSameRuntime(*both, detached->endpoint); !same.ok()) {
    return same.error();
  }
  const Result<KubeletConfig> config = kubelet::ConfigOf(*detached);
  if (!config.ok()) return config.error();
  Result<AligndSide> alignd = AligndSide::Make(both->Options(request));
  if (!alignd.ok()) return alignd.error().In("alignd's configuration");
  Result<RunPointer> started = StartRun(request, services, *std::move(both), *std::move(alignd));
  if (!started.ok()) return started.error();
  const RunPointer& run = *started;
  const checkpoint::KubeletRelease release =
      request.release.value_or(checkpoint::ReleaseOf(run->alignd.node.config));
  // A pointer, as the run has the function.
  run->plan = [state = run.get(), release, config = *config] {
    return PlanExport(state->alignd, {.to = state->both.KubeletPaths(),
                                      .release = release,
                                      .kubelet = config,
                                      .removes_source = true});
  };
  Result<PreparedHandover> handover = PlanMove(*run, *undo);
  if (!handover.ok()) return handover;
  if (Result<Done> planned = PlanConfig(*undo, std::nullopt, *run); !planned.ok()) {
    return planned.error();
  }
  handover->steps = {
      StopStep(run, request.unit, run->kubelet_runs),
      StopStep(run, kAligndService, run->alignd_runs),
      StopStep(run, kAligndSocket, run->socket_is_active),
      MoveStep(run, "export",
               "move alignd's state files to the kubelet, and detach it from alignd, with its "
               "former policies"),
      CheckStep(run),
      StartStep(run, request.unit, run->kubelet_runs),
      CheckStep(run),
  };
  AddByHand(run->alignd, *handover);
  return handover;
}

}  // namespace alignd::moving
