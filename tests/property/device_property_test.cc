// Random pods are allocated random devices; plugins come and go, devices become unhealthy. No
// device is allocated to two pods, and the hints agree with their definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/device_states.h"
#include "core/hint_oracle.h"
#include "core/machine_builder.h"
#include "core/property_seed.h"

namespace alignd::devicemanager {
namespace {

using topologymanager::HintList;
using topologymanager::TopologyHint;

int Below(int bound, std::mt19937_64& random) {
  return static_cast<int>(random() % static_cast<uint64_t>(bound));
}

Resource RandomResource(int nodes, std::mt19937_64& random) {
  std::map<std::string, std::vector<int64_t>> devices;
  const int count = 1 + Below(8, random);
  for (int i = 0; i < count; ++i) {
    std::vector<int64_t>& numa = devices["dev-" + std::to_string(i)];
    for (int at = Below(3, random); at > 0; --at) numa.push_back(Below(nodes + 2, random) - 1);
  }
  Resource resource = Registered(devices);
  resource.prefers_allocation = Below(2, random) == 0;
  return resource;
}

Pod RandomPod(const std::string& uid, std::mt19937_64& random) {
  std::vector<Container> containers;
  const int before_apps = Below(4, random);
  const int count = before_apps + 1 + Below(2, random);
  for (int i = 0; i < count; ++i) {
    const ContainerKind kind = i >= before_apps        ? ContainerKind::kApp
                               : Below(3, random) == 0 ? ContainerKind::kSidecar
                                                       : ContainerKind::kInit;
    containers.push_back(
        MakeContainer(kind, "c" + std::to_string(i), {{kGpu, std::to_string(Below(4, random))}}));
  }
  return MakePod(uid, std::move(containers));
}

// The definition of the hints of a container without devices: every set of nodes with devices that
// has enough healthy free or reusable devices, and every reusable device.
std::optional<HintList> HintsByDefinition(const Machine& machine, const DeviceState& state,
                                          const std::set<std::string>& reusable, int requested) {
  const Resource& resource = state.resources.at(kGpu);
  NumaMask considered;
  bool topology = false;
  std::set<std::string> available;
  for (const auto& [id, device] : resource.devices) {
    considered = considered | machine.MaskOfIds(device.numa);
    topology = topology || !device.numa.empty();
    if (device.healthy && !state.AllocatedIds(kGpu).contains(id)) available.insert(id);
  }
  if (!topology) return std::nullopt;
  HintList hints;
  if (static_cast<int>(available.size() + reusable.size()) < requested) return hints;
  if (considered.empty()) considered = machine.all_numa();
  int smallest = considered.Count();
  for (uint64_t bits = 1; bits <= machine.all_numa().bits(); ++bits) {
    const NumaMask set = NumaMask::FromBits(bits);
    if (!considered.Contains(set)) continue;
    int all = 0;
    int offered = 0;
    bool complete = true;
    for (const auto& [id, device] : resource.devices) {
      const bool inside = machine.MaskOfIds(device.numa).Intersects(set);
      if (inside) ++all;
      if (inside && (available.contains(id) || reusable.contains(id))) ++offered;
      if (!inside && reusable.contains(id) && !device.numa.empty()) complete = false;
    }
    if (all >= requested) smallest = std::min(smallest, set.Count());
    if (complete && offered >= requested) hints.push_back({set, false});
  }
  for (TopologyHint& hint : hints) hint.preferred = hint.affinity->Count() == smallest;
  std::ranges::sort(hints, [](const TopologyHint& a, const TopologyHint& b) {
    return a.affinity->IsNarrowerThan(*b.affinity);
  });
  return hints;
}

// One node and random events on it.
class DeviceNode {
 public:
  explicit DeviceNode(std::mt19937_64& random)
      : random_(random),
        machine_(MakeMachine("numa:" + std::to_string(1 + Below(4, random)))),
        state_(StateWith(RandomResource(machine_.numa_count(), random))) {}

  void Step(int step) {
    const int what = Below(10, random_);
    if (what < 5) return Admit("pod-" + std::to_string(step));
    Resource& resource = state_.resources[kGpu];
    if (what == 5 && !resource.devices.empty()) {
      Device& device = std::next(resource.devices.begin(),
                                 Below(static_cast<int>(resource.devices.size()), random_))
                           ->second;
      device.healthy = !device.healthy;
    } else if (what == 6) {
      resource = RandomResource(machine_.numa_count(), random_);
    } else if (!pods_.empty()) {
      const auto chosen = std::next(pods_.begin(), Below(static_cast<int>(pods_.size()), random_));
      ReleasePod(*chosen, state_);
      pods_.erase(chosen);
    }
  }

  void Check() const { ASSERT_EQ(BrokenInvariants(state_), std::vector<std::string>{}); }

  void ReleaseAll() {
    for (const std::string& uid : pods_) ReleasePod(uid, state_);
    EXPECT_TRUE(state_.allocations.empty());
  }

 private:
  void Admit(const std::string& uid) {
    const Pod pod = RandomPod(uid, random_);
    const DeviceState before = state_;
    std::set<std::string> reusable;  // by the kubelet's bookkeeping
    std::set<std::string> running;   // devices of the pod's apps and sidecars
    for (const Container& container : pod.containers) {
      const auto wanted = static_cast<int>(container.resources.limits.at(kGpu).Value());
      ASSERT_EQ(AllOf(ContainerHints(machine_, state_, pod, container)).at(kGpu),
                HintsByDefinition(machine_, state_, reusable, wanted));
      const std::set<std::string> taken = state_.AllocatedIds(kGpu);
      if (Allocate(machine_, pod, container, RandomAffinity(), Preference(), state_)) {
        state_ = before;
        return;
      }
      const DeviceAllocation* allocated = state_.Find({uid, container.name}, kGpu);
      const std::set<std::string> ids =
          allocated == nullptr ? std::set<std::string>{} : allocated->Ids();
      ASSERT_EQ(ids.size(), static_cast<size_t>(wanted));
      for (const std::string& id : ids) {
        ASSERT_TRUE(state_.resources[kGpu].devices.at(id).healthy);
        ASSERT_TRUE(!taken.contains(id) || reusable.contains(id)) << "allocated to another pod";
        ASSERT_FALSE(running.contains(id)) << "allocated to a container that still runs";
      }
      for (const std::string& id : ids) {
        if (container.kind == ContainerKind::kInit) {
          reusable.insert(id);
        } else {
          reusable.erase(id);
          running.insert(id);
        }
      }
    }
    pods_.insert(uid);
  }

  TopologyHint RandomAffinity() {
    if (Below(3, random_) == 0) return {};
    return OnNodes(1 + random_() % machine_.all_numa().bits());
  }

  // A plugin that answers at random, with unknown ids too.
  PreferredAllocationFn Preference() {
    return [this](const PreferenceQuery& query) -> std::optional<std::vector<std::string>> {
      if (Below(3, random_) == 0) return std::nullopt;
      std::vector<std::string> answer = query.available;
      answer.push_back("unheard-of");
      std::ranges::shuffle(answer, random_);
      answer.resize(static_cast<size_t>(Below(static_cast<int>(answer.size()) + 1, random_)));
      return answer;
    };
  }

  std::mt19937_64& random_;
  Machine machine_;
  DeviceState state_;
  std::set<std::string> pods_;
};

TEST(DeviceProperty, NoDeviceIsAllocatedTwice) {
  std::mt19937_64 random = SeededRandom();
  const int lives = Iterations(300);
  for (int life = 0; life < lives; ++life) {
    DeviceNode devices(random);
    for (int step = 0; step < 40; ++step) {
      devices.Step(step);
      devices.Check();
      if (testing::Test::HasFatalFailure()) return;
    }
    devices.ReleaseAll();
  }
}

}  // namespace
}  // namespace alignd::devicemanager
