#include "core/admission/claimed_devices.h"

#include <cstdint>

namespace alignd::admission {
namespace {

using topologymanager::Hints;
using topologymanager::HintsByResource;
using topologymanager::TopologyHint;

HintsByResource HintOf(NumaMask nodes) {
  if (nodes.empty()) return {};
  return {{kClaimedDevices, Hints({TopologyHint{.affinity = nodes, .preferred = true}})}};
}

}  // namespace

NumaMask ClaimedNodes(const Machine& machine, const Container& container) {
  NumaMask nodes;
  for (const ClaimedDevice& device : container.claimed_devices) {
    nodes = nodes | machine.MaskOfIds(device.numa);
  }
  return nodes;
}

HintsByResource ClaimedHints(const Machine& machine, const Container& container) {
  return HintOf(ClaimedNodes(machine, container));
}

HintsByResource ClaimedHints(const Machine& machine, const Pod& pod) {
  NumaMask nodes;
  for (const Container& container : pod.containers) {
    nodes = nodes | ClaimedNodes(machine, container);
  }
  return HintOf(nodes);
}

std::string DescribeClaimed(const Container& container) {
  std::string text;
  for (const ClaimedDevice& device : container.claimed_devices) {
    text += (text.empty() ? "" : ", ") + device.name + " on ";
    if (device.numa.empty()) text += "no known NUMA node";
    for (size_t i = 0; i < device.numa.size(); ++i) {
      text += (i == 0 ? "NUMA node " : "+") + std::to_string(device.numa[i]);
    }
  }
  return text;
}

}  // namespace alignd::admission
