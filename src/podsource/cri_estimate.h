// The last source: one container's resources, estimated from its sizes in CRI. For Guaranteed pods,
// CPU, memory and huge pages are exact. CRI does not show devices.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "podsource/resource_source.h"

namespace alignd::podsource {

inline constexpr std::string_view kCriEstimate = "CRI estimate";

// The container alone, as an app container: CRI does not show roles. The pod is not complete, so
// that it never is assigned CPUs and memory as a whole, whatever the feature gates. If the
// container's sizes are possible only in a pod with resources of its own, `pod_level` is set to the
// container's sizes, unless `claims_add_sizes`: then claims explain them. A container of a
// Guaranteed pod without any limits is a PoolContainer.
PodAsk EstimateContainer(const runtime::v1::PodSandboxConfig& sandbox,
                         const runtime::v1::ContainerConfig& container, bool claims_add_sizes);

// A container of this pod, alone, with the cpu, memory and huge pages that CRI says: after a
// resize, or before it, `stated` has others. What CRI does not show is as in `stated`: its kind,
// its extended resources, pod-level resources, and the memory request of a Burstable pod, up to the
// limit in CRI. nullopt: `stated` does not list the container.
// Differs: the kubelet decides by the sizes that it has allocated, of all containers together.
std::optional<PodAsk> SizesOfCri(const Pod& stated, const Question& question,
                                 bool claims_add_sizes);

// A container that is no part of what its pod was admitted with, such as an ephemeral one
// (`kubectl debug`): it runs in the shared pool of the node, without devices, whatever sizes CRI
// shows for it. In a pod with resources of its own, these are the sizes of the whole pod.
PodAsk PoolContainer(const runtime::v1::PodSandboxConfig& sandbox,
                     const runtime::v1::ContainerConfig& container, std::string source);

// Knows every container, and no pod before its containers.
class CriEstimate final : public ResourceSource {
 public:
  explicit CriEstimate(bool claims_add_sizes) : claims_add_sizes_(claims_add_sizes) {}

  void Ask(const Question& question, Answer answer) override;

 private:
  const bool claims_add_sizes_;
};

}  // namespace alignd::podsource
