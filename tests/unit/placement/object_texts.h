// The objects of a cluster for tests: one node with 20 CPUs, and pods on it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "alignd/noderesourcetopology/object.h"
#include "alignd/placement/cluster_objects.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::placement {

using Json = nlohmann::json;

// Two NUMA nodes of 10 CPUs, CPU 0 reserved; as Node Feature Discovery writes it.
inline Json ForeignObject() {
  return Json::parse(R"({
    "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
    "metadata": {"name": "w1"}, "topologyPolicies": ["SingleNUMANodeContainerLevel"],
    "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"},
                   {"name": "topologyManagerScope", "value": "container"}],
    "zones": [
      {"name": "node-0", "type": "Node", "costs": [{"name": "node-0", "value": 10},
                                                   {"name": "node-1", "value": 21}],
       "resources": [{"name": "cpu", "capacity": "10", "allocatable": "9", "available": "5"},
                     {"name": "memory", "capacity": "8Gi", "allocatable": "7Gi",
                      "available": "7Gi"},
                     {"name": "nvidia.com/gpu", "capacity": "2", "allocatable": "2",
                      "available": "1"}]},
      {"name": "node-1", "type": "Node", "costs": [{"name": "node-0", "value": 21},
                                                   {"name": "node-1", "value": 10}],
       "resources": [{"name": "cpu", "capacity": "10", "allocatable": "10", "available": "10"},
                     {"name": "memory", "capacity": "8Gi", "allocatable": "7Gi",
                      "available": "7Gi"},
                     {"name": "nvidia.com/gpu", "capacity": "2", "allocatable": "2",
                      "available": "2"}]}]})");
}

inline Json NodeJsonOf(const std::string& name, const std::string& gpus = "4") {
  return {{"kind", "Node"},
          {"apiVersion", "v1"},
          {"metadata", {{"name", name}}},
          {"status",
           {{"capacity", {{"cpu", "20"}}},
            {"allocatable",
             {{"cpu", "19"}, {"memory", "14Gi"}, {"pods", "110"}, {"nvidia.com/gpu", gpus}}}}}};
}

// A Guaranteed pod that is bound to w1.
inline Json BoundJson(const std::string& name, const std::string& phase = "Running") {
  const Json amounts = {{"cpu", "4"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "1"}};
  return {{"kind", "Pod"},
          {"apiVersion", "v1"},
          {"metadata", {{"name", name}, {"namespace", "default"}, {"uid", "uid-" + name}}},
          {"spec",
           {{"nodeName", "w1"},
            {"containers",
             {{{"name", "app"}, {"resources", {{"limits", amounts}, {"requests", amounts}}}}}}}},
          {"status", {{"phase", phase}}}};
}

inline void SetFingerprint(const std::vector<std::string>& pods, Json& object) {
  std::vector<noderesourcetopology::PodIdentity> names;
  for (const std::string& pod : pods) names.push_back({"default", pod});
  object["attributes"].push_back({{"name", "nodeTopologyPodsFingerprint"},
                                  {"value", noderesourcetopology::PodFingerprint(names)}});
}

inline constexpr const char* kStaticConfig =
    R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","topologyManagerPolicy":)"
    R"("single-numa-node"})";

inline Result<PlannedNode> NodeFromObjects(const std::vector<Json>& objects,
                                           const std::string& config = kStaticConfig) {
  const Json list = {{"kind", "List"}, {"apiVersion", "v1"}, {"items", objects}};
  ClusterObjects cluster;
  const Result<bool> added = cluster.Add(list.dump(), "all.json");
  if (!added.ok()) return added.error();
  const Result<std::vector<FleetNode>> nodes = cluster.Nodes(config);
  if (!nodes.ok()) return nodes.error();
  return MakePlannedNode(nodes->front());
}

// "fits", "refused: MESSAGE" or "undecided: MESSAGE".
inline std::string ObjectAnswer(const Result<PlannedNode>& node,
                                const std::map<std::string, std::string>& amounts) {
  if (!node.ok()) return "error: " + node.error().Text();
  PlannedPod pod;
  pod.pod = AppPod("asked", amounts);
  const Verdict verdict = node->Ask(pod);
  std::string text(ToString(verdict.outcome));
  if (verdict.refusal) text += ": " + verdict.refusal->reason + ": " + verdict.refusal->message;
  return text;
}

inline bool HasPart(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace alignd::placement
