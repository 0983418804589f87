// Manifests: the pods that Kubernetes objects state, and what the API server would refuse about
// them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"

namespace alignd::placement {

// One of spec.tolerations.
struct Toleration {
  std::string key;
  std::string op;  // Equal or Exists; empty: Equal
  std::string value;
  std::string effect;  // empty: any

  friend bool operator==(const Toleration&, const Toleration&) = default;
};

// A pod as its annotation with resources states it.
struct AnnotatedPod {
  std::vector<Container> containers;  // none: no node can follow the annotation
  std::optional<Resources> pod_level = {};
  // A node that follows the annotation does not know all containers when it decides about the
  // first: it decides about the others when they are created.
  bool is_partial = false;

  friend bool operator==(const AnnotatedPod&, const AnnotatedPod&) = default;
};

// An annotation with the resources of a pod by which a node decides otherwise than by its spec.
struct AnnotationConflict {
  std::string text;        // what differs, and what to do; empty: the resources are the same
  AnnotatedPod annotated;  // the pod for a node that follows the annotation

  friend bool operator==(const AnnotationConflict&, const AnnotationConflict&) = default;
};

// A pod that a manifest states, with what a node must know of it beyond its containers.
struct PlannedPod {
  Pod pod;  // if there are faults: its names only
  // The object that it comes from: "Deployment default/web". Empty: a Pod of its own.
  std::string owner;
  ResourceList overhead;              // spec.overhead, or that of its RuntimeClass
  bool has_unknown_overhead = false;  // one of the reasons in `undecided`
  // Why the API server refuses the pod, each with the path of the field.
  std::vector<std::string> faults;
  // Why nothing can be said about where the pod fits. Empty: it can.
  std::vector<std::string> undecided;
  // What the scheduler does not let through, whatever the node has.
  std::vector<std::string> gates;
  std::string node_name;    // the node to which it is bound; empty: the scheduler chooses
  bool is_pending = false;  // status.phase: its containers may not have been created yet
  // Of its RuntimeClass, or the name of that if it is not known; empty: that of the runtime.
  std::string runtime_handler;
  std::string os;  // of its containers, such as "windows"; empty: that of the node
  std::optional<std::string> os_label = {};  // its label kubernetes.io/os
  std::map<std::string, std::string> node_selector;
  std::vector<Toleration> tolerations;
  // What an annotation states about its resources and its spec does not. A node that does not ask
  // the kubelet's Pods API follows the annotation, or refuses the pod. Empty: both agree.
  std::string annotation_conflict = {};
  // The pod as that annotation has it; nullopt: as the spec has it. Without a conflict, the order
  // of the containers is another one, or the annotation does not name all of them.
  std::optional<AnnotatedPod> annotated = {};
  // The devices by container that its annotation has, where these are more than its spec has: a
  // pod that runs on a node that follows the annotation has these.
  std::map<std::string, ResourceList> annotated_devices = {};
  // `annotation_conflict` and `annotated` for a node that ignores extended resources in annotations
  // (KubeletConfig::annotated_extended_resources); nullopt: it has the pod as the spec has it.
  // Without a text, both agree but for the devices, which such a node does not give the pod if it
  // does not ask the kubelet's Pods API, or but for the order or number of containers.
  std::optional<AnnotationConflict> without_devices = {};
  // Fields that the scheduler or the kubelet looks at and that are not considered here:
  // "spec.affinity"; "RuntimeClass.scheduling" for that of its RuntimeClass.
  std::vector<std::string> not_considered;
  // Of a pod that the API server has: it is resized in place, so that it has other amounts than its
  // spec says, and those of the spec and the status count.
  bool is_resizing = false;

  friend bool operator==(const PlannedPod&, const PlannedPod&) = default;
};

// How a controller names its pods.
enum class PodNames {
  kOwn,      // a Pod with a name
  kRandom,   // NAME-xxxxx: ReplicaSet, DaemonSet, Job, a Pod with generateName
  kHashed,   // NAME-hash-xxxxx: Deployment
  kOrdinal,  // NAME-0, NAME-1: StatefulSet
  kIndexed,  // NAME-0-xxxxx: an Indexed Job
  kJobOf,    // NAME-time-xxxxx: CronJob
};

// The object that has made another one, and makes it again if it is deleted: of metadata's
// ownerReferences, the one with `controller: true`.
struct ControllerReference {
  std::string kind;
  std::string name;
  std::string uid;

  friend bool operator==(const ControllerReference&, const ControllerReference&) = default;
};

// An object that is a pod, or makes pods.
struct Workload {
  std::string kind;
  std::string name_space;
  std::string name;  // or the prefix, with kRandom of a Pod
  PlannedPod pod;    // its `pod` has no name and no UID, except of a Pod
  int64_t replicas = 1;
  PodNames names = PodNames::kOwn;
  int64_t first_ordinal = 0;  // with kOrdinal
  std::string runtime_class;  // spec.runtimeClassName; its overhead is still to be found
  bool is_resolved = false;  // a pod that the API server has: with the overhead of its RuntimeClass
  bool one_per_node = false;  // a DaemonSet: `replicas` is no choice
  std::string file;           // where it stands, for errors
  std::string uid;            // empty: the API server does not have it yet
  // One of a kind that is read here.
  std::optional<ControllerReference> controller = {};
};

// What a RuntimeClass adds to the pods that name it.
struct RuntimeClass {
  ResourceList overhead;
  std::string handler;
  bool has_scheduling = false;  // a node selector or tolerations

  friend bool operator==(const RuntimeClass&, const RuntimeClass&) = default;
};

// What some manifests state. A value.
struct Manifests {
  std::vector<Workload> workloads;
  std::map<std::string, RuntimeClass> runtime_classes;  // by name
  // Objects without pods, and pods that have ended: "Service default/web has no pods".
  std::vector<std::string> skipped;
};

enum class ManifestOrigin {
  kFile,       // as its author has written it
  kApiServer,  // accepted by the API server, which may be newer and have fields that are not known
};

// Adds what one JSON document states: Pod, Deployment, StatefulSet, DaemonSet, ReplicaSet, Job,
// CronJob, RuntimeClass, or a List of such objects. `file` is where it stands. Objects of kinds
// that have no pods are skipped. What the API server refuses about a pod is no error here
// (PlannedPod::faults); fields that are not known are not refused in objects of the API server,
// except below `resources`. A pod with a UID and a phase is one of these, whatever `origin` says.
// Errors: kInvalidArgument: not JSON, a key that an object has twice, no object, a kind or a
// version that is not known, a LimitRange (it changes requests, and is not applied here).
Result<Done> ReadManifest(std::string_view json, const std::string& file, Manifests& manifests,
                          ManifestOrigin origin = ManifestOrigin::kFile);

// For pods that are planned: leaves out each workload of which a controller is among the workloads,
// and so makes it, also over several levels, and adds it to `skipped`.
void LeaveOutOwned(Manifests& manifests);

// For pods that run: leaves out each workload that is the controller of another one, whose pods are
// those that run, and adds it to `skipped`.
void LeaveOutControllers(Manifests& manifests);

// The pods of all workloads, with the handlers of DefaultSharedPoolHandlers; a RuntimeClass that is
// not among the manifests has its own name as its handler. In their order, with the names that
// controllers would give them: the characters that are random there are the same in each run.
// `replicas` replaces those of each workload, except of a DaemonSet; a Pod gets generated names
// then. A workload with faults has one pod at least, which has them. Errors: kInvalidArgument if
// two pods have one name in one namespace, or one UID; with more than kMaxReplicas of one workload,
// or kMaxPlannedContainers of all.
Result<std::vector<PlannedPod>> ExpandPods(const Manifests& manifests,
                                           std::optional<int64_t> replicas);

// The only pod that one JSON document states, or one pod of its only workload; as ExpandPods has
// it, without its overhead, which no node counts. Errors: kInvalidArgument: those of ReadManifest;
// no pod or several; what the API server refuses about the pod, another operating system than
// linux, or why nothing can be said about the pod. Not of its annotations: UndecidedByAnnotation.
Result<PlannedPod> ReadOnePod(std::string_view json, const std::string& file);

// The maximum of `replicas`.
inline constexpr int64_t kMaxReplicas = 10'000;

// Of the containers of all pods of one run together; a pod without containers counts as one.
inline constexpr int64_t kMaxPlannedContainers = 300'000;

}  // namespace alignd::placement
