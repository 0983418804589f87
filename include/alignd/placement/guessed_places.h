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
  // NAMESPACE/NAME of the first of these pods.
  const std::string& first() const { return first_; }

  // The pod was placed: what it has in `after` and not in `before` can be elsewhere. On one NUMA
  // node, only the numbers of its CPUs can be others. `pod`: as OnThisNode has it. False: it has
  // nothing that it did not have before.
  bool Add(const admission::Node& node, const Pod& pod, const admission::NodeState& before,
           const admission::NodeState& after);

  // The pod runs and finds no place in `state`. It has what `state` has of it. Of what it requests
  // beyond that, it is not known how much it has and where: other pods that need such resources are
  // open. False: `state` has all that it requests.
  bool AddWithoutPlace(const admission::Node& node, const Pod& pod,
                       const admission::NodeState& state);

  // The pod is on the node, and has nothing of what it requests beyond `state`, or a part of it, or
  // all of it: it is not known which. What is open is what depends on it.
  void AddAtMost(const admission::Node& node, const Pod& pod, const admission::NodeState& state);

  // The init containers of the pod have ended in `after`, or still have what they have in `before`.
  void AddEnded(const admission::Node& node, const Pod& pod, const admission::NodeState& before,
                const admission::NodeState& after);

  // The pod is resized, and `state` has nothing of it: what its containers request does not say
  // what they have.
  void AddResized(const admission::Node& node, const Pod& pod, const admission::NodeState& state);

  // The pod can have devices of these resources that its spec does not request.
  void AddUnlisted(const admission::Node& node, const Pod& pod, const admission::NodeState& state,
                   const std::set<std::string>& devices);

  // What the decision depends on, of what these pods have: "which CPUs they are". Empty: it is the
  // same wherever these pods are.
  // Of pods that are aligned with NUMA nodes, each container, or the pod with scope pod, must be
  // sure of one NUMA node that has all it requests, or find none in any case. All other answers
  // follow from sums.
  // It is assumed that pods run under the policies of the node.
  std::string WhyOpen(const admission::Node& node, const Pod& pod,
                      const admission::Admission& decided) const;

  friend bool operator==(const GuessedPlaces&, const GuessedPlaces&) = default;

 private:
  // What a container has, or a pod that is aligned as a whole.
  struct Item {
    NumaAmounts amounts;
    bool is_split = false;    // it can be on several NUMA nodes
    bool is_unclear = false;  // how much it has depends on where it is
    bool is_bounded = true;   // it has at most `amounts`
    bool is_at_most = false;  // and nothing of it is in the state that has all these pods

    friend bool operator==(const Item&, const Item&) = default;
  };

  // Before the first pod.
  void Start(const admission::Node& node, const Pod& pod, const admission::NodeState& before);
  void SetFree(const admission::Node& node, const admission::NodeState& state);
  // Adds all types of memory that the node assigns.
  void AddMemory(std::set<std::string>& resources) const;
  // The resources of which the pod requests more than `state` has of it.
  std::set<std::string> MissingOf(const admission::Node& node, const Pod& pod,
                                  const admission::NodeState& state) const;
  void AddUnclear(const std::set<std::string>& resources);
  NumaAmounts PartOf(const admission::Node& node, const Pod& pod, const Container& container) const;
  // Whether init containers have some of it: what later containers reuse depends on where it is.
  bool ReusesOfInit(const admission::Node& node, const Pod& pod) const;
  // What the pod is assigned as a whole, for its containers to have parts of.
  static NumaAmounts WholeOf(const admission::Node& node, const Pod& pod);
  std::vector<NumaAmounts> PartsOf(const admission::Node& node, const Pod& pod) const;
  // Those that have some of it.
  std::vector<const Item*> ItemsWith(const std::vector<NumaAmounts>& parts) const;
  // For WhyOpen, on several NUMA nodes, of a pod that needs `parts`.
  bool IsOpen(const admission::Node& node, const Pod& pod, const std::vector<NumaAmounts>& parts,
              const admission::Admission& decided) const;
  // What is open then: NUMA nodes, if it is open without devices that are on none.
  std::string WhatIsOpen(const admission::Node& node, const Pod& pod,
                         std::vector<NumaAmounts> parts, const admission::Admission& decided) const;
  bool IsOnOneNode(const NumaAmounts& amounts) const;
  bool Spans(const std::string& resource, int64_t amount) const;
  // Whether all of it is free even if these pods have all that they can have.
  bool IsFreeInAnyCase(const std::vector<NumaAmounts>& parts) const;
  // Whether sums say whether the pod fits.
  bool IsDecidedBySums(const admission::Node& node, const Pod& pod,
                       const std::vector<NumaAmounts>& parts) const;
  bool DependsOn(const admission::Node& node, const Pod& pod, std::vector<NumaAmounts> parts,
                 const admission::Admission& decided) const;

  std::vector<Item> items_;
  std::string first_;
  // Before the first of these pods; by resource and position of the NUMA node.
  std::map<std::string, std::vector<int64_t>> free_;
  std::map<std::string, std::vector<int64_t>> capacity_;
  // Resources with devices of which some are on several NUMA nodes or on none, and not all on none.
  std::set<std::string> loose_;
  // Resources of which pods can have devices that no spec requests.
  std::set<std::string> unlisted_;
  bool has_part_of_core_ = false;  // with full-pcpus-only, a core is free in part
  bool has_groups_ = false;        // memory of several NUMA nodes is assigned together
};

}  // namespace alignd::placement
