// Writes an assignment into the requests that go to the runtime.
#pragma once

#include <string>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "cgroup/parent_cpuset.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {

// "No quota" as the kubelet writes it for containers with exclusive CPUs.
// Source: kuberuntime_container_linux.go, calculateLinuxResources.
inline constexpr int64_t kNoQuota = -1;

// Adds the cpuset, the memory nodes and the answers of the device plugins: device nodes, mounts,
// environment, annotations, CDI names. A container with exclusive CPUs runs without CFS quota.
// The plugins' entries stand before those of the pod's author, so that the author's take effect, as
// in the kubelet.
// A request without any resources gets none: with them, a runtime would also set what they do not
// mention, such as the OOM score. The CPUs of such a container are applied before it starts.
// Returns conflicts between plugins, one sentence each, for the log.
// Errors: kCorrupt if a stored answer of a plugin cannot be read.
// Source: kubelet pkg/kubelet/kubelet_pods.go, GenerateRunContainerOptions;
// pkg/kubelet/kuberuntime/kuberuntime_container_linux.go, generateLinuxContainerResources.
Result<std::vector<std::string>> Inject(const admission::Assignment& assignment,
                                        runtime::v1::ContainerConfig& config);

// Sets the assigned CPUs and memory nodes, and no quota beside exclusive CPUs, in resources that a
// caller sends. A runtime writes the cgroup v2 files of `unified` last. So those are removed that
// set the same or change its meaning ("cpuset.cpus.partition", "cpu.max.burst").
void KeepAssignment(const admission::Assignment& assignment,
                    runtime::v1::LinuxContainerResources& resources);

// What a container with this assignment needs of its cgroup parent on this node.
cgroup::ParentNeeds NeedsOf(const admission::Node& node, const admission::Assignment& assignment);

// Whether the resources set this, in a field of their own or in `unified`.
bool HasCpuSet(const runtime::v1::LinuxContainerResources& resources);
bool HasMemoryNodes(const runtime::v1::LinuxContainerResources& resources);
bool HasQuota(const runtime::v1::LinuxContainerResources& resources);  // one that throttles
// Whether they set what alignd assigns on this node: CPUs, memory nodes, or a quota, which
// throttles exclusive CPUs.
bool SetsAssigned(const admission::Node& node,
                  const runtime::v1::LinuxContainerResources& resources);
// Removes it from both.
void LiftQuota(runtime::v1::LinuxContainerResources& resources);
void ClearCpuSet(runtime::v1::LinuxContainerResources& resources);
void ClearMemoryNodes(runtime::v1::LinuxContainerResources& resources);

}  // namespace alignd::cri
