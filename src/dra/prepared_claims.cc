#include "dra/prepared_claims.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "dra/json.h"

namespace alignd::dra {
namespace {

using nlohmann::json;

constexpr char kRestartKubelet[] =
    "check that --kubelet-dir is the kubelet's; it writes dra_manager_state anew when it starts";

// Go's crc32.ChecksumIEEE.
uint32_t Crc32(std::string_view text) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

std::vector<std::string> Texts(const json& list) {
  std::vector<std::string> texts;
  for (const json& entry : list) {
    if (entry.is_string()) texts.push_back(entry.get<std::string>());
  }
  return texts;
}

PreparedClaim ReadClaim(const json& entry) {
  PreparedClaim claim{.name = TextOf(entry, "ClaimName"),
                      .name_space = TextOf(entry, "Namespace"),
                      .pods = {},
                      .devices = {}};
  // Go's set: an object with empty values.
  if (const json& pods = MemberOf(entry, "PodUIDs"); pods.is_object()) {
    for (const auto& [uid, nothing] : pods.items()) claim.pods.insert(uid);
  }
  if (const json& drivers = MemberOf(entry, "DriverState"); drivers.is_object()) {
    for (const json& driver : drivers) {
      for (const json& device : ElementsOf(driver, "Devices")) {
        claim.devices.push_back({.requests = Texts(ElementsOf(device, "RequestNames")),
                                 .cdi_names = Texts(ElementsOf(device, "CDIDeviceIDs"))});
      }
    }
  }
  return claim;
}

// A device of the subrequest "gpu/large" serves the request "gpu".
bool Serves(const PreparedDevice& device, const std::string& request) {
  return request.empty() || device.requests.empty() ||
         std::ranges::any_of(device.requests, [&](const std::string& served) {
           return served == request || served.starts_with(request + "/");
         });
}

}  // namespace

Result<std::vector<PreparedClaim>> ParsePreparedClaims(std::string_view text) {
  const Result<json> file = ParseObject(text);
  if (!file.ok()) return Error{ErrorCode::kCorrupt, file.error().message, kRestartKubelet};
  const std::string data = TextOf(*file, "Data");
  const json& checksum = MemberOf(*file, "Checksum");
  if (!checksum.is_number_unsigned() || checksum != Crc32(data)) {
    return Error{ErrorCode::kCorrupt, "its checksum does not match its content", kRestartKubelet};
  }
  const Result<json> content = ParseObject(data);
  if (!content.ok()) {
    return Error{ErrorCode::kCorrupt, "Data: " + content.error().message, kRestartKubelet};
  }
  std::vector<PreparedClaim> claims;
  for (const json& entry : ElementsOf(*content, "Entries")) claims.push_back(ReadClaim(entry));
  return claims;
}

Result<std::vector<std::string>> NamesOf(const std::vector<PreparedClaim>& claims,
                                         const std::string& pod_uid, const std::string& name_space,
                                         const ClaimUse& use) {
  const auto claim = std::ranges::find_if(claims, [&](const PreparedClaim& one) {
    return one.name == use.claim && one.name_space == name_space && one.pods.contains(pod_uid);
  });
  if (claim == claims.end()) {
    return Error{ErrorCode::kUnavailable,
                 "the kubelet has not prepared ResourceClaim " + name_space + "/" + use.claim +
                     " for this pod",
                 "see in the kubelet's log why"};
  }
  std::vector<std::string> names;
  for (const PreparedDevice& device : claim->devices) {
    if (!Serves(device, use.request)) continue;
    names.insert(names.end(), device.cdi_names.begin(), device.cdi_names.end());
  }
  return names;
}

}  // namespace alignd::dra
