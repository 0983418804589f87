// The resize that a request for a container asks for, and why it is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "allocation/cpu_resizes.h"

namespace alignd::allocation {

// The reason of a refused resize; the same name as in docs/conditions.md.
inline constexpr char kResizeRefused[] = "ResizeRefused";

// "0.01 CPUs", "1 CPU".
std::string CpusText(int64_t millis);

// What asked for a resize, in the decision log.
inline constexpr char kInPlaceResize[] = "in-place resize";

// namespace/name; the UID of a pod whose name is not known.
std::string NameOrUid(const Pod& pod);

// The refusal of an amount of CPUs that cannot replace exclusive ones: one that is not whole, or
// with CpuResizes::kNone any other number. `pod`: its name, or its UID. `asked`: for example
// "4.5 CPUs".
Refusal ResizeRefusal(const std::string& pod, const std::string& container, const CpuSet& exclusive,
                      const std::string& asked, CpuResizes resizes);

// The refusal of CPUs that are not exclusive for a pod whose label asks for exclusive ones
// (admission::MustHaveExclusiveCpus). `pod`: as from NameOrUid. `asked`: as above.
Refusal RefusedSharedByLabel(const Pod& pod, const std::string& container, const CpuSet& exclusive,
                             const std::string& asked);

// A refused resize. `fault` goes on after the name of the container; `remedy` is not empty.
Refusal RefusedResize(const std::string& pod, const std::string& container, std::string fault,
                      std::string remedy);

// The refusal to resize between exclusive and shared CPUs by an update that has not all sizes.
// `pod`, `asked`: as above.
Refusal RefusedIncompleteSizes(const std::string& pod, const std::string& container,
                               const CpuSet& exclusive, const std::string& asked);

// The refusal of exclusive CPUs for a container of the shared pool. `pod`: as above.
Refusal RefusedFirstCpus(const std::string& pod, const std::string& container, int64_t millis);

// The same for one without a request and limits. `pod`: as above.
Refusal RefusedEphemeral(const std::string& pod, const std::string& container, int64_t millis);

// The refusal of another number of exclusive CPUs for a container of a pod with pod-level
// resources. Without `is_known`, the pod may have them. `pod`, `asked`: as above.
Refusal RefusedPodLevelResize(const std::string& pod, const std::string& container,
                              const CpuSet& exclusive, const std::string& asked, bool is_known);

// The refusal to resize what a pod has as a whole. `asked`: for example "4 CPUs".
Refusal RefusedPodResize(const std::string& pod, const CpuSet& whole, const std::string& asked);

// The refusal of another cpu request for a container of the shared pool that stays on one NUMA
// node: what it requests is accounted there. `pod`: its name, or its UID. nullopt: the request is
// that of its share.
std::optional<Refusal> RefuseOtherShare(const std::string& pod, const std::string& container,
                                        const cpumanager::NodeShare& share, int64_t millis);

// A refusal of admission::Resize, which does not know the pod's name, with that name.
Refusal InPod(Refusal refusal, const std::string& pod, const std::string& container);

// A container with exclusive CPUs that asks for another number of them, or for shared CPUs.
struct WantedResize {
  std::string container;
  int64_t count = 0;  // 0: shared CPUs
};

// Whether the container, of a pod that has exclusive CPUs for it, asks for shared ones now: for a
// number of CPUs that is not whole. A container that is not entitled to exclusive CPUs for another
// reason does not: a source of requests may be wrong about that.
bool AsksForSharedCpus(const Container& container);

// The first such container of the pod, or the `wanted` one if that is among its containers, if
// `resizes` has its resize. nullopt: there is none.
std::optional<WantedResize> FindResize(const admission::Node& node,
                                       const admission::NodeState& state, const Pod& pod,
                                       const std::string& wanted, CpuResizes resizes);

// The refusal of a container of the pod, or of the `wanted` one if that is among them, that asks
// for another number of exclusive CPUs than it has, or for none, and whose resize is not among
// `resizes`. Also of one that stays on one NUMA node, or would have to, and has another cpu
// request. nullopt: there is none.
// Differs: the kubelet assigns what it had before, or refuses it by its topology policy.
std::optional<Refusal> RefuseResize(const admission::Node& node, const admission::NodeState& state,
                                    const Pod& pod, const std::string& wanted, CpuResizes resizes);

// The refusal of another request for such a container when it is created again: its NUMA node does
// not have that. `lacks`: what it has. `pod`: its name, or its UID.
Refusal RefusedRenewal(const std::string& pod, const Container& container,
                       const cpumanager::NodeShare& share, const std::string& lacks);

// The refusal of shared CPUs for a container with exclusive ones whose pod asks that such
// containers stay on one NUMA node: what they request there is accounted when they are created.
// `pod`: its name, or its UID. `asked`: for example "2.5 CPUs".
Refusal RefusedShareOnOneNode(const std::string& pod, const std::string& container,
                              const CpuSet& exclusive, const std::string& asked);

}  // namespace alignd::allocation
