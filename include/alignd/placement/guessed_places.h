// Pods that run and whose assignments no state file has. They are placed in the order in which they
// are named, which is a guess. Here is what follows from it for other pods: an answer that is the
// same wherever these pods are, and one that is not.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"

namespace alignd::placement {

// CPUs, bytes of memory by type, and numbers of devices.
using NumaAmounts = std::map<std::string, int64_t>;

// A value.
class GuessedPlaces {
 public:
  bool empty() const { return items_.empty(); }

  // The pod was placed: what it has in `after` and not in `before` can be elsewhere. On a node
  // with one NUMA node, only pods with init containers matter. `pod`: as OnThisNode has it.
  void Add(const admission::Node& node, const Pod& pod, const admission::NodeState& before,
           const admission::NodeState& after);

  // Why the decision can be another one if these pods are elsewhere; empty: it is the same.
  // Of pods that are aligned with NUMA nodes, each container, or the pod with scope pod, must be
  // sure of one NUMA node that has all it requests, or find none in any case. All other answers
  // follow from sums.
  // It is assumed that pods run under the policies of the node.
  std::string WhyOpen(const admission::Node& node, const Pod& pod,
                      const admission::Admission& decided) const;

 private:
  // What a container has, or a pod that is aligned as a whole.
  struct Item {
    NumaAmounts amounts;
    bool is_split = false;    // it can be on several NUMA nodes
    bool is_unclear = false;  // how much it has depends on where it is
    bool is_bounded = true;   // it has at most `amounts`
  };

  void SetFree(const admission::Node& node, const admission::NodeState& state);
  NumaAmounts PartOf(const admission::Node& node, const Pod& pod, const Container& container) const;
  std::vector<NumaAmounts> PartsOf(const admission::Node& node, const Pod& pod) const;
  std::vector<Item> ItemsWith(const std::vector<NumaAmounts>& parts) const;
  bool IsOnOneNode(const NumaAmounts& amounts) const;
  bool Spans(const std::string& resource, int64_t amount) const;
  // Whether sums say whether the pod fits.
  bool IsDecidedBySums(const admission::Node& node, const Pod& pod,
                       const std::vector<NumaAmounts>& parts) const;
  bool DependsOn(const admission::Node& node, const Pod& pod, std::vector<NumaAmounts> parts,
                 const admission::Admission& decided) const;

  std::vector<Item> items_;
  std::string first_;  // the name of the first pod
  // Before the first of these pods; by resource and position of the NUMA node.
  std::map<std::string, std::vector<int64_t>> free_;
  std::map<std::string, std::vector<int64_t>> capacity_;
  // Resources with devices of which some are on several NUMA nodes or on none, and not all on none.
  std::set<std::string> loose_;
  bool has_groups_ = false;  // memory of several NUMA nodes is assigned together
};

}  // namespace alignd::placement
