// The path of a cgroup below the mount point, derived from the fields of runtimes and the kubelet.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "alignd/base/result.h"

namespace alignd::cgroup {

// The path of a container, `/kubepods/burstable/pod1/ID` or
// `/kubepods.slice/kubepods-pod1.slice/cri-containerd-ID.scope`, from linux.cgroupsPath of its OCI
// spec: a path with the cgroupfs driver, `slice:prefix:name` with systemd's.
// Errors: kInvalidArgument if it is neither, or leaves the mount point.
// Source: runc libcontainer/cgroups/systemd (unit names); systemd.slice(5).
Result<std::string> PathOfContainer(std::string_view cgroups_path);

// The path of a pod from the cgroup parent of its sandbox: that path itself or, for a bare slice
// name, with its parent slices in front. Errors: as above.
Result<std::string> PathOfParent(std::string_view cgroup_parent);

// The path of a process's cgroup in the hierarchy with the cpuset controller. `text`: the content
// of /proc/PID/cgroup. nullopt: it names none. Source: cgroups(7), /proc/pid/cgroup.
std::optional<std::string> CpusetPathOfProcess(std::string_view text, bool version2);

// Whether the path's last part is the kubelet's name of that pod's own cgroup: `pod<uid>`, or
// `...-pod<uid with _ for ->.slice`.
// Source: kubelet pkg/kubelet/cm/pod_container_manager_linux.go, cgroup_manager_linux.go.
bool IsOfPod(std::string_view path, std::string_view pod_uid);

}  // namespace alignd::cgroup
