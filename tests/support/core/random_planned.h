// Random pods and devices for tests of planning.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/placement/manifest.h"
#include "alignd/pod/pod_requests.h"
#include "alignd/scenario/scenario.h"
#include "core/crowded_node.h"

namespace alignd::placement {

// What a pod can ask for, or have by default.
inline PlacementPolicies RandomPlacement(Random& random) {
  using Bind = std::optional<CpuBindPolicy>;
  PlacementPolicies policies;
  policies.numa_topology = random.OneOf<std::optional<NumaTopologyPolicy>>(
      {std::nullopt, NumaTopologyPolicy::kBestEffort, NumaTopologyPolicy::kRestricted,
       NumaTopologyPolicy::kSingleNumaNode});
  policies.keeps_numa_apart = policies.numa_topology && random.OnceIn(4);
  const std::vector<Bind> binds = {std::nullopt, std::nullopt, CpuBindPolicy::kFullPcpus,
                                   CpuBindPolicy::kSpreadByPcpus};
  policies.required_bind = random.OneOf(binds);
  policies.preferred_bind = random.OneOf(binds);
  policies.exclusive = random.OneOf<std::optional<CpuExclusivePolicy>>(
      {std::nullopt, std::nullopt, CpuExclusivePolicy::kPcpuLevel,
       CpuExclusivePolicy::kNumaNodeLevel});
  policies.prefers_shared_cpus = random.OnceIn(4);
  policies.shared_on_one_node = random.OnceIn(4);
  return policies;
}

// Mostly on nodes that have no policy of their own: on others, few pods fit that choose one.
inline void LetPodsChoose(KubeletConfig& config, Random& random) {
  config.numa_allocate_strategy = random.OneOf<NumaAllocateStrategy>(
      {NumaAllocateStrategy::kNone, NumaAllocateStrategy::kNone, NumaAllocateStrategy::kFullestNode,
       NumaAllocateStrategy::kEmptiestNode, NumaAllocateStrategy::kAllNodes});
  if (!random.OnceIn(3)) return;
  config.pod_policies = {PodPolicy::kNumaTopologyPolicy};
  if (random.OnceIn(2)) {
    config.pod_policies.insert(PodPolicy::kCpuBindPolicy);
    config.pod_policies.insert(PodPolicy::kCpuExclusivePolicy);
  }
  if (random.OnceIn(2)) config.pod_policies.insert(PodPolicy::kResourceStatus);
  if (random.OnceIn(2)) config.pod_policies.insert(PodPolicy::kSharedNumaNode);
  if (random.OnceIn(2)) {
    config.pod_policies.insert(PodPolicy::kQosClass);
    config.pod_policies.insert(PodPolicy::kPreferSharedCpus);
    config.pod_policies.insert(PodPolicy::kPreferIsolatedCpus);
  }
  if (random.OnceIn(3)) {
    config.namespace_policies = {{{"team-*"}, {}}};
    if (random.OnceIn(2)) std::swap(config.namespace_policies[0].pod_policies, config.pod_policies);
  }
  if (!random.OnceIn(4)) config.topology_manager_policy = TopologyManagerPolicy::kNone;
  if (!random.OnceIn(3)) return;
  if (config.namespace_policies.empty()) {
    config.namespace_policies = {{{"team-*"}, config.pod_policies}};
  }
  // Those of a topology policy are only for nodes without one.
  const bool has_none = config.topology_manager_policy == TopologyManagerPolicy::kNone;
  config.namespace_policies[0].defaults = RandomPlacement(random);
  if (!has_none) config.namespace_policies[0].defaults.numa_topology.reset();
}

// How the CPUs of a pod lie on cores, what they stay away from, and what a scheduler has decided.
inline void AskForCpus(PodPolicies& policies, const Machine& machine, Random& random) {
  using Bind = std::optional<CpuBindPolicy>;
  const std::vector<Bind> binds = {std::nullopt, CpuBindPolicy::kFullPcpus,
                                   CpuBindPolicy::kSpreadByPcpus};
  policies.required_bind = random.OneOf(binds);
  policies.preferred_bind = random.OneOf(binds);
  policies.exclusive = random.OneOf<std::optional<CpuExclusivePolicy>>(
      {std::nullopt, CpuExclusivePolicy::kPcpuLevel, CpuExclusivePolicy::kNumaNodeLevel});
  if (random.OnceIn(8)) policies.spec_fault = "annotation y: is wrong";
  if (random.OnceIn(6)) policies.cpuset = random.SomeOf(machine.cpus()).Lowest(random.Number(1, 4));
  if (random.OnceIn(6)) policies.numa_resources[random.Number(0, machine.numa_count())] = {};
}

// Shared CPUs in place of exclusive ones.
inline void AskForSharedCpus(Pod& pod, Random& random) {
  CpuSharing& sharing = pod.policies.sharing;
  ReadSharingLabel(kQosClassLabel, random.OneOf<std::string>({"", "", "LSR", "LS", "system"}),
                   sharing);
  const std::string scope = random.OneOf<std::string>(
      {"", "/pod", "/container.none", "/container." + pod.containers[0].name});
  ReadSharingAnnotation("prefer-shared-cpus.resource-policy.nri.io" + scope,
                        random.OneOf<std::string>({"true", "true", "false", "no"}), sharing);
}

// Isolated CPUs, or other ones.
inline void AskForIsolatedCpus(Pod& pod, Random& random) {
  const std::string scope =
      random.OneOf<std::string>({"", "", "/pod", "/container." + pod.containers[0].name});
  ReadScopedAnnotation(kPreferIsolated, "prefer-isolated-cpus.resource-policy.nri.io" + scope,
                       random.OneOf<std::string>({"true", "true", "false"}),
                       pod.policies.isolation);
}

// The pod is Guaranteed by what it requests as a whole, which is what its containers request
// together or more. Some of them request nothing of their own.
inline void AddPodLevel(Pod& pod, Random& random) {
  for (Container& container : pod.containers) {
    if (!random.OnceIn(3)) continue;
    for (const char* const name : {"cpu", "memory"}) {
      container.resources.requests.erase(name);
      container.resources.limits.erase(name);
    }
  }
  ResourceList of_containers = RequestsOfContainers(pod.containers);
  ResourceList whole;
  whole["cpu"] = Quantity(of_containers["cpu"].Value() + random.Number(1, 2));
  whole["memory"] = Quantity(of_containers["memory"].Value() + (int64_t{1} << 30));
  if (random.OnceIn(6)) whole["cpu"] += Amounts({{"cpu", "500m"}})["cpu"];
  pod.pod_level = Resources{.requests = whole, .limits = whole};
  pod.stated_qos.reset();
}

// Requests of the shared pool and of exclusive CPUs, of devices that are there and of others.
inline PlannedPod RandomPlanned(const std::string& uid, const Machine& machine, Random& random) {
  PlannedPod planned;
  planned.pod = admission::RandomPod(uid, machine, 1, random);
  planned.pod.name_space = random.OneOf<std::string>({"default", "team-a"});
  if (random.OnceIn(2)) {
    for (Container& container : planned.pod.containers) {
      container.resources.limits.erase("cpu");
      container.resources.requests["cpu"] =
          Quantity::Parse(std::to_string(random.Number(0, 4000)) + "m").value();
    }
    planned.pod.stated_qos.reset();
  } else if (random.OnceIn(4)) {  // Guaranteed, with shared CPUs
    for (Container& container : planned.pod.containers) {
      const Quantity part =
          Quantity::Parse(std::to_string(random.Number(0, 3) * 1000 + 500) + "m").value();
      container.resources.requests["cpu"] = container.resources.limits["cpu"] = part;
    }
  }
  if (random.OnceIn(8)) AddPodLevel(planned.pod, random);
  if (random.OnceIn(4)) planned.overhead = Amounts({{"cpu", "750m"}, {"memory", "512Mi"}});
  if (random.OnceIn(6)) {
    planned.pod.containers[0].resources.requests["b.com/dev"] = Quantity(1);
    planned.pod.containers[0].resources.limits["b.com/dev"] = Quantity(1);
  }
  if (random.OnceIn(3)) {
    planned.pod.policies.numa_topology = random.OneOf<NumaTopologyPolicy>(
        {NumaTopologyPolicy::kBestEffort, NumaTopologyPolicy::kRestricted,
         NumaTopologyPolicy::kSingleNumaNode});
  } else if (random.OnceIn(8)) {
    planned.pod.policies.fault = "annotation x: is wrong";
  }
  planned.pod.policies.keeps_numa_apart = random.OnceIn(6);
  if (random.OnceIn(3)) AskForCpus(planned.pod.policies, machine, random);
  planned.pod.policies.shared_on_one_node = random.OnceIn(4);
  if (random.OnceIn(40)) planned.pod.policies.shared_fault = "annotation z: is wrong";
  if (random.OnceIn(4)) AskForSharedCpus(planned.pod, random);
  if (random.OnceIn(4)) AskForIsolatedCpus(planned.pod, random);
  if (random.OnceIn(60)) planned.undecided = {"claims"};
  if (random.OnceIn(20)) planned.faults = {"spec.x: unknown field"};
  return planned;
}

// The amount as request and limit; 0: none.
inline void SetAmount(Container& container, const std::string& resource, int64_t amount) {
  if (amount == 0) {
    container.resources.limits.erase(resource);
    container.resources.requests.erase(resource);
    return;
  }
  container.resources.limits[resource] = container.resources.requests[resource] = Quantity(amount);
}

// The pod as the API server shows it while it is resized in place: the node has followed the last
// change of its spec, or has not yet. Limits are those of the spec, and of requests, the larger
// ones count. Its class never changes. `pod`: as it is. False: it has nothing that can be resized.
inline bool ShowResized(PlannedPod& pod, Random& random) {
  const QosClass qos = QosOf(pod.pod);
  std::vector<Resources*> all;
  if (pod.pod.pod_level) all.push_back(&*pod.pod.pod_level);
  for (Container& container : pod.pod.containers) {
    if (container.kind != ContainerKind::kInit) all.push_back(&container.resources);
  }
  const std::string name = random.OneOf<std::string>({"cpu", "cpu", "memory"});
  std::erase_if(all, [&name](const Resources* one) {
    return !one->requests.contains(name) || !one->limits.contains(name);
  });
  if (all.empty()) return false;
  Resources& resized = *random.OneOf(all);
  const Quantity other(name == "cpu" ? random.Number(1, 4) : int64_t{random.Number(1, 4)} << 30);
  if (random.OnceIn(2)) resized.limits[name] = other;
  resized.requests[name] = std::max(resized.requests[name], other);
  pod.pod.stated_qos = qos;
  pod.is_resizing = true;
  return true;
}

inline AnnotatedPod WithoutDevices(AnnotatedPod annotated) {
  for (Container& container : annotated.containers) {
    SetAmount(container, "a.com/dev", 0);
    SetAmount(container, "b.com/dev", 0);
  }
  return annotated;
}

// The pod with an annotation that states what its spec states.
inline void AddEqualAnnotation(PlannedPod& pod) {
  pod.without_devices = {"", WithoutDevices({pod.pod.containers, pod.pod.pod_level})};
}

// The pod with an annotation that contradicts its spec. On a node that ignores devices, it may
// agree with it.
inline void AddOtherAnnotation(PlannedPod& pod, Random& random) {
  pod.annotation_conflict = "annotation x contradicts the spec";
  pod.annotated.emplace();
  if (random.OnceIn(4)) {  // it cannot be read
    pod.without_devices = {pod.annotation_conflict, {}};
    return;
  }
  pod.annotated->containers = pod.pod.containers;
  pod.annotated->pod_level = pod.pod.pod_level;
  Container& container = pod.annotated->containers.back();
  const bool has_cpus = !random.OnceIn(3);
  if (has_cpus) SetAmount(container, "cpu", random.Number(1, 4));
  if (!has_cpus || random.OnceIn(2)) SetAmount(container, "a.com/dev", random.Number(1, 2));
  pod.without_devices = {has_cpus ? pod.annotation_conflict : "", WithoutDevices(*pod.annotated)};
}

inline void AddAnnotation(PlannedPod& pod, Random& random) {
  if (random.OnceIn(2)) {
    AddEqualAnnotation(pod);
  } else {
    AddOtherAnnotation(pod, random);
  }
}

inline scenario::DeviceList RandomDeviceList(const Machine& machine, Random& random) {
  scenario::DeviceList devices;
  for (int i = random.Number(0, 6); i > 0; --i) {
    devicemanager::Device device;
    if (!random.OnceIn(5)) {
      device.numa = {machine.NumaId(random.Number(0, machine.numa_count() - 1))};
    }
    devices.emplace_back("dev-" + std::to_string(i), std::move(device));
  }
  return devices;
}

}  // namespace alignd::placement
