// Demands, prepared so that many sets of nodes can be checked against them. Private to the module.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "alignd/base/numa_mask.h"
#include "alignd/topologymanager/node_sets.h"
#include "core/topologymanager/sets/set_family.h"

namespace alignd::topologymanager {

// One demand. An amount above what is wanted is stored as what is wanted: more makes no difference,
// and places that both have enough become equal. A value.
class DemandTable {
 public:
  explicit DemandTable(const Demand& demand);

  uint64_t wanted() const { return wanted_; }
  // The amount in places that have this node only.
  uint64_t OnNode(int node) const { return on_node_[static_cast<size_t>(node)]; }
  // Places of several nodes, and all their nodes.
  const std::vector<Place>& shared() const { return shared_; }
  NumaMask shared_nodes() const { return shared_nodes_; }

  uint64_t AmountOf(NumaMask set) const;
  bool IsSatisfiedBy(NumaMask set) const { return AmountOf(set) >= wanted_; }

  // What the node adds to `set`.
  uint64_t GainOf(int node, NumaMask set) const;

  // An upper bound of what a set of the family has. Exact without shared places.
  uint64_t AtMost(const SetFamily& family) const;
  // A lower bound of how many of the nodes `open` have to join `set` to satisfy the demand; -1 if
  // all of them are not enough. Exact without shared places.
  int AtLeastNodes(NumaMask set, NumaMask open) const;

 private:
  uint64_t AtMostByShares(const SetFamily& family) const;

  // What each of the nodes adds to `set` alone, the largest first. Returns the number of nodes.
  int Gains(NumaMask set, NumaMask open, std::array<uint64_t, NumaMask::kMaxNodes>& gains) const;

  uint64_t wanted_;
  std::array<uint64_t, NumaMask::kMaxNodes> on_node_ = {};
  std::vector<Place> shared_;
  NumaMask shared_nodes_;
};

// Sets of nodes whose demands are prepared in this way.
struct SetTable {
  explicit SetTable(const NodeSets& sets);

  bool Contains(NumaMask set) const;
  NumaMask shared_nodes() const;

  NumaMask within;
  std::vector<DemandTable> demands;  // without those that want nothing
};

}  // namespace alignd::topologymanager
