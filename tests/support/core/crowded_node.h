// Nodes with CPUs, memory, huge pages and devices of several kinds, and pods that fill them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "core/device_states.h"
#include "core/pod_builder.h"
#include "core/random_machine.h"

namespace alignd::admission {

inline constexpr char kPages[] = "hugepages-2Mi";

// The socket of a NUMA node; all nodes without CPUs are one more socket.
inline size_t SocketOf(const Machine& machine, int node) {
  size_t socket = 0;
  for (; socket < machine.sockets().size(); ++socket) {
    if (machine.sockets()[socket].cpus.Intersects(machine.CpusInNuma(node))) break;
  }
  return socket;
}

// Distances as machines have them: near within a socket, between sockets one or two hops.
inline Machine WithRandomDistances(const Machine& machine, Random& random) {
  const size_t sockets = machine.sockets().size() + 1;
  std::vector<std::vector<int>> hops(sockets, std::vector<int>(sockets));
  for (size_t a = 0; a < sockets; ++a) {
    for (size_t b = 0; b < a; ++b) hops[a][b] = hops[b][a] = random.Number(1, 2);
  }
  std::vector<std::vector<int>> rows(static_cast<size_t>(machine.numa_count()));
  for (int from = 0; from < machine.numa_count(); ++from) {
    for (int to = 0; to < machine.numa_count(); ++to) {
      const int hop = hops[SocketOf(machine, from)][SocketOf(machine, to)];
      rows[static_cast<size_t>(from)].push_back(from == to ? 10 : hop == 0 ? 12 : 10 + 11 * hop);
    }
  }
  return WithDistances(machine, rows);
}

// Memory of each NUMA node in steps of 1 GiB, some of it huge pages; nodes may be alike or not.
inline Machine WithRandomMemory(const Machine& machine, Random& random) {
  const bool alike = random.OnceIn(2);
  std::vector<NumaNode> nodes = machine.numa();
  uint64_t gib = 8;
  uint64_t pages_gib = 2;
  for (NumaNode& node : nodes) {
    if (!alike) gib = static_cast<uint64_t>(random.Number(4, 12));
    if (!alike) pages_gib = static_cast<uint64_t>(random.Number(0, 3));
    node.memory_bytes = gib << 30;
    node.hugepages[uint64_t{2} << 20] = pages_gib * 512;
  }
  return MachineOrDie(Machine::Make(machine.cpu_rows(), std::move(nodes), machine.isolated()),
                      "WithRandomMemory");
}

inline KubeletConfig RandomConfig(Random& random) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.eviction_hard_memory = "";
  config.system_reserved = Amounts({{"memory", "512Mi"}});
  config.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "512Mi"}})}};
  config.topology_manager_policy = random.OneOf<TopologyManagerPolicy>(
      {TopologyManagerPolicy::kBestEffort, TopologyManagerPolicy::kRestricted,
       TopologyManagerPolicy::kSingleNumaNode});
  config.topology_manager_scope =
      random.OnceIn(2) ? TopologyManagerScope::kPod : TopologyManagerScope::kContainer;
  if (random.OnceIn(2))
    config.topology_manager_policy_options["prefer-closest-numa-nodes"] = "true";
  if (random.OnceIn(3)) config.compatibility = Compatibility::k1_20;
  return config;
}

// One device in four without topology, some on two NUMA nodes.
inline devicemanager::Resource RandomDevices(const Machine& machine, Random& random) {
  devicemanager::Resource resource;
  resource.registered = true;
  const int last = machine.numa_count() - 1;
  const bool spread = random.OnceIn(2);  // on all NUMA nodes, or on a few
  for (int i = random.Number(1, 2 * (last + 1)); i >= 0; --i) {
    devicemanager::Device& device = resource.devices["dev-" + std::to_string(i)];
    device.healthy = !random.OnceIn(10);
    const int node = spread ? random.Number(0, last) : random.Number(0, last / 3);
    if (!random.OnceIn(8)) device.numa.push_back(machine.NumaId(node));
    if (random.OnceIn(8) && node < last) device.numa.push_back(machine.NumaId(node + 1));
  }
  return resource;
}

// The first names of device resources: `a.com/dev`, `b.com/dev`, ...
inline std::vector<std::string> DeviceNames(int kinds) {
  std::vector<std::string> names;
  for (char maker = 'a'; maker < 'a' + kinds; ++maker)
    names.push_back(maker + std::string(".com/dev"));
  return names;
}

// A Guaranteed pod that requests some of every resource, sometimes a large part.
inline Pod RandomPod(const std::string& uid, const Machine& machine, int device_kinds,
                     Random& random) {
  std::vector<Container> containers;
  for (int i = random.Number(1, 3); i > 0; --i) {
    const int much = random.OnceIn(4) ? machine.numa_count() : 1;
    std::map<std::string, std::string> amounts;
    const int cpus_per_node = 1 + machine.cpus().Count() / machine.numa_count();
    amounts["cpu"] = std::to_string(random.Number(1, much * cpus_per_node));
    amounts["memory"] = std::to_string(random.Number(1, 4 + 6 * much)) + "Gi";
    if (random.OnceIn(3)) amounts[kPages] = std::to_string(random.Number(1, 2 * much)) + "Gi";
    for (const std::string& device : DeviceNames(device_kinds)) {
      if (random.OnceIn(2)) amounts[device] = std::to_string(random.Number(0, 2 * much));
    }
    const ContainerKind kind = i == 1             ? ContainerKind::kApp
                               : random.OnceIn(2) ? ContainerKind::kInit
                                                  : ContainerKind::kSidecar;
    containers.push_back(MakeContainer(kind, "c" + std::to_string(i), amounts));
  }
  return MakePod(uid, std::move(containers));
}

// A node on which pods come and go.
struct CrowdedNode {
  Node node;
  NodeState state;
  int device_kinds = 2;

  static CrowdedNode Make(const Machine& shape, Random& random, int device_kinds = 2) {
    Machine machine = WithRandomMemory(WithRandomDistances(shape, random), random);
    KubeletConfig config = RandomConfig(random);
    config.reserved_system_cpus = std::to_string(machine.cpus().First());
    const bool by_socket =
        config.topology_manager_policy != TopologyManagerPolicy::kSingleNumaNode &&
        static_cast<int>(machine.sockets().size()) <= machine.numa_with_cpus().Count();
    if (by_socket && random.OnceIn(4)) {
      config.cpu_manager_policy_options["align-by-socket"] = "true";
    }
    Result<Node> node = Node::Make(std::move(machine), config);
    if (!node.ok()) BadMachineText("CrowdedNode", node.error().message);
    NodeState state = NodeState::Initial(*node);
    for (const std::string& resource : DeviceNames(device_kinds)) {
      state.devices.resources[resource] = RandomDevices(node->machine, random);
    }
    return {*std::move(node), std::move(state), device_kinds};
  }

  // One more pod to decide about; sometimes releases another pod first.
  Pod NextPod(int step, Random& random) {
    if (!state.cpu.assignments.empty() && random.OnceIn(4)) {
      const std::string pod_uid = state.cpu.assignments.begin()->first;
      ReleasePod(pod_uid, state);
    }
    return RandomPod("pod" + std::to_string(step), node.machine, device_kinds, random);
  }

  // Decides about one more pod.
  Admission Step(int step, Random& random) {
    Admission admission = Admit(node, state, NextPod(step, random), devicemanager::NoPreference);
    if (admission.admitted()) state = admission.next;
    return admission;
  }
};

}  // namespace alignd::admission
