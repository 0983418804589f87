#include "alignd/scenario/simulation.h"

#include <algorithm>
#include <utility>

#include "alignd/admission/pod_level.h"
#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/cpumanager/pod_partition.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/memorymanager/static_policy.h"

namespace alignd::scenario {

Result<Simulation> Simulation::Start(const NodeDescription& description,
                                     const KubeletConfig& config) {
  Result<admission::Node> node = admission::Node::Make(description.machine, config);
  if (!node.ok()) return node.error();
  Simulation simulation(*std::move(node), description.devices);
  for (const auto& [name, list] : description.devices) {
    devicemanager::Resource& resource = simulation.state_.devices.resources[name];
    resource.registered = true;
    resource.prefers_allocation = description.preferred.contains(name);
    resource.devices = {list.begin(), list.end()};
  }
  return simulation;
}

Result<Simulation> Simulation::Start(const Scenario& scenario) {
  Result<Simulation> simulation = Start(scenario.node, scenario.config);
  const StateFiles& files = scenario.files;
  const bool has_files = !files.cpu_manager_state.empty() || !files.memory_manager_state.empty() ||
                         !files.device_checkpoint.empty();
  if (!simulation.ok() || !has_files) return simulation;
  Result<admission::NodeState> loaded = simulation->Load(files);
  if (!loaded.ok()) return loaded.error();
  simulation->state_ = *std::move(loaded);
  return simulation;
}

Simulation::Simulation(admission::Node node, std::map<std::string, DeviceList> devices)
    : node_(std::make_shared<const admission::Node>(std::move(node))),
      devices_(std::make_shared<const std::map<std::string, DeviceList>>(std::move(devices))),
      state_(admission::NodeState::Initial(*node_)) {}

StepResult Simulation::Run(const Step& step) {
  return std::visit([this](const auto& what) { return Do(what); }, step);
}

Trial Simulation::Try(const Pod& asked) const {
  const Pod pod = admission::OnThisNode(*node_, asked);
  Trial trial;
  trial.admission = admission::Admit(*node_, state_, pod, Preference());
  trial.after = trial.admission.next;
  if (trial.admission.admitted() && pod.pod_level_managers == PodLevelManagers::kPod) {
    trial.started = admission::StartPod(*node_, pod, Preference(), trial.after);
  }
  return trial;
}

std::string Simulation::CpuManagerState() const {
  if (!node_->cpu) return "";
  return checkpoint::FormatCpuCheckpoint(ToString(node_->config.cpu_manager_policy), state_.cpu,
                                         checkpoint::FormOf(node_->config));
}

std::string Simulation::MemoryManagerState() const {
  if (!node_->memory) return "";
  return checkpoint::FormatMemoryCheckpoint(ToString(node_->config.memory_manager_policy),
                                            state_.memory, checkpoint::FormOf(node_->config));
}

devicemanager::PreferredAllocationFn Simulation::Preference() const {
  return
      [this](const devicemanager::PreferenceQuery& query) { return std::optional(Prefer(query)); };
}

StepResult Simulation::Do(const AdmitPod& step) {
  const Pod pod = admission::OnThisNode(*node_, step.pod);
  admission::Admission admission = admission::Admit(*node_, state_, pod, Preference());
  state_ = admission.next;
  if (admission.admitted()) {
    pods_[pod.uid] = pod;
  } else if (pod.pod_level_managers == PodLevelManagers::kPod) {
    // A refusal releases what the pod had before.
    pods_.erase(pod.uid);
    std::erase_if(started_, [&pod](const auto& key) { return key.pod_uid == pod.uid; });
  }
  return {std::move(admission), std::nullopt, std::nullopt};
}

StepResult Simulation::Do(const scenario::StartPod& step) {
  const auto pod = pods_.find(step.pod_uid);
  if (pod == pods_.end()) return {};
  admission::StartedPod started = admission::StartPod(*node_, pod->second, Preference(), state_);
  for (const Container& container : pod->second.containers) {
    if (started.waits && started.waits->first == container.name) break;
    started_.insert({step.pod_uid, container.name});
  }
  return {std::nullopt, std::nullopt, std::move(started)};
}

StepResult Simulation::Do(const RemoveContainer& step) {
  if (started_.erase(step.key) > 0) admission::ReleaseContainer(step.key, state_);
  return {};
}

StepResult Simulation::Do(const RemovePod& step) {
  if (pods_.erase(step.pod_uid) == 0) return {};
  admission::ReleasePod(step.pod_uid, state_);
  std::erase_if(started_, [&step](const auto& key) { return key.pod_uid == step.pod_uid; });
  return {};
}

StepResult Simulation::Do(const SetDeviceHealth& step) {
  if (!state_.devices.resources.contains(step.resource)) return {};
  auto& devices = state_.devices.resources[step.resource].devices;
  if (const auto device = devices.find(step.id); device != devices.end()) {
    device->second.healthy = step.healthy;
  }
  return {};
}

StepResult Simulation::Do(const Restart&) {
  Result<admission::NodeState> reloaded = Load({CpuManagerState(), MemoryManagerState(), {}});
  if (!reloaded.ok()) return {std::nullopt, reloaded.error(), std::nullopt};
  reloaded->cpu.shares = state_.cpu.shares;  // alignd has them of the running containers
  state_ = *std::move(reloaded);
  return {};
}

Result<admission::NodeState> Simulation::Load(const StateFiles& files) const {
  admission::NodeState state = admission::NodeState::Initial(*node_);
  if (node_->cpu && !files.cpu_manager_state.empty()) {
    Result<checkpoint::CpuCheckpoint> cpu = checkpoint::ParseCpuCheckpoint(files.cpu_manager_state);
    if (!cpu.ok()) return cpu.error();
    const auto policy = checkpoint::RequirePolicy(*cpu, ToString(node_->config.cpu_manager_policy));
    if (!policy.ok()) return policy.error().In("start cpu manager error");
    // The manager fills in a file without CPUs.
    if (cpu->state != cpumanager::CpuState{}) state.cpu = std::move(cpu->state);
    if (!PodLevelResourceManagersOn(node_->config)) state.cpu.pods.clear();
    const Result<Done> valid = cpumanager::ValidateLoaded(node_->machine, *node_->cpu, state.cpu);
    if (!valid.ok()) return valid.error().In("start cpu manager error");
    cpumanager::DropStalePods(state.cpu);
  }
  if (node_->memory && !files.memory_manager_state.empty()) {
    Result<checkpoint::MemoryCheckpoint> memory =
        checkpoint::ParseMemoryCheckpoint(files.memory_manager_state);
    if (!memory.ok()) return memory.error();
    const auto policy =
        checkpoint::RequirePolicy(*memory, ToString(node_->config.memory_manager_policy));
    if (!policy.ok()) return policy.error().In("start memory manager error");
    if (memory->state != memorymanager::MemoryState{}) state.memory = std::move(memory->state);
    if (!PodLevelResourceManagersOn(node_->config)) state.memory.pods.clear();
    const Result<Done> valid =
        memorymanager::ValidateLoaded(node_->machine, *node_->memory, state.memory);
    if (!valid.ok()) return valid.error().In("start memory manager error");
  }
  Result<checkpoint::DeviceCheckpoint> devices = checkpoint::ParseDeviceCheckpoint(
      files.device_checkpoint.empty() ? checkpoint::FormatDeviceCheckpoint(state_.devices)
                                      : files.device_checkpoint);
  if (!devices.ok()) return devices.error();
  state.devices.allocations = std::move(devices->allocations);
  // The plugins register again at once, with the same devices and health.
  state.devices.resources = state_.devices.resources;
  return state;
}

std::vector<std::string> Simulation::Prefer(const devicemanager::PreferenceQuery& query) const {
  std::vector<std::string> preferred = query.must_include;
  const auto list = devices_->find(query.resource);
  if (list == devices_->end()) return preferred;
  for (const auto& [id, device] : list->second) {
    if (preferred.size() >= static_cast<size_t>(query.size)) break;
    if (std::ranges::binary_search(query.available, id) &&
        std::ranges::find(preferred, id) == preferred.end()) {
      preferred.push_back(id);
    }
  }
  return preferred;
}

}  // namespace alignd::scenario
