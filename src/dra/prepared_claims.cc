#include "dra/prepared_claims.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "dra/json.h"

namespace alignd::dra {
namespace {

using nlohmann::json;

Error NotPrepared(const std::string& what) {
  return {ErrorCode::kCorrupt, what,
          "check that --kubelet-dir is the root directory of a kubelet since 1.32; it writes the "
          "file anew when a claim is prepared"};
}

// Go's crc32.ChecksumIEEE.
uint32_t Crc32(std::string_view text) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

// Whether the scheduler has made the claim for extended resources: it generates the name from this.
// Source: kube-scheduler, dynamicresources plugin, extendeddynamicresources.go.
bool IsForExtended(const json& claim) {
  return TextOf(claim, "ClaimName").find("-extended-resources-") != std::string::npos;
}

PreparedClaim ReadClaim(const json& entry) {
  PreparedClaim claim;
  claim.name = TextOf(entry, "ClaimName");
  claim.name_space = TextOf(entry, "Namespace");
  const bool is_for_extended = IsForExtended(entry);
  // Go's set: an object with empty values.
  if (const json& pods = MemberOf(entry, "PodUIDs"); pods.is_object()) {
    for (const auto& [uid, nothing] : pods.items()) claim.pods.insert(uid);
  }
  const json& drivers = MemberOf(entry, "DriverState");
  if (!drivers.is_object()) return claim;
  for (const auto& [driver, state] : drivers.items()) {
    for (const json& device : ElementsOf(state, "Devices")) {
      PreparedDevice& prepared = claim.devices.emplace_back();
      prepared.driver = driver;
      prepared.pool = TextOf(device, "PoolName");
      prepared.name = TextOf(device, "DeviceName");
      prepared.share_id = TextOf(device, "ShareID");
      for (const json& name : ElementsOf(device, "CDIDeviceIDs")) {
        if (name.is_string()) prepared.cdi_names.push_back(name.get<std::string>());
      }
      for (const json& name : ElementsOf(device, "RequestNames")) {
        if (!is_for_extended || !name.is_string()) continue;
        prepared.extended_requests.insert(name.get<std::string>());
      }
    }
  }
  return claim;
}

}  // namespace

Result<std::vector<PreparedClaim>> ParsePreparedClaims(std::string_view text) {
  const Result<json> file = ParseObject(text);
  if (!file.ok()) return NotPrepared(file.error().message);
  const json& data = MemberOf(*file, "Data");
  const json& checksum = MemberOf(*file, "Checksum");
  if (!data.is_string() || !checksum.is_number_unsigned()) {
    return NotPrepared("it has no Data and Checksum");
  }
  const std::string& content = data.get_ref<const std::string&>();
  if (checksum != Crc32(content)) return NotPrepared("its checksum does not match its content");
  const Result<json> parsed = ParseObject(content);
  if (!parsed.ok()) return NotPrepared("Data: " + parsed.error().message);
  const auto list = parsed->find("ClaimInfoStateList");
  if (list == parsed->end() || !(list->is_array() || list->is_null())) {
    return NotPrepared("Data has no ClaimInfoStateList");
  }
  std::vector<PreparedClaim> claims;
  for (const json& entry : ElementsOf(*parsed, "ClaimInfoStateList")) {
    claims.push_back(ReadClaim(entry));
  }
  return claims;
}

std::string IdOf(const PreparedDevice& device) {
  return device.driver + "/" + device.pool + "/" + device.name;
}

std::vector<PreparedDevice> DevicesOf(const std::vector<PreparedClaim>& claims,
                                      const std::string& pod_uid) {
  std::vector<PreparedDevice> devices;
  for (const PreparedClaim& claim : claims) {
    if (!claim.pods.contains(pod_uid)) continue;
    for (const PreparedDevice& device : claim.devices) {
      const auto known = std::ranges::find(devices, IdOf(device), IdOf);
      if (known == devices.end()) {
        devices.push_back(device);
        continue;
      }
      known->extended_requests.insert(device.extended_requests.begin(),
                                      device.extended_requests.end());
      for (const std::string& name : device.cdi_names) {
        const bool is_new = std::ranges::find(known->cdi_names, name) == known->cdi_names.end();
        if (is_new) known->cdi_names.push_back(name);
      }
    }
  }
  return devices;
}

}  // namespace alignd::dra
