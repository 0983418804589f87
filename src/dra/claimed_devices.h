// The devices that DRA has allocated to the containers of a pod, and where they are.
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

// Adds to the containers of `pod` the devices of their claims, as the kubelet has had them
// prepared. The place of a device is, by the first that tells: what its driver says (KEP-5304), the
// kernel's view of its device nodes. May block.
// Errors: kUnavailable, kCorrupt, kIo, naming the container: a claim that is not prepared, a device
// without a specification, a file that cannot be read.
Result<Done> AddClaimed(const Places& places, const ClaimUses& uses, Pod& pod);

// Whether the kubelet has had a claim prepared for the pod. A kubelet without DRA has no such file.
// May block. Errors: kCorrupt, kIo.
Result<bool> HasClaims(const Places& places, const std::string& pod_uid);

// Adds devices by their CDI names to one container. Those that it has already are left out.
// Errors: as above.
Result<Done> AddNamed(const Places& places, const std::vector<std::string>& cdi_names,
                      Container& container);

}  // namespace alignd::dra
