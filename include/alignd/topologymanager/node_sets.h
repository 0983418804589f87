// Sets of NUMA nodes described by what they must hold, not listed: what hint generation answers
// with, however many nodes there are.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "alignd/base/numa_mask.h"

namespace alignd::topologymanager {

// So much of something (CPUs, bytes, devices) lies on these NUMA nodes. A set that has one of the
// nodes can use it; a place without nodes, nobody can.
struct Place {
  NumaMask nodes;
  uint64_t amount = 0;

  friend bool operator==(const Place&, const Place&) = default;
};

// A set of nodes satisfies it if the places that it touches hold `wanted` or more together.
struct Demand {
  std::vector<Place> places;
  uint64_t wanted = 0;

  friend bool operator==(const Demand&, const Demand&) = default;
};

// All non-empty sets of nodes `within` that satisfy every demand. More nodes never hurt: a set
// that contains a member is a member, as long as it lies within. So there is a member if `within`
// is one.
struct NodeSets {
  NumaMask within;
  std::vector<Demand> demands;

  bool Contains(NumaMask set) const;

  friend bool operator==(const NodeSets&, const NodeSets&) = default;
};

// Searches for sets give up after this many steps, a fraction of a second. Demands with places of
// one node each, nodes that are alike, and demands that need different nodes cost few steps. What
// may cost more: places that nodes share across each other, or dozens of nodes each different under
// several demands. What is found then satisfies every demand all the same, but may have more nodes
// than necessary, and says so.
inline constexpr int64_t kMaxSearchSteps = 1 << 16;

struct Narrowest {
  NumaMask set;
  bool exact = true;  // false: the search gave up, there may be a narrower or lower one

  friend bool operator==(const Narrowest&, const Narrowest&) = default;
};

// The narrowest member that contains all of `containing`; of equally narrow ones the lowest.
std::optional<Narrowest> NarrowestSet(const NodeSets& sets, NumaMask containing = {});

struct Fewest {
  int nodes = 0;
  bool exact = true;  // false: the search gave up, fewer may do

  friend bool operator==(const Fewest&, const Fewest&) = default;
};

// How many nodes the narrowest member has; nullopt without a member.
std::optional<Fewest> FewestNodes(const NodeSets& sets);

}  // namespace alignd::topologymanager
