// The sources of pods' requests.
#pragma once

#include <memory>

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "cgroup/cgroup_tree.h"
#include "daemon/options.h"
#include "podsource/resource_source.h"

namespace alignd::daemon {

// The first source that knows a pod is used. `cgroups` outlives the result. `config`: with what the
// flags change. Errors: kInvalidArgument for --pods-api-endpoint.
Result<std::unique_ptr<podsource::ResourceSource>> MakeSources(const Options& options,
                                                               const cgroup::CgroupTree& cgroups,
                                                               const KubeletConfig& config);

}  // namespace alignd::daemon
