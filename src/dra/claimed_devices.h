// The devices that DRA has allocated to a pod, and where they are.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "dra/prepared_claims.h"

namespace alignd::dra {

// Where the files of drivers, of the kubelet and of the kernel are. A value.
struct Places {
  std::vector<std::filesystem::path> cdi_directories = {"/etc/cdi", "/var/run/cdi"};
  std::filesystem::path prepared_claims = "/var/lib/kubelet/dra_manager_state";
  std::filesystem::path root = "/";  // has sys/ and proc/
};

// The claims that the kubelet has had prepared. None without the file: a kubelet without DRA has
// none. May block. Errors: kUnavailable, naming the file.
Result<std::vector<PreparedClaim>> ReadClaims(const Places& places);

// The devices of the claims that the kubelet has had prepared for the pod. None without the file: a
// kubelet without DRA has none. May block. Errors: kUnavailable, naming the file.
Result<std::vector<PreparedDevice>> PreparedFor(const Places& places, const std::string& pod_uid);

struct Location {
  std::vector<int64_t> numa = {};  // ids; empty: not known
  std::string note = {};           // why it is not known, if there is a reason that can be removed
};

// Where each of these devices is, in this order. As Locate, but an error is that of one device.
std::vector<Result<Location>> LocateEach(const Places& places,
                                         const std::vector<PreparedDevice>& devices);

// These devices with their NUMA nodes. The driver's metadata comes first (KEP-5304: numaNode,
// pciBusID, pcieRoot), then the kernel's view of the device nodes, then the attribute
// dra.net/numaNode of the metadata. None may know it: the name
// then says why, if there is a reason that can be removed. May block.
// Errors, all kUnavailable: no CDI specification describes a device; metadata that mention it
// cannot be read, are ambiguous or contradict each other; sysfs cannot be read.
Result<std::vector<ClaimedDevice>> Locate(const Places& places,
                                          const std::vector<PreparedDevice>& devices);

}  // namespace alignd::dra
