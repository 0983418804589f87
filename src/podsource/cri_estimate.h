// The last source: one container's resources, estimated from what CRI shows of it. Exact for
// Guaranteed pods in CPU, memory and huge pages; devices cannot be seen.
#pragma once

#include <string_view>

#include "podsource/resource_source.h"

namespace alignd::podsource {

inline constexpr std::string_view kCriEstimate = "CRI estimate";

// From quota, period, shares and limits.
Resources EstimateResources(const runtime::v1::LinuxContainerResources& cri, QosClass qos);

// The container alone, as an app container: CRI does not tell roles apart. The pod has resources of
// its own where the container's sizes cannot be otherwise; `pod_level` are the container's then.
PodAsk EstimateContainer(const runtime::v1::PodSandboxConfig& sandbox,
                         const runtime::v1::ContainerConfig& container);

// Knows every container, and no pod before.
class CriEstimate final : public ResourceSource {
 public:
  void Ask(const Question& question, Answer answer) override;
};

}  // namespace alignd::podsource
