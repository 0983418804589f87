// Sets of NUMA nodes, described by what they must have instead of listed. A description stays small
// on machines with many NUMA nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "alignd/base/numa_mask.h"

namespace alignd::topologymanager {

// An amount (of CPUs, bytes, devices) that lies on these NUMA nodes. A set that has one of the
// nodes can use it. No set can use a place without nodes.
struct Place {
  NumaMask nodes;
  uint64_t amount = 0;

  friend bool operator==(const Place&, const Place&) = default;
};

// A set of nodes satisfies the demand if the places that it can use have `wanted` or more in sum.
struct Demand {
  std::vector<Place> places;
  uint64_t wanted = 0;

  friend bool operator==(const Demand&, const Demand&) = default;
};

// All non-empty sets of nodes `within` that satisfy every demand. A set within that contains a
// member is a member. So there is a member if `within` is one.
struct NodeSets {
  NumaMask within;
  std::vector<Demand> demands;

  bool Contains(NumaMask set) const;

  friend bool operator==(const NodeSets&, const NodeSets&) = default;
};

// The limit of one search, in steps. A step computes one bound, which takes some microseconds. With
// more than 256 different groups of nodes that share devices, a bound counts as several steps.
//
// The time of a decision: at most 1 s for one container. A container needs one search for each
// device resource, at most three for memory and one for the merge. On machines as they are built,
// all of them take a few milliseconds. docs/performance.md has what was measured, also at the
// limit.
//
// Searches are short if places have one node each, if nodes are alike, or if demands exclude each
// other. They are long if nodes share places in different ways, if dozens of nodes are different
// under several demands, or if sets of equal size have many different distances. A search that ends
// at the limit returns a set that satisfies every demand. The set may have more nodes than
// necessary; the result says so (`exact`).
inline constexpr int64_t kMaxSearchSteps = 1 << 13;

struct Narrowest {
  NumaMask set;
  bool exact = true;  // false: the search ended at its limit

  friend bool operator==(const Narrowest&, const Narrowest&) = default;
};

// The narrowest member that contains all of `containing`; of equally narrow ones the lowest.
std::optional<Narrowest> NarrowestSet(const NodeSets& sets, NumaMask containing = {});

struct Fewest {
  int nodes = 0;
  bool exact = true;  // false: the search ended at its limit

  friend bool operator==(const Fewest&, const Fewest&) = default;
};

// How many nodes the narrowest member has; nullopt without a member.
std::optional<Fewest> FewestNodes(const NodeSets& sets);

}  // namespace alignd::topologymanager
