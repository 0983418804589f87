// The CRI messages of a kubelet for a pod. Pure functions.
// Source: kubelet v1.36 pkg/kubelet/kuberuntime and pkg/kubelet/cm.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/v1/cri.pb.h"
#include "simulator/pod_manifest.h"

namespace alignd::simulator {

// The values of the machine in the messages.
struct KubeletHost {
  int64_t memory_bytes = 0;                // decides the OOM scores of Burstable pods
  std::vector<int64_t> hugepage_sizes_kb;  // every container gets a limit for each
  bool limits_swap = false;                // cgroup v1 with swap accounting
  int64_t cpu_period = 100'000;            // microseconds: cpuCFSQuotaPeriod
};

// This machine. Unknown values are omitted.
KubeletHost ReadKubeletHost();

struct KubeletSettings {
  // Above `kubepods`, as KubeletConfiguration's cgroupRoot; empty or absolute.
  std::string cgroup_root;
  std::filesystem::path log_directory;  // has a directory per pod; empty: no logs
  // Adds alignd.io/resources to each pod without it, as a controller that creates pods for alignd
  // does.
  bool annotate_resources = true;
  int64_t cpu_period = 100'000;  // as that of KubeletHost
  // The kubelet's cgroupDriver `systemd`: the cgroups are slices. Without a cgroup root.
  bool systemd_cgroups = false;
};

// `/kubepods/pod<uid>`, or with the QoS class between; below the cgroup root. With systemd:
// `/kubepods.slice/kubepods-pod<uid with _ for ->.slice`, likewise.
// Source: kubelet pkg/kubelet/cm/pod_container_manager_linux.go, GetPodContainerName;
// cgroup_manager_linux.go, ToSystemd.
std::string CgroupParent(const Pod& pod, const KubeletSettings& settings);

// Source: kuberuntime_sandbox.go, generatePodSandboxConfig; its resources:
// kuberuntime_sandbox_linux.go, calculateSandboxResources.
runtime::v1::PodSandboxConfig MakeSandboxConfig(const PodManifest& manifest,
                                                const KubeletSettings& settings);

// `image_id` is the runtime's id of the container's image.
// Source: kuberuntime_container.go, generateContainerConfig; kuberuntime_container_linux.go.
// Differs: no mounts, no security context but the namespaces.
runtime::v1::ContainerConfig MakeContainerConfig(const PodManifest& manifest,
                                                 const Container& container,
                                                 const std::string& image_id,
                                                 const KubeletHost& host);

// The sizes that a kubelet sends when it resizes a container of a Guaranteed pod, or the pod
// itself: CPU shares as given, the quota for the same CPUs, and the memory limit in bytes. Source:
// kuberuntime_container_linux.go, generateUpdateContainerResourcesRequest.
runtime::v1::LinuxContainerResources MakeResizedResources(int64_t shares, int64_t memory_bytes);
int64_t SharesOfCpus(int64_t cpus);

}  // namespace alignd::simulator
