// Pods of the kubelet's system partition (KEP-5894), whose CPUs may be fewer than those that alignd
// assigns.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "alignd/base/result.h"
#include "cri/container_handlers.h"
#include "podsource/resource_source.h"

namespace alignd::cri {

// A container that is to get CPUs of its own, or CPUs of one NUMA node, and the partition that its
// pod is in cannot have all CPUs that alignd may assign: the kernel would run the container on the
// CPUs of the partition, beside others.
struct PartitionLack {
  std::string container;
  std::string fault;  // what follows "container app "
  std::string remedy;
};

// The first one of these containers of the pod. `cgroup_parent`: of its sandbox. `done` runs once,
// perhaps before this returns, and on any thread. Errors: kIo, kCorrupt as ReadCpuset.
void FindPartitionLack(const HandlerContext& context, const std::string& cgroup_parent,
                       const Pod& pod, const std::set<std::string>& containers,
                       std::function<void(Result<std::optional<PartitionLack>>)> done);

// Passes the pod on, unless one of its containers has a PartitionLack. `done` as above.
// Errors: kUnavailable, before anything is assigned; kIo, kCorrupt as ReadCpuset.
void RequirePartitionHasCpus(const HandlerContext& context, const std::string& cgroup_parent,
                             podsource::PodAsk ask,
                             std::function<void(Result<podsource::PodAsk>)> done);

}  // namespace alignd::cri
