// The closest set of a given size that a search accepts, by branch and bound. Private to this
// folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "alignd/base/numa_mask.h"
#include "alignd/topologymanager/numa_info.h"
#include "core/topologymanager/sets/member_search.h"

namespace alignd::topologymanager {

// Nodes in classes: the nodes of a class have equal distances to each other and to every other
// node. So the distances within a set depend only on how many nodes of each class it has. A class
// is usually a socket.
class DistanceClasses {
 public:
  // `numa` outlives it.
  DistanceClasses(NumaMask nodes, const NumaInfo& numa);

  const NumaInfo& numa() const { return numa_; }
  NumaMask nodes() const { return nodes_; }  // of all classes
  // Those that are nearest to all others first; of equally near ones that with the highest node.
  const std::vector<NumaMask>& classes() const { return classes_; }
  // The distance of a node of the class to itself.
  int64_t OfOne(size_t a) const { return of_one_[a]; }
  // The distances between two different nodes of these classes, in both directions; 0 if there are
  // no such nodes.
  int64_t Between(size_t a, size_t b) const { return between_[a * classes_.size() + b]; }

 private:
  const NumaInfo& numa_;
  const NumaMask nodes_;
  std::vector<NumaMask> classes_;
  std::vector<int64_t> of_one_;
  std::vector<int64_t> between_;
};

// The accepted set of `size` of the nodes with the smallest average distance; the lowest of equally
// close ones. If the budget is used up: the best set found so far.
std::optional<NumaMask> ClosestSubset(const DistanceClasses& distances, int size,
                                      MemberSearch& search, SearchBudget& budget);

}  // namespace alignd::topologymanager
