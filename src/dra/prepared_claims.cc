#include "dra/prepared_claims.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <system_error>

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

std::optional<size_t> Number(std::string_view text) {
  size_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = code == std::errc() && end == text.data() + text.size();
  return is_whole ? std::optional(number) : std::nullopt;
}

// Of all devices of the claim.
std::vector<std::string> RequestNames(const json& claim) {
  std::vector<std::string> names;
  const json& drivers = MemberOf(claim, "DriverState");
  if (!drivers.is_object()) return names;
  for (const auto& [driver, state] : drivers.items()) {
    for (const json& device : ElementsOf(state, "Devices")) {
      for (const json& name : ElementsOf(device, "RequestNames")) {
        if (name.is_string()) names.push_back(name.get<std::string>());
      }
    }
  }
  return names;
}

// Whether the scheduler has made the claim for extended resources: it asks for a name generated
// from the pod's name and this mark. The API server cuts both to 58 characters and adds 5. Without
// the mark, the names of the requests show it.
// Source: kube-scheduler, dynamicresources plugin, extendeddynamicresources.go; k8s.io/apiserver
// pkg/storage/names/generate.go.
bool IsForExtended(const json& claim) {
  constexpr size_t kLongestGenerated = 63;
  const std::string name = TextOf(claim, "ClaimName");
  if (name.find("-extended-resources-") != std::string::npos) return true;
  if (name.size() != kLongestGenerated) return false;
  const std::vector<std::string> requests = RequestNames(claim);
  return !requests.empty() && std::ranges::all_of(requests, [](const std::string& request) {
    return ParseExtendedRequest(request).has_value();
  });
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
      if (!is_for_extended) continue;
      for (const json& name : ElementsOf(device, "RequestNames")) {
        if (name.is_string()) prepared.extended_requests.insert(name.get<std::string>());
      }
      if (prepared.extended_requests.empty()) {
        prepared.extended_requests.insert("all its requests");
      }
    }
  }
  return claim;
}

}  // namespace

std::optional<ExtendedRequest> ParseExtendedRequest(std::string_view name) {
  constexpr std::string_view kContainer = "container-";
  constexpr std::string_view kRequest = "-request-";
  const size_t at = name.find(kRequest);
  if (!name.starts_with(kContainer) || at == std::string_view::npos) return std::nullopt;
  const auto container = Number(name.substr(0, at).substr(kContainer.size()));
  const auto resource = Number(name.substr(at + kRequest.size()));
  if (!container || !resource) return std::nullopt;
  return ExtendedRequest{*container, *resource};
}

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
