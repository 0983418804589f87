// The claims that the kubelet has had prepared: its file dra_manager_state, which it writes before
// it creates the sandbox of a pod.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::dra {

// A claim that a container uses.
struct ClaimUse {
  std::string claim;    // the name of the ResourceClaim, in the namespace of the pod
  std::string request;  // one of its requests; empty: all

  friend bool operator==(const ClaimUse&, const ClaimUse&) = default;
};

// By container.
using ClaimUses = std::map<std::string, std::vector<ClaimUse>>;

struct PreparedDevice {
  std::vector<std::string> requests;   // that it serves; empty: all
  std::vector<std::string> cdi_names;  // empty: it adds nothing to containers

  friend bool operator==(const PreparedDevice&, const PreparedDevice&) = default;
};

struct PreparedClaim {
  std::string name;
  std::string name_space;
  std::set<std::string> pods;  // UIDs
  std::vector<PreparedDevice> devices;

  friend bool operator==(const PreparedClaim&, const PreparedClaim&) = default;
};

// `text`: the file. Errors: kCorrupt: not JSON, or a checksum that does not match.
// Source: kubelet pkg/kubelet/cm/dra/state/{checkpoint,state_checkpoint}.go.
Result<std::vector<PreparedClaim>> ParsePreparedClaims(std::string_view text);

// The CDI names of the devices that this pod's container gets by that claim.
// Errors: kUnavailable if the claim is not among those that are prepared for the pod.
// Source: kubelet pkg/kubelet/cm/dra/claiminfo.go, cdiDevicesAsList.
Result<std::vector<std::string>> NamesOf(const std::vector<PreparedClaim>& claims,
                                         const std::string& pod_uid, const std::string& name_space,
                                         const ClaimUse& use);

}  // namespace alignd::dra
