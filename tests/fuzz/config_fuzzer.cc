// Any text is refused or read. The reservation of each configuration can be computed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "alignd/config/kubelet_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const alignd::Result<alignd::KubeletConfig> config = alignd::ParseKubeletConfig(text);
  if (!config.ok()) return 0;
  const auto reservation = alignd::NodeReservation(*config, uint64_t{1} << 40, 0);
  if (!reservation.ok()) std::abort();
  for (const auto& [name, amount] : *reservation) {
    if (amount.Sign() <= 0) std::abort();
  }
  return 0;
}
