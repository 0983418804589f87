#include "alignd/admission/holders.h"

namespace alignd::admission {

std::set<std::string> PodsIn(const NodeState& state) {
  std::set<std::string> pods;
  for (const auto& [uid, containers] : state.cpu.assignments) pods.insert(uid);
  for (const auto& [uid, containers] : state.memory.assignments) pods.insert(uid);
  for (const auto& [key, resources] : state.devices.allocations) pods.insert(key.pod_uid);
  for (const auto& [key, affinity] : state.affinities) pods.insert(key.pod_uid);
  return pods;
}

}  // namespace alignd::admission
