// The lists of a merge, without those that say nothing about NUMA nodes. Private to the room.
#pragma once

#include <vector>

#include "alignd/topologymanager/hint.h"

namespace alignd::topologymanager {

// What one list offers.
struct Choices {
  bool any = false;             // a hint for any NUMA node
  std::vector<NumaMask> masks;  // of the listed hints
  const DescribedHints* described = nullptr;

  bool empty() const { return !any && masks.empty() && described == nullptr; }
};

Choices AllChoices(const Hints& hints);
// Without the hints that are not preferred. Of the described ones only the preferred ones count.
Choices PreferredChoices(const Hints& hints);

// Where the masks of the choices lie; nullopt-like `all` if one of them is for any node.
NumaMask UnionOf(const Choices& choices, NumaMask all);

struct MergeLists {
  MergeLists(NumaMask all_nodes, const std::vector<Hints>& lists);

  NumaMask all;
  // The lists that have a mask. The order does not matter.
  std::vector<const Hints*> masked;
  // Some list has no hint at all: there is no combination.
  bool none = false;
  // Of the lists without any mask: each has a preferred hint.
  bool may_prefer = true;
  // Where all lists have masks, and only there, combinations can meet: a mask counts as far as it
  // lies here, for the rest some other list always cuts off.
  NumaMask common;
};

}  // namespace alignd::topologymanager
