// The claims that the kubelet has had prepared: its file dra_manager_state, which it writes before
// it creates the sandbox of a pod.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::dra {

struct PreparedDevice {
  // Only the three together identify a device.
  std::string driver;  // "gpu.example.com"
  std::string pool;
  std::string name;
  // By which a container gets it and what else belongs to it, such as the driver's metadata. Empty:
  // CRI does not show which container has it, nor do files show where it is.
  std::vector<std::string> cdi_names;
  // The requests for which it was allocated, if the scheduler has made its claim for extended
  // resources of the pod; "all its requests", if its driver names none. See ExtendedRequest.
  std::set<std::string> extended_requests = {};
  std::string share_id = {};  // of a part of the device's capacity; empty: the whole device

  friend bool operator==(const PreparedDevice&, const PreparedDevice&) = default;
};

// What the scheduler's name of a request says, "container-0-request-2": a container of the spec,
// init containers first, and one of the resources that it requests, sorted by name. Source:
// kube-scheduler, dynamicresources plugin, createResourceRequestAndMappings.
struct ExtendedRequest {
  size_t container = 0;
  size_t resource = 0;
};

// nullopt: the name has another form.
std::optional<ExtendedRequest> ParseExtendedRequest(std::string_view name);

struct PreparedClaim {
  std::set<std::string> pods;  // UIDs
  std::vector<PreparedDevice> devices;
  std::string name = {};
  std::string name_space = {};

  friend bool operator==(const PreparedClaim&, const PreparedClaim&) = default;
};

// `text`: the file. Errors: kCorrupt: it is no such file of a kubelet since 1.32, or its checksum
// does not match. Source: kubelet pkg/kubelet/cm/dra/state, checkpoint.go, state.go.
Result<std::vector<PreparedClaim>> ParsePreparedClaims(std::string_view text);

// "gpu.example.com/node-1/gpu-0": as Kubernetes writes the identity of a device.
std::string IdOf(const PreparedDevice& device);

// The devices of the claims that are prepared for the pod, each once. One of several claims has the
// CDI names of all of them.
std::vector<PreparedDevice> DevicesOf(const std::vector<PreparedClaim>& claims,
                                      const std::string& pod_uid);

}  // namespace alignd::dra
