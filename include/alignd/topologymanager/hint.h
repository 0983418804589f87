// Topology hints: on which NUMA nodes a manager could satisfy a request.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/numa_mask.h"
#include "alignd/topologymanager/node_sets.h"

namespace alignd::topologymanager {

// A NUMA affinity and whether it is the best that the empty machine could offer.
// Source: kubelet pkg/kubelet/cm/topologymanager/topology_manager.go, TopologyHint.
struct TopologyHint {
  std::optional<NumaMask> affinity;  // nullopt: any NUMA node
  bool preferred = false;

  friend bool operator==(const TopologyHint&, const TopologyHint&) = default;
};

using HintList = std::vector<TopologyHint>;

// One hint for each of these sets.
struct DescribedHints {
  NodeSets sets;
  // The sets with this number of nodes are preferred.
  int preferred_nodes = 0;
  // The sets that touch exactly `preferred_groups` of these groups (sockets, for align-by-socket)
  // are preferred as well.
  std::vector<NumaMask> groups;
  int preferred_groups = 0;
  // False if the search for `preferred_nodes` ended at its limit: the number may be too large.
  bool exact = true;

  bool IsPreferred(NumaMask set) const;

  friend bool operator==(const DescribedHints&, const DescribedHints&) = default;
};

// The hints of one resource: some listed, the others described. A value that is cheap to copy.
// Differs: the kubelet lists all hints, 2^n of n NUMA nodes. These are the same hints.
class Hints {
 public:
  Hints() = default;
  Hints(HintList listed) : listed_(std::move(listed)) {}  // NOLINT(google-explicit-constructor)
  Hints(std::initializer_list<TopologyHint> listed) : listed_(listed) {}
  // No set is both listed and described.
  Hints(HintList listed, DescribedHints described);
  // Some of the hints of `from`.
  Hints(HintList listed, const Hints& from) : listed_(std::move(listed)), exact_(from.exact_) {}

  const HintList& listed() const { return listed_; }
  const DescribedHints* described() const { return described_.get(); }  // null, or with a member
  // False if it is uncertain which of them are preferred: see DescribedHints.
  bool exact() const { return exact_; }
  bool empty() const { return listed_.empty() && described_ == nullptr; }

  // The kubelet's list: all hints, narrowest first if any are described. 2^n steps.
  HintList All() const;

  // The hints for reports: All() if the described sets lie within kNodesShownFully nodes. Otherwise
  // the listed hints and the kMaxShown narrowest described ones (the lowest of equally narrow
  // ones).
  static constexpr int kNodesShownFully = 8;
  static constexpr size_t kMaxShown = 256;
  HintList Shown() const;
  bool IsShownFully() const;

  friend bool operator==(const Hints& a, const Hints& b);

 private:
  HintList listed_;
  std::shared_ptr<const DescribedHints> described_;
  bool exact_ = true;
};

// One provider's answer, by resource name. No entry: no opinion. nullopt: "any, preferred".
// No hints: no possible allocation ("any, not preferred"). These differ in the merge.
using HintsByResource = std::map<std::string, std::optional<Hints>>;

}  // namespace alignd::topologymanager
