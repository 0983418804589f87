// The lists of a merge, without those that have no NUMA node. Private to the module.
#pragma once

#include <vector>

#include "alignd/topologymanager/hint.h"

namespace alignd::topologymanager {

// The hints of one list.
struct Choices {
  bool any = false;             // a hint for any NUMA node
  std::vector<NumaMask> masks;  // of the listed hints
  const DescribedHints* described = nullptr;
};

Choices AllChoices(const Hints& hints);
// Only the preferred hints. `described` has all described hints: check DescribedHints::IsPreferred.
Choices PreferredChoices(const Hints& hints);

// All nodes that a mask of the choices has; `all` if a hint is for any node.
NumaMask UnionOf(const Choices& choices, NumaMask all);

struct MergeLists {
  MergeLists(NumaMask all_nodes, const std::vector<Hints>& lists);

  NumaMask all;
  // The lists that have a mask. The order does not matter.
  std::vector<const Hints*> masked;
  // Some list is empty: there is no combination.
  bool none = false;
  // Each list without a mask has a preferred hint.
  bool may_prefer = true;
  // The nodes that every list has in some mask. The intersection of a combination has no others.
  NumaMask common;
};

}  // namespace alignd::topologymanager
