// After any admissions, releases and restarts, the topology object says what the assignments say:
// what is available is what is allocatable, without what containers are assigned.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/noderesourcetopology/object.h"
#include "alignd/noderesourcetopology/zones.h"
#include "core/crowded_node.h"
#include "core/koordinator_view.h"

namespace alignd::noderesourcetopology {
namespace {

using admission::CrowdedNode;
using admission::NodeState;

// The CPUs of all containers, counted one by one.
CpuSet AssignedCpus(const NodeState& state) {
  CpuSet cpus;
  for (const auto& [uid, containers] : state.cpu.assignments) {
    for (const auto& [name, set] : containers) cpus = cpus | set;
  }
  return cpus;
}

// Healthy devices of the zone that a container is allocated.
uint64_t AssignedDevices(const CrowdedNode& crowded, const std::string& resource, int numa_id) {
  std::set<std::string> ids;
  for (const auto& [key, by_resource] : crowded.state.devices.allocations) {
    const auto found = by_resource.find(resource);
    if (found == by_resource.end()) continue;
    for (const auto& [node, list] : found->second.devices) ids.insert(list.begin(), list.end());
  }
  uint64_t count = 0;
  for (const std::string& id : ids) {
    const devicemanager::Device& device =
        crowded.state.devices.resources.at(resource).devices.at(id);
    if (device.healthy && std::ranges::count(device.numa, numa_id) > 0) ++count;
  }
  return count;
}

void ExpectCpusAndDevices(const CrowdedNode& crowded, const std::vector<Zone>& zones) {
  const CpuSet assigned = AssignedCpus(crowded.state);
  for (size_t i = 0; i < zones.size(); ++i) {
    const CpuSet& cpus = crowded.node.machine.CpusInNuma(static_cast<int>(i));
    for (const auto& [name, amount] : zones[i].resources) {
      ASSERT_LE(amount.allocatable, amount.capacity) << name;
      ASSERT_LE(amount.available, amount.allocatable) << name;
      if (name == "cpu") {
        const CpuSet& offline = crowded.state.cpu.offline;
        ASSERT_EQ(
            amount.available,
            amount.allocatable - static_cast<uint64_t>(((assigned - offline) & cpus).Count()));
        const CpuSet reserved = crowded.node.cpu ? crowded.node.cpu->reserved : CpuSet();
        ASSERT_EQ(amount.allocatable, static_cast<uint64_t>((cpus - offline - reserved).Count()));
      } else if (name.find('/') != std::string::npos) {
        ASSERT_EQ(amount.available,
                  amount.allocatable - AssignedDevices(crowded, name, zones[i].numa_id));
      }
    }
  }
}

// The blocks of a group's containers are what its nodes lack. A node has blocks only in its group.
void ExpectMemory(const CrowdedNode& crowded, const std::vector<Zone>& zones) {
  using Nodes = std::vector<int>;
  std::map<Nodes, std::map<std::string, uint64_t>> blocks;
  for (const auto& [uid, containers] : crowded.state.memory.assignments) {
    for (const auto& [name, list] : containers) {
      for (const memorymanager::Block& block : list) {
        blocks[block.numa_affinity][block.type] += block.size;
      }
    }
  }
  std::set<int> grouped;
  for (const MemoryGroup& group : MemoryGroups(crowded.node, crowded.state)) {
    for (const int id : group.numa_ids) ASSERT_TRUE(grouped.insert(id).second) << "in two groups";
    for (const auto& [type, amount] : group.memory) {
      ASSERT_EQ(amount.available, amount.allocatable - blocks[group.numa_ids][type]) << type;
    }
    blocks.erase(group.numa_ids);
  }
  for (const auto& [nodes, types] : blocks) {
    for (const auto& [type, bytes] : types) ASSERT_EQ(bytes, 0U) << "blocks outside of groups";
  }
  for (const Zone& zone : zones) {
    if (grouped.contains(zone.numa_id)) continue;
    const Amount& memory = zone.resources.at("memory");
    ASSERT_EQ(memory.available, memory.allocatable) << "no group, and not all available";
  }
}

// Koordinator's scheduler finds those CPUs free that are free, and knows where they are.
void ExpectKoordinatorsView(const CrowdedNode& crowded) {
  const auto annotations = KoordinatorAnnotations(crowded.node, crowded.state, {});
  ASSERT_TRUE(annotations.ok()) << annotations.error().Text();
  const KoordinatorView view =
      ViewOf(ObjectJson("n", crowded.node, crowded.state, std::nullopt, *annotations));
  const Machine& machine = crowded.node.machine;
  const CpuSet online = machine.cpus() - crowded.state.cpu.offline;
  const CpuSet reserved = crowded.node.cpu ? crowded.node.cpu->reserved : CpuSet();
  const CpuSet assigned = AssignedCpus(crowded.state);
  ASSERT_EQ(view.cpus, online);
  ASSERT_EQ(view.available, online - reserved - assigned);
  const CpuSet pool =
      crowded.node.cpu ? crowded.node.cpu->Managed(machine) - assigned : machine.cpus();
  ASSERT_EQ(view.pool, pool & online);
  for (const CpuGroup& core : machine.cores()) {
    std::set<std::tuple<int, int, int>> places;
    for (const int cpu : core.cpus& online) places.insert(view.places.at(cpu));
    ASSERT_LE(places.size(), static_cast<size_t>(machine.NumaOf(core.cpus).Count()));
  }
  for (const auto& [id, cpus] : view.cpus_of_zone) {
    const CpuSet& of_zone = machine.CpusInNuma(*machine.NumaPosition(id));
    ASSERT_EQ(cpus, (of_zone & view.available).Count()) << id;
  }
}

// As a restart of alignd reads it from the state files. What they do not have, alignd learns anew:
// devices from their plugins, offline CPUs from the machine.
NodeState AfterRestart(const admission::Node& node, const NodeState& state) {
  NodeState after = NodeState::Initial(node);
  const checkpoint::StateForm form = checkpoint::FormOf(node.config);
  if (node.cpu) {
    const auto cpu =
        checkpoint::ParseCpuCheckpoint(checkpoint::FormatCpuCheckpoint("static", state.cpu, form));
    EXPECT_TRUE(cpu.ok()) << cpu.error().Text();
    after.cpu = cpu->state;
    cpumanager::SetOffline(state.cpu.offline, after.cpu);
  }
  if (node.memory) {
    const auto memory = checkpoint::ParseMemoryCheckpoint(
        checkpoint::FormatMemoryCheckpoint("Static", state.memory, form));
    EXPECT_TRUE(memory.ok()) << memory.error().Text();
    after.memory = memory->state;
  }
  const auto devices =
      checkpoint::ParseDeviceCheckpoint(checkpoint::FormatDeviceCheckpoint(state.devices));
  EXPECT_TRUE(devices.ok()) << devices.error().Text();
  after.devices = state.devices;
  after.devices.allocations = devices->allocations;
  return after;
}

TEST(NrtProperty, AvailableIsAllocatableWithoutWhatIsAssigned) {
  Random random;
  const int runs = Iterations(150);
  for (int run = 0; run < runs; ++run) {
    CrowdedNode crowded = CrowdedNode::Make(RandomMachine(random), random);
    const std::string empty = ObjectJson("n", crowded.node, crowded.state, std::nullopt);
    for (int step = 0; step < 20; ++step) {
      crowded.Step(step, random);
      if (crowded.node.cpu && random.OnceIn(3)) {
        const CpuSet& all = crowded.node.machine.cpus();
        cpumanager::SetOffline(all - random.SomeOf(all), crowded.state.cpu);
      }
      if (random.OnceIn(4)) {
        NodeState after = AfterRestart(crowded.node, crowded.state);
        ASSERT_EQ(ObjectJson("n", crowded.node, after, std::nullopt),
                  ObjectJson("n", crowded.node, crowded.state, std::nullopt));
        crowded.state = std::move(after);
      }
      const std::vector<Zone> zones = Zones(crowded.node, crowded.state);
      ExpectCpusAndDevices(crowded, zones);
      ExpectMemory(crowded, zones);
      ExpectKoordinatorsView(crowded);
      if (HasFatalFailure()) return;
    }
    // Once all pods have gone, and all CPUs are online, the object is that of the empty node.
    cpumanager::SetOffline({}, crowded.state.cpu);
    for (const std::string& uid : admission::PodsIn(crowded.state)) {
      admission::ReleasePod(uid, crowded.state);
    }
    ASSERT_EQ(ObjectJson("n", crowded.node, crowded.state, std::nullopt), empty);
  }
}

}  // namespace
}  // namespace alignd::noderesourcetopology
