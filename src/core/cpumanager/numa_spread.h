// The NUMA nodes over which a request is distributed, and the share of each: arithmetic on numbers
// of free CPUs.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace alignd::cpumanager {

struct SpreadRequest {
  int count = 0;         // logical CPUs; a multiple of `group`
  int group = 1;         // CPUs are taken in groups of this size
  int fewest_nodes = 1;  // numbers of NUMA nodes to try, both included
  int most_nodes = 1;
};

// NUMA nodes are indices in the list of free CPUs.
struct NumaSpread {
  std::vector<size_t> nodes;
  int even_share = 0;         // CPUs from each of `nodes`
  std::vector<size_t> turns;  // then one group from each of these nodes, in order

  friend bool operator==(const NumaSpread&, const NumaSpread&) = default;
};

// The smallest set of nodes that can share the request evenly, and of those the one that leaves the
// free CPUs of all nodes most balanced (then the first in lexical order). `free_cpus` has the
// number of free CPUs per node. nullopt: the request cannot be distributed. The remainder of an
// uneven request comes from as many nodes of the set as keep the best balance; of those choices the
// first in lexical order. Exact without trying every set, see SpreadSearch: milliseconds for 64
// nodes. Source: kubelet pkg/kubelet/cm/cpumanager/cpu_assignment.go,
// takeByTopologyNUMADistributed. Differs: the chosen nodes are used; the kubelet's choice shares
// memory with the sets that it tries afterwards, which overwrite it. A set of nodes that has enough
// CPUs for the remainder but not enough whole groups is skipped; the kubelet's loop does not end
// there.
std::optional<NumaSpread> FindNumaSpread(const std::vector<int>& free_cpus,
                                         const SpreadRequest& request);

}  // namespace alignd::cpumanager
