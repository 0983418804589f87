// What the annotations and labels of a listed sandbox say of its pod.
#pragma once

#include <optional>

#include "alignd/base/cpu_set.h"
#include "alignd/pod/pod.h"
#include "reconcile/container_registry.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::reconcile {

// Without what a scheduler has decided, and what is wrong: that does not outlast the admission.
PodPolicies PoliciesOf(const runtime::v1::PodSandbox& sandbox);

// What a scheduler has decided; empty: nothing, or nothing that can be read.
CpuSet DecidedCpus(const runtime::v1::PodSandbox& sandbox);

// What alignd's own annotation says of the pod's resources. nullopt: there is none, or it cannot be
// read.
std::optional<AnnotatedPod> AnnotatedPodOf(const runtime::v1::PodSandbox& sandbox);

}  // namespace alignd::reconcile
