// What the kubelet is told of a resource's devices, and which of them it is guided to. Pure
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

// One id that the kubelet is told of.
struct AnnouncedDevice {
  std::string stands_for;  // the real device that is bound to the id, or that it would get now;
                           // empty: none is left
  bool healthy = false;

  friend bool operator==(const AnnouncedDevice&, const AnnouncedDevice&) = default;
};

// By the kubelet's id.
using Announcement = std::map<std::string, AnnouncedDevice>;

// The ids are those of the resource's devices, and ids that are bound to such a device. A bound id
// is as healthy as its device. A free id stands for the free device of that id, or else for another
// free one; without any it is unhealthy: so the kubelet never counts more than there is.
Announcement Announce(const admission::NodeState& state, const checkpoint::Bindings& bindings,
                      const std::string& resource);

// Ids by resource.
using KubeletAllocatedBefore = std::map<std::string, std::set<std::string>>;

KubeletAllocatedBefore KubeletAllocatedIn(const checkpoint::Bindings& bindings);

// What is told of a resource whose plugin has not come since our start: the ids that containers
// had, healthy. A kubelet that starts beside us, as after a reboot, admits its pods once more, and
// refuses for good those whose devices it does not see; admitted, they wait for the plugin. Nothing
// is free, so nobody else is sent here.
Announcement AnnounceBefore(const std::set<std::string>& counted);

// What the kubelet asks before it chooses; a value.
struct Choice {
  std::set<std::string> available;  // ids, the ones to include among them
  std::set<std::string> must_include;
  size_t size = 0;
};

// Those of the available ids whose devices lie on one NUMA node that has enough of them and at
// least half as many free CPUs as any such node: of several the one with the fewest of them, so
// that larger groups stay whole, then the one with the most free CPUs. Where no node has enough:
// those of as few nodes as it takes, all where that is not enough. At least the ones to include.
std::set<std::string> Steer(const admission::Node& node, const admission::NodeState& state,
                            const std::string& resource, const Announcement& announced,
                            const Choice& choice);

}  // namespace alignd::mirror
