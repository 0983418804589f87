// Whether a single NUMA node is the result of a merge, without tables. Private to the module.
#pragma once

#include <optional>

#include "alignd/topologymanager/hint_merger.h"
#include "core/topologymanager/merge_lists.h"
#include "core/topologymanager/sets/set_family.h"

namespace alignd::topologymanager {

struct NarrowestNode {
  // False: it takes tables to know.
  bool is_known = false;
  // If it is known: the best result, a set of one node; nullopt if no combination has a node in
  // common.
  std::optional<TopologyHint> best;
};

// The best result of the combinations of preferred hints, or of all hints, with the rules of 1.20:
// there the narrowest result wins. A node is in some result if every list has it in some mask. It
// is a result by itself if, in addition, some list has it alone in a mask, cut to the common nodes.
// If the best of the former nodes is one of the latter, no result is better.
NarrowestNode FindNarrowestNode(const NumaInfo& numa, const MergeLists& lists, bool preferred,
                                const MergeRules& rules);

}  // namespace alignd::topologymanager
