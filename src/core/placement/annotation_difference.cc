// How an annotation with resources differs from the spec of its pod, for a node that follows it.
#include "core/placement/annotation_difference.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "alignd/pod/annotated_resources.h"
#include "alignd/pod/pod_policies.h"
#include "alignd/pod/resource_name.h"
#include "alignd/pod/scoped_annotations.h"

namespace alignd::placement {
namespace {

// What nodes assign, without amounts of 0.
ResourceList Assigned(const ResourceList& list, bool extended_only) {
  ResourceList assigned;
  for (const auto& [name, amount] : list) {
    const bool is_assigned =
        IsExtendedResource(name) ||
        (!extended_only && (name == "cpu" || name == "memory" || name.starts_with("hugepages-")));
    if (is_assigned && amount.Sign() != 0) assigned.emplace(name, amount);
  }
  return assigned;
}

// The first amount that differs: "has 3 as requests.cpu of container app, the spec has 2".
std::optional<std::string> FirstDifference(const ResourceList& annotated, const ResourceList& spec,
                                           const std::string& where, bool extended_only) {
  const ResourceList stated = Assigned(annotated, extended_only);
  const ResourceList wanted = Assigned(spec, extended_only);
  ResourceList all = stated;
  all.insert(wanted.begin(), wanted.end());
  for (const auto& [name, amount] : all) {
    const auto text = [&name = name](const ResourceList& list) {
      const auto found = list.find(name);
      return found == list.end() ? std::string("0") : found->second.ToString();
    };
    const auto ours = stated.find(name);
    const auto theirs = wanted.find(name);
    if (ours != stated.end() && theirs != wanted.end() && ours->second == theirs->second) continue;
    return "has " + text(stated) + " as " + where + "." + name + ", the spec has " + text(wanted);
  }
  return std::nullopt;
}

std::optional<std::string> FirstDifference(const Resources& annotated, const Resources& spec,
                                           const std::string& of, bool extended_only) {
  auto found = FirstDifference(annotated.requests, spec.requests, of + "requests", extended_only);
  if (!found) {
    found = FirstDifference(annotated.limits, spec.limits, of + "limits", extended_only);
  }
  return found;
}

std::optional<std::string> FirstDifference(const std::vector<Container>& annotated, const Pod& pod,
                                           bool extended_only) {
  for (const Container& stated : annotated) {
    const auto own = std::ranges::find(pod.containers, stated.name, &Container::name);
    if (own == pod.containers.end())
      return "names container " + stated.name + ", the spec has none";
    auto found =
        FirstDifference(stated.resources, own->resources, stated.name + ".", extended_only);
    if (found) return found;
  }
  return std::nullopt;
}

// A node that follows an annotation gives a container that it does not name no devices.
std::optional<std::string> FirstUnnamedDevice(const std::vector<Container>& annotated,
                                              const Pod& pod) {
  for (const Container& own : pod.containers) {
    if (std::ranges::find(annotated, own.name, &Container::name) != annotated.end()) continue;
    auto found = FirstDifference(Resources{}, own.resources, own.name + ".", true);
    if (found) return found;
  }
  return std::nullopt;
}

// A node that follows the annotation knows no other containers, and refuses a pod with an
// annotation for one that it does not know. Source: admission::ObjectionToScoped.
std::optional<std::string> FirstWithPreference(const std::vector<Container>& annotated,
                                               const Pod& pod) {
  for (const auto& [key, read] : {std::pair(kPreferIsolated, &pod.policies.isolation),
                                  std::pair(kPreferShared, &pod.policies.sharing.annotations)}) {
    for (const std::string& name : ContainersNamed(*read)) {
      if (std::ranges::find(annotated, name, &Container::name) != annotated.end()) continue;
      return "does not name container " + name + ", for which the pod has an annotation " +
             std::string(key);
    }
  }
  return std::nullopt;
}

// Koordinator's webhook writes some extended resources only. A node adds them to what it knows. Of
// a BestEffort pod, it takes them for all that the pod requests, and each container for an app.
std::optional<std::string> FirstOther(const std::vector<Container>& annotated, const Pod& pod) {
  if (QosOf(pod) == QosClass::kBestEffort) {
    for (const Container& stated : annotated) {
      const auto own = std::ranges::find(pod.containers, stated.name, &Container::name);
      if (own == pod.containers.end() || own->kind == ContainerKind::kApp) continue;
      return "does not say that " + own->name + " is an init container";
    }
    auto found = FirstDifference(annotated, pod, true);
    if (!found) found = FirstUnnamedDevice(annotated, pod);
    return found ? found : FirstWithPreference(annotated, pod);
  }
  Pod named = pod;
  for (Container& container : named.containers) {
    const auto stated = std::ranges::find(annotated, container.name, &Container::name);
    if (stated == annotated.end()) continue;
    const auto keep = [](ResourceList& list, const ResourceList& names) {
      std::erase_if(list, [&names](const auto& entry) { return !names.contains(entry.first); });
    };
    keep(container.resources.requests, stated->resources.requests);
    keep(container.resources.limits, stated->resources.limits);
  }
  return FirstDifference(annotated, named, true);
}

bool HasSizes(const Container& one) {
  return !one.resources.requests.empty() || !one.resources.limits.empty();
}

// A container that is not named is estimated when it is created, and counts beside all others: as
// if it were an app, and with what the pod as a whole requests. A node refuses it if that is too
// much.
std::optional<std::string> FirstToBeNamed(const std::vector<Container>& annotated, const Pod& pod) {
  for (const Container& own : pod.containers) {
    if (std::ranges::find(annotated, own.name, &Container::name) != annotated.end()) continue;
    if (pod.pod_level) {
      return "does not name container " + own.name + " of a pod with pod-level resources";
    }
    if (own.kind != ContainerKind::kApp && HasSizes(own)) {
      return "does not name init container " + own.name;
    }
  }
  return std::nullopt;
}

// `annotated`: with the kinds that a node has, and the names of the spec.
std::optional<std::string> FirstOtherKind(std::string_view key,
                                          const std::vector<Container>& annotated, const Pod& pod) {
  for (const Container& stated : annotated) {
    const auto own = std::ranges::find(pod.containers, stated.name, &Container::name);
    if (own == pod.containers.end() || own->kind == stated.kind) continue;
    const bool is_app = stated.kind == ContainerKind::kApp || own->kind == ContainerKind::kApp;
    if (key == kIntelResourcesAnnotation && !is_app) {
      return "does not say whether init container " + stated.name + " is a sidecar, as " +
             std::string(kResourcesAnnotation) + " does";
    }
    return "has another kind of container for " + stated.name + " than the spec";
  }
  return std::nullopt;
}

// Whether a container of the pod may be assigned something that an ended one has.
bool MayReuse(const Container& one, const Container& ended) {
  return std::ranges::any_of(one.resources.requests, [&ended](const auto& entry) {
    const bool is_reused = entry.first == "cpu" || IsExtendedResource(entry.first);
    return is_reused && ended.resources.requests.contains(entry.first);
  });
}

// A sidecar that is listed after an init container is assigned CPUs and devices of it. If it runs
// before that one starts, the node does not start that one.
std::optional<std::string> FirstOtherOrder(const std::vector<Container>& annotated,
                                           const Pod& pod) {
  const auto place_of = [&pod](const Container& one) {
    return std::ranges::find(pod.containers, one.name, &Container::name) - pod.containers.begin();
  };
  for (auto sidecar = annotated.begin(); sidecar != annotated.end(); ++sidecar) {
    if (sidecar->kind != ContainerKind::kSidecar) continue;
    const auto init = std::find_if(annotated.begin(), sidecar, [&](const Container& one) {
      return one.kind == ContainerKind::kInit && MayReuse(*sidecar, one) &&
             place_of(*sidecar) < place_of(one);
    });
    if (init == sidecar) continue;
    return "has sidecar " + sidecar->name + " after init container " + init->name +
           ", the spec before it";
  }
  return std::nullopt;
}

std::optional<std::string> OtherClass(const Pod& stated, const Pod& pod) {
  const auto ours = ToString(QosOf(stated));
  const auto theirs = ToString(QosOf(pod));
  if (ours == theirs) return std::nullopt;
  return "makes the pod " + std::string(ours) + ", the spec " + std::string(theirs);
}

}  // namespace

std::optional<std::string> DifferenceFromSpec(std::string_view key, const Pod& stated,
                                              const Pod& pod) {
  const std::vector<Container>& annotated = stated.containers;
  if (key == kKoordinatorAnnotation) return FirstOther(annotated, pod);
  auto found = FirstDifference(annotated, pod, false);
  if (!found) {
    found = FirstDifference(stated.pod_level.value_or(Resources{}),
                            pod.pod_level.value_or(Resources{}), "spec.", false);
  }
  if (!found) found = FirstUnnamedDevice(annotated, pod);
  if (!found) found = FirstToBeNamed(annotated, pod);
  if (!found) found = FirstWithPreference(annotated, pod);
  if (!found) found = FirstOtherKind(key, annotated, pod);
  if (!found) found = FirstOtherOrder(annotated, pod);
  return found ? found : OtherClass(stated, pod);
}

}  // namespace alignd::placement
