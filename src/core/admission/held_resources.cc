#include "core/admission/held_resources.h"

#include <cstdint>
#include <map>
#include <utility>

#include "alignd/admission/own_policy.h"

namespace alignd::admission {
namespace {

std::string NodesText(const std::set<int64_t>& nodes) {
  std::string text;
  for (const int64_t node : nodes) text += (text.empty() ? "" : ",") + std::to_string(node);
  return (nodes.size() == 1 ? "NUMA node " : "NUMA nodes ") + text;
}

std::set<int64_t> NodesOf(const std::vector<memorymanager::Block>& blocks) {
  std::set<int64_t> nodes;
  for (const memorymanager::Block& block : blocks) {
    nodes.insert(block.numa_affinity.begin(), block.numa_affinity.end());
  }
  return nodes;
}

std::set<int64_t> NodesOf(const devicemanager::DeviceAllocation& allocation) {
  std::set<int64_t> nodes;
  for (const auto& [node, ids] : allocation.devices) {
    if (node >= 0) nodes.insert(node);
  }
  return nodes;
}

// The kubelet counts the CPUs of an ended init container once with those of the containers that
// have them now.
bool IsCovered(const std::map<std::string, CpuSet>& cpus, const std::string& name) {
  CpuSet others;
  for (const auto& [other, set] : cpus) {
    if (other != name) others |= set;
  }
  return others.Contains(cpus.at(name));
}

// Fills the requests of one container.
class HeldRequest {
 public:
  HeldRequest(const NodeState& state, ContainerKey key, ContainerKind kind)
      : state_(state), key_(std::move(key)) {
    container_.name = key_.container;
    container_.kind = kind;
  }

  Container Take() {
    if (const CpuSet* const cpus = state_.cpu.Find(key_)) {
      Add("cpu", static_cast<uint64_t>(cpus->Count()));
    }
    AddMemory();
    AddDevices();
    container_.resources.requests = container_.resources.limits;
    return std::move(container_);
  }

 private:
  void Add(const std::string& resource, uint64_t amount) {
    container_.resources.limits[resource] = *Quantity::Parse(std::to_string(amount));
  }

  void AddMemory() {
    const auto* const blocks = state_.memory.Find(key_);
    if (blocks == nullptr) return;
    std::map<std::string, uint64_t> sizes;
    for (const memorymanager::Block& block : *blocks) sizes[block.type] += block.size;
    for (const auto& [type, size] : sizes) Add(type, size);
  }

  void AddDevices() {
    const auto devices = state_.devices.allocations.find(key_);
    if (devices == state_.devices.allocations.end()) return;
    for (const auto& [resource, allocation] : devices->second) {
      const auto known = state_.devices.resources.find(resource);
      if (known != state_.devices.resources.end() && known->second.registered) {
        Add(resource, allocation.Ids().size());
        continue;
      }
      const std::set<int64_t> nodes = NodesOf(allocation);
      if (nodes.empty()) continue;
      container_.claimed_devices.push_back({resource, {nodes.begin(), nodes.end()}});
    }
  }

  const NodeState& state_;
  const ContainerKey key_;
  Container container_;
};

// What the containers are assigned, without those that have no memory: whether such a container is
// in the state depends on the class of its pod, which is not known of a running one.
auto MemoryAssignments(const memorymanager::MemoryState& memory) {
  std::map<ContainerKey, std::vector<memorymanager::Block>> assigned;
  for (const auto& [uid, containers] : memory.assignments) {
    for (const auto& [name, blocks] : containers) {
      if (!blocks.empty()) assigned[{uid, name}] = blocks;
    }
  }
  return assigned;
}

}  // namespace

std::set<ContainerKey> HoldersIn(const NodeState& state) {
  std::set<ContainerKey> holders;
  for (const auto& [uid, containers] : state.cpu.assignments) {
    for (const auto& [name, cpus] : containers) holders.insert({uid, name});
  }
  for (const auto& [uid, containers] : state.memory.assignments) {
    for (const auto& [name, blocks] : containers) {
      if (!blocks.empty()) holders.insert({uid, name});
    }
  }
  for (const auto& [key, resources] : state.devices.allocations) holders.insert(key);
  return holders;
}

bool HasSharedCpus(const cpumanager::CpuState& state, const std::string& pod_uid) {
  const auto pod = state.assignments.find(pod_uid);
  if (pod == state.assignments.end()) return false;
  CpuSet seen;
  for (const auto& [name, cpus] : pod->second) {
    if (seen.Intersects(cpus)) return true;
    seen |= cpus;
  }
  return false;
}

bool HaveSameAssignments(const NodeState& a, const NodeState& b) {
  return a.cpu.assignments == b.cpu.assignments &&
         MemoryAssignments(a.memory) == MemoryAssignments(b.memory) && a.devices == b.devices;
}

Pod HoldingPod(const Node& node, const NodeState& state, const HoldingUnit& unit) {
  Pod pod;
  pod.uid = unit.pod_uid;
  pod.stated_qos = QosClass::kGuaranteed;
  // A running pod was admitted under its policies: neither another policy of the node nor other
  // defaults of its namespace refuse it.
  pod.defaults.emplace();
  if (const auto chosen = state.chosen_policies.find(unit.pod_uid);
      chosen != state.chosen_policies.end()) {
    const PodPolicies applicable = ApplicableTo(node, chosen->second);
    pod.name_space = applicable.name_space;
    pod.defaults->numa_topology = applicable.numa_topology;
    pod.defaults->required_bind = applicable.required_bind;
    pod.defaults->preferred_bind = applicable.preferred_bind;
    pod.defaults->exclusive = applicable.exclusive;
    // For messages: where it may choose and the default is another one, its annotation says so.
    const std::set<PodPolicy>& allowed = PodPoliciesFor(node.config, pod.name_space);
    const PlacementPolicies& defaults = DefaultPoliciesFor(node.config, pod.name_space);
    const auto ask = [&](PodPolicy policy, const auto& kept, const auto& by_default, auto& asked) {
      if (allowed.contains(policy) && kept != by_default) asked = kept;
    };
    PodPolicies& asked = pod.policies;
    ask(PodPolicy::kNumaTopologyPolicy, applicable.numa_topology, defaults.numa_topology,
        asked.numa_topology);
    ask(PodPolicy::kCpuBindPolicy, applicable.required_bind, defaults.required_bind,
        asked.required_bind);
    ask(PodPolicy::kCpuBindPolicy, applicable.preferred_bind, defaults.preferred_bind,
        asked.preferred_bind);
    ask(PodPolicy::kCpuExclusivePolicy, applicable.exclusive, defaults.exclusive, asked.exclusive);
  }
  std::map<std::string, CpuSet> counted;
  for (const std::string& name : unit.containers) {
    const CpuSet* const cpus = state.cpu.Find({unit.pod_uid, name});
    if (cpus != nullptr) counted[name] = *cpus;
  }
  // Without exclusive CPUs, it would be refused for what only other containers of its pod can have.
  if (counted.empty()) pod.policies.required_bind.reset();
  std::vector<Container> ended;
  for (const std::string& name : unit.containers) {
    const bool has_ended = counted.contains(name) && IsCovered(counted, name);
    if (has_ended) counted.erase(name);
    Container container = HeldRequest(state, {unit.pod_uid, name},
                                      has_ended ? ContainerKind::kInit : ContainerKind::kApp)
                              .Take();
    if (node.topology.scope() == TopologyManagerScope::kPod) {
      if (const auto* const blocks = state.memory.Find({unit.pod_uid, name})) {
        const std::set<int64_t> nodes = NodesOf(*blocks);
        pod.claimed_devices.push_back({"memory of " + name, {nodes.begin(), nodes.end()}});
      }
      for (ClaimedDevice& device : container.claimed_devices) {
        pod.claimed_devices.push_back(std::move(device));
      }
      container.claimed_devices.clear();
    }
    (has_ended ? ended : pod.containers).push_back(std::move(container));
  }
  pod.containers.insert(pod.containers.begin(), ended.begin(), ended.end());
  return pod;
}

std::string DescribePlace(const Machine& machine, const NodeState& state, const HoldingUnit& unit) {
  CpuSet cpus;
  std::map<std::string, std::set<int64_t>> nodes;  // of memory and devices
  for (const std::string& name : unit.containers) {
    const ContainerKey key{unit.pod_uid, name};
    if (const CpuSet* const own = state.cpu.Find(key)) cpus |= *own;
    if (const auto* const blocks = state.memory.Find(key)) nodes["memory"].merge(NodesOf(*blocks));
    const auto devices = state.devices.allocations.find(key);
    if (devices == state.devices.allocations.end()) continue;
    for (const auto& [resource, allocation] : devices->second) {
      nodes[resource].merge(NodesOf(allocation));
    }
  }
  std::string text;
  if (!cpus.empty()) {
    const std::vector<int> ids = machine.NumaIds(machine.NumaOf(cpus));
    text = "CPUs " + cpus.ToString() + " on " + NodesText({ids.begin(), ids.end()});
  }
  for (const auto& [resource, of_resource] : nodes) {
    if (of_resource.empty()) continue;
    text += (text.empty() ? "" : ", ") + resource + " of " + NodesText(of_resource);
  }
  return text.empty() ? "what it has" : text;
}

}  // namespace alignd::admission
