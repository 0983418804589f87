// The report of `alignctl fit` for people.
#pragma once

#include <iosfwd>

#include "alignd/placement/fit.h"

namespace alignd::cli {

// Each pod, or the replicas of one object: the nodes that can take it with their scores, why the
// others do not, and where it is placed; then the sums and the comparisons. `wide`: all nodes.
void PrintFit(const placement::FitResult& result, bool wide, std::ostream& out);

}  // namespace alignd::cli
