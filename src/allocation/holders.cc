#include "allocation/holders.h"

#include <algorithm>
#include <map>
#include <set>

#include "alignd/admission/assignment.h"
#include "alignd/pod/pod.h"

namespace alignd::allocation {
namespace {

// A text for people: the pods beyond these are left out.
constexpr size_t kMaxHolders = 8;

// What the pod requests and is not assigned.
struct Wanted {
  bool cpus = false;    // exclusive ones, or shared ones of one NUMA node
  bool memory = false;  // pinned
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
    wanted.memory = wanted.memory || (IsPinned(request.pod) && state.memory.Find(key) == nullptr);
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
  std::set<std::string> parts;  // "container app: nvidia.com/gpu GPU-1"
  bool has_allocated = false;   // a device that the kubelet allocated for the refused pod
};

// By pod.
std::map<std::string, Holding> HoldingsOf(const admission::NodeState& state, const Wanted& wanted,
                                          const std::string& refused_uid, bool all) {
  std::map<std::string, Holding> holdings;
  if (wanted.memory && all) {
    for (const auto& [uid, containers] : state.memory.assignments) {
      for (const auto& [container, blocks] : containers) {
        for (const memorymanager::Block& block : blocks) {
          holdings[uid].parts.insert("container " + container + " has " +
                                     std::to_string(block.size) + " bytes of " + block.type);
        }
      }
    }
  }
  if (wanted.cpus) {
    for (const auto& [uid, containers] : state.cpu.assignments) {
      for (const auto& [container, cpus] : containers) {
        holdings[uid].parts.insert("container " + container + " has CPUs " + cpus.ToString());
      }
    }
  }
  for (const auto& [key, share] : state.cpu.shares) {
    if (!wanted.cpus) break;
    holdings[key.pod_uid].parts.insert("container " + key.container + " stays on NUMA node " +
                                       std::to_string(share.numa_id) + " with " +
                                       std::to_string(share.millis) + "m CPU");
  }
  for (const auto& [key, resources] : state.devices.allocations) {
    for (const auto& [resource, allocation] : resources) {
      if (!wanted.resources.contains(resource)) continue;
      std::string ids;
      for (const std::string& id : allocation.Ids()) {
        ids += (ids.empty() ? "" : ", ") + id;
        if (wanted.ids.contains(id)) holdings[key.pod_uid].has_allocated = true;
      }
      holdings[key.pod_uid].parts.insert("container " + key.container + " has " + resource + " " +
                                         ids);
    }
  }
  holdings.erase(refused_uid);
  return holdings;
}

}  // namespace

std::string DescribeHolders(const admission::Node& node, const admission::NodeState& state,
                            const AdmissionRequest& request, bool all) {
  if (!request.describe) return {};
  const Wanted wanted = WantedBy(node, state, request);
  std::string text;
  size_t shown = 0;
  bool any_ending = false;
  for (const auto& [uid, holding] : HoldingsOf(state, wanted, request.pod.uid, all)) {
    const PodStanding standing = request.describe(uid);
    if (!all && !standing.is_ending && !holding.has_allocated) continue;
    if (++shown > kMaxHolders) continue;
    any_ending = any_ending || standing.is_ending;
    text += text.empty() ? ". Still assigned: " : "; ";
    text += "pod " + (standing.name.empty() ? uid : standing.name + " (" + uid + ")");
    text += standing.is_ending ? ", which is ending: " : ": ";
    std::string parts;
    for (const std::string& part : holding.parts) parts += (parts.empty() ? "" : ", ") + part;
    text += parts;
  }
  if (text.empty()) return text;
  if (shown > kMaxHolders) text += "; and " + std::to_string(shown - kMaxHolders) + " more pods";
  if (!any_ending) return text + ". Wait until these pods end, or delete them";
  return text +
         ". A pod that is ending releases them when its last process has ended: wait, or end the "
         "processes that ignore SIGTERM";
}

}  // namespace alignd::allocation
