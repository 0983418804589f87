// A small node for tests of allocation: machine, configuration, pods, and an allocation manager
// that can be stopped and started again from its files.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/node.h"
#include "allocation/allocation_manager.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"
#include "edge/fake_plugins.h"
#include "edge/fake_tree.h"
#include "edge/faulty_file.h"

namespace alignd::testing {

inline constexpr char kGpu[] = "example.com/gpu";
inline constexpr char kNic[] = "example.com/nic";

inline Quantity Amount(std::string_view text) {
  const Result<Quantity> quantity = Quantity::Parse(text);
  if (!quantity.ok()) std::abort();
  return *quantity;
}

// 16 CPUs on two sockets and NUMA nodes; static policies, CPU 0 reserved, best-effort.
inline KubeletConfig StaticConfig() {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.reserved_memory = {{0, {{"memory", Amount("100Mi")}}}};
  return config;
}

inline Machine SmallMachine() { return MakeMachine("socket:2 numa:1 core:4 thread:2"); }

inline admission::Node MakeNode(KubeletConfig config = StaticConfig(),
                                Machine machine = SmallMachine()) {
  Result<admission::Node> node = admission::Node::Make(std::move(machine), std::move(config));
  if (!node.ok()) {
    std::fprintf(stderr, "MakeNode: %s\n", node.error().Text().c_str());
    std::abort();
  }
  return *std::move(node);
}

// Four devices per NUMA node: `prefix`0 to `prefix`7.
inline devicemanager::Resource EightDevices(const std::string& prefix) {
  devicemanager::Resource resource;
  resource.registered = true;
  for (int i = 0; i < 8; ++i) resource.devices[prefix + std::to_string(i)] = {true, {i / 4}};
  return resource;
}

// One container `app` with these whole CPUs, 1Gi, and devices.
inline Pod AppPod(const std::string& uid, int cpus,
                  std::map<std::string, std::string> devices = {}) {
  devices["cpu"] = std::to_string(cpus);
  devices["memory"] = "1Gi";
  return alignd::AppPod(uid, devices);
}

// The manager and its environment. Up() starts it; the files stay when it goes down.
class AllocationNode {
 public:
  explicit AllocationNode(admission::Node node_of = MakeNode()) : node(std::move(node_of)) {}

  Result<Done> TryUp() {
    store.emplace(paths(), disk);
    Result<admission::NodeState> loaded = store->Load(node);
    if (!loaded.ok()) return loaded.error();
    plugins = std::make_unique<FakePlugins>();
    manager = std::make_unique<allocation::AllocationManager>(
        node, *std::move(loaded), *store, *plugins, allocation::NoKubeletAllocation(),
        /*boot=*/nullptr, /*not_devices=*/std::set<std::string>(), *events,
        allocation::CpuResizes::kAll, waiting);
    return Done{};
  }
  void Up() {
    const Result<Done> up = TryUp();
    if (up.ok()) return;
    std::fprintf(stderr, "AllocationNode::Up: %s\n", up.error().Text().c_str());
    std::abort();
  }
  void AnnounceDevices() {
    manager->SetResource(kGpu, EightDevices("gpu"));
    manager->SetResource(kNic, EightDevices("nic"));
    Settle();
  }
  void Down() {
    manager.reset();
    plugins.reset();
    store.reset();
  }

  // `stopped`: pods that may be released for it.
  std::future<allocation::Outcome> AdmitLater(Pod pod, const std::set<std::string>& stopped = {}) {
    auto answer = std::make_shared<std::promise<allocation::Outcome>>();
    manager->Admit(
        {.pod = std::move(pod), .stopped = [stopped] { return stopped; }},
        [answer](allocation::Outcome outcome) { answer->set_value(std::move(outcome)); });
    return answer->get_future();
  }
  allocation::Outcome Admit(Pod pod, const std::set<std::string>& stopped = {}) {
    return AdmitLater(std::move(pod), stopped).get();
  }

  Result<Done> Release(const std::string& uid) {
    std::promise<Result<Done>> answer;
    manager->ReleasePod(uid, [&answer](Result<Done> done) { answer.set_value(std::move(done)); });
    return answer.get_future().get();
  }
  Result<Done> ReleaseAllBut(const std::set<std::string>& live) {
    for (const std::string& uid : manager->KnownPods()) {
      if (live.contains(uid)) continue;
      if (Result<Done> released = Release(uid); !released.ok()) return released;
    }
    return Done{};
  }
  // Returns when all that was posted before is done: the release of an unknown pod comes after it.
  void Settle() { (void)Release("unknown"); }

  admission::NodeState published() const { return manager->snapshot()->state; }
  // What another process would load now. Ends the program if that fails.
  admission::NodeState saved() const {
    allocation::CheckpointStore reader(paths());
    Result<admission::NodeState> loaded = reader.Load(node);
    if (!loaded.ok()) {
      std::fprintf(stderr, "AllocationNode::saved: %s\n", loaded.error().Text().c_str());
      std::abort();
    }
    return *std::move(loaded);
  }

  allocation::StatePaths paths() const { return {tree.root(), tree.root() / "device-plugins"}; }

  FakeTree tree;
  FaultyFile disk;
  admission::Node node;
  allocation::AllocationEvents* events = &allocation::NoAllocationEvents();
  std::optional<allocation::WaitQueue> waiting;  // nullopt: a refusal is answered at once
  std::optional<allocation::CheckpointStore> store;
  std::unique_ptr<FakePlugins> plugins;
  std::unique_ptr<allocation::AllocationManager> manager;
};

}  // namespace alignd::testing
