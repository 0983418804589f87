// Random fleets for tests of planning.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/placement/fleet_node.h"
#include "core/crowded_node.h"
#include "core/random_planned.h"

namespace alignd::placement {

inline std::string ConfigText(const KubeletConfig& config) {
  std::string text =
      R"({"cpuManagerPolicy":"static","reservedSystemCPUs":")" + config.reserved_system_cpus +
      R"(","memoryManagerPolicy":"Static","evictionHard":{"memory.available":"100Mi"},)"
      R"("systemReserved":{"memory":"412Mi"},"reservedMemory":[{"numaNode":0,)"
      R"("limits":{"memory":"512Mi"}}],"topologyManagerPolicy":")";
  text += std::string(ToString(config.topology_manager_policy)) + R"(","topologyManagerScope":")" +
          std::string(ToString(config.topology_manager_scope)) + R"(","maxPods":6)";
  if (!config.topology_manager_policy_options.empty()) {
    text += R"(,"topologyManagerPolicyOptions":{"prefer-closest-numa-nodes":"true"})";
  }
  text +=
      R"(,"numaAllocateStrategy":")" + std::string(ToString(config.numa_allocate_strategy)) + '"';
  if (config.feature_gates.contains("PodLevelResourceManagers")) {
    text += R"(,"featureGates":{"PodLevelResourceManagers":true})";
  }
  const auto list_of = [](const std::set<PodPolicy>& policies) {
    std::string list;
    for (const PodPolicy policy : policies) {
      list += (list.empty() ? "\"" : ",\"") + std::string(ToString(policy)) + "\"";
    }
    return R"("podPolicies":[)" + list + "]";
  };
  text += "," + list_of(config.pod_policies);
  for (const NamespacePolicies& entry : config.namespace_policies) {  // one at most
    text += R"(,"namespacePolicies":[{"namespaces":[")" + entry.namespaces[0] + "\"]," +
            list_of(entry.pod_policies) + R"(,"defaults":{)";
    std::string defaults;
    for (const auto& [name, value] : ToTexts(entry.defaults)) {
      defaults += (defaults.empty() ? "\"" : ",\"") + name + R"(":")" + value + '"';
    }
    text += defaults + "}}]";
  }
  return text + "}";
}

inline FleetNode RandomFleetNode(const std::string& name, Random& random) {
  FleetNode node;
  node.name = name;
  node.input = {{admission::WithRandomMemory(RandomMachine(random), random), {}, {}},
                std::nullopt,
                {},
                {},
                {}};
  node.input.description.devices["a.com/dev"] =
      RandomDeviceList(node.input.description.machine, random);
  if (random.OnceIn(10)) node.input.unlocated_devices["a.com/dev"] = "not known";
  KubeletConfig config = admission::RandomConfig(random);
  LetPodsChoose(config, random);
  if (random.OnceIn(2)) config.feature_gates["PodLevelResourceManagers"] = true;
  node.config = ConfigText(config);
  if (random.OnceIn(4)) node.config.insert(1, R"("annotatedExtendedResources":false,)");
  if (random.OnceIn(2)) {
    PlannedPod running;
    running.pod = AppPod("running-" + name, {{"cpu", "1"}, {"memory", "1Gi"}});
    if (random.OnceIn(4)) AddAnnotation(running, random);
    node.running.push_back(running);
  }
  return node;
}

// Some nodes several times; only those that can start.
inline std::vector<FleetNode> RandomFleet(Random& random) {
  std::vector<FleetNode> nodes;
  for (int kind = random.Number(1, 4); kind > 0; --kind) {
    const FleetNode node = RandomFleetNode("n" + std::to_string(kind), random);
    if (!MakePlannedNode(node).ok()) continue;  // NUMA node 0 can be too small
    for (int copy = random.Number(1, 3); copy > 0; --copy) {
      nodes.push_back(node);
      nodes.back().name += "-" + std::to_string(copy);
    }
  }
  return nodes;
}

}  // namespace alignd::placement
