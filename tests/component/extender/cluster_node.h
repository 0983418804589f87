// Nodes and pods as an API server has them, and a kubeconfig for it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "alignd/noderesourcetopology/object.h"
#include "alignd/placement/fleet_node.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::extender {

using Object = nlohmann::json;

// With the token of the file `token` beside it.
inline std::string KubeconfigText(const std::string& ca, int port) {
  return "current-context: here\n"
         "contexts: [{name: here, context: {cluster: c, user: u}}]\n"
         "clusters:\n- {name: c, cluster: {certificate-authority: " +
         ca + ", server: 'https://127.0.0.1:" + std::to_string(port) +
         "'}}\nusers:\n- {name: u, user: {tokenFile: token}}\n";
}

// Two NUMA nodes of 4 CPUs; CPU 0 is reserved.
class ClusterNode {
 public:
  explicit ClusterNode(std::string name) : name_(std::move(name)), planned_(Make()) {}

  Object NodeObject() const {
    Object object = {{"kind", "Node"},
                     {"apiVersion", "v1"},
                     {"metadata", {{"name", name_}}},
                     {"status", {{"capacity", {{"cpu", "8"}, {"pods", "110"}}}}}};
    Object& allocatable = object["status"]["allocatable"];
    for (const auto& [resource, amount] : planned_.allocatable().amounts) {
      allocatable[resource] = amount.ToString();
    }
    allocatable["pods"] = "110";
    return object;
  }
  Object Topology() const {
    return Object::parse(
        noderesourcetopology::ObjectJson(name_, planned_.node(), planned_.state(), pods_));
  }
  // The kubelet admits the pod.
  void Admit(const std::string& pod, const std::string& cpus) {
    placement::PlannedPod planned;
    planned.pod = AppPod(pod, {{"cpu", cpus}, {"memory", "1Gi"}});
    EXPECT_EQ(planned_.Place(planned).outcome, placement::Outcome::kFits);
    pods_.push_back({"default", pod});
  }

 private:
  placement::PlannedNode Make() const {
    placement::FleetNode node;
    node.name = name_;
    node.input.description.machine = MakeMachine("socket:2 numa:1 core:4");
    node.config = R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0",)"
                  R"("topologyManagerPolicy":"single-numa-node"})";
    Result<placement::PlannedNode> made = placement::MakePlannedNode(node);
    EXPECT_TRUE(made.ok()) << made.error().Text();
    return *std::move(made);
  }

  std::string name_;
  placement::PlannedNode planned_;
  std::vector<noderesourcetopology::PodIdentity> pods_;
};

inline Object PodObject(const std::string& name, const std::string& cpus,
                        const std::string& node = "") {
  const Object amounts = {{"cpu", cpus}, {"memory", "1Gi"}};
  Object pod = {{"metadata", {{"name", name}, {"namespace", "default"}, {"uid", name}}},
                {"spec",
                 {{"containers",
                   {{{"name", "app"},
                     {"image", "i"},
                     {"resources", {{"limits", amounts}, {"requests", amounts}}}}}}}},
                {"status", {{"phase", "Pending"}}}};
  if (!node.empty()) pod["spec"]["nodeName"] = node;
  return pod;
}

}  // namespace alignd::extender
