// What Koordinator's scheduler knows of the CPUs of a node from a NodeResourceTopology object, with
// its own arithmetic. The oracle of the annotations.
// Source: koordinator pkg/scheduler/plugins/nodenumaresource/topology_options.go,
// NewTopologyOptions; node_allocation.go, getAvailableCPUs.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>

#include "alignd/base/cpu_set.h"

namespace alignd::noderesourcetopology {

struct KoordinatorView {
  CpuSet cpus;                          // all that the scheduler knows
  CpuSet available;                     // of them, those that it can assign
  CpuSet pool;                          // in which shared containers run
  std::map<int, int64_t> cpus_of_zone;  // what pods with a NUMA topology policy can get, by zone
  std::map<int, std::tuple<int, int, int>> places;  // CPU -> core, socket, NUMA node
  nlohmann::json allocs;
  nlohmann::json policy;
};

inline CpuSet ParsedCpus(const nlohmann::json& text) {
  const Result<CpuSet> cpus = CpuSet::Parse(text.get<std::string>());
  EXPECT_TRUE(cpus.ok()) << text;
  return cpus.ok() ? *cpus : CpuSet();
}

inline KoordinatorView ViewOf(const std::string& object) {
  using nlohmann::json;
  const json parsed = json::parse(object);
  const json& annotations = parsed["metadata"]["annotations"];
  const auto value = [&](const char* name) {
    return json::parse(annotations.at(name).get<std::string>());
  };
  KoordinatorView view;
  view.policy = value("kubelet.koordinator.sh/cpu-manager-policy");
  const json topology = value("node.koordinator.sh/cpu-topology");
  // Without CPUs, koordlet leaves the member out.
  const json detail = topology.value("detail", json::array());
  for (const json& one : detail) {
    EXPECT_EQ(one.size(), 4U) << one;
    const int cpu = one["id"];
    EXPECT_GT(cpu, view.cpus.empty() ? -1 : view.cpus.ToVector().back()) << "not ascending";
    view.cpus.Add(cpu);
    view.places[cpu] = {one["core"], one["socket"], one["node"]};
  }
  CpuSet taken = ParsedCpus(view.policy.value("reservedCPUs", json("")));
  view.allocs = value("node.koordinator.sh/pod-cpu-allocs");
  for (const json& alloc : view.allocs) {
    if (alloc.value("managedByKubelet", false) && !alloc.value("uid", "").empty()) {
      taken |= ParsedCpus(alloc["cpuset"]);
    }
  }
  view.available = view.cpus - taken;
  for (const json& pool : value("node.koordinator.sh/cpu-shared-pools")) {
    const CpuSet cpus = ParsedCpus(pool["cpuset"]);
    EXPECT_FALSE(cpus.empty() || cpus.Intersects(view.pool)) << pool;
    view.pool |= cpus;
    for (const int cpu : cpus) EXPECT_EQ(std::get<2>(view.places.at(cpu)), pool["node"]) << pool;
  }
  for (const json& zone : parsed["zones"]) {
    const int id = std::stoi(zone["name"].get<std::string>().substr(5));
    for (const json& resource : zone["resources"]) {
      if (resource["name"] != "cpu") continue;
      int64_t amount = std::stoll(resource["allocatable"].get<std::string>());
      for (const int cpu : taken& view.cpus) {
        if (std::get<2>(view.places.at(cpu)) == id) --amount;
      }
      view.cpus_of_zone[id] = amount;
    }
  }
  return view;
}

}  // namespace alignd::noderesourcetopology
