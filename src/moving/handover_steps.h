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
  std::function<Result<MovePlan>()> plan;  // of the files as they are at the call
  std::optional<MovePlan> moved;           // that was carried out
  std::optional<host::DirectoryLock> lock;
  ContainerCpusets before;            // the containers' CPUs when nothing was changed
  std::vector<FileChange> as_before;  // the kubelet's configuration, and the record of attach
};

// Remembers the files that `changes` and the record of attach touch. Errors: kIo.
Result<Done> RememberConfig(const std::vector<kubelet::Change>& changes, HandoverRun& run);

// Fails if no container can be looked at, or if one has something else than the state says.
Result<Done> CheckContainers(const HandoverRun& run, const cpumanager::CpuState& state);

Step StopStep(const std::shared_ptr<HandoverRun>& run, const std::string& unit, bool was_active);
// Ends with a check that it is active.
Step StartStep(const std::shared_ptr<HandoverRun>& run, const std::string& unit, bool was_active);
// Carries out the plan, made anew. `what`: "import" or "export".
Step MoveStep(const std::shared_ptr<HandoverRun>& run, const char* what, std::string text);
// Changes the kubelet's configuration with `change`, and has the units read again.
Step ConfigStep(const std::shared_ptr<HandoverRun>& run, std::string text,
                std::function<Result<Done>()> change);
Step CheckStep(const std::shared_ptr<HandoverRun>& run);

}  // namespace alignd::moving
