// Parsed and checked `cpuManagerPolicyOptions`.
#pragma once

#include <map>
#include <string>

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/machine/machine.h"

namespace alignd::cpumanager {

struct PolicyOptions {
  bool full_pcpus_only = false;
  bool distribute_cpus_across_numa = false;
  bool align_by_socket = false;
  bool distribute_cpus_across_cores = false;
  bool strict_cpu_reservation = false;
  bool prefer_align_cpus_by_uncorecache = false;
  // Not an option of the kubelet: numaAllocateStrategy DistributeEvenly. With it,
  // distribute_cpus_across_numa takes as many NUMA nodes as possible, not as few.
  bool on_most_numa_nodes = false;

  friend bool operator==(const PolicyOptions&, const PolicyOptions&) = default;
};

// Errors: kInvalidArgument with the kubelet's text (unknown option, bad boolean, options that
// exclude each other, align-by-socket where it cannot work), with the kubelet's prefix `new static
// policy error: `. With cpuManagerPolicy none, any option is an error.
// Source: kubelet pkg/kubelet/cm/cpumanager/policy_options.go; policy_none.go.
Result<PolicyOptions> ParsePolicyOptions(const KubeletConfig& config, const Machine& machine);

}  // namespace alignd::cpumanager
