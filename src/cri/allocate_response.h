// What the plugins of all resources of one container want in it, as one plain value: the stored
// answers to Allocate, read and merged.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::cri {

struct DeviceMount {
  std::string container_path;
  std::string host_path;
  bool read_only = false;

  friend bool operator==(const DeviceMount&, const DeviceMount&) = default;
};

struct DeviceNode {
  std::string container_path;
  std::string host_path;
  std::string permissions;  // of r, w, m

  friend bool operator==(const DeviceNode&, const DeviceNode&) = default;
};

// Two resources, or one of them twice, want different things in one place. The kept one came first.
struct MergeConflict {
  std::string what;  // "env NVIDIA_VISIBLE_DEVICES", "device /dev/nvidia0"
  std::string kept_resource;
  std::string kept;
  std::string dropped_resource;
  std::string dropped;

  // For logs: `env A: "1" of example.com/a is kept, "2" of example.com/b is dropped`.
  std::string ToString() const;

  friend bool operator==(const MergeConflict&, const MergeConflict&) = default;
};

// A value. Lists are in the order of resource names, and within one answer in the plugin's order.
struct MergedResponse {
  std::map<std::string, std::string> envs;
  std::vector<DeviceMount> mounts;  // one per container path
  std::vector<DeviceNode> devices;  // one per container path
  std::map<std::string, std::string> annotations;
  std::vector<std::string> cdi_devices;  // each name once
  std::vector<MergeConflict> conflicts;  // in the order of their finding

  friend bool operator==(const MergedResponse&, const MergedResponse&) = default;
};

// `responses`: serialised v1beta1.ContainerAllocateResponse by resource name; an empty text is an
// answer that wants nothing.
// Errors: kCorrupt, naming the resource, if an answer cannot be read.
// Source: kubelet pkg/kubelet/cm/devicemanager/pod_devices.go, deviceRunContainerOptions.
// Differs: the kubelet merges in the random order of a Go map, so that another one wins on every
// start; here the first resource by name wins. Permissions and read-only count for a conflict.
Result<MergedResponse> MergeResponses(const std::map<std::string, std::string>& responses);

}  // namespace alignd::cri
