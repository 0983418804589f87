#include "alignd/pod/cpu_sharing.h"

#include "core/pod/shown_value.h"

namespace alignd {

void ReadSharingLabel(std::string_view label, std::string_view value, CpuSharing& sharing) {
  if (label != kQosClassLabel) return;
  for (const std::string_view known : {"LSE", "LSR", "LS", "BE", ""}) {
    if (value != known) continue;
    sharing.qos_class = value;
    return;
  }
  sharing.label_fault = "label " + std::string(label) + ": " + ShownValue(value) +
                        R"( is not "LSE", "LSR", "LS", "BE" or "")";
  if (value == "SYSTEM") sharing.label_fault += R"(: "SYSTEM" is not supported)";
}

std::optional<bool> LabelShares(const CpuSharing& sharing) {
  if (sharing.qos_class.empty()) return std::nullopt;
  return sharing.qos_class == "LS" || sharing.qos_class == "BE";
}

}  // namespace alignd
