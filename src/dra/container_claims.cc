#include "dra/container_claims.h"

#include <algorithm>

namespace alignd::dra {
namespace {

using Names = std::optional<std::set<std::string>>;

bool HasDevice(const Names& names, const PreparedDevice& device) {
  return names && std::ranges::any_of(device.cdi_names, [&](const std::string& name) {
           return names->contains(name);
         });
}

}  // namespace

std::vector<PreparedClaim> ContainerClaims::ClaimsOf(const ContainerKey& key) const {
  std::vector<PreparedClaim> found;
  if (claims_.empty()) return found;
  const Names names = names_of_(key);
  for (const PreparedClaim& claim : claims_) {
    const bool is_its = claim.pods.contains(key.pod_uid) &&
                        std::ranges::any_of(claim.devices, [&](const PreparedDevice& device) {
                          return HasDevice(names, device);
                        });
    if (is_its) found.push_back(claim);
  }
  return found;
}

std::vector<ContainerClaims::Device> ContainerClaims::DevicesOf(const ContainerKey& key) const {
  std::vector<Device> found;
  if (claims_.empty()) return found;
  const Names names = names_of_(key);
  for (const PreparedClaim& claim : claims_) {
    if (!claim.pods.contains(key.pod_uid)) continue;
    for (const PreparedDevice& device : claim.devices) {
      if (HasDevice(names, device)) found.push_back({claim.name_space + "/" + claim.name, device});
    }
  }
  return found;
}

std::vector<ContainerClaims::Device> ContainerClaims::Others(
    const std::string& pod_uid, const std::set<std::string>& containers) const {
  std::vector<Device> others;
  if (claims_.empty()) return others;
  std::vector<Names> names;
  for (const std::string& container : containers) names.push_back(names_of_({pod_uid, container}));
  for (const PreparedClaim& claim : claims_) {
    if (!claim.pods.contains(pod_uid)) continue;
    for (const PreparedDevice& device : claim.devices) {
      const bool is_known = std::ranges::any_of(
          names, [&](const Names& of_one) { return HasDevice(of_one, device); });
      if (!is_known) others.push_back({claim.name_space + "/" + claim.name, device});
    }
  }
  return others;
}

std::set<std::string> ContainerClaims::Pods() const {
  std::set<std::string> pods;
  for (const PreparedClaim& claim : claims_) {
    if (!claim.devices.empty()) pods.insert(claim.pods.begin(), claim.pods.end());
  }
  return pods;
}

}  // namespace alignd::dra
