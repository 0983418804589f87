// Demands in the form in which many sets of nodes are measured against them. Private to the room.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "alignd/base/numa_mask.h"
#include "alignd/topologymanager/node_sets.h"
#include "core/topologymanager/search/subset_search.h"

namespace alignd::topologymanager {

// One demand. No place counts for more than what is wanted, which is enough of it; so differences
// of sums tell most. A value.
class DemandTable {
 public:
  explicit DemandTable(const Demand& demand);

  uint64_t wanted() const { return wanted_; }
  // What lies on the node and no other.
  uint64_t OnNode(int node) const { return on_node_[static_cast<size_t>(node)]; }
  // Places of several nodes, and all their nodes.
  const std::vector<Place>& shared() const { return shared_; }
  NumaMask shared_nodes() const { return shared_nodes_; }

  uint64_t AmountOf(NumaMask set) const;
  bool IsSatisfiedBy(NumaMask set) const { return AmountOf(set) >= wanted_; }

  // What the node adds to `set`.
  uint64_t GainOf(int node, NumaMask set) const;

  // What the largest of these sets, with the nodes `beside`, holds, or more: a place that several
  // nodes share counts for each. Exact without shared places.
  uint64_t AtMost(const SetFamily& family, NumaMask beside) const;
  // So many of the nodes `open`, or more, `set` needs to satisfy the demand; -1 if all are not
  // enough. Exact without shared places.
  int AtLeastNodes(NumaMask set, NumaMask open) const;
  // So many of `some` nodes, or fewer, may be left out of `set`, which satisfies the demand.
  int AtMostLeftOut(NumaMask set, NumaMask some) const;

 private:
  uint64_t AtMostByShares(const SetFamily& family, NumaMask beside) const;

  // What each of the nodes adds to `set` alone, the largest first. Returns how many.
  int Gains(NumaMask set, NumaMask open, std::array<uint64_t, NumaMask::kMaxNodes>& gains) const;

  uint64_t wanted_;
  std::array<uint64_t, NumaMask::kMaxNodes> on_node_ = {};
  std::vector<Place> shared_;
  NumaMask shared_nodes_;
};

// The sets of nodes in that form.
struct SetTable {
  explicit SetTable(const NodeSets& sets);

  bool Contains(NumaMask set) const;
  NumaMask shared_nodes() const;

  NumaMask within;
  std::vector<DemandTable> demands;  // without those that want nothing
};

// Which nodes are alike to several lists: in all demands, and in all groups that are told. A place
// that nodes share makes each of them a kind of its own.
class NodeKinds {
 public:
  NodeKinds(const std::vector<const SetTable*>& lists, const std::vector<NumaMask>& groups);

  uint64_t KindOf(int node) const { return kinds_[static_cast<size_t>(node)]; }

  // Adds how many nodes of which kind there are.
  void AppendTo(std::vector<uint64_t>& key, NumaMask nodes) const;
  void AppendTo(std::vector<uint64_t>& key, const SetFamily& family) const;

 private:
  std::array<uint8_t, NumaMask::kMaxNodes> kinds_;  // by node: the lowest one that is alike
};

}  // namespace alignd::topologymanager
