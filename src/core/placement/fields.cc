#include "core/placement/fields.h"

#include <array>

namespace alignd::placement {
namespace {

constexpr auto kObjectMeta = std::to_array<std::string_view>(
    {"annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp",
     "finalizers", "generateName", "generation", "labels", "managedFields", "name", "namespace",
     "ownerReferences", "resourceVersion", "selfLink", "uid"});

constexpr auto kPodSpec = std::to_array<std::string_view>({"activeDeadlineSeconds",
                                                           "affinity",
                                                           "automountServiceAccountToken",
                                                           "containers",
                                                           "dnsConfig",
                                                           "dnsPolicy",
                                                           "enableServiceLinks",
                                                           "ephemeralContainers",
                                                           "hostAliases",
                                                           "hostIPC",
                                                           "hostNetwork",
                                                           "hostPID",
                                                           "hostUsers",
                                                           "hostname",
                                                           "hostnameOverride",
                                                           "imagePullSecrets",
                                                           "initContainers",
                                                           "nodeName",
                                                           "nodeSelector",
                                                           "os",
                                                           "overhead",
                                                           "preemptionPolicy",
                                                           "priority",
                                                           "priorityClassName",
                                                           "readinessGates",
                                                           "resourceClaims",
                                                           "resources",
                                                           "restartPolicy",
                                                           "runtimeClassName",
                                                           "schedulerName",
                                                           "schedulingGates",
                                                           "schedulingGroup",
                                                           "securityContext",
                                                           "serviceAccount",
                                                           "serviceAccountName",
                                                           "setHostnameAsFQDN",
                                                           "shareProcessNamespace",
                                                           "subdomain",
                                                           "terminationGracePeriodSeconds",
                                                           "tolerations",
                                                           "topologySpreadConstraints",
                                                           "volumes",
                                                           "workloadRef"});

constexpr auto kContainer =
    std::to_array<std::string_view>({"args",
                                     "command",
                                     "env",
                                     "envFrom",
                                     "image",
                                     "imagePullPolicy",
                                     "lifecycle",
                                     "livenessProbe",
                                     "name",
                                     "ports",
                                     "readinessProbe",
                                     "resizePolicy",
                                     "resources",
                                     "restartPolicy",
                                     "restartPolicyRules",
                                     "securityContext",
                                     "startupProbe",
                                     "stdin",
                                     "stdinOnce",
                                     "terminationMessagePath",
                                     "terminationMessagePolicy",
                                     "tty",
                                     "volumeDevices",
                                     "volumeMounts",
                                     "workingDir",
                                     "targetContainerName"});  // of ephemeral containers, the last

constexpr auto kResources = std::to_array<std::string_view>({"claims", "limits", "requests"});
constexpr auto kContainerClaim = std::to_array<std::string_view>({"name", "request"});
constexpr auto kPodClaim = std::to_array<std::string_view>(
    {"name", "resourceClaimName", "resourceClaimTemplateName", "source"});
constexpr auto kToleration =
    std::to_array<std::string_view>({"effect", "key", "operator", "tolerationSeconds", "value"});
constexpr auto kSchedulingGate = std::to_array<std::string_view>({"name"});
constexpr auto kOs = std::to_array<std::string_view>({"name"});
constexpr auto kPodTemplate = std::to_array<std::string_view>({"metadata", "spec"});

constexpr auto kDeployment = std::to_array<std::string_view>(
    {"minReadySeconds", "paused", "progressDeadlineSeconds", "replicas", "revisionHistoryLimit",
     "selector", "strategy", "template"});
constexpr auto kReplicaSet =
    std::to_array<std::string_view>({"minReadySeconds", "replicas", "selector", "template"});
constexpr auto kStatefulSet = std::to_array<std::string_view>(
    {"minReadySeconds", "ordinals", "persistentVolumeClaimRetentionPolicy", "podManagementPolicy",
     "replicas", "revisionHistoryLimit", "selector", "serviceName", "template", "updateStrategy",
     "volumeClaimTemplates"});
constexpr auto kDaemonSet = std::to_array<std::string_view>(
    {"minReadySeconds", "revisionHistoryLimit", "selector", "template", "updateStrategy"});
constexpr auto kJob = std::to_array<std::string_view>(
    {"activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completionMode",
     "completions", "managedBy", "manualSelector", "maxFailedIndexes", "parallelism",
     "podFailurePolicy", "podReplacementPolicy", "scheduling", "selector", "successPolicy",
     "suspend", "template", "ttlSecondsAfterFinished"});
constexpr auto kCronJob = std::to_array<std::string_view>(
    {"concurrencyPolicy", "failedJobsHistoryLimit", "jobTemplate", "schedule",
     "startingDeadlineSeconds", "successfulJobsHistoryLimit", "suspend", "timeZone"});

}  // namespace

FieldNames ObjectMetaFields() { return kObjectMeta; }
FieldNames PodSpecFields() { return kPodSpec; }
FieldNames ContainerFields() { return FieldNames(kContainer).first(kContainer.size() - 1); }
FieldNames EphemeralContainerFields() { return kContainer; }
FieldNames ResourcesFields() { return kResources; }
FieldNames ContainerClaimFields() { return kContainerClaim; }
FieldNames PodClaimFields() { return kPodClaim; }
FieldNames TolerationFields() { return kToleration; }
FieldNames SchedulingGateFields() { return kSchedulingGate; }
FieldNames OsFields() { return kOs; }
FieldNames PodTemplateFields() { return kPodTemplate; }

FieldNames WorkloadSpecFields(std::string_view kind) {
  if (kind == "Deployment") return kDeployment;
  if (kind == "ReplicaSet") return kReplicaSet;
  if (kind == "StatefulSet") return kStatefulSet;
  if (kind == "DaemonSet") return kDaemonSet;
  if (kind == "Job") return kJob;
  if (kind == "CronJob") return kCronJob;
  return {};
}

}  // namespace alignd::placement
