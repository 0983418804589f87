#include "alignd/admission/adoption.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "alignd/cpumanager/node_shares.h"
#include "alignd/memorymanager/adoption.h"
#include "alignd/memorymanager/static_policy.h"
#include "core/admission/adopted_cpus.h"
#include "core/admission/refuted_by_marks.h"
#include "core/admission/refuted_cpus.h"
#include "core/admission/shared_node.h"

namespace alignd::admission {
namespace {

using devicemanager::DeviceAllocation;
using devicemanager::DevicesPerNuma;
using devicemanager::DeviceState;

// Resource and id of a device.
using DeviceName = std::pair<std::string, std::string>;

// Per container: "", or what it is assigned now.
using Texts = std::vector<std::string>;

void AddToList(const std::string& text, std::string& list) {
  list += (list.empty() ? "" : ", ") + text;
}

std::string NodeList(const std::vector<memorymanager::Block>& blocks) {
  std::set<int> nodes;
  for (const auto& block : blocks)
    nodes.insert(block.numa_affinity.begin(), block.numa_affinity.end());
  std::string text;
  for (const int id : nodes) AddToList(std::to_string(id), text);
  return text;
}

// The memory of a pod as a whole, and the parts of all its containers.
Result<Done> AdoptWholePod(const std::string& pod_uid, const WholePodMark& mark,
                           memorymanager::MemoryState& state) {
  if (mark.memory_parts.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "its mark does not say how the memory of its pod is divided: the pod has too many "
                 "containers for that"};
  }
  memorymanager::MemoryState next = state;
  Result<Done> adopted = memorymanager::AdoptPod(pod_uid, mark.memory, next);
  for (const auto& [container, blocks] : mark.memory_parts) {
    if (!adopted.ok()) return adopted;
    adopted = memorymanager::AdoptContainer({pod_uid, container}, blocks, next);
  }
  if (adopted.ok()) state = std::move(next);
  return adopted;
}

// Those that have ended last: the others really use their memory.
void AdoptMemory(const Node& node, const std::vector<MarkedContainer>& containers,
                 Adoption& adoption, Texts& texts) {
  if (!node.memory) return;
  const bool gate = PodLevelResourceManagersOn(node.config);
  memorymanager::MemoryState& state = adoption.next.memory;
  const memorymanager::MemoryState before = state;
  for (const bool runs : {true, false}) {
    for (size_t i = 0; i < containers.size(); ++i) {
      const MarkedContainer& container = containers[i];
      const AssignmentMark& mark = container.mark;
      if (container.runs != runs || mark.memory.empty()) continue;
      const bool is_part = !mark.whole.memory.empty() && gate;
      if (state.Find(container.key) != nullptr) {
        // With another container of its pod.
        if (is_part && runs && before.Find(container.key) == nullptr) {
          AddToList("memory of NUMA nodes " + NodeList(mark.memory), texts[i]);
        }
        continue;
      }
      const std::string& uid = container.key.pod_uid;
      const bool is_whole = is_part && !state.assignments.contains(uid);
      const Result<Done> adopted =
          is_whole ? AdoptWholePod(uid, mark.whole, state)
                   : memorymanager::AdoptContainer(container.key, mark.memory, state);
      if (adopted.ok()) {
        AddToList("memory of NUMA nodes " + NodeList(mark.memory), texts[i]);
      } else if (runs) {
        adoption.unknown.push_back({container.id, container.key, container.pod,
                                    "its memory counts as free: " + adopted.error().message});
      }
    }
  }
}

std::set<DeviceName> NamesOf(const std::map<std::string, DevicesPerNuma>& devices,
                             const DeviceState& state, const ContainerKey& key) {
  std::set<DeviceName> names;
  for (const auto& [resource, by_node] : devices) {
    if (state.Find(key, resource) != nullptr) continue;
    for (const auto& [node, ids] : by_node) {
      for (const std::string& id : ids) names.insert({resource, id});
    }
  }
  return names;
}

// Why the container cannot be allocated these devices of one resource; empty: it can.
class DeviceClaims {
 public:
  DeviceClaims(const DeviceState& state, const std::vector<MarkedContainer>& containers) {
    for (const auto& [key, by_resource] : state.allocations) {
      for (const auto& [resource, allocation] : by_resource) {
        for (const std::string& id : allocation.Ids()) holder_.try_emplace({resource, id}, key);
      }
    }
    for (const MarkedContainer& container : containers) {
      for (const DeviceName& name : NamesOf(container.mark.devices, state, container.key)) {
        claims_[name].push_back(&container);
      }
    }
  }

  // The container that has one of the devices in the state, of another pod.
  std::string Holder(const MarkedContainer& container, const std::string& resource,
                     const std::set<std::string>& ids) const {
    for (const std::string& id : ids) {
      const auto holder = holder_.find({resource, id});
      if (holder == holder_.end() || holder->second.pod_uid == container.key.pod_uid) continue;
      return "container " + holder->second.container + " of pod " + holder->second.pod_uid +
             " is allocated " + id + " in the state files";
    }
    return "";
  }

  // The containers of other pods with the mark of one of the devices.
  std::string Rivals(const MarkedContainer& container, const std::string& resource,
                     const std::set<std::string>& ids) const {
    std::string rivals;
    for (const std::string& id : ids) {
      for (const MarkedContainer* other : claims_.at({resource, id})) {
        if (other->key.pod_uid == container.key.pod_uid) continue;
        if (container.runs && !other->runs) continue;  // that one yields
        AddToList(NameOf(*other) + " (" + id + ")", rivals);
      }
    }
    return rivals;
  }

 private:
  std::map<DeviceName, ContainerKey> holder_;
  std::map<DeviceName, std::vector<const MarkedContainer*>> claims_;
};

void AdoptResource(const MarkedContainer& container, const std::string& resource,
                   const DevicesPerNuma& devices, const DeviceClaims& claims, Adoption& adoption,
                   std::string& text) {
  DeviceState& state = adoption.next.devices;
  const std::set<std::string> ids = DeviceAllocation{.devices = devices, .response = ""}.Ids();
  std::string named;
  for (const std::string& id : ids) named += (named.empty() ? "" : " ") + id;
  const std::string holder = claims.Holder(container, resource, ids);
  const std::string rivals = holder.empty() ? claims.Rivals(container, resource, ids) : "";
  if (holder.empty() && rivals.empty()) {
    state.allocations[container.key][resource] = {.devices = devices, .response = ""};
    if (!state.resources.contains(resource)) state.resources[resource] = {};
    return AddToList(resource + " " + named, text);
  }
  if (!container.runs) return;
  std::string why = "its mark says that it has " + resource + " " + named + ", but " + holder;
  if (holder.empty()) {
    state.withheld[container.key][resource] = ids;
    why = "it has " + resource + " " + named + " by its mark, and so has " + rivals +
          ": it is not known whose they are, so that they are allocated to no container, and no "
          "other pod gets them";
  }
  adoption.unknown.push_back({container.id, container.key, container.pod, std::move(why)});
}

void AdoptDevices(const std::vector<MarkedContainer>& containers, Adoption& adoption,
                  Texts& texts) {
  const DeviceState before = adoption.next.devices;
  const DeviceClaims claims(before, containers);
  for (size_t i = 0; i < containers.size(); ++i) {
    const MarkedContainer& container = containers[i];
    for (const auto& [resource, devices] : container.mark.devices) {
      if (before.Find(container.key, resource) != nullptr) continue;
      AdoptResource(container, resource, devices, claims, adoption, texts[i]);
    }
  }
}

// Whether the state says of a container that runs without exclusive CPUs that it stays on another
// NUMA node than its mark says, or the one that it stays and the other that it does not. It does
// not move while it runs, and its request does not change.
bool HasOtherShare(const cpumanager::CpuState& state, const ContainerKey& key,
                   const AssignmentMark& mark) {
  if (state.Find(key) != nullptr) return false;
  const auto share = state.shares.find(key);
  if (share == state.shares.end()) return mark.share.has_value();
  return mark.share != share->second;
}

// CPUs that are offline count: they come back, and a container does not lose its place to them
// before a restart.
bool MayHaveShare(const Node& node, const cpumanager::CpuState& state, const ContainerKey& key,
                  const cpumanager::NodeShare& share) {
  cpumanager::CpuState all_online = state;
  all_online.default_set |= state.offline_shared;
  return cpumanager::FitsOn(node.machine, *node.cpu, all_online, key, share);
}

// A container that runs has what its mark says, whatever the file says of it. If the NUMA node has
// too little for that now, or pods can no longer ask for it there, it runs on the whole shared
// pool. Those for which the file says the same come first. What the file has of a container that
// does not run counts last: the file can be of before others were started.
void AdoptShares(const Node& node, const std::vector<MarkedContainer>& containers,
                 Adoption& adoption, Texts& texts) {
  cpumanager::CpuState& state = adoption.next.cpu;
  auto saved = std::exchange(state.shares, {});
  if (!MayShareNodes(node)) return;
  const auto is_free = [&state](const ContainerKey& key) {
    return state.Find(key) == nullptr && !state.withheld.contains(key);
  };
  for (const bool is_saved : {true, false}) {
    for (size_t i = 0; i < containers.size(); ++i) {
      const MarkedContainer& container = containers[i];
      const std::optional<cpumanager::NodeShare>& share = container.mark.share;
      if (!share || !container.runs || !is_free(container.key)) continue;
      const auto entry = saved.find(container.key);
      if ((entry != saved.end() && entry->second == *share) != is_saved) continue;
      const std::string numa_node = "NUMA node " + std::to_string(share->numa_id);
      if (!MayHaveShare(node, state, container.key, *share)) {
        adoption.unknown.push_back({container.id, container.key, container.pod,
                                    "it runs on all CPUs of the shared pool: " + numa_node +
                                        ", on which it stayed, no longer has CPUs for what it "
                                        "requests"});
        continue;
      }
      state.shares[container.key] = *share;
      if (!is_saved) AddToList("shared CPUs of " + numa_node, texts[i]);
    }
  }
  for (const MarkedContainer& container : containers) {
    if (container.runs) saved.erase(container.key);
  }
  for (const auto& [key, share] : saved) {
    if (is_free(key) && MayHaveShare(node, state, key, share)) state.shares[key] = share;
  }
}

// Of several containers with one name in one pod, as of a container that was created again, the one
// that runs has the assignment. Sorted.
void DropNamesakes(std::vector<MarkedContainer>& containers, Adoption& adoption) {
  std::vector<MarkedContainer> kept;
  for (MarkedContainer& container : containers) {
    if (kept.empty() || kept.back().key != container.key) {
      kept.push_back(std::move(container));
    } else if (container.runs) {
      adoption.unknown.push_back({container.id, container.key, container.pod,
                                  "container " + kept.back().id +
                                      " has its name and runs as well: the mark of that one is "
                                      "believed"});
    }
  }
  containers = std::move(kept);
}

// All that running containers refute.
std::vector<AdoptionNote> DropRefuted(const Node& node, std::vector<MarkedContainer>& containers,
                                      NodeState& state) {
  std::vector<AdoptionNote> notes = DropRefutedCpus(node, containers, state.cpu);
  const auto append = [&notes](std::vector<AdoptionNote> more) {
    std::move(more.begin(), more.end(), std::back_inserter(notes));
  };
  append(DropRefutedMemory(node, containers, state.memory));
  append(DropRefutedDevices(containers, state.devices));
  return notes;
}

}  // namespace

std::vector<AdoptionNote> FindRefuted(const Node& node, const NodeState& state,
                                      std::vector<MarkedContainer> containers) {
  // The same containers in any order have the same result.
  std::ranges::sort(containers, [](const MarkedContainer& a, const MarkedContainer& b) {
    return std::tie(a.key, a.id) < std::tie(b.key, b.id);
  });
  NodeState kept = state;
  return DropRefuted(node, containers, kept);
}

bool IsIncomplete(const Node& node, const NodeState& state, const ContainerKey& key,
                  const AssignmentMark& mark) {
  const CpuSet* const cpus = state.cpu.Find(key);
  if (node.cpu && !mark.cpus.empty()) {
    if (cpus == nullptr) return true;
    // It was resized, and the file of its original CPUs is lost.
    const bool has_original = state.cpu.OriginalOf(key) != *cpus;
    if (!has_original && mark.Original() != *cpus && cpus->Contains(mark.Original())) return true;
    const bool is_own = mark.whole.own.contains(key.container);
    if (is_own && state.cpu.pods.contains(key.pod_uid) && !state.cpu.HasOwnCpus(key)) return true;
  }
  if (MayShareNodes(node) && HasOtherShare(state.cpu, key, mark)) return true;
  if (node.memory && !mark.memory.empty() && state.memory.Find(key) == nullptr) return true;
  return std::ranges::any_of(mark.devices, [&](const auto& entry) {
    return state.devices.Find(key, entry.first) == nullptr;
  });
}

Adoption Adopt(const Node& node, NodeState state, const std::set<std::string>& absent,
               std::vector<MarkedContainer> containers) {
  // The same containers in any order have the same result.
  std::ranges::sort(containers, [](const MarkedContainer& a, const MarkedContainer& b) {
    return std::tie(a.key, b.runs, a.id) < std::tie(b.key, a.runs, b.id);
  });
  for (const std::string& uid : absent) ReleasePod(uid, state);
  Adoption adoption{.next = std::move(state), .adopted = {}, .unknown = {}, .refuted = {}};
  DropNamesakes(containers, adoption);
  adoption.refuted = DropRefuted(node, containers, adoption.next);
  Texts texts(containers.size());
  const std::vector<CpuSet> cpus = AdoptCpus(node, containers, adoption);
  for (size_t i = 0; i < containers.size(); ++i) {
    if (!cpus[i].empty()) AddToList("CPUs " + cpus[i].ToString(), texts[i]);
  }
  AdoptShares(node, containers, adoption, texts);
  AdoptMemory(node, containers, adoption, texts);
  AdoptDevices(containers, adoption, texts);
  for (size_t i = 0; i < containers.size(); ++i) {
    const MarkedContainer& container = containers[i];
    if (texts[i].empty()) continue;
    adoption.adopted.push_back({container.id, container.key, container.pod, texts[i]});
  }
  return adoption;
}

}  // namespace alignd::admission
