#include "alignd/admission/node_state.h"

#include <iterator>
#include <utility>

#include "alignd/cpumanager/static_policy.h"
#include "alignd/devicemanager/device_policy.h"
#include "alignd/memorymanager/static_policy.h"

namespace alignd::admission {

NodeState NodeState::Initial(const Node& node) {
  NodeState state;
  if (node.cpu) state.cpu = cpumanager::InitialState(node.machine, *node.cpu);
  if (node.memory) state.memory = memorymanager::InitialState(node.machine, *node.memory);
  return state;
}

std::vector<std::string> NodeState::BrokenInvariants(const Node& node) const {
  std::vector<std::string> broken = devicemanager::BrokenInvariants(devices);
  const auto append = [&broken](std::vector<std::string> more) {
    std::move(more.begin(), more.end(), std::back_inserter(broken));
  };
  if (node.cpu) append(cpumanager::BrokenInvariants(node.machine, *node.cpu, cpu));
  if (node.memory) append(memorymanager::BrokenInvariants(node.machine, *node.memory, memory));
  return broken;
}

void ReleasePod(const std::string& pod_uid, NodeState& state) {
  cpumanager::ReleasePod(pod_uid, state.cpu);
  memorymanager::ReleasePod(pod_uid, state.memory);
  devicemanager::ReleasePod(pod_uid, state.devices);
  erase_if(state.affinities,
           [&pod_uid](const auto& entry) { return entry.first.pod_uid == pod_uid; });
  state.chosen_policies.erase(pod_uid);
}

void ReleaseContainer(const ContainerKey& key, NodeState& state) {
  cpumanager::ReleaseContainer(key, state.cpu);
  memorymanager::ReleaseContainer(key, state.memory);
  state.affinities.erase(key);
}

std::set<std::string> PodsIn(const NodeState& state) {
  std::set<std::string> pods;
  for (const auto& [uid, containers] : state.cpu.assignments) pods.insert(uid);
  for (const auto& [uid, containers] : state.memory.assignments) pods.insert(uid);
  for (const auto& [uid, cpus] : state.cpu.pods) pods.insert(uid);
  for (const auto& [uid, containers] : state.cpu.originals) pods.insert(uid);
  for (const auto& [uid, blocks] : state.memory.pods) pods.insert(uid);
  for (const auto& [key, resources] : state.devices.allocations) pods.insert(key.pod_uid);
  for (const auto& [key, affinity] : state.affinities) pods.insert(key.pod_uid);
  for (const auto& [uid, policy] : state.chosen_policies) pods.insert(uid);
  for (const auto& [key, cpus] : state.cpu.withheld) pods.insert(key.pod_uid);
  for (const auto& [key, share] : state.cpu.shares) pods.insert(key.pod_uid);
  for (const auto& [key, ids] : state.devices.withheld) pods.insert(key.pod_uid);
  return pods;
}

}  // namespace alignd::admission
