#include "core/topologymanager/search/node_parts.h"

#include <algorithm>
#include <cmath>

namespace alignd::topologymanager {

NodeParts::NodeParts(const std::vector<const DemandTable*>& demands, NumaMask nodes)
    : parts_(std::min(demands.size(), kMaxDemands)) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    const DemandTable& demand = *demands[i];
    const auto part_of = [&](uint64_t amount) {
      const auto wanted = static_cast<long double>(demand.wanted());
      // Larger than the quotient, also after rounding.
      const auto part = static_cast<int64_t>(
          std::ceil(static_cast<long double>(std::min(amount, demand.wanted())) *
                    static_cast<long double>(kWhole) / wanted));
      return std::min(part + 1, kWhole);
    };
    for (const int node : nodes) {
      const uint64_t amount = demand.OnNode(node);
      parts_[i][static_cast<size_t>(node)] = amount == 0 ? 0 : part_of(amount);
    }
    for (const Place& place : demand.shared()) {
      const int64_t part = (part_of(place.amount) + kQuarters - 1) / kQuarters * kQuarters;
      shared_.push_back({i, place.nodes & nodes, part});
    }
  }
}

}  // namespace alignd::topologymanager
