// What a container asks for, recovered from CRI: the only place that knows how.
#pragma once

#include <optional>
#include <string>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {

// Where the resources of a pod were learnt from.
enum class Source {
  kAnnotation,  // the pod annotation alignd.io/resources: the whole pod is known
  kEstimate,    // CRI alone: one container is known; exact for Guaranteed pods, without devices
};

struct PodAsk {
  Pod pod;
  Source source = Source::kEstimate;
};

std::string_view ToString(Source source);

// The QoS class that a cgroup parent made by the kubelet says, in the cgroupfs form
// (/kubepods/burstable/pod<uid>) or systemd's (kubepods-burstable-pod<uid>.slice); nullopt for any
// other parent. Source: kubelet pkg/kubelet/cm/qos_container_manager_linux.go.
std::optional<QosClass> QosOfCgroupParent(std::string_view cgroup_parent);

// The whole pod, if its annotation tells it; nullopt without the annotation.
// Errors: kInvalidArgument with the place of the fault.
Result<std::optional<PodAsk>> PodOfSandbox(const runtime::v1::PodSandboxConfig& config);

// The pod as far as it is known when one of its containers is created: the whole pod, or that
// container alone with resources estimated from quota, period, shares and limits.
// Annotations are their author's word: they refine what CRI shows and must not contradict it.
// Errors: kInvalidArgument with the place of the fault or of the contradiction.
Result<PodAsk> PodOfContainer(const runtime::v1::PodSandboxConfig& sandbox,
                              const runtime::v1::ContainerConfig& container);

}  // namespace alignd::cri
