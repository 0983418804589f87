// Any answer to GetInfo is refused, or names a resource and an absolute path.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "deviceplugin/checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pluginregistration::PluginInfo info;
  if (!info.ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto offer = alignd::deviceplugin::CheckPluginInfo(info, "/registry/found.sock");
  if (!offer.ok()) return offer.error().message.empty() ? (std::abort(), 0) : 0;
  if (!alignd::deviceplugin::IsExtendedResourceName(offer->resource)) std::abort();
  if (offer->endpoint.empty() || offer->endpoint.front() != '/') std::abort();
  return 0;
}
