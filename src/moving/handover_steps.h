// The steps that both directions of a handover have. Private to the module.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/durable_file.h"
#include "kubelet/attachment.h"
#include "moving/container_cgroups.h"
#include "moving/handover.h"

namespace alignd::moving {

// What the steps of one handover share. Steps run one after the other.
struct HandoverRun {
  HandoverRequest request;
  Services& services;
  BothSetups both;
  AligndSide alignd;
  bool kubelet_runs = false;  // when nothing was changed; so the next two
  bool alignd_runs = false;
  bool socket_is_active = false;
  ContainerCpusets before = {};                 // what the containers had when nothing was changed
  std::function<Result<MovePlan>()> plan = {};  // of the files as they are at the call
  std::vector<FileChange> config = {};  // the kubelet's configuration, and the record of attach
  std::optional<MovePlan> moved = {};   // that was carried out, with `config`
  std::optional<host::DirectoryLock> lock = {};
  std::string created = {};  // pods that the restored files lack
};
using RunPointer = std::shared_ptr<HandoverRun>;

// A run in which nothing is planned. Errors: services that cannot be asked, cgroups that cannot be
// read.
Result<RunPointer> StartRun(const HandoverRequest& request, Services& services, BothSetups both,
                            AligndSide alignd);

// The files that the run changes besides the state files: those of `changes`, and the record of
// attach; nullopt: the record is removed. Errors: kIo.
Result<Done> PlanConfig(const std::vector<kubelet::Change>& changes,
                        const std::optional<kubelet::Record>& record, HandoverRun& run);

// Plans with `run.plan`, and compares the running containers with the state.
Result<PreparedHandover> PlanMove(HandoverRun& run, std::vector<kubelet::Change> changes);

// The plan of a handover whose files are written already: the state that is in `paths` now.
Result<PreparedHandover> PlanRest(const admission::Node& node, const allocation::StatePaths& paths,
                                  HandoverRun& run);

// One problem that names all containers that have something else than the state says, or says that
// no container was found though the state has some.
Result<Done> CheckContainers(const HandoverRun& run, const admission::NodeState& state);

// Ends with a check that it is not active.
Step StopStep(const RunPointer& run, const std::string& unit, bool was_active);
// Ends with a check that it is active.
Step StartStep(const RunPointer& run, const std::string& unit, bool was_active);
// Carries out the plan, made anew, and the changes of `run->config`, in one switch of all files,
// and has the units read again. `what`: "import" or "export".
Step MoveStep(const RunPointer& run, const char* what, std::string text);
Step CheckStep(const RunPointer& run);

}  // namespace alignd::moving
