// Over which NUMA nodes a request is distributed, and how much each gives: arithmetic on numbers of
// free CPUs alone.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace alignd::cpumanager {

struct SpreadRequest {
  int count = 0;         // logical CPUs; a multiple of `group`
  int group = 1;         // handed out in groups of so many CPUs
  int fewest_nodes = 1;  // numbers of NUMA nodes to try, both included
  int most_nodes = 1;
};

// NUMA nodes are places in the list that FindNumaSpread was given.
struct NumaSpread {
  std::vector<size_t> nodes;
  int even_share = 0;         // CPUs that each of `nodes` gives
  std::vector<size_t> turns;  // who gives one group each after that, in order

  friend bool operator==(const NumaSpread&, const NumaSpread&) = default;
};

// The smallest set of nodes that can share the request evenly, and of those the one that leaves the
// free CPUs of all nodes most balanced (then the first in lexical order). `free_cpus` has the
// number of free CPUs per node. nullopt: the request cannot be distributed. The rest of an uneven
// request is given by as many of the set as leave the best balance, then by the first in lexical
// order.
// Exact without trying every set, see SpreadSearch: milliseconds for 64 nodes.
// Source: kubelet pkg/kubelet/cm/cpumanager/cpu_assignment.go, takeByTopologyNUMADistributed.
// Differs: the nodes that were chosen are used; the kubelet's choice shares memory with the sets
// that it tries afterwards, and is overwritten by them. A set of nodes that has enough CPUs for the
// remainder but not enough whole groups is passed over; the kubelet hangs on it.
std::optional<NumaSpread> FindNumaSpread(const std::vector<int>& free_cpus,
                                         const SpreadRequest& request);

}  // namespace alignd::cpumanager
