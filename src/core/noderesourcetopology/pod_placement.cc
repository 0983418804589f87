#include "alignd/noderesourcetopology/pod_placement.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "alignd/noderesourcetopology/object.h"
#include "core/noderesourcetopology/pod_cpus.h"

namespace alignd::noderesourcetopology {
namespace {

// UID -> zone -> resource -> amount. Zones in the order of their names, as KAI-Scheduler's exporter
// writes them.
using Amounts = std::map<std::string, std::map<std::string, std::map<std::string, uint64_t>>>;

void AddCpus(const admission::Node& node, const admission::NodeState& state, Amounts& amounts) {
  for (const auto& [uid, cpus] : CpusOfPods(state.cpu)) {
    for (const int cpu : cpus - state.cpu.offline) {
      ++amounts[uid][ZoneName(node.machine.Row(cpu).numa)]["cpu"];
    }
  }
}

// A device that several containers of a pod have had is one device.
void AddDevices(const admission::NodeState& state, Amounts& amounts) {
  std::map<std::string, std::map<std::string, std::map<std::string, std::set<int64_t>>>> nodes;
  for (const auto& [key, resources] : state.devices.allocations) {
    for (const auto& [resource, allocation] : resources) {
      for (const auto& [numa_id, ids] : allocation.devices) {
        for (const std::string& id : ids) nodes[key.pod_uid][resource][id].insert(numa_id);
      }
    }
  }
  for (const auto& [uid, resources] : nodes) {
    for (const auto& [resource, devices] : resources) {
      for (const auto& [id, numa_ids] : devices) {
        // -1: the device has no NUMA node.
        if (numa_ids.size() != 1 || *numa_ids.begin() < 0) continue;
        ++amounts[uid][ZoneName(*numa_ids.begin())][resource];
      }
    }
  }
}

void AddMemory(const admission::NodeState& state, Amounts& amounts) {
  std::set<std::string> uids;
  for (const auto& [uid, containers] : state.memory.assignments) uids.insert(uid);
  for (const auto& [uid, blocks] : state.memory.pods) uids.insert(uid);
  for (const std::string& uid : uids) {
    for (const memorymanager::Block& block : state.memory.BookedFor(uid)) {
      if (block.numa_affinity.size() != 1 || block.size == 0) continue;
      amounts[uid][ZoneName(block.numa_affinity.front())][block.type] += block.size;
    }
  }
}

}  // namespace

std::map<std::string, std::string> PodPlacements(const admission::Node& node,
                                                 const admission::NodeState& state) {
  Amounts amounts;
  AddCpus(node, state, amounts);
  AddDevices(state, amounts);
  AddMemory(state, amounts);
  std::map<std::string, std::string> placements;
  for (const auto& [uid, zones] : amounts) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& [zone, resources] : zones) {
      nlohmann::ordered_json& entry = list.emplace_back();
      entry = {{"zone", zone}, {"amount", nlohmann::ordered_json::object()}};
      for (const auto& [name, amount] : resources) entry["amount"][name] = std::to_string(amount);
    }
    // Names of resources come from device plugins.
    placements[uid] = list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }
  return placements;
}

}  // namespace alignd::noderesourcetopology
