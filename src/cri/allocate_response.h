// The stored answers of the device plugins to Allocate, for all resources of one container, parsed
// and merged into one plain value.
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

// Two answers, or one answer twice, have different values in one place. The first one is kept.
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
  std::vector<MergeConflict> conflicts;  // in the order in which they are found

  friend bool operator==(const MergedResponse&, const MergedResponse&) = default;
};

// `responses`: serialised v1beta1.ContainerAllocateResponse by resource name; an empty text is an
// empty answer.
// Errors: kCorrupt, naming the resource, if an answer cannot be read.
// Source: kubelet pkg/kubelet/cm/devicemanager/pod_devices.go, deviceRunContainerOptions.
// Differs: the kubelet merges in the random order of a Go map, so another answer wins on every
// start. Here the first resource by name wins. Values that differ only in permissions or read-only
// are a conflict, too.
Result<MergedResponse> MergeResponses(const std::map<std::string, std::string>& responses);

}  // namespace alignd::cri
