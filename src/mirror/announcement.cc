#include "mirror/announcement.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "alignd/admission/explanation.h"

namespace alignd::mirror {
namespace {

using devicemanager::Device;
using devicemanager::Resource;

const Resource& ResourceOf(const admission::NodeState& state, const std::string& name) {
  static const Resource kNone;
  const auto found = state.devices.resources.find(name);
  return found == state.devices.resources.end() ? kNone : found->second;
}

struct NumaNode {
  int id = 0;
  int free_cpus = 0;
};

// The NUMA nodes with the most free CPUs first.
std::vector<NumaNode> ByFreeCpus(const admission::Node& node, const admission::NodeState& state) {
  std::vector<NumaNode> nodes;
  for (const admission::NumaAvailability& numa : admission::AvailableByNode(node, state)) {
    nodes.push_back({numa.numa_id, numa.free_cpus.Count()});
  }
  std::ranges::stable_sort(nodes, std::greater<>(), &NumaNode::free_cpus);
  return nodes;
}

}  // namespace

Announcement Announce(const admission::NodeState& state, const checkpoint::Bindings& bindings,
                      const std::string& resource) {
  const std::map<std::string, Device>& devices = ResourceOf(state, resource).devices;
  Announcement announced;
  std::set<std::string> taken = state.devices.AllocatedIds(resource);
  for (const auto& [key, resources] : bindings) {
    const auto binding = resources.find(resource);
    if (binding == resources.end()) continue;
    for (const auto& [id, device] : binding->second) {
      taken.insert(device);
      const auto listed = devices.find(device);
      if (listed == devices.end() && !devices.contains(id)) continue;
      const bool healthy = listed != devices.end() && listed->second.healthy;
      const auto [place, is_new] = announced.try_emplace(id, AnnouncedDevice{device, healthy});
      // Containers of one pod may have the same id, one after the other.
      if (!is_new) place->second.healthy = place->second.healthy && healthy;
    }
  }
  std::vector<std::string> without_own;  // free ids whose own device is taken
  std::vector<std::string> spare;        // free devices whose own id is bound
  for (const auto& [id, device] : devices) {
    const bool id_is_free = !announced.contains(id);
    const bool device_is_free = !taken.contains(id);
    if (id_is_free && device_is_free) announced[id] = {id, device.healthy};
    if (id_is_free && !device_is_free) without_own.push_back(id);
    if (!id_is_free && device_is_free) spare.push_back(id);
  }
  auto next = spare.begin();
  for (const std::string& id : without_own) {
    AnnouncedDevice& device = announced[id];
    if (next == spare.end()) continue;
    device = {*next, devices.at(*next).healthy};
    ++next;
  }
  return announced;
}

KubeletAllocatedBefore KubeletAllocatedIn(const checkpoint::Bindings& bindings) {
  KubeletAllocatedBefore allocated;
  for (const auto& [key, resources] : bindings) {
    for (const auto& [resource, binding] : resources) {
      for (const auto& [id, device] : binding) allocated[resource].insert(id);
    }
  }
  return allocated;
}

Announcement AnnounceBefore(const std::set<std::string>& ids) {
  Announcement announced;
  for (const std::string& id : ids) announced[id] = {.device = "", .healthy = true};
  return announced;
}

std::set<std::string> PreferredIds(const admission::Node& node, const admission::NodeState& state,
                                   const std::string& resource, const Announcement& announced,
                                   const Choice& choice) {
  const std::map<std::string, Device>& devices = ResourceOf(state, resource).devices;
  std::map<int64_t, std::set<std::string>> on_node;
  for (const std::string& id : choice.available) {
    const auto place = announced.find(id);
    if (place == announced.end()) continue;
    const auto device = devices.find(place->second.device);
    if (device == devices.end()) continue;
    for (const int64_t numa : device->second.numa) on_node[numa].insert(id);
  }
  const std::vector<NumaNode> nodes = ByFreeCpus(node, state);
  const auto with_required = [&](const std::set<std::string>& ids) {
    std::set<std::string> all = ids;
    all.insert(choice.must_include.begin(), choice.must_include.end());
    return all;
  };
  std::optional<std::set<std::string>> best;
  int most_cpus = 0;
  for (const NumaNode& numa : nodes) {
    std::set<std::string> ids = with_required(on_node[numa.id]);
    if (ids.size() < choice.size) continue;
    if (!best) most_cpus = numa.free_cpus;
    if (2 * numa.free_cpus < most_cpus) continue;
    if (!best || ids.size() < best->size()) best = std::move(ids);
  }
  if (best) return *best;
  std::set<std::string> together = choice.must_include;
  for (const NumaNode& numa : nodes) {
    const std::set<std::string>& ids = on_node[numa.id];
    together.insert(ids.begin(), ids.end());
    if (together.size() >= choice.size) return together;
  }
  return with_required(choice.available);
}

}  // namespace alignd::mirror
