// The closest set of a given size that a problem accepts, by branch and bound. Private to this
// folder.
#pragma once

#include <optional>

#include "alignd/base/numa_mask.h"
#include "alignd/topologymanager/numa_info.h"
#include "core/topologymanager/sets/subset_search.h"

namespace alignd::topologymanager {

// The accepted set of `size` of the nodes with the smallest average distance; the lowest of equally
// close ones. If the budget is used up: the best set found so far.
std::optional<NumaMask> ClosestSubset(NumaMask nodes, int size, const NumaInfo& numa,
                                      SubsetProblem& problem, SearchBudget& budget);

}  // namespace alignd::topologymanager
