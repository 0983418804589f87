// The claims that the kubelet has had prepared: its file dra_manager_state, which it writes before
// it creates the sandbox of a pod.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::dra {

struct PreparedDevice {
  std::string driver;  // "gpu.example.com"
  std::string name;    // within its pool
  // By which a container gets it and what else belongs to it, such as the driver's metadata. Empty:
  // it adds nothing to containers.
  std::vector<std::string> cdi_names;

  friend bool operator==(const PreparedDevice&, const PreparedDevice&) = default;
};

struct PreparedClaim {
  std::set<std::string> pods;  // UIDs
  std::vector<PreparedDevice> devices;

  friend bool operator==(const PreparedClaim&, const PreparedClaim&) = default;
};

// `text`: the file. Errors: kCorrupt: it is no such file of a kubelet since 1.32, or its checksum
// does not match. Source: kubelet pkg/kubelet/cm/dra/state, checkpoint.go, state.go.
Result<std::vector<PreparedClaim>> ParsePreparedClaims(std::string_view text);

// The devices with a CDI name of the claims that are prepared for the pod.
std::vector<PreparedDevice> DevicesOf(const std::vector<PreparedClaim>& claims,
                                      const std::string& pod_uid);

}  // namespace alignd::dra
