// Random pods for tests of planning and of the daemon: of each QoS class, with init containers and
// sidecars, pod-level resources, devices, an annotation with resources that is right, odd or not
// there, and policies of their own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/pod/annotated_resources.h"
#include "alignd/pod/pod_policies.h"
#include "alignd/pod/resource_name.h"
#include "core/random_machine.h"
#include "simulator/pod_manifest.h"

namespace alignd::daemon {

// What the pods of one node are like.
struct ManifestKind {
  std::string device;  // the extended resource
  int max_cpus = 4;    // of one container
  // Whether a pod without annotation requests devices.
  bool devices_need_annotation = true;
};

class RandomManifests {
 public:
  using Json = nlohmann::ordered_json;

  RandomManifests(ManifestKind kind, Random& random) : kind_(std::move(kind)), random_(random) {}

  // A Pod without UID.
  Json Make(const std::string& name) {
    Json pod = {{"apiVersion", "v1"},
                {"kind", "Pod"},
                {"metadata", {{"name", name}, {"namespace", "default"}}},
                {"spec", Json::object()}};
    const bool is_annotated = !random_.OnceIn(4);
    may_have_devices_ = is_annotated || !kind_.devices_need_annotation;
    AddContainers(pod["spec"]);
    if (is_annotated) Annotate(pod);
    if (random_.OnceIn(4)) ChoosePolicies(pod["metadata"]["annotations"]);
    return pod;
  }

 private:
  enum class Class { kGuaranteed, kBurstable, kBestEffort };

  struct Size {
    int64_t cpu_millis = 0;
    int64_t memory_mib = 0;
  };

  static void SetSizes(const Size& size, Json& list) {
    if (size.cpu_millis > 0) list["cpu"] = std::to_string(size.cpu_millis) + "m";
    if (size.memory_mib > 0) list["memory"] = std::to_string(size.memory_mib) + "Mi";
  }

  Size RandomSize() {
    Size size;
    size.cpu_millis = random_.OnceIn(6) ? 500 : 1000 * random_.Number(1, kind_.max_cpus);
    size.memory_mib = random_.OneOf<int>({100, 1024, 20'000, 40'000, 60'000});
    return size;
  }

  Json RandomContainer(const std::string& name, Class of, Size& sum) {
    Json resources = Json::object();
    if (of == Class::kGuaranteed) {
      const Size size = RandomSize();
      SetSizes(size, resources["limits"]);
      sum.cpu_millis += size.cpu_millis;
      sum.memory_mib += size.memory_mib;
    } else if (of == Class::kBurstable) {
      const Size size{1000 * random_.Number(1, 2), 100};
      if (!random_.OnceIn(3))
        SetSizes({size.cpu_millis / random_.Number(1, 4), 100}, resources["requests"]);
      if (random_.OnceIn(3)) SetSizes(size, resources["limits"]);
      sum.cpu_millis += size.cpu_millis;
      sum.memory_mib += size.memory_mib;
    }
    if (may_have_devices_ && random_.OnceIn(3)) {
      resources["limits"][kind_.device] = std::to_string(random_.OnceIn(3) ? 2 : 1);
    }
    Json container = {{"name", name}, {"image", "image"}};
    if (!resources.empty()) container["resources"] = std::move(resources);
    return container;
  }

  // Names in another order than the containers: intel.com/resources has them in that of the names.
  void AddContainers(Json& spec) {
    const Class of =
        random_.OneOf<Class>({Class::kGuaranteed, Class::kGuaranteed, Class::kGuaranteed,
                              Class::kBurstable, Class::kBestEffort});
    const bool is_pod_level = random_.OnceIn(6);
    std::vector<std::string> names = {"a", "b", "c", "d", "e"};
    for (size_t i = names.size(); i > 1; --i) {
      std::swap(names[i - 1],
                names[static_cast<size_t>(random_.Number(0, static_cast<int>(i) - 1))]);
    }
    Size sum;
    const auto next = [&] {
      const std::string name = names.back();
      names.pop_back();
      // With resources of the pod, containers need none.
      return RandomContainer(name, is_pod_level && random_.OnceIn(2) ? Class::kBestEffort : of,
                             sum);
    };
    for (int left = random_.OnceIn(2) ? random_.Number(1, 2) : 0; left > 0; --left) {
      Json container = next();
      if (random_.OnceIn(2)) container["restartPolicy"] = "Always";
      spec["initContainers"].push_back(std::move(container));
    }
    for (int left = random_.Number(1, 3); left > 0; --left) spec["containers"].push_back(next());
    if (!is_pod_level) return;
    const Size whole{sum.cpu_millis + 1000, sum.memory_mib + 100};
    SetSizes(whole, spec["resources"]["limits"]);
    SetSizes(random_.OnceIn(3) ? Size{sum.cpu_millis + 500, whole.memory_mib} : whole,
             spec["resources"]["requests"]);
  }

  // As a kubelet has it: with the requests that follow from limits.
  static Pod AsPod(const Json& pod) {
    const Result<simulator::PodManifest> manifest = simulator::ParsePodManifest(pod.dump());
    if (manifest.ok()) return manifest->pod;
    ADD_FAILURE() << manifest.error().Text() << pod.dump();
    return {};
  }

  static Json ListOf(const ResourceList& list, bool extended_only) {
    Json json = Json::object();
    for (const auto& [name, amount] : list) {
      if (!extended_only || IsExtendedResource(name)) json[name] = amount.ToString();
    }
    return json;
  }

  // In the dialect of webhooks: containers in the order of their names.
  static Json ByList(const Pod& pod, bool extended_only) {
    std::vector<Container> containers = pod.containers;
    std::ranges::sort(containers, {}, &Container::name);
    Json lists = {{"containers", Json::object()}};
    if (!extended_only) lists["initContainers"] = Json::object();
    for (const Container& one : containers) {
      const bool is_app = one.kind == ContainerKind::kApp;
      Json entry = {{"requests", ListOf(one.resources.requests, extended_only)},
                    {"limits", ListOf(one.resources.limits, extended_only)}};
      if (extended_only && (!is_app || entry["limits"].empty())) continue;
      lists[is_app ? "containers" : "initContainers"][one.name] = std::move(entry);
    }
    return lists;
  }

  void Annotate(Json& pod) {
    const Pod known = AsPod(pod);
    const std::string key(random_.OneOf<std::string_view>(
        {kResourcesAnnotation, kResourcesAnnotation, kResourcesAnnotation,
         kIntelResourcesAnnotation, kIntelResourcesAnnotation, kKoordinatorAnnotation}));
    Json text = key == kResourcesAnnotation ? Json::parse(simulator::ResourcesAnnotation(known))
                                            : ByList(known, key == kKoordinatorAnnotation);
    for (int left = random_.OnceIn(3) ? random_.Number(1, 2) : 0; left > 0; --left) {
      if (key == kResourcesAnnotation) {
        Falsify(text);
      } else {
        Falsify(text[text.contains("initContainers") && random_.OnceIn(2) ? "initContainers"
                                                                          : "containers"]);
      }
    }
    Json& annotations = pod["metadata"]["annotations"];
    annotations[key] = random_.OnceIn(40) ? "{" : text.dump();
    if (random_.OnceIn(12)) {
      annotations[std::string(kKoordinatorAnnotation)] = ByList(known, true).dump();
    }
  }

  // Policies of its own, as Koordinator's users write them. A node need not follow them.
  void ChoosePolicies(Json& annotations) {
    if (random_.OnceIn(2)) {
      const Json spec = {
          {"numaTopologyPolicy",
           random_.OneOf<std::string>({"BestEffort", "Restricted", "SingleNUMANode"})}};
      annotations[std::string(kNumaTopologyAnnotation)] = spec.dump();
      return;
    }
    Json spec = Json::object();
    const bool is_required = random_.OnceIn(2);
    spec[is_required ? "requiredCPUBindPolicy" : "preferredCPUBindPolicy"] =
        random_.OneOf<std::string>({"FullPCPUs", "SpreadByPCPUs"});
    if (random_.OnceIn(3)) spec["preferredCPUExclusivePolicy"] = "PCPULevel";
    annotations[std::string(kResourceSpecAnnotation)] = spec.dump();
  }

  // Makes one thing of the entries wrong, or other than the spec has it.
  void Falsify(Json& entries) {
    const auto some = [&]() -> Json& {
      auto entry = entries.begin();
      std::advance(entry, random_.Number(0, static_cast<int>(entries.size()) - 1));
      return *entry;
    };
    if (entries.empty()) {
      entries["unknown"] = Json::object();
      return;
    }
    switch (random_.Number(0, 8)) {
      case 0:
      case 1: {  // without one
        auto entry = entries.begin();
        std::advance(entry, random_.Number(0, static_cast<int>(entries.size()) - 1));
        entries.erase(entry);
        return;
      }
      case 2: {  // in another order, also with init containers last
        Json reversed = Json::object();
        for (auto entry = entries.end(); entry != entries.begin();) {
          --entry;
          reversed[entry.key()] = entry.value();
        }
        entries = std::move(reversed);
        return;
      }
      case 3:  // a container that the pod does not have
        entries["unknown"] = Json::object();
        if (random_.OnceIn(2)) SetSizes(RandomSize(), entries["unknown"]["limits"]);
        return;
      case 4:
      case 5: {  // other devices
        Json& entry = some();
        const std::string count = std::to_string(random_.Number(0, 2));
        entry["limits"][kind_.device] = count;
        entry["requests"][kind_.device] = count;
        return;
      }
      case 6: {  // other CPUs
        Json& entry = some();
        const std::string cpus = std::to_string(random_.Number(1, kind_.max_cpus));
        entry["limits"]["cpu"] = cpus;
        entry["requests"]["cpu"] = cpus;
        return;
      }
      case 7: {  // another kind of container
        // None that runs beside others becomes an init container: they would reuse its CPUs.
        Json& entry = some();
        if (entry.contains("restartPolicy")) {
          entry.erase("init");
          entry.erase("restartPolicy");
        } else if (entry.contains("init") && random_.OnceIn(2)) {
          entry.erase("init");
        } else {
          entry["init"] = true;
          entry["restartPolicy"] = "Always";
        }
        return;
      }
      default:  // one that requests nothing
        some() = Json::object();
        return;
    }
  }

  const ManifestKind kind_;
  Random& random_;
  bool may_have_devices_ = false;
};

}  // namespace alignd::daemon
