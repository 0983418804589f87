// A node on which a scenario's steps happen, one after the other. No daemon, no runtime.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/scenario/scenario.h"

namespace alignd::scenario {

// What a step led to.
struct StepResult {
  std::optional<admission::Admission> admission;  // of an AdmitPod step
  std::optional<Error> restart_error;             // of a Restart step: why there was no start
  std::optional<admission::StartedPod> started;   // of a StartPod step
};

// What the admission of a pod would lead to.
struct Trial {
  admission::Admission admission;
  // Of an admitted pod with CPUs and memory as a whole (PodLevelManagers::kPod): its start.
  std::optional<admission::StartedPod> started;
  admission::NodeState after;  // with the pod, if it is admitted
};

// Owns its state. Copies share the node, so that a copy is cheap. Not thread-safe.
class Simulation {
 public:
  // Errors: why the managers cannot start on this node with this configuration.
  static Result<Simulation> Start(const NodeDescription& node, const KubeletConfig& config);

  // The same with state files that exist already. Errors: as at a Restart step.
  static Result<Simulation> Start(const Scenario& scenario);

  // A step that names an unknown or refused pod changes nothing.
  StepResult Run(const Step& step);

  // What an AdmitPod step would lead to, and the StartPod step after it for a pod that needs that.
  // Changes nothing. Different threads may call it.
  Trial Try(const Pod& pod) const;

  // Goes on with another state of the node.
  void SetState(admission::NodeState state) { state_ = std::move(state); }

  const admission::Node& node() const { return *node_; }
  const admission::NodeState& state() const { return state_; }

  // The current texts of the state files; empty where the policy is none.
  std::string CpuManagerState() const;
  std::string MemoryManagerState() const;

 private:
  Simulation(admission::Node node, std::map<std::string, DeviceList> devices);

  StepResult Do(const AdmitPod& step);
  StepResult Do(const scenario::StartPod& step);
  StepResult Do(const RemoveContainer& step);
  StepResult Do(const RemovePod& step);
  StepResult Do(const SetDeviceHealth& step);
  StepResult Do(const Restart& step);

  // The plugins' answer as the scenario format states it: what must be included, then of the
  // available devices the first in the plugin's order.
  std::vector<std::string> Prefer(const devicemanager::PreferenceQuery& query) const;

  // The plugins' answers in the form that the device manager wants.
  devicemanager::PreferredAllocationFn Preference() const;

  // The state as these state files restore it; an empty text: no such file.
  Result<admission::NodeState> Load(const StateFiles& files) const;

  std::shared_ptr<const admission::Node> node_;
  std::shared_ptr<const std::map<std::string, DeviceList>> devices_;  // the plugins' order
  admission::NodeState state_;
  std::map<std::string, Pod> pods_;  // admitted, by UID
  std::set<ContainerKey> started_;   // of these pods, and not removed since
};

}  // namespace alignd::scenario
