// Any bytes are refused or read as the files of DRA: CDI specification, metadata of devices, the
// kubelet's prepared claims, as the whole file and as the content for which the checksum is right.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dra/cdi_spec.h"
#include "dra/device_metadata.h"
#include "dra/prepared_claims.h"
#include "host/yaml.h"

namespace {

using alignd::dra::CdiSpec;
using alignd::dra::DeviceMetadata;
using alignd::dra::PreparedDevice;

uint32_t ChecksumOf(std::string_view text) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0xEDB88320U & (0U - (crc & 1U)));
  }
  return ~crc;
}

void CheckClaims(std::string_view file) {
  const auto claims = alignd::dra::ParsePreparedClaims(file);
  if (!claims.ok()) return;
  for (const auto& claim : *claims) {
    for (const std::string& pod : claim.pods) {
      std::set<std::string> ids;
      const std::vector<PreparedDevice> devices = alignd::dra::DevicesOf(*claims, pod);
      for (const PreparedDevice& device : devices) ids.insert(alignd::dra::IdOf(device));
      if (ids.size() != devices.size()) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const alignd::Result<std::string> json = alignd::host::YamlToJson(text);
  const alignd::Result<CdiSpec> spec = alignd::dra::ParseCdiSpec(json.ok() ? *json : text);
  if (spec.ok()) {
    if (spec->kind.find('/') == std::string::npos) std::abort();
    for (const auto& [name, edits] : spec->devices) {
      if (name.empty()) std::abort();
    }
  }
  if (const auto devices = alignd::dra::ParseDeviceMetadata(text); devices.ok()) {
    for (const DeviceMetadata& device : *devices) {
      if (device.numa_node && (*device.numa_node < 0 || *device.numa_node > 1023)) std::abort();
      if (device.numa_node && !device.wrong_node.empty()) std::abort();
    }
  }
  CheckClaims(text);
  const nlohmann::json file = {{"Data", text}, {"Checksum", ChecksumOf(text)}};
  CheckClaims(file.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return 0;
}
