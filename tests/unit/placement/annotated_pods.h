// Pods with annotations that contradict their spec, and a node for them.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "alignd/placement/fleet_node.h"
#include "alignd/placement/manifest.h"
#include "core/machine_builder.h"

namespace alignd::placement {

inline PlannedPod PlannedFrom(const std::string& object) {
  Manifests manifests;
  EXPECT_TRUE(ReadManifest(object, "f", manifests).ok());
  const auto pods = ExpandPods(manifests, std::nullopt);
  EXPECT_TRUE(pods.ok() && pods->size() == 1) << object;
  return pods.ok() && pods->size() == 1 ? pods->front() : PlannedPod{};
}

// Two NUMA nodes of 4 CPUs; CPU 0 is reserved. `devices`: on each NUMA node.
inline FleetNode NodeWith(int devices) {
  FleetNode node;
  node.name = "n";
  node.config = R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","memoryManagerPolicy":)"
                R"("None","topologyManagerPolicy":"single-numa-node"})";
  node.input = {{MakeMachine("socket:2 numa:1 core:4"), {}, {}}, std::nullopt, {}, {}, {}};
  for (int i = 0; i < 2 * devices; ++i) {
    devicemanager::Device device;
    device.numa = {i % 2};
    node.input.description.devices["a.com/gpu"].emplace_back("gpu-" + std::to_string(i), device);
  }
  return node;
}

// `amount` as requests of CPUs and of devices.
inline PlannedPod PodOf(const std::string& name, const std::string& cpus, const std::string& gpus) {
  const std::string gpu = gpus == "0" ? "" : R"(,"a.com/gpu":)" + gpus;
  return PlannedFrom(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
                     R"("},"spec":{"containers":[{"name":"app","image":"i","resources":)" +
                     R"({"limits":{"cpu":")" + cpus + R"(","memory":"64Mi")" + gpu + "}}}]}}");
}

// BestEffort by its spec; with the GPUs by its annotation.
inline PlannedPod AnnotatedGpus(const std::string& gpus, bool is_bound) {
  const std::string bound = is_bound ? R"("uid":"u",)" : "";
  return PlannedFrom(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a",)" + bound +
                     R"("annotations":{"alignd.io/resources":"{\"app\":{\"limits\":{)"
                     R"(\"a.com/gpu\":)" +
                     gpus + R"(}}}"}},"spec":{)" + (is_bound ? R"("nodeName":"n",)" : "") +
                     R"("containers":[{"name":"app","image":"i"}]}})");
}

}  // namespace alignd::placement
