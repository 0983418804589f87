// Distributions of Kubernetes that start the kubelet in a way of their own.
#pragma once

#include <optional>

#include "kubelet/file_view.h"
#include "kubelet/setup.h"
#include "kubelet/unit.h"

namespace alignd::kubelet {

// The distribution on this node whose kubelet cannot be attached by changes of files; nullopt:
// none, the kubelet is started by `unit`. Recognised by the files that the distribution makes.
std::optional<Distribution> FindDistribution(const FileView& files,
                                             const std::optional<Unit>& unit);

}  // namespace alignd::kubelet
