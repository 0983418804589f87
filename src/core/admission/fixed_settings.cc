#include "core/admission/fixed_settings.h"

#include "alignd/config/feature_gates.h"
#include "alignd/config/kubelet_config.h"

namespace alignd::admission {
namespace {

// Running containers claim these CPUs of each other: they stay theirs, and cannot be reserved.
void AddFaultsOfWithheld(const Node& before, const Node& after, const NodeState& state,
                         std::vector<std::string>& faults) {
  if (!before.cpu) return;  // nothing is withheld
  const CpuSet withheld = state.cpu.Withheld();
  const CpuSet lost =
      after.cpu ? (withheld & after.cpu->reserved) - before.cpu->reserved : withheld;
  if (lost.empty()) return;
  faults.push_back("running containers claim CPUs " + lost.ToString() +
                   " of each other, so these are withheld, and " +
                   (after.cpu ? "they cannot become reserved"
                              : "cpuManagerPolicy none would give them to all containers") +
                   ": delete the pods that the condition AssignmentUnknown names");
}

}  // namespace

std::vector<std::string> FaultsOfFixedSettings(const Node& before, const Node& after,
                                               const NodeState& state) {
  std::vector<std::string> faults;
  if (!(before.machine == after.machine)) {
    faults.push_back("the CPUs or the memory of the node differ: restart alignd");
  }
  if (before.config.compatibility != after.config.compatibility) {
    faults.push_back("compatibility changes from " +
                     std::string(ToString(before.config.compatibility)) + " to " +
                     std::string(ToString(after.config.compatibility)) +
                     ": restart alignd with the other release");
  }
  const bool has_wholes = !state.cpu.pods.empty() || !state.memory.pods.empty();
  const bool gate = PodLevelResourceManagersOn(before.config);
  if (has_wholes) {
    faults.push_back(
        "pods are assigned CPUs or memory as a whole (feature gate PodLevelResourceManagers), "
        "which no other configuration keeps, and a kubelet up to 1.37 assigns CPUs and memory to "
        "them a second time at its start: let these pods end");
  }
  if (gate != PodLevelResourceManagersOn(after.config)) {
    faults.push_back(
        "the feature gate PodLevelResourceManagers changes: restart alignd with the other setting");
  }
  if (DraNodeAllocatableResourcesOn(before.config) != DraNodeAllocatableResourcesOn(after.config)) {
    faults.push_back("the feature gate DRANodeAllocatableResources changes: restart alignd");
  }
  if (before.config.annotated_extended_resources != after.config.annotated_extended_resources) {
    faults.push_back("annotatedExtendedResources changes: restart alignd");
  }
  AddFaultsOfWithheld(before, after, state, faults);
  return faults;
}

}  // namespace alignd::admission
