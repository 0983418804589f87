// The conditions of pods.
#include <string>
#include <utility>
#include <vector>

#include "reconcile/conditions.h"

namespace alignd::reconcile {
namespace {

using std::chrono::system_clock;

std::string KeyOfResize(const ContainerKey& container) {
  return container.pod_uid + "/" + container.container;
}

std::string Describe(const PastMirror& devices) {
  std::string text = "is assigned " + devices.resource;
  for (const std::string& id : devices.ids) text += " " + id;
  return text +
         " by a plugin that is registered with the kubelet directly; alignd does not know this "
         "allocation and can allocate the same devices to another container";
}

}  // namespace

void Conditions::QuotaNotLifted(const std::string& pod_uid, const Error& error,
                                const std::string& pod_name) {
  Raise(pod_uid,
        {.condition = {.type = ConditionType::kPodQuotaNotLifted,
                       .subject = {.container_id = {}, .key = {pod_uid, ""}, .pod = pod_name},
                       .message = "throttled, although it has exclusive CPUs: its CFS quota "
                                  "cannot be lifted: " +
                                  error.message,
                       .remedy = error.remedy}});
}

void Conditions::QuotaSettled(const std::string& pod_uid) {
  Clear(ConditionType::kPodQuotaNotLifted, pod_uid);
}

void Conditions::QuotaNotRestored(const Subject& pod, int64_t quota, const Error& error) {
  Raise(pod.key.pod_uid,
        {.condition = {.type = ConditionType::kPodQuotaNotRestored,
                       .subject = pod,
                       .message = "a resize has moved it to shared CPUs, and the CFS quota of its "
                                  "cgroup cannot be set to " +
                                  std::to_string(quota) + " us again: " + error.message,
                       .remedy = (error.remedy.empty() ? "" : error.remedy + "; ") +
                                 "alignd tries again after 1, 2, 4, ... 30 s"}});
}

void Conditions::QuotaRestored(const std::string& pod_uid) {
  Clear(ConditionType::kPodQuotaNotRestored, pod_uid);
}

void Conditions::QuotaRewritten(const Subject& pod, size_t times, std::chrono::seconds window,
                                bool refused) {
  Raise(pod.key.pod_uid,
        {.condition = {
             .type = ConditionType::kPodQuotaRewritten,
             .subject = pod,
             .message = std::string(refused ? "the kubelet" : "another program") +
                        " keeps writing the CFS quota or the CPU shares of its cgroup, which takes "
                        "CPU time from exclusive CPUs: more than " +
                        std::to_string(times) + " times within " + std::to_string(window.count()) +
                        " s; alignd lifts the quota again, after a pause",
             .remedy = refused ? "undo the resize that alignd refuses (PodResizeRefused), or "
                                 "delete the pod: the kubelet writes them at each try"
                               : "find the program that writes them, and stop it; if pods are "
                                 "to keep their quota, start alignd with --keep-pod-cpu-quota"}});
}

void Conditions::QuotaLeftAlone(const std::string& pod_uid) {
  Clear(ConditionType::kPodQuotaRewritten, pod_uid);
}

void Conditions::ResizeRefused(const Subject& container, const std::string& why,
                               const std::string& remedy) {
  Raise(KeyOfResize(container.key), {.condition = {.type = ConditionType::kPodResizeRefused,
                                                   .subject = container,
                                                   .message = "a resize is refused: it " + why,
                                                   .remedy = remedy},
                                     .expires = system_clock::now() + kRefusedResizeLasts});
}

void Conditions::AssignmentUnknown(const Subject& container, const std::string& message) {
  // A container may have several problems.
  Raise(container.container_id + "/" + message,
        {.condition = {.type = ConditionType::kAssignmentUnknown,
                       .subject = container,
                       .message = message,
                       .remedy = "delete the pod, so that its containers are assigned anew"}});
}

void Conditions::FoundUnsupported(const std::map<std::string, std::string>& annotations) {
  if (annotations.empty()) return Clear(ConditionType::kUnsupportedAnnotation, "");
  std::string names;
  std::string all;  // which pods have them changes with each pod
  size_t shown = 0;
  for (const auto& [name, pod] : annotations) all += name + "\n";
  for (const auto& [name, pod] : annotations) {
    if (shown++ == kMaxUnsupportedShown) break;
    names += (names.empty() ? "" : ", ") + name + " (pod " + pod + ")";
  }
  if (annotations.size() > kMaxUnsupportedShown) {
    names += " and " + std::to_string(annotations.size() - kMaxUnsupportedShown) + " more";
  }
  Raise("", {.condition = {.type = ConditionType::kUnsupportedAnnotation,
                           .message = "pods have annotations that alignd does not follow: " + names,
                           .remedy =
                               "correct names that are misspelt; remove annotations of another "
                               "resource manager, or run the pods on its nodes; `alignctl explain "
                               "POD` names those of a pod"},
             .logged_as = std::move(all)});
}

void Conditions::ResizeSettled(const ContainerKey& container) {
  Clear(ConditionType::kPodResizeRefused, KeyOfResize(container));
}

std::set<std::string> Conditions::PodsWithConditions() const {
  const MutexLock lock(mutex_);
  std::set<std::string> uids;
  for (const auto& [key, entry] : entries_) {
    if (IsAboutPod(key.first)) uids.insert(entry.condition.subject.key.pod_uid);
  }
  return uids;
}

void Conditions::PodGone(const std::string& pod_uid) {
  std::vector<Key> keys;
  {
    const MutexLock lock(mutex_);
    for (const auto& [key, entry] : entries_) {
      if (IsAboutPod(key.first) && entry.condition.subject.key.pod_uid == pod_uid) {
        keys.push_back(key);
      }
    }
  }
  for (const auto& [type, key] : keys) Clear(type, key);
}

void Conditions::FoundPastMirror(const std::vector<PastMirror>& devices) {
  std::set<std::string> keys;
  for (const PastMirror& found : devices) {
    const std::string key = found.container.container_id + " " + found.resource;
    keys.insert(key);
    Raise(key, {.condition = {
                    .type = ConditionType::kConflictingDevicePlugin,
                    .subject = found.container,
                    .message = Describe(found),
                    .remedy = "let the plugin register in alignd's device plugin directory only, "
                              "then restart alignd: it takes over the devices of the container"}});
  }
  ClearOthers(ConditionType::kConflictingDevicePlugin, keys);
}

}  // namespace alignd::reconcile
