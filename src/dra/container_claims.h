// Which containers have which claimed devices.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "dra/claimed_devices.h"
#include "dra/prepared_claims.h"

namespace alignd::dra {

// A value: the prepared claims as they were when they were read. A container has a device if it has
// one of the device's CDI names: CRI shows nothing else.
class ContainerClaims {
 public:
  // The CDI names of a container; nullopt: not known.
  using NamesOf = std::function<std::optional<std::set<std::string>>(const ContainerKey&)>;

  struct Device {
    std::string claim;  // namespace/name
    PreparedDevice device;
  };

  ContainerClaims(std::vector<PreparedClaim> claims, NamesOf names_of)
      : claims_(std::move(claims)), names_of_(std::move(names_of)) {}

  // The claims of the container's pod of which the container has a device: each whole, as the
  // kubelet reports them. In the order of the file.
  std::vector<PreparedClaim> ClaimsOf(const ContainerKey& key) const;

  // The devices of the container.
  std::vector<Device> DevicesOf(const ContainerKey& key) const;

  // The devices of the pod's claims that none of these containers is known to have.
  std::vector<Device> Others(const std::string& pod_uid,
                             const std::set<std::string>& containers) const;

  // The pods with prepared claims, by UID.
  std::set<std::string> Pods() const;

 private:
  std::vector<PreparedClaim> claims_;
  NamesOf names_of_;
};

}  // namespace alignd::dra
