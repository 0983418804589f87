#include "allocation/holders.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/admission/explanation.h"
#include "alignd/base/counted.h"
#include "alignd/pod/pod.h"

namespace alignd::allocation {
namespace {

// A text for people: the pods beyond these are left out.
constexpr size_t kMaxHolders = 8;

// What the pod requests and is not assigned.
struct Wanted {
  bool cpus = false;  // exclusive ones, or shared ones of one NUMA node
  std::set<std::string> resources;
  std::set<std::string> ids;  // that the kubelet allocated, of all resources
};

Wanted WantedBy(const admission::Node& node, const admission::NodeState& state,
                const AdmissionRequest& request) {
  Wanted wanted;
  for (const Container& container : request.pod.containers) {
    const ContainerKey key{request.pod.uid, container.name};
    const bool wants_cpus = ExclusiveCpus(request.pod, container) > 0 ||
                            admission::AsksForOneNode(node, request.pod, container);
    wanted.cpus = wanted.cpus ||
                  (wants_cpus && state.cpu.Find(key) == nullptr && !state.cpu.shares.contains(key));
    const auto allocated = request.kubelet_allocated.find(container.name);
    for (const auto& [resource, limit] : container.resources.limits) {
      if (limit.IsZero() || !state.devices.resources.contains(resource)) continue;
      if (state.devices.Find(key, resource) != nullptr) continue;
      wanted.resources.insert(resource);
      if (allocated == request.kubelet_allocated.end()) continue;
      const auto ids = allocated->second.find(resource);
      if (ids == allocated->second.end()) continue;
      wanted.ids.insert(ids->second.begin(), ids->second.end());
    }
  }
  return wanted;
}

struct Holding {
  std::string uid;
  std::set<std::string> parts;  // "container app has nvidia.com/gpu GPU-1"
  std::set<std::string> kinds;  // the resources of the parts
  bool has_allocated = false;   // a device that the kubelet allocated for the refused pod
  PodStanding standing;
};

// What all pods but the refused one have, by UID. `lacking`: as in DescribeHolders.
std::map<std::string, Holding> HoldingsOf(const admission::NodeState& state, const Wanted& wanted,
                                          const std::string& refused_uid,
                                          const std::set<std::string>* lacking) {
  std::map<std::string, Holding> holdings;
  const auto add = [&](const ContainerKey& key, const std::string& kind, const std::string& has) {
    Holding& holding = holdings[key.pod_uid];
    holding.parts.insert("container " + key.container + " " + has);
    holding.kinds.insert(kind);
  };
  for (const auto& [uid, containers] : state.memory.assignments) {
    if (lacking == nullptr) break;
    for (const auto& [container, blocks] : containers) {
      for (const memorymanager::Block& block : blocks) {
        if (!lacking->contains(block.type)) continue;
        add({uid, container}, block.type,
            "has " + admission::MemoryAmount(block.size) + " of " + block.type);
      }
    }
  }
  if (wanted.cpus && (lacking == nullptr || lacking->contains("cpu"))) {
    for (const auto& [uid, containers] : state.cpu.assignments) {
      for (const auto& [container, cpus] : containers) {
        add({uid, container}, "cpu", "has CPUs " + cpus.ToString());
      }
    }
    for (const auto& [key, share] : state.cpu.shares) {
      add(key, "cpu",
          "stays on NUMA node " + std::to_string(share.numa_id) + " with " +
              std::to_string(share.millis) + "m CPU");
    }
  }
  for (const auto& [key, resources] : state.devices.allocations) {
    for (const auto& [resource, allocation] : resources) {
      if (!wanted.resources.contains(resource)) continue;
      std::string list;
      const std::set<std::string> ids = allocation.Ids();
      for (const std::string& id : ids) list += (list.empty() ? "" : ", ") + id;
      const bool has_allocated =
          std::ranges::any_of(ids, [&](const auto& id) { return wanted.ids.contains(id); });
      if (!has_allocated && lacking != nullptr && !lacking->contains(resource)) continue;
      add(key, resource, "has " + resource + " " + list);
      holdings[key.pod_uid].has_allocated = holdings[key.pod_uid].has_allocated || has_allocated;
    }
  }
  holdings.erase(refused_uid);
  return holdings;
}

// First the pods that are ending, then those that have the kubelet's devices, then those that have
// most of the resources.
bool IsNamedBefore(const Holding& a, const Holding& b) {
  const auto rank = [](const Holding& one) {
    return std::tuple(!one.standing.is_ending, !one.has_allocated, -std::ssize(one.kinds));
  };
  return rank(a) < rank(b);
}

}  // namespace

std::string DescribeHolders(const admission::Node& node, const admission::NodeState& state,
                            const AdmissionRequest& request, const std::set<std::string>* lacking) {
  if (!request.describe) return {};
  const Wanted wanted = WantedBy(node, state, request);
  std::vector<Holding> holders;
  for (auto& [uid, holding] : HoldingsOf(state, wanted, request.pod.uid, lacking)) {
    holding.uid = uid;
    holding.standing = request.describe(uid);
    const bool is_named = lacking != nullptr || holding.standing.is_ending || holding.has_allocated;
    if (is_named) holders.push_back(std::move(holding));
  }
  if (holders.empty()) return {};
  std::ranges::stable_sort(holders, IsNamedBefore);
  std::string text;
  for (size_t i = 0; i < std::min(holders.size(), kMaxHolders); ++i) {
    const auto& [uid, parts, kinds, has_allocated, standing] = holders[i];
    text += i == 0 ? ". Still assigned: " : "; ";
    text += "pod " + (standing.name.empty() ? uid : standing.name + " (" + uid + ")");
    text += standing.is_ending ? ", which is ending: " : ": ";
    std::string list;
    for (const std::string& part : parts) list += (list.empty() ? "" : ", ") + part;
    text += list;
  }
  if (holders.size() > kMaxHolders) {
    text += "; and " + Counted(holders.size() - kMaxHolders, "more pod");
  }
  text += holders.front().standing.is_ending
              ? ". A pod that is ending releases them when its last process has ended: wait, or "
                "end the processes that ignore SIGTERM"
          : holders.size() == 1 ? ". Wait until this pod ends, or delete it"
                                : ". Wait until these pods end, or delete them";
  if (lacking == nullptr) return text;
  const char* const whether = holders.size() == 1 ? "whether it" : "which of them";
  return text + ". To see " + whether + " must end, run \"alignctl why-not " +
         request.pod.name_space + "/" + request.pod.name + "\"";
}

}  // namespace alignd::allocation
