// The sources of pods' requests.
#pragma once

#include <memory>

#include "alignd/base/result.h"
#include "cgroup/cgroup_tree.h"
#include "daemon/options.h"
#include "podsource/resource_source.h"

namespace alignd::daemon {

// The first source that knows a pod is used. `cgroups` outlives the result. `claims_add_sizes`: the
// kubelet's feature gate DRANodeAllocatableResources is on. Errors: kInvalidArgument for
// --pods-api-endpoint.
Result<std::unique_ptr<podsource::ResourceSource>> MakeSources(const Options& options,
                                                               const cgroup::CgroupTree& cgroups,
                                                               bool claims_add_sizes);

}  // namespace alignd::daemon
