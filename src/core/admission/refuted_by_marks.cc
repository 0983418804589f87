#include "core/admission/refuted_by_marks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "alignd/memorymanager/adoption.h"
#include "alignd/memorymanager/static_policy.h"
#include "core/admission/adopted_cpus.h"

namespace alignd::admission {
namespace {

using devicemanager::DeviceAllocation;
using devicemanager::DevicesPerNuma;
using devicemanager::DeviceState;
using memorymanager::Block;
using memorymanager::MemoryState;

// The containers that run; several with one key only if the runtime has two at once.
using Running = std::map<ContainerKey, std::vector<const MarkedContainer*>>;

Running RunningIn(const std::vector<MarkedContainer>& containers) {
  Running running;
  for (const MarkedContainer& container : containers) {
    if (container.runs) running[container.key].push_back(&container);
  }
  return running;
}

bool RunsInPod(const Running& running, const std::string& pod_uid) {
  const auto first = running.lower_bound({pod_uid, ""});
  return first != running.end() && first->first.pod_uid == pod_uid;
}

AdoptionNote NoteOf(const Running& running, const ContainerKey& key, const std::string& what,
                    const std::string& but) {
  const auto found = running.find(key);
  const MarkedContainer unknown{.id = "", .key = key, .pod = "", .mark = {}};
  const MarkedContainer& container = found == running.end() ? unknown : *found->second.front();
  return {.id = container.id,
          .key = key,
          .pod = container.pod,
          .text = "the state files have " + what + " for " + NameOf(container) + ", but " + but};
}

// The kubelet's files have the blocks in any order.
std::vector<Block> Ordered(std::vector<Block> blocks) {
  for (Block& block : blocks) std::ranges::sort(block.numa_affinity);
  std::ranges::sort(blocks, [](const Block& a, const Block& b) {
    return std::tie(a.type, a.numa_affinity, a.size) < std::tie(b.type, b.numa_affinity, b.size);
  });
  return blocks;
}

std::string ToText(const std::vector<Block>& blocks) {
  std::string text;
  for (const Block& block : Ordered(blocks)) {
    if (!text.empty()) text += ", ";
    text += std::to_string(block.size) + " bytes of " + block.type + " on NUMA nodes ";
    const char* separator = "";
    for (const int id : block.numa_affinity) {
      text += separator;
      text += std::to_string(id);
      separator = ",";
    }
  }
  return text;
}

// What the state has for a container, or for its pod as a whole, and the mark likewise; null: that
// is not compared.
struct MemoryPair {
  const std::vector<Block>* in_state = nullptr;
  const std::vector<Block>* in_mark = nullptr;
};

MemoryPair MemoryOf(const Node& node, const MemoryState& state, const MarkedContainer& container) {
  const AssignmentMark& mark = container.mark;
  const auto whole = state.pods.find(container.key.pod_uid);
  if (whole == state.pods.end()) {
    const std::vector<Block>* const blocks = state.Find(container.key);
    const bool is_compared = blocks != nullptr && mark.whole.memory.empty() && !mark.memory.empty();
    return is_compared ? MemoryPair{blocks, &mark.memory} : MemoryPair{};
  }
  // Without the parts, the pod could not be adopted as its mark says.
  const bool is_compared = PodLevelResourceManagersOn(node.config) && !mark.whole.memory.empty() &&
                           !mark.whole.memory_parts.empty();
  return is_compared ? MemoryPair{&whole->second, &mark.whole.memory} : MemoryPair{};
}

bool IsPartOf(const Block& part, const std::vector<Block>& blocks) {
  return std::ranges::any_of(blocks, [&part](const Block& block) {
    return block.type == part.type && block.numa_affinity == part.numa_affinity &&
           block.size >= part.size;
  });
}

// Later containers of a pod take the memory of its init containers over: these keep a part of it.
bool Differs(const MemoryPair& pair, bool is_init) {
  if (pair.in_state == nullptr) return false;
  const std::vector<Block> now = Ordered(*pair.in_state);
  const std::vector<Block> marked = Ordered(*pair.in_mark);
  if (!is_init) return now != marked;
  return !std::ranges::all_of(now, [&](const Block& part) { return IsPartOf(part, marked); });
}

void DropMemory(const ContainerKey& key, MemoryState& state) {
  if (state.pods.contains(key.pod_uid)) {
    memorymanager::ReleasePod(key.pod_uid, state);
  } else {
    memorymanager::ReleaseContainer(key, state);
  }
}

bool SharesNode(const std::vector<Block>& a, const std::vector<Block>& b) {
  return std::ranges::any_of(a, [&b](const Block& block) {
    return std::ranges::any_of(b, [&block](const Block& other) {
      return std::ranges::find_first_of(block.numa_affinity, other.numa_affinity) !=
             block.numa_affinity.end();
    });
  });
}

// The first container of another pod that has memory on one of these nodes and does not run, with
// nothing of its pod if that has memory as a whole.
std::optional<ContainerKey> FirstThatYields(const Running& running, const ContainerKey& key,
                                            const std::vector<Block>& blocks,
                                            const MemoryState& state) {
  for (const auto& [uid, of_pod] : state.assignments) {
    if (uid == key.pod_uid) continue;
    const bool is_whole = state.pods.contains(uid);
    if (is_whole && RunsInPod(running, uid)) continue;
    for (const auto& [name, assigned] : of_pod) {
      if (!is_whole && running.contains({uid, name})) continue;
      if (SharesNode(is_whole ? state.pods.at(uid) : assigned, blocks)) {
        return ContainerKey{uid, name};
      }
    }
  }
  return std::nullopt;
}

// Books the container's memory in `booked`; what does not run gives way if there is not enough.
// Returns what gave way: nothing, and nothing is booked, if there is not enough even so.
std::vector<ContainerKey> MakeWay(const Node& node, const Running& running,
                                  const MarkedContainer& container, MemoryState& booked) {
  const AssignmentMark& mark = container.mark;
  const bool is_whole = !mark.whole.memory.empty() && PodLevelResourceManagersOn(node.config);
  const std::vector<Block>& blocks = is_whole ? mark.whole.memory : mark.memory;
  MemoryState next = booked;
  std::vector<ContainerKey> yielding;
  // Neither changes anything after an error.
  while (!(is_whole ? memorymanager::AdoptPod(container.key.pod_uid, blocks, next)
                    : memorymanager::AdoptContainer(container.key, blocks, next))
              .ok()) {
    const std::optional<ContainerKey> yields =
        mark.IsInit() ? std::nullopt : FirstThatYields(running, container.key, blocks, next);
    if (!yields) return {};
    DropMemory(*yields, next);
    yielding.push_back(*yields);
  }
  // Those that were no help, beside one that was.
  std::erase_if(yielding, [&](const ContainerKey& key) {
    return !booked.pods.contains(key.pod_uid) &&
           memorymanager::AdoptContainer(key, *booked.Find(key), next).ok();
  });
  booked = std::move(next);
  return yielding;
}

std::string ToText(const std::string& resource, const std::set<std::string>& ids) {
  std::string text = resource;
  for (const std::string& id : ids) text += " " + id;
  return text;
}

std::set<std::string> MarkedIds(const MarkedContainer& container, const std::string& resource) {
  const auto found = container.mark.devices.find(resource);
  if (found == container.mark.devices.end()) return {};
  return DeviceAllocation{.devices = found->second, .response = ""}.Ids();
}

void DropDevices(const ContainerKey& key, const std::string& resource, DeviceState& state) {
  auto& resources = state.allocations[key];
  resources.erase(resource);
  if (resources.empty()) state.allocations.erase(key);
}

struct DeviceEntry {
  ContainerKey key;
  std::string resource;
  std::set<std::string> ids;
};

std::vector<DeviceEntry> EntriesOf(const DeviceState& state) {
  std::vector<DeviceEntry> entries;
  for (const auto& [key, resources] : state.allocations) {
    for (const auto& [resource, allocation] : resources) {
      entries.push_back({key, resource, allocation.Ids()});
    }
  }
  return entries;
}

bool Intersect(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::ranges::any_of(a, [&b](const std::string& id) { return b.contains(id); });
}

// Why the entry is not true; empty: nothing says so.
std::string WhyNotTrue(const DeviceEntry& entry, const Running& running) {
  const auto own = running.find(entry.key);
  const std::vector<const MarkedContainer*> none;
  const std::vector<const MarkedContainer*>& owners = own == running.end() ? none : own->second;
  // The container runs, and nothing says with which devices.
  if (std::ranges::any_of(owners, [](const auto* one) { return one->mark.IsEmpty(); })) return "";
  std::set<std::string> marked;
  bool is_as_marked = false;
  for (const MarkedContainer* const one : owners) {
    const std::set<std::string> ids = MarkedIds(*one, entry.resource);
    is_as_marked = is_as_marked || ids == entry.ids;
    marked.insert(ids.begin(), ids.end());
  }
  if (is_as_marked) return "";
  if (!marked.empty()) return "it was created with " + ToText(entry.resource, marked);
  for (const auto& [key, others] : running) {
    if (key.pod_uid == entry.key.pod_uid) continue;
    for (const MarkedContainer* const other : others) {
      const std::set<std::string> ids = MarkedIds(*other, entry.resource);
      if (Intersect(ids, entry.ids)) {
        return NameOf(*other) + " runs with " + ToText(entry.resource, ids);
      }
    }
  }
  return "";
}

}  // namespace

std::vector<AdoptionNote> DropRefutedMemory(const Node& node,
                                            const std::vector<MarkedContainer>& containers,
                                            MemoryState& state) {
  std::vector<AdoptionNote> notes;
  if (!node.memory) return notes;
  const Running running = RunningIn(containers);
  for (const auto& [key, namesakes] : running) {
    const bool is_refuted = std::ranges::all_of(namesakes, [&](const auto* one) {
      return Differs(MemoryOf(node, state, *one), one->mark.IsInit());
    });
    if (!is_refuted) continue;
    const MemoryPair pair = MemoryOf(node, state, *namesakes.front());
    notes.push_back(NoteOf(running, key, ToText(*pair.in_state),
                           "it was created with " + ToText(*pair.in_mark)));
    DropMemory(key, state);
  }
  MemoryState booked = state;
  for (const auto& [key, namesakes] : running) {
    const MarkedContainer& container = *namesakes.front();
    if (container.mark.memory.empty() || booked.Find(key) != nullptr) continue;
    for (const ContainerKey& yields : MakeWay(node, running, container, booked)) {
      notes.push_back(NoteOf(running, yields, ToText(*state.Find(yields)),
                             "it does not run, and " + NameOf(container) + " runs with " +
                                 ToText(container.mark.memory)));
      DropMemory(yields, state);
    }
  }
  return notes;
}

std::vector<AdoptionNote> DropRefutedDevices(const std::vector<MarkedContainer>& containers,
                                             DeviceState& state) {
  std::vector<AdoptionNote> notes;
  const Running running = RunningIn(containers);
  for (const DeviceEntry& entry : EntriesOf(state)) {
    const std::string why = WhyNotTrue(entry, running);
    if (why.empty()) continue;
    notes.push_back(NoteOf(running, entry.key, ToText(entry.resource, entry.ids), why));
    DropDevices(entry.key, entry.resource, state);
  }
  return notes;
}

}  // namespace alignd::admission
