// The annotations of a NodeResourceTopology object from which Koordinator's scheduler knows the
// CPUs of a node: what its koordlet writes from the files of the kubelet.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"

namespace alignd::noderesourcetopology {

// Source: koordinator apis/extension/numa_aware.go.
inline constexpr char kCpuManagerPolicyAnnotation[] = "kubelet.koordinator.sh/cpu-manager-policy";
inline constexpr char kCpuTopologyAnnotation[] = "node.koordinator.sh/cpu-topology";
inline constexpr char kPodCpuAllocsAnnotation[] = "node.koordinator.sh/pod-cpu-allocs";
inline constexpr char kCpuSharedPoolsAnnotation[] = "node.koordinator.sh/cpu-shared-pools";

inline constexpr std::array<const char*, 4> kKoordinatorAnnotations = {
    kCpuManagerPolicyAnnotation, kCpuTopologyAnnotation, kPodCpuAllocsAnnotation,
    kCpuSharedPoolsAnnotation};

// In bytes, of all annotations of an object: names and values.
// Source: apimachinery pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB.
inline constexpr size_t kMaxAnnotationBytes = size_t{256} << 10;
// Of it, what is left to the annotations of others and to the fingerprint of the pods.
inline constexpr size_t kOtherAnnotationBytes = size_t{8} << 10;

// What is known of a pod beside its assignment.
struct KnownPod {
  std::string name_space;  // empty, as `name`: not known
  std::string name;
  // The CPUs that a scheduler has written into the pod (annotation resource-status); empty: none.
  CpuSet decided;
};
using KnownPods = std::map<std::string, KnownPod>;  // by UID

using Annotations = std::map<std::string, std::string>;  // by name

// All four. Not in pod-cpu-allocs: a pod that is assigned exactly the CPUs that a scheduler has
// decided. The scheduler knows these from the pod itself, and would count them twice.
// Errors: kInvalidArgument: the API server would not take so many bytes. Then none is written: with
// a part of them, the scheduler would take CPUs for free that are assigned.
// Source: koordinator pkg/koordlet/statesinformer/impl/states_noderesourcetopology.go,
// calcNodeTopo.
Result<Annotations> KoordinatorAnnotations(const admission::Node& node,
                                           const admission::NodeState& state,
                                           const KnownPods& pods);

}  // namespace alignd::noderesourcetopology
