#include "core/placement/object_pods.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "alignd/noderesourcetopology/object.h"
#include "alignd/noderesourcetopology/pod_fingerprint.h"
#include "alignd/placement/planned_node.h"
#include "alignd/pod/resource_name.h"
#include "core/placement/annotation_conflict.h"
#include "core/placement/object_fields.h"

namespace alignd::placement {
namespace {

// So many pods can each be in the object or not: all their subsets are compared with it.
constexpr size_t kMaxEachAlone = 8;

std::string NameOf(const BoundPod& bound) {
  return bound.pod.pod.name_space + "/" + bound.pod.pod.name;
}

// Without the UID that a pod without one gets.
noderesourcetopology::PodIdentity IdentityOf(const BoundPod& bound) {
  const Pod& pod = bound.pod.pod;
  return {pod.name_space, pod.name, pod.uid == NameOf(bound) ? "" : pod.uid};
}

// Whether the object has exactly these pods, as far as it shows.
bool Has(const TopologyObject& object, const std::vector<noderesourcetopology::PodIdentity>& pods) {
  if (noderesourcetopology::PodFingerprint(pods) != object.fingerprint) return false;
  const std::string* const stated =
      AttributeOf(object.attributes, noderesourcetopology::kUidFingerprintAttribute);
  if (stated == nullptr) return true;
  const std::optional<std::string> uids = noderesourcetopology::UidFingerprint(pods);
  return !uids || *uids == *stated;
}

// No container of the node has been assigned anything.
bool IsUnused(const TopologyObject& object) {
  return std::ranges::all_of(object.zones, [&](const noderesourcetopology::Zone& zone) {
    const std::string* const shared = AttributeOf(object.of_zone.at(zone.numa_id),
                                                  noderesourcetopology::kSharedRequestsAttribute);
    if (shared != nullptr && *shared != "0m") return false;
    return std::ranges::all_of(zone.resources, [](const auto& entry) {
      return entry.second.available == entry.second.allocatable;
    });
  });
}

// Whether a node with that configuration assigns something to a container of the pod that runs.
bool IsAssignedSomething(const TopologyObject& object, const ObjectConfig& config, const Pod& pod) {
  if (config.assigns_memory && IsPinned(pod)) return true;
  const bool stays = pod.policies.shared_on_one_node ||
                     DefaultPoliciesFor(config.parsed, pod.name_space).shared_on_one_node;
  if (config.shares_nodes && stays) return true;
  if (HasPodLevelResources(pod)) return config.assigns_cpus || config.assigns_memory;
  const auto has_devices = [&](const std::string& resource) {
    return std::ranges::any_of(object.zones, [&](const noderesourcetopology::Zone& zone) {
      return zone.resources.contains(resource);
    });
  };
  return std::ranges::any_of(pod.containers, [&](const Container& container) {
    if (container.kind == ContainerKind::kInit) return false;  // it has ended
    if (config.assigns_cpus && ExclusiveCpus(pod, container) > 0) return true;
    return std::ranges::any_of(container.resources.limits, [&](const auto& limit) {
      return MayBeDevice(limit.first) && limit.second.Sign() > 0 && has_devices(limit.first);
    });
  });
}

// Of an object in which nothing is assigned. Empty: no running pod contradicts it.
std::string WhyNotUnused(const TopologyObject& object, const ObjectConfig& config,
                         const std::vector<BoundPod>& pods) {
  for (const BoundPod& bound : pods) {
    if (!bound.has_started || !IsAssignedSomething(object, config, PodOn(config.parsed, bound.pod)))
      continue;
    return "pod " + NameOf(bound) +
           " runs, and the object has no fingerprint and nothing that is assigned: it is of "
           "before the pod, or of another node; " +
           kPublish;
  }
  return {};
}

std::string WhyUnreadable(const std::vector<BoundPod>& pods) {
  for (const BoundPod& bound : pods) {
    const PlannedPod& pod = bound.pod;
    if (pod.faults.empty() && !pod.has_unknown_overhead) continue;
    return "pod " + NameOf(bound) + " of the node cannot be read: " +
           (pod.faults.empty() ? pod.undecided.front() : pod.faults.front());
  }
  return {};
}

// As its spec has it, or as its annotation has it. A contradiction alone is none of it: a pod can
// stay on the node for ever with it.
bool MayDependOnNumaNodes(const PlannedPod& pod, const KubeletConfig& config) {
  if (DependsOnNumaNodes(pod.pod, config)) return true;
  const std::optional<PlannedPod> by_annotation = ByAnnotation(pod);
  return by_annotation && DependsOnNumaNodes(by_annotation->pod, config);
}

// Where pods are that a node has yet to admit depends on their order, which no object shows. Pods
// that request the same can be in any order.
std::string WhyOrderMatters(const std::vector<PlannedPod>& arriving, const ObjectConfig& config) {
  const PlannedPod* first = nullptr;
  for (const PlannedPod& pod : arriving) {
    if (!MayDependOnNumaNodes(pod, config.parsed)) continue;
    if (first == nullptr) {
      first = &pod;
    } else if (WithoutNames(*first).pod != WithoutNames(pod).pod ||
               first->annotated != pod.annotated || first->without_devices != pod.without_devices ||
               first->overhead != pod.overhead) {
      return "pods " + first->pod.name_space + "/" + first->pod.name + " and " +
             pod.pod.name_space + "/" + pod.pod.name +
             " are starting, and differ: where they are depends on their order; repeat when they "
             "run and the object has them";
    }
  }
  return {};
}

// What such a pod is assigned may not be in the amounts.
std::string WhyUnsettled(const BoundPod& bound, const ObjectConfig& config) {
  if (bound.is_replaced) {
    return "pod " + NameOf(bound) +
           " has replaced another pod of its name just now: the object may have that one; repeat";
  }
  if (!MayDependOnNumaNodes(bound.pod, config.parsed)) return {};
  if (bound.is_resizing) {
    return "pod " + NameOf(bound) +
           " is resized in place: the object may not have what it is assigned; repeat when the "
           "node has resized it";
  }
  if (!bound.is_restarting || bound.is_ending) return {};
  return "a container of pod " + NameOf(bound) +
         " does not run, and is started again: the object may not have what it is assigned then; "
         "repeat when it runs";
}

// `is_in`: whether the fingerprint has the pod.
template <typename IsIn>
ObjectPods Sorted(const std::vector<BoundPod>& pods, const ObjectConfig& config,
                  const IsIn& is_in) {
  ObjectPods sorted;
  for (const BoundPod& bound : pods) {
    if (!is_in(bound) && bound.is_starting && !bound.is_ending) {
      sorted.arriving.push_back(bound.pod);
      continue;
    }
    sorted.counted.push_back(bound.pod);
    if (sorted.unknown.empty()) sorted.unknown = WhyUnsettled(bound, config);
    // Its later containers may not be in the amounts.
    if (is_in(bound) && bound.is_starting && bound.pod.pod.containers.size() > 1 &&
        sorted.unknown.empty()) {
      sorted.unknown = "pod " + NameOf(bound) +
                       " is starting: the object may not have what its later containers are "
                       "assigned; repeat when it runs";
    }
  }
  return sorted;
}

// A pod is in the object with its first container, and leaves it with its last one. So pods that
// start, end or start again can be in it or not. nullopt: the fingerprint is of other pods.
std::optional<ObjectPods> SortedByFingerprint(const TopologyObject& object,
                                              const std::vector<BoundPod>& pods,
                                              const ObjectConfig& config) {
  std::vector<noderesourcetopology::PodIdentity> settled;
  std::vector<const BoundPod*> others;
  for (const BoundPod& bound : pods) {
    if (bound.is_starting || bound.is_ending || bound.is_restarting) {
      others.push_back(&bound);
    } else {
      settled.push_back(IdentityOf(bound));
    }
  }
  // Too many for all subsets of them: of those that start, all are in it or none, and so on.
  const bool by_kind = others.size() > kMaxEachAlone;
  const auto bit_of = [&](size_t position) {
    const BoundPod& bound = *others[position];
    if (!by_kind) return position;
    return size_t{bound.is_ending ? 1U : bound.is_starting ? 0U : 2U};
  };
  const unsigned subsets = 1U << (by_kind ? 3 : others.size());
  for (unsigned subset = 0; subset < subsets; ++subset) {
    std::vector<noderesourcetopology::PodIdentity> present = settled;
    std::set<const BoundPod*> absent;
    for (size_t position = 0; position < others.size(); ++position) {
      if ((subset >> bit_of(position) & 1U) != 0) {
        absent.insert(others[position]);
      } else {
        present.push_back(IdentityOf(*others[position]));
      }
    }
    if (!Has(object, present)) continue;
    return Sorted(pods, config, [&](const BoundPod& bound) { return !absent.contains(&bound); });
  }
  return std::nullopt;
}

ObjectPods AllOf(const std::vector<BoundPod>& pods, std::string unknown) {
  ObjectPods all{.counted = {}, .arriving = {}, .unknown = std::move(unknown)};
  for (const BoundPod& bound : pods) {
    // What a pod with faults requests is not known.
    if (bound.pod.faults.empty()) all.counted.push_back(bound.pod);
  }
  return all;
}

}  // namespace

ObjectPods PodsInObject(const TopologyObject& object, const std::vector<BoundPod>& pods,
                        const ObjectConfig& config) {
  std::string unknown = config.unknown.empty() ? WhyUnreadable(pods) : config.unknown;
  if (object.fingerprint.empty() && IsUnused(object)) {
    if (unknown.empty()) unknown = WhyNotUnused(object, config, pods);
    if (!unknown.empty()) return AllOf(pods, std::move(unknown));
    // The object was made before the first pod.
    ObjectPods sorted;
    for (const BoundPod& bound : pods) sorted.arriving.push_back(bound.pod);
    sorted.unknown = WhyOrderMatters(sorted.arriving, config);
    return sorted;
  }
  if (!unknown.empty()) return AllOf(pods, std::move(unknown));
  if (object.fingerprint.empty()) {
    return AllOf(pods, std::string("the object has no fingerprint of all pods, so that it is not "
                                   "known which pods it counts; ") +
                           kPublish);
  }
  std::optional<ObjectPods> sorted = SortedByFingerprint(object, pods, config);
  if (!sorted) {
    return AllOf(
        pods,
        "the fingerprint of the object is not that of the pods that are bound to the node: "
        "pods are on their way, or missing here; repeat with all pods and the "
        "newest objects");
  }
  if (sorted->unknown.empty()) sorted->unknown = WhyOrderMatters(sorted->arriving, config);
  if (!sorted->unknown.empty()) return AllOf(pods, std::move(sorted->unknown));
  return *std::move(sorted);
}

}  // namespace alignd::placement
