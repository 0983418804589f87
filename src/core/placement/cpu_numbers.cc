#include "core/placement/cpu_numbers.h"

#include "alignd/admission/own_policy.h"
#include "core/admission/own_status.h"

namespace alignd::placement {

bool NeedsCpuNumbers(const admission::Node& node, const Pod& pod) {
  const PodPolicies chosen = admission::ChosenPolicies(node, pod);
  const bool is_by_option =
      chosen.required_bind == CpuBindPolicy::kFullPcpus && node.cpu->options.full_pcpus_only;
  const bool is_bound = chosen.required_bind && !is_by_option;
  return is_bound || admission::IsDecided(node, pod);
}

bool PrefersCpuNumbers(const admission::Node& node, const Pod& pod) {
  return node.cpu && admission::ChosenPolicies(node, pod).exclusive;
}

}  // namespace alignd::placement
