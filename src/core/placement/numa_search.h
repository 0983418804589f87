// Whether containers find a NUMA node, whatever NUMA nodes others are on. Private to the core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace alignd::placement {

// Amounts by resource, in one order.
using AmountRow = std::vector<int64_t>;

// A value. All rows have the same length.
struct NumaQuestion {
  std::vector<AmountRow> free;   // of each NUMA node, without the items
  std::vector<AmountRow> items;  // each is on one NUMA node that has it free
  AmountRow split;               // others can be on any NUMA nodes, as a whole or in parts
  std::vector<AmountRow> parts;  // to be placed in this order, each on one NUMA node
};

// Whether, with some places of the items, of what is split, and of the parts before it, a part
// finds no NUMA node. True also if this is not found out within a limit, or if the items have no
// places.
bool CanFindNone(const NumaQuestion& question);

// Whether, with some places of the items, all parts find one. True also if this is not found out
// within a limit.
bool CanFindAll(const NumaQuestion& question);

}  // namespace alignd::placement
