#include "core/placement/annotation_conflict.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/annotated_resources.h"
#include "alignd/pod/pod_policies.h"
#include "alignd/pod/resource_name.h"
#include "alignd/pod/scoped_annotations.h"
#include "core/placement/annotated_sizes.h"

namespace alignd::placement {
namespace {

// The author of the pod chooses names, and the text is repeated for each node.
constexpr size_t kLongest = 400;

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

// A sidecar that is listed after an init container is assigned CPUs of it. If it runs before that
// one starts, the node does not start that one.
std::optional<std::string> FirstOtherOrder(const std::vector<Container>& annotated,
                                           const Pod& pod) {
  const auto has_cpus = [](const Container& one) {
    return one.resources.limits.contains("cpu") || one.resources.requests.contains("cpu");
  };
  const auto place_of = [&pod](const Container& one) {
    return std::ranges::find(pod.containers, one.name, &Container::name) - pod.containers.begin();
  };
  for (auto sidecar = annotated.begin(); sidecar != annotated.end(); ++sidecar) {
    if (sidecar->kind != ContainerKind::kSidecar || !has_cpus(*sidecar)) continue;
    const auto init = std::find_if(annotated.begin(), sidecar, [&](const Container& one) {
      return one.kind == ContainerKind::kInit && has_cpus(one) &&
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

Result<std::vector<Container>> ContainersIn(std::string_view key, const std::string& text) {
  if (key == kKoordinatorAnnotation) return ParseKoordinatorResources(text);
  return key == kResourcesAnnotation ? ParseAnnotatedResources(text) : ParseIntelResources(text);
}

// Its name and text. A node takes the first one that is there, in this order.
std::optional<std::pair<std::string_view, std::string>> AnnotationOf(const json::View& metadata) {
  const auto annotations = metadata.value().find("annotations");
  if (annotations == metadata.value().end() || !annotations->is_object()) return std::nullopt;
  for (const std::string_view key :
       {kResourcesAnnotation, kIntelResourcesAnnotation, kKoordinatorAnnotation}) {
    const auto found = annotations->find(std::string(key));
    if (found == annotations->end() || !found->is_string()) continue;
    return std::pair(key, found->get<std::string>());
  }
  return std::nullopt;
}

void RemoveDevices(std::vector<Container>& containers) {
  for (Container& container : containers) {
    for (ResourceList* const list : {&container.resources.requests, &container.resources.limits}) {
      std::erase_if(*list, [](const auto& entry) { return IsExtendedResource(entry.first); });
    }
  }
}

// What a node takes from an annotation.
enum class Devices { kFollowed, kIgnored };

std::string AuthorOf(std::string_view key) { return "annotation " + std::string(key); }

// The pod as the annotation states it. Errors: of the text, and those with which a node refuses it.
Result<Pod> StatedPod(std::string_view key, const std::string& text, const Pod& pod,
                      Devices devices) {
  Result<std::vector<Container>> read = ContainersIn(key, text);
  if (!read.ok()) return read.error().In(AuthorOf(key));
  Pod stated;
  stated.containers = *std::move(read);
  if (key == kResourcesAnnotation) {
    const Result<std::optional<Resources>> whole = ParseAnnotatedPodLevel(text, stated.containers);
    if (!whole.ok()) return whole.error().In(AuthorOf(key));
    stated.pod_level = *whole;
  }
  if (devices == Devices::kIgnored) RemoveDevices(stated.containers);
  if (key == kIntelResourcesAnnotation) {
    Result<std::vector<Container>> concluded =
        WithConcludedKinds(stated.containers, pod, AuthorOf(key));
    if (!concluded.ok()) return concluded.error();
    stated.containers = *std::move(concluded);
  }
  return stated;
}

// Where the annotation differs from the spec: what it "has" or "does not say".
std::optional<std::string> FirstDifference(std::string_view key, const Pod& stated,
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

// As AnnotationSource has the pod. Of a container that the annotation does not name, a node
// estimates all but devices.
AnnotatedPod AsAnnotated(std::string_view key, const std::string& text, const Pod& pod) {
  const Result<std::vector<Container>> read = ContainersIn(key, text);
  if (!read.ok()) return {};
  AnnotatedPod annotated;
  const auto named = [&read](const Container& own) {
    return std::ranges::find(*read, own.name, &Container::name);
  };
  if (key == kKoordinatorAnnotation) {
    // A node knows all containers of a BestEffort pod: those that are not named request nothing.
    const bool is_whole = QosOf(pod) == QosClass::kBestEffort;
    annotated = {pod.containers, pod.pod_level, !is_whole};
    RemoveDevices(annotated.containers);
    for (Container& container : annotated.containers) {
      const auto stated = named(container);
      if (stated == read->end()) continue;
      const Resources& devices = stated->resources;
      container.resources.requests.insert(devices.requests.begin(), devices.requests.end());
      container.resources.limits.insert(devices.limits.begin(), devices.limits.end());
    }
    if (is_whole) std::ranges::stable_sort(annotated.containers, {}, named);
    return annotated;
  }
  annotated.containers = *read;
  if (key == kIntelResourcesAnnotation) {
    Result<std::vector<Container>> concluded = WithConcludedKinds(*read, pod, AuthorOf(key));
    if (concluded.ok()) annotated.containers = *std::move(concluded);
    // Otherwise, such a node refuses the pod: what it knows of its own is the spec.
    for (Container& container : annotated.containers) {
      const auto own = std::ranges::find(pod.containers, container.name, &Container::name);
      if (!concluded.ok() && own != pod.containers.end()) container.kind = own->kind;
    }
  }
  if (key == kResourcesAnnotation) {
    Result<std::optional<Resources>> whole = ParseAnnotatedPodLevel(text, *read);
    if (!whole.ok()) return {};
    annotated.pod_level = *std::move(whole);
  }
  std::vector<Container> unnamed;
  for (const Container& own : pod.containers) {
    if (named(own) == read->end()) unnamed.push_back(own);
  }
  annotated.is_partial = !unnamed.empty();
  RemoveDevices(unnamed);
  annotated.containers.insert(annotated.containers.end(), unnamed.begin(), unnamed.end());
  std::stable_partition(
      annotated.containers.begin(), annotated.containers.end(),
      [](const Container& container) { return container.kind != ContainerKind::kApp; });
  return annotated;
}

// Why a node refuses the pod, or takes it as something else than its spec has.
std::optional<std::string> FirstContradiction(std::string_view key, const std::string& text,
                                              const Pod& pod, Devices devices) {
  const std::string author = AuthorOf(key);
  const Result<Pod> stated = StatedPod(key, text, pod, devices);
  if (!stated.ok()) return stated.error().message;
  const std::optional<std::string> difference = FirstDifference(key, *stated, pod);
  if (difference) return author + " " + *difference;
  return key == kKoordinatorAnnotation ? std::nullopt : RefusalBySizes(*stated, pod, author);
}

// Empty: the annotation agrees with the spec.
std::string DescribeConflict(std::string_view key, const std::string& text, Pod pod,
                             Devices devices) {
  if (devices == Devices::kIgnored) RemoveDevices(pod.containers);
  std::string what = FirstContradiction(key, text, pod, devices).value_or("");
  if (what.empty()) return what;
  if (what.size() > kLongest) what = AuthorOf(key) + " does not state what the spec states";
  return what +
         "; a node that does not ask the kubelet's Pods API follows the annotation or refuses the "
         "pod: make both equal, or remove the annotation";
}

bool HasDevices(const Pod& pod) {
  return std::ranges::any_of(pod.containers, [](const Container& container) {
    return std::ranges::any_of(container.resources.limits, [](const auto& limit) {
      return IsExtendedResource(limit.first) && limit.second.Sign() > 0;
    });
  });
}

// Whether a node that follows the annotation decides about the same containers in the same order.
// Koordinator's annotation alone says nothing about CPUs and memory: such a node decides about each
// container when it is created, as without the annotation.
bool IsDecidedAlike(std::string_view key, const AnnotatedPod& annotated, const Pod& pod) {
  if (key == kKoordinatorAnnotation && annotated.is_partial) return true;
  return !annotated.is_partial && std::ranges::equal(annotated.containers, pod.containers, {},
                                                     &Container::name, &Container::name);
}

}  // namespace

std::optional<AnnotationConflict> FindAnnotationConflict(const json::View& metadata,
                                                         const Pod& pod) {
  const auto stated = AnnotationOf(metadata);
  if (!stated) return std::nullopt;
  const auto& [key, text] = *stated;
  std::string conflict = DescribeConflict(key, text, pod, Devices::kFollowed);
  AnnotatedPod annotated = AsAnnotated(key, text, pod);
  if (conflict.empty() && IsDecidedAlike(key, annotated, pod)) return std::nullopt;
  return AnnotationConflict{std::move(conflict), std::move(annotated)};
}

std::optional<AnnotationConflict> FindConflictWithoutDevices(const json::View& metadata,
                                                             const Pod& pod) {
  const auto stated = AnnotationOf(metadata);
  if (!stated) return std::nullopt;
  const auto& [key, text] = *stated;
  if (key == kKoordinatorAnnotation) return std::nullopt;  // it has nothing else
  std::string conflict = DescribeConflict(key, text, pod, Devices::kIgnored);
  AnnotatedPod annotated = AsAnnotated(key, text, pod);
  if (conflict.empty() && !HasDevices(pod) && IsDecidedAlike(key, annotated, pod)) {
    return std::nullopt;
  }
  RemoveDevices(annotated.containers);
  return AnnotationConflict{std::move(conflict), std::move(annotated)};
}

std::map<std::string, ResourceList> AnnotatedDevices(const json::View& metadata, const Pod& pod) {
  std::map<std::string, ResourceList> devices;
  const auto stated = AnnotationOf(metadata);
  if (!stated) return devices;
  const Result<std::vector<Container>> read = ContainersIn(stated->first, stated->second);
  if (!read.ok()) return devices;
  for (const Container& container : *read) {
    // It can have devices for a container that the spec does not have.
    const auto own = std::ranges::find(pod.containers, container.name, &Container::name);
    for (const auto& [name, amount] : container.resources.limits) {
      if (!IsExtendedResource(name)) continue;
      const Quantity* const of_spec =
          own == pod.containers.end() ? nullptr : Find(own->resources.limits, name);
      if ((of_spec == nullptr ? Quantity() : *of_spec) < amount) {
        devices[container.name][name] = amount;
      }
    }
  }
  return devices;
}

}  // namespace alignd::placement
