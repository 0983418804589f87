// The devices that the mirror announces to the kubelet, and the ones that it prefers. Pure
// functions.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/checkpoint/binding_checkpoint.h"

namespace alignd::mirror {

// One announced id.
struct AnnouncedDevice {
  std::string device;  // bound to the id, or free to be bound to it; empty: none
  bool healthy = false;

  friend bool operator==(const AnnouncedDevice&, const AnnouncedDevice&) = default;
};

// By the kubelet's id.
using Announcement = std::map<std::string, AnnouncedDevice>;

// Announces the ids of the resource's devices, and the ids that are bound to such a device. A bound
// id is as healthy as its device. A free id stands for the free device of that id, or else for
// another free device. Without any it is unhealthy, so that the kubelet never allocates more
// devices than exist.
Announcement Announce(const admission::NodeState& state, const checkpoint::Bindings& bindings,
                      const std::string& resource);

// Ids by resource.
using KubeletAllocatedBefore = std::map<std::string, std::set<std::string>>;

KubeletAllocatedBefore KubeletAllocatedIn(const checkpoint::Bindings& bindings);

// The announcement of a resource whose plugin has not registered since alignd started: the ids that
// are bound, as healthy. A kubelet that starts beside alignd, as after a reboot, admits its pods
// again and fails those whose devices are missing. The admitted pods then wait for the plugin. No
// id is free, so that no other pod is scheduled for it.
Announcement AnnounceBefore(const std::set<std::string>& ids);

// A request for a preference. A value.
struct Choice {
  std::set<std::string> available;  // ids, the ones to include among them
  std::set<std::string> must_include;
  size_t size = 0;
};

// The ids to prefer; the ones to include are among them. They are the available ids whose devices
// are on one NUMA node. The node must have enough of them, and at least half as many free CPUs as
// any such node. Of several the node with the fewest ids is taken, so that larger groups stay
// whole, then the one with the most free CPUs. If no node has enough: the ids of as few nodes as
// possible.
std::set<std::string> PreferredIds(const admission::Node& node, const admission::NodeState& state,
                                   const std::string& resource, const Announcement& announced,
                                   const Choice& choice);

}  // namespace alignd::mirror
