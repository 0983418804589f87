// The names of the fields of Kubernetes objects, as far as manifests are read. Private to the core.
#pragma once

#include <span>
#include <string_view>

namespace alignd::placement {

using FieldNames = std::span<const std::string_view>;

// Source: k8s.io/apimachinery meta/v1, ObjectMeta.
FieldNames ObjectMetaFields();
// Source: k8s.io/api core/v1, PodSpec, Container, EphemeralContainer, ResourceRequirements,
// ResourceClaim, PodResourceClaim, Toleration, PodSchedulingGate, PodOS, PodTemplateSpec.
FieldNames PodSpecFields();
FieldNames ContainerFields();
FieldNames EphemeralContainerFields();
FieldNames ResourcesFields();
FieldNames ContainerClaimFields();
FieldNames PodClaimFields();
FieldNames TolerationFields();
FieldNames SchedulingGateFields();
FieldNames OsFields();
FieldNames PodTemplateFields();

// The fields of the `spec` of a kind that has a pod template; empty for other kinds.
// Source: k8s.io/api apps/v1, batch/v1.
FieldNames WorkloadSpecFields(std::string_view kind);

}  // namespace alignd::placement
