// Random pods come and go on random machines: no memory is created or lost, and the hints agree
// with their definition.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/hint_oracle.h"
#include "core/memory_nodes.h"
#include "core/property_seed.h"

namespace alignd::memorymanager {
namespace {

using topologymanager::HintList;
using topologymanager::HintsByResource;
using topologymanager::ListsByResource;
using topologymanager::TopologyHint;

constexpr char kPages[] = "hugepages-2Mi";

int Below(int bound, std::mt19937_64& random) {
  return static_cast<int>(random() % static_cast<uint64_t>(bound));
}

MemoryNode RandomNode(std::mt19937_64& random) {
  const int count = 1 + Below(5, random);
  std::vector<NumaNode> nodes = PlainNumaNodes(count, 0);
  int id = 0;
  for (NumaNode& node : nodes) {
    node.id = id += Below(2, random) + (id == 0 ? 0 : 1);
    node.memory_bytes = (4 + static_cast<uint64_t>(Below(8, random))) * kGi;
    node.hugepages[uint64_t{2} << 20] = static_cast<uint64_t>(Below(3, random)) * 512;
    ++id;
  }
  const int reserving = nodes.front().id;
  return MemoryNode::Make(MachineOf(std::move(nodes)), Reserving({{reserving, "512Mi"}}));
}

Pod RandomPod(const std::string& uid, std::mt19937_64& random) {
  std::vector<Container> containers;
  const int before_apps = Below(4, random);
  const int count = before_apps + 1 + Below(2, random);
  for (int i = 0; i < count; ++i) {
    std::map<std::string, std::string> amounts;
    amounts["memory"] = std::to_string(1 + Below(12, random)) + "Gi";
    if (Below(4, random) == 0) amounts[kPages] = std::to_string(Below(3, random)) + "Gi";
    const ContainerKind kind = i >= before_apps        ? ContainerKind::kApp
                               : Below(3, random) == 0 ? ContainerKind::kSidecar
                                                       : ContainerKind::kInit;
    containers.push_back(MakeContainer(kind, "c" + std::to_string(i), amounts));
  }
  return GuaranteedPod(uid, std::move(containers));
}

TopologyHint RandomAffinity(const MemoryNode& node, std::mt19937_64& random) {
  TopologyHint affinity{.affinity = std::nullopt, .preferred = Below(2, random) == 0};
  const uint64_t masks = node.machine.all_numa().bits();
  if (Below(3, random) != 0) affinity.affinity = NumaMask::FromBits(1 + random() % masks);
  return affinity;
}

// The definition of the hints of a container without memory, set by set.
ListsByResource HintsByDefinition(const MemoryNode& node, const Pod& pod,
                                  const Container& container) {
  const uint64_t masks = node.machine.all_numa().bits();
  std::vector<NumaMask> sets;
  int smallest = node.machine.numa_count();
  for (uint64_t bits = 1; bits <= masks; ++bits) {
    const NumaMask mask = NumaMask::FromBits(bits);
    const std::vector<int> ids = node.machine.NumaIds(mask);
    bool could = true;
    bool can = true;
    for (const auto& [type, amount] : container.resources.requests) {
      uint64_t allocatable = 0;
      uint64_t free = 0;
      for (const int id : ids) {
        const MemoryTable& table = node.state.machine.at(id).tables.at(type);
        allocatable += table.allocatable;
        free += table.free;
      }
      for (const Container& other : pod.containers) {
        const std::vector<Block>* blocks = node.state.Find({pod.uid, other.name});
        if (other.kind != ContainerKind::kInit || blocks == nullptr) continue;
        for (const Block& block : *blocks) {
          if (block.type == type && block.numa_affinity == ids) free += block.size;
        }
      }
      const auto wanted = static_cast<uint64_t>(amount.Value());
      could = could && allocatable >= wanted;
      can = can && free >= wanted;
    }
    if (could) smallest = std::min(smallest, mask.Count());
    for (const int id : ids) {
      const NumaMemory& memory = node.state.machine.at(id);
      if (ids.size() == 1 && memory.cells.size() > 1) can = false;
      if (ids.size() > 1 && memory.number_of_assignments > 0 && memory.cells != ids) can = false;
    }
    if (could && can) sets.push_back(mask);
  }
  std::ranges::sort(sets, [](NumaMask a, NumaMask b) { return a.IsNarrowerThan(b); });
  HintList list;
  for (const NumaMask set : sets) list.push_back({set, set.Count() == smallest});
  ListsByResource hints;
  if (list.empty()) return hints;
  for (const auto& entry : container.resources.requests) hints[entry.first] = list;
  return hints;
}

// One node and random events on it.
class MemoryLife {
 public:
  explicit MemoryLife(std::mt19937_64& random) : random_(random), node_(RandomNode(random)) {}

  void Step(int step) {
    const int what = Below(10, random_);
    if (what < 5 || pods_.empty()) return Admit("pod-" + std::to_string(step));
    const auto chosen = std::next(pods_.begin(), Below(static_cast<int>(pods_.size()), random_));
    const Pod pod = chosen->second;
    const std::string& container =
        pod.containers[static_cast<size_t>(Below(static_cast<int>(pod.containers.size()), random_))]
            .name;
    if (what == 5) return ContainerStarts(pod, container, node_.state);
    if (what == 6) return ReleaseContainer({pod.uid, container}, node_.state);
    if (what == 7) {  // again, as after a restart
      for (const Container& again : pod.containers) {
        node_.Give(pod, again.name, RandomAffinity(node_, random_));
      }
      return;
    }
    ReleasePod(pod.uid, node_.state);
    pods_.erase(chosen);
  }

  void Check() const {
    ASSERT_EQ(node_.Broken(), std::vector<std::string>{});
    const Result<Done> loaded = ValidateLoaded(node_.machine, node_.policy, node_.state);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  }

  void ReleaseAll() {
    for (const auto& [uid, pod] : pods_) ReleasePod(uid, node_.state);
    EXPECT_EQ(node_.state, InitialState(node_.machine, node_.policy));
  }

 private:
  void Admit(const std::string& uid) {
    const Pod pod = RandomPod(uid, random_);
    const MemoryState before = node_.state;
    for (const Container& container : pod.containers) {
      const HintsByResource hints =
          ContainerHints(node_.machine, node_.policy, node_.state, pod, container);
      ASSERT_EQ(AllOf(hints), HintsByDefinition(node_, pod, container));
      const bool refused = !node_.Give(pod, container.name, RandomAffinity(node_, random_)).empty();
      if (refused) {
        node_.state = Below(2, random_) == 0 ? before : AfterRefusal(uid, before, node_.state);
        return;
      }
      ASSERT_NE(node_.state.Find({uid, container.name}), nullptr);
    }
    pods_[uid] = pod;
  }

  std::mt19937_64& random_;
  MemoryNode node_;
  std::map<std::string, Pod> pods_;
};

TEST(MemoryProperty, NeitherCreatedNorLost) {
  std::mt19937_64 random = SeededRandom();
  const int lives = Iterations(150);
  for (int life = 0; life < lives; ++life) {
    MemoryLife memory(random);
    for (int step = 0; step < 40; ++step) {
      memory.Step(step);
      memory.Check();
      if (testing::Test::HasFatalFailure()) return;
    }
    memory.ReleaseAll();
  }
}

}  // namespace
}  // namespace alignd::memorymanager
