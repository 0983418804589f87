// A Kubernetes pod manifest, as far as running it through CRI needs it: the core's `Pod`, and the
// members that the core does not use (images, commands, labels).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"

namespace alignd::simulator {

struct ContainerManifest {
  std::string image;
  std::vector<std::string> command;
  std::vector<std::string> args;
  std::string working_dir;
  std::vector<std::pair<std::string, std::string>> envs;  // name, value
  bool never_pull = false;                                // imagePullPolicy: Never
  // The CDI names that a kubelet would have of the container's claims: `cdiDevices`, which is no
  // field of Kubernetes.
  std::vector<std::string> cdi_devices;
};

struct PodManifest {
  Pod pod;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  bool host_network = false;
  bool host_pid = false;
  bool host_ipc = false;
  int64_t grace_seconds = 30;                           // terminationGracePeriodSeconds
  std::map<std::string, ContainerManifest> containers;  // by name; init containers too
};

// Reads one v1 Pod in YAML or JSON. A manifest without uid gets the hash of its text (32 hex
// digits, as the kubelet does for static pods), so that the same text is the same pod. Environment
// variables with valueFrom are ignored. Errors: kInvalidArgument as host::YamlToJson and
// ParseKubernetesPod; a container without image.
Result<PodManifest> ParsePodManifest(std::string_view text);

// The annotation `alignd.io/resources` for that pod: a JSON object, containers in their order.
std::string ResourcesAnnotation(const Pod& pod);

}  // namespace alignd::simulator
