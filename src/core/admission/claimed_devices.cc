#include "core/admission/claimed_devices.h"

#include <algorithm>
#include <cstddef>

#include "alignd/base/numa_mask.h"

namespace alignd::admission {

using topologymanager::Hints;
using topologymanager::HintsByResource;
using topologymanager::TopologyHint;

HintsByResource ClaimedHints(const Machine& machine, const std::vector<ClaimedDevice>& devices,
                             const std::vector<HintsByResource>& others) {
  NumaMask nodes;
  for (const ClaimedDevice& device : devices) nodes = nodes | machine.MaskOfIds(device.numa);
  nodes = nodes & machine.numa_with_cpus();
  if (nodes.empty() || std::ranges::all_of(others, &HintsByResource::empty)) return {};
  return {{kClaimedDevices, Hints({TopologyHint{.affinity = nodes, .preferred = true}})}};
}

std::string DescribeClaimed(const std::vector<ClaimedDevice>& devices) {
  std::string text;
  for (const ClaimedDevice& device : devices) {
    text += (text.empty() ? "" : ", ") + device.name + " on ";
    if (device.numa.empty()) text += "an unknown NUMA node";
    for (size_t i = 0; i < device.numa.size(); ++i) {
      text += (i == 0 ? "NUMA node " : "+") + std::to_string(device.numa[i]);
    }
  }
  return text;
}

}  // namespace alignd::admission
