#include "alignd/config/feature_gates.h"

namespace alignd {

bool DraNodeAllocatableResourcesOn(const KubeletConfig& config) {
  if (config.compatibility == Compatibility::k1_20) return false;
  for (const char* gate : {"DRANodeAllocatableResources", "AllAlpha"}) {
    const auto entry = config.feature_gates.find(gate);
    if (entry != config.feature_gates.end()) return entry->second;
  }
  return false;
}

}  // namespace alignd
