// Writes a grant into the requests that go to the runtime.
#pragma once

#include <string>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/base/result.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {

// "No quota" as the kubelet writes it for containers with exclusive CPUs.
// Source: kuberuntime_container_linux.go, calculateLinuxResources.
inline constexpr int64_t kNoQuota = -1;

// Adds cpuset, memory nodes, and what the device plugins answered: device nodes, mounts,
// environment, annotations, CDI names. A container with exclusive CPUs runs without CFS quota. One
// whose caller sent no resources at all gets none, for with them a runtime would set what they do
// not mention as well, such as the OOM score: it must be told its CPUs before it starts. What
// the plugins said stands before what the pod's author said, so that the author wins, as in the
// kubelet. Returns conflicts between plugins, one sentence each, for the log. Errors: kInternal if
// a stored plugin answer cannot be read. Source: kubelet pkg/kubelet/kubelet_pods.go,
// GenerateRunContainerOptions; pkg/kubelet/kuberuntime/kuberuntime_container_linux.go,
// generateLinuxContainerResources.
Result<std::vector<std::string>> Inject(const admission::Assignment& grant,
                                        runtime::v1::ContainerConfig& config);

// Keeps our CPU and memory sets, and the lifted quota, in resources that come from a caller. What
// `unified` has of these and of all that changes their meaning ("cpuset.cpus.partition",
// "cpu.max.burst"), files of cgroup v2 that a runtime writes last, is taken out.
void KeepAssignment(const admission::Assignment& grant,
                    runtime::v1::LinuxContainerResources& resources);

// The sets that a caller names, in either way.
bool HasCpuSet(const runtime::v1::LinuxContainerResources& resources);
bool HasMemoryNodes(const runtime::v1::LinuxContainerResources& resources);
// The same of a CFS quota that throttles.
bool HasQuota(const runtime::v1::LinuxContainerResources& resources);
void LiftQuota(runtime::v1::LinuxContainerResources& resources);
void ClearCpuSet(runtime::v1::LinuxContainerResources& resources);
void ClearMemoryNodes(runtime::v1::LinuxContainerResources& resources);

}  // namespace alignd::cri
