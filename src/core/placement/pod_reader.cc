#include "core/placement/pod_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "alignd/pod/kubernetes_pod.h"
#include "core/placement/annotation_conflict.h"
#include "core/placement/pod_validation.h"
#include "core/placement/resource_validation.h"

namespace alignd::placement {
namespace {

using json::View;

// Fields of a pod's spec that the scheduler's other plugins look at. (The kubelet looks at
// sysctls.)
constexpr auto kNotConsidered = std::to_array<std::string_view>(
    {"affinity", "nodeName", "nodeSelector", "topologySpreadConstraints"});

std::string TextOf(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// In the network of the host, each container port is a host port.
// Source: kubernetes pkg/apis/core/v1/defaults.go, defaultHostNetworkPorts.
bool HasHostPort(const View& spec, Faults& faults) {
  const auto host_network = spec.value().find("hostNetwork");
  const bool is_host_network = host_network != spec.value().end() && *host_network == true;
  for (const char* list : {"initContainers", "containers"}) {
    for (const View& container : ListIn(spec, list, faults)) {
      for (const View& port : ListIn(container, "ports", faults)) {
        const auto host_port = port.value().find("hostPort");
        if (host_port != port.value().end() && !host_port->is_null() && *host_port != 0)
          return true;
        if (is_host_network && HasValue(port, "containerPort")) return true;
      }
    }
  }
  return false;
}

constexpr std::string_view kOfResourceSlices =
    "the scheduler allocates the devices of ResourceClaims (DRA) from ResourceSlices, which are "
    "not read here";

// Why it cannot be said where a pod with these claims fits.
std::string ClaimsUndecided(const View& spec, Faults& faults) {
  std::string names;
  for (const View& claim : ListIn(spec, "resourceClaims", faults)) {
    names += (names.empty() ? "" : ", ") + StringIn(claim, "name", faults).value_or("");
  }
  return "spec.resourceClaims: " + names + ": " + std::string(kOfResourceSlices) +
         "; remove the claims to see where the rest of the pod fits";
}

// What the pods of a template have of its metadata: all but a name.
nlohmann::json MetadataOfPods(const View& pod_template) {
  const nlohmann::json& object = pod_template.value();
  nlohmann::json pods = {{"name", "pod"}};
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return pods;
  for (const char* kept : {"annotations", "labels"}) {
    pods[kept] = metadata->value(kept, nlohmann::json());
  }
  return pods;
}

// The scheduler has allocated extended resources of this pod as devices of a ResourceClaim.
// Source: Kubernetes core/v1 PodExtendedResourceClaimStatus (KEP-5004).
bool HasExtendedResourceClaim(const nlohmann::json& pod) {
  const auto status = pod.find("status");
  if (status == pod.end() || !status->is_object()) return false;
  const auto claim = status->find("extendedResourceClaimStatus");
  return claim != status->end() && claim->is_object() && !claim->empty();
}

// The UID on the node of the static pod that this is the mirror of. Empty: it is none. A kubelet
// makes its Node the owner of a mirror; an author cannot give a pod the UID of another one by the
// annotation alone.
// Source: kubernetes pkg/kubelet/types/pod_update.go, ConfigMirrorAnnotationKey;
// pkg/kubelet/pod/mirror_client.go, CreateMirrorPod.
std::string MirroredUid(const nlohmann::json& pod) {
  static const nlohmann::json::json_pointer kMirror(
      "/metadata/annotations/kubernetes.io~1config.mirror");
  static const nlohmann::json::json_pointer kOwners("/metadata/ownerReferences");
  if (!pod.contains(kMirror) || !pod.at(kMirror).is_string()) return {};
  if (!pod.contains(kOwners) || !pod.at(kOwners).is_array()) return {};
  const bool is_of_node = std::ranges::any_of(pod.at(kOwners), [](const nlohmann::json& owner) {
    return owner.is_object() && owner.value("kind", nlohmann::json()) == "Node";
  });
  return is_of_node ? pod.at(kMirror).get<std::string>() : std::string();
}

// Reads the pod that `object` (a Pod or a pod template) states.
class PodReader {
 public:
  PodReader(const View& object, Workload& workload, Faults& faults)
      : object_(object), workload_(workload), faults_(faults) {}

  void Read(bool is_template) {
    CheckMetadata(object_, is_template, faults_);
    CheckPodSpec(object_, faults_);
    const auto spec = ObjectIn(object_, "spec", faults_);
    if (spec && !faults_.is_accepted()) CheckRestartPolicy(*spec, is_template);
    if (spec && faults_.empty()) ReadSpec(*spec);
    PlannedPod& planned = workload_.pod;
    if (faults_.empty()) ReadPod(is_template);
    planned.faults = faults_.texts();
    if (is_template) planned.owner = workload_.kind + " " + workload_.name_space + "/";
    if (is_template) planned.owner += workload_.name;
    planned.pod.name_space = workload_.name_space;
  }

 private:
  // Source: kubernetes pkg/apis/core/validation/validation.go, validateRestartPolicy;
  // pkg/apis/apps/validation/validation.go; pkg/apis/batch/validation/validation.go.
  void CheckRestartPolicy(const View& spec, bool is_template) {
    const std::string policy = StringIn(spec, "restartPolicy", faults_).value_or("");
    const std::string path = spec.path() + ".restartPolicy";
    const bool is_of_job = workload_.kind == "Job" || workload_.kind == "CronJob";
    const bool is_always = policy.empty() || policy == "Always";
    if (is_of_job && is_always) {
      faults_.Required(path, R"(valid values: "OnFailure", "Never")");
    } else if (is_template && !is_of_job && !is_always) {
      faults_.Unsupported(path, policy, R"("Always")");
    } else if (!is_always && policy != "OnFailure" && policy != "Never") {
      faults_.Unsupported(path, policy, R"("Always", "Never", "OnFailure")");
    }
  }

  void ReadSpec(const View& spec) {
    PlannedPod& planned = workload_.pod;
    if (HasValue(spec, "resourceClaims")) {
      planned.undecided.push_back(ClaimsUndecided(spec, faults_));
    }
    for (const View& gate : ListIn(spec, "schedulingGates", faults_)) {
      planned.gates.push_back(StringIn(gate, "name", faults_).value_or(""));
    }
    if (const auto overhead = ObjectIn(spec, "overhead", faults_)) {
      planned.overhead = CheckAmounts(*overhead, faults_);
    }
    ReadConstraints(spec);
    planned.node_name = StringIn(spec, "nodeName", faults_).value_or("");
    if (!planned.node_name.empty()) {
      if (!planned.gates.empty()) {
        faults_.Forbidden(spec.path() + ".nodeName",
                          "cannot be set until all schedulingGates have been cleared");
      }
      // No scheduler is asked, and a kubelet looks at taints with NoExecute only.
      planned.tolerations.push_back({"", "Exists", "", "NoSchedule"});
    }
    if (const auto os = ObjectIn(spec, "os", faults_)) {
      planned.os = StringIn(*os, "name", faults_).value_or("");
    }
    workload_.runtime_class = StringIn(spec, "runtimeClassName", faults_).value_or("");
    for (const std::string_view field : kNotConsidered) {
      if (HasValue(spec, field)) planned.not_considered.push_back("spec." + std::string(field));
    }
    if (const auto context = ObjectIn(spec, "securityContext", faults_)) {
      if (HasValue(*context, "sysctls")) {
        planned.not_considered.emplace_back("spec.securityContext.sysctls");
      }
    }
    if (HasHostPort(spec, faults_)) planned.not_considered.emplace_back("spec.containers.hostPort");
  }

  void ReadConstraints(const View& spec) {
    PlannedPod& planned = workload_.pod;
    if (const auto selector = ObjectIn(spec, "nodeSelector", faults_)) {
      const auto members = selector->Members();
      for (const auto& [key, value] : *members) {
        planned.node_selector[key] = *value.String();  // CheckPodSpec has looked at the type
      }
    }
    for (const View& view : ListIn(spec, "tolerations", faults_)) {
      planned.tolerations.push_back({StringIn(view, "key", faults_).value_or(""),
                                     StringIn(view, "operator", faults_).value_or(""),
                                     StringIn(view, "value", faults_).value_or(""),
                                     StringIn(view, "effect", faults_).value_or("")});
    }
    // Source: kubernetes plugin/pkg/admission/defaulttolerationseconds/admission.go.
    for (const char* const key :
         {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
      planned.tolerations.push_back({key, "Exists", "", "NoExecute"});
    }
  }

  void ReadPod(bool is_template) {
    nlohmann::json text = object_.value();
    if (is_template) {
      text["metadata"] = MetadataOfPods(object_);
      text.erase("status");
    } else {
      const View metadata(object_.value().at("metadata"), "");
      if (!HasValue(metadata, "name")) text["metadata"]["name"] = "pod";
      // The API server ignores the status of a pod that it does not have yet.
      if (!HasValue(metadata, "uid")) text.erase("status");
    }
    if (HasExtendedResourceClaim(text)) {
      workload_.pod.undecided.push_back("status.extendedResourceClaimStatus: " +
                                        std::string(kOfResourceSlices));
    }
    Result<Pod> pod = ParseKubernetesPod(TextOf(text));
    if (!pod.ok()) return faults_.Add(pod.error());
    const auto metadata = text.find("metadata");
    if (metadata != text.end()) {
      const View stated(*metadata, "");
      if (auto conflict = FindAnnotationConflict(stated, *pod)) {
        workload_.pod.annotation_conflict = std::move(conflict->text);
        workload_.pod.annotated = std::move(conflict->annotated);
      }
      workload_.pod.annotated_devices = AnnotatedDevices(stated, *pod);
      workload_.pod.without_devices = FindConflictWithoutDevices(stated, *pod);
    }
    if (const std::string uid = MirroredUid(text); !uid.empty()) pod->uid = uid;
    // Names are given later.
    if (is_template) pod->uid = pod->name = "";
    static const nlohmann::json::json_pointer kOsLabel("/metadata/labels/kubernetes.io~1os");
    if (text.contains(kOsLabel) && text.at(kOsLabel).is_string()) {
      workload_.pod.os_label = text.at(kOsLabel).get<std::string>();
    }
    workload_.pod.pod = *std::move(pod);
  }

  const View& object_;
  Workload& workload_;
  Faults& faults_;
};

}  // namespace

bool HasValue(const View& spec, std::string_view key) {
  const auto member = spec.value().find(std::string(key));
  return member != spec.value().end() && !member->is_null() &&
         !(member->is_structured() && member->empty()) && *member != "";
}

void ReadPlannedPod(const View& object, bool is_template, Workload& workload, Faults& faults) {
  PodReader(object, workload, faults).Read(is_template);
}

}  // namespace alignd::placement
