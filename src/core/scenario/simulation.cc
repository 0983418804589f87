#include "alignd/scenario/simulation.h"

#include <algorithm>
#include <utility>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
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

Simulation::Simulation(admission::Node node, std::map<std::string, DeviceList> devices)
    : node_(std::move(node)),
      devices_(std::move(devices)),
      state_(admission::NodeState::Initial(node_)) {}

StepResult Simulation::Run(const Step& step) {
  return std::visit([this](const auto& what) { return Do(what); }, step);
}

std::string Simulation::CpuManagerState() const {
  if (!node_.cpu) return "";
  return checkpoint::FormatCpuCheckpoint(ToString(node_.config.cpu_manager_policy), state_.cpu);
}

std::string Simulation::MemoryManagerState() const {
  if (!node_.memory) return "";
  return checkpoint::FormatMemoryCheckpoint(ToString(node_.config.memory_manager_policy),
                                            state_.memory);
}

StepResult Simulation::Do(const AdmitPod& step) {
  const auto preferred = [this](const devicemanager::PreferenceQuery& query) {
    return std::optional(Prefer(query));
  };
  admission::Admission admission = admission::Admit(node_, state_, step.pod, preferred);
  state_ = admission.next;
  if (admission.admitted()) pods_[step.pod.uid] = step.pod;
  return {std::move(admission), std::nullopt};
}

StepResult Simulation::Do(const scenario::StartPod& step) {
  const auto pod = pods_.find(step.pod_uid);
  if (pod == pods_.end()) return {};
  admission::StartPod(node_, pod->second, state_);
  for (const Container& container : pod->second.containers) {
    started_.insert({step.pod_uid, container.name});
  }
  return {};
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
  Result<admission::NodeState> reloaded = Reload();
  if (!reloaded.ok()) return {std::nullopt, reloaded.error()};
  state_ = *std::move(reloaded);
  return {};
}

Result<admission::NodeState> Simulation::Reload() const {
  admission::NodeState state;
  if (node_.cpu) {
    Result<checkpoint::CpuCheckpoint> cpu = checkpoint::ParseCpuCheckpoint(CpuManagerState());
    if (!cpu.ok()) return cpu.error();
    state.cpu = std::move(cpu->state);
    const Result<Done> valid = cpumanager::ValidateLoaded(node_.machine, *node_.cpu, state.cpu);
    if (!valid.ok()) return valid.error().In("start cpu manager error");
  }
  if (node_.memory) {
    Result<checkpoint::MemoryCheckpoint> memory =
        checkpoint::ParseMemoryCheckpoint(MemoryManagerState());
    if (!memory.ok()) return memory.error();
    state.memory = std::move(memory->state);
    const Result<Done> valid =
        memorymanager::ValidateLoaded(node_.machine, *node_.memory, state.memory);
    if (!valid.ok()) return valid.error().In("start memory manager error");
  }
  Result<checkpoint::DeviceCheckpoint> devices =
      checkpoint::ParseDeviceCheckpoint(checkpoint::FormatDeviceCheckpoint(state_.devices));
  if (!devices.ok()) return devices.error();
  state.devices.allocations = std::move(devices->allocations);
  // The plugins register again at once, with the same devices and health.
  state.devices.resources = state_.devices.resources;
  return state;
}

std::vector<std::string> Simulation::Prefer(const devicemanager::PreferenceQuery& query) const {
  std::vector<std::string> preferred = query.must_include;
  const auto list = devices_.find(query.resource);
  if (list == devices_.end()) return preferred;
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
