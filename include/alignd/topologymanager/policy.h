// The topology manager's policies: filter hints, merge them, and decide about admission.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/machine/machine.h"
#include "alignd/pod/refusal.h"
#include "alignd/topologymanager/hint.h"
#include "alignd/topologymanager/hint_merger.h"
#include "alignd/topologymanager/numa_info.h"

namespace alignd::topologymanager {

struct MergedHint {
  TopologyHint hint;
  bool admit = false;

  friend bool operator==(const MergedHint&, const MergedHint&) = default;
};

// A value, made once per machine and configuration.
class Policy {
 public:
  // Errors: kInvalidArgument with the kubelet's text: unknown option, value that cannot be read, no
  // distances, more NUMA nodes than max-allowable-numa-nodes. Policy none reads no options.
  // Differs: without max-allowable-numa-nodes there is no limit (kubelet: 8), because the merge
  // does not enumerate. Source: kubelet pkg/kubelet/cm/topologymanager/policy_options.go,
  // topology_manager.go.
  static Result<Policy> Make(const Machine& machine, const KubeletConfig& config);

  TopologyManagerPolicy kind() const { return kind_; }
  TopologyManagerScope scope() const { return scope_; }
  const NumaInfo& numa() const { return numa_; }
  const MergeRules& rules() const { return rules_; }

  // The lists to merge: one per resource, or one for a provider without resources; without the
  // hints that the policy ignores. Source: policy.go, filterProvidersHints;
  // policy_single_numa_node.go, filterSingleNumaHints.
  std::vector<Hints> Lists(const std::vector<HintsByResource>& answers) const;

  // Merges the answers of all hint providers. Not for policy none, which has no hints. With
  // best-attainable, `admit` says whether the pod is admitted whatever the empty node would offer:
  // otherwise AlignsBetter decides.
  // Source: policy_best_effort.go, policy_restricted.go, policy_single_numa_node.go, Merge.
  MergedHint Merge(const std::vector<HintsByResource>& answers) const;

 private:
  Policy(TopologyManagerPolicy kind, TopologyManagerScope scope, NumaInfo numa, MergeRules rules)
      : kind_(kind), scope_(scope), numa_(std::move(numa)), rules_(rules) {}

  TopologyManagerPolicy kind_;
  TopologyManagerScope scope_;
  NumaInfo numa_;
  MergeRules rules_;
};

// Whether `a` is a better alignment than `b`: preferred where `b` is not, or, if neither is
// preferred, on fewer NUMA nodes. Of two preferred ones, none is better.
bool AlignsBetter(const TopologyHint& a, const TopologyHint& b);

// The refusal of a pod that the policy does not admit.
// Source: topology_manager.go, TopologyAffinityError.
Refusal TopologyAffinityError();

}  // namespace alignd::topologymanager
