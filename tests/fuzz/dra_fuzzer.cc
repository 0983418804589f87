// Any bytes are refused or read as the files of DRA: CDI specification, metadata of devices, the
// kubelet's prepared claims. All functions work on what is read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dra/cdi_spec.h"
#include "dra/device_metadata.h"
#include "dra/prepared_claims.h"
#include "host/yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace alignd::dra;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const alignd::Result<std::string> json = alignd::host::YamlToJson(text);
  const alignd::Result<CdiSpec> spec = ParseCdiSpec(json.ok() ? *json : std::string(text));
  if (spec.ok()) {
    for (const auto& [name, edits] : spec->devices) {
      if (name.empty()) std::abort();
      for (const std::string& path : edits.device_nodes) {
        if (!path.starts_with('/')) std::abort();
      }
      const auto parsed = ParseCdiName(spec->kind + "=" + name);
      if (parsed && parsed->device.empty()) std::abort();
    }
  }
  if (const auto devices = ParseDeviceMetadata(text); devices.ok()) {
    for (const DeviceMetadata& device : *devices) {
      if (device.numa_node && *device.numa_node < 0) std::abort();
    }
  }
  if (const auto claims = ParsePreparedClaims(text); claims.ok()) {
    for (const PreparedClaim& claim : *claims) {
      for (const std::string& pod : claim.pods) {
        if (!NamesOf(*claims, pod, claim.name_space, {claim.name, ""}).ok()) std::abort();
      }
    }
  }
  return 0;
}
