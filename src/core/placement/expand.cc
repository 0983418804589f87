#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <utility>

#include "alignd/placement/manifest.h"
#include "core/placement/faults.h"

namespace alignd::placement {
namespace {

// The characters of generated names. Source: k8s.io/apimachinery pkg/util/rand.
constexpr std::string_view kCharacters = "bcdfghjklmnpqrstvwxz2456789";
constexpr size_t kSuffix = 5;

// `length` of these characters, by number: different numbers below 27^length give different texts.
std::string Characters(uint64_t number, size_t length) {
  std::string text(length, kCharacters.front());
  for (size_t i = length; i-- > 0; number /= kCharacters.size()) {
    text[i] = kCharacters[number % kCharacters.size()];
  }
  return text;
}

// FNV-1a: the same in each run.
uint64_t HashOf(std::string_view text) {
  uint64_t hash = 14'695'981'039'346'656'037U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211U;
  }
  return hash;
}

// A suffix for the pod of that number: with one prefix, no two numbers have the same.
std::string SuffixOf(const std::string& prefix, int64_t number) {
  constexpr uint64_t kSuffixes = 14'348'907;  // 27^5
  constexpr uint64_t kStep = 8'877'911;       // no multiple of 3: all numbers differ
  const uint64_t position = static_cast<uint64_t>(number) * kStep + HashOf(prefix) % kSuffixes;
  return Characters(position % kSuffixes, kSuffix);
}

// Source: k8s.io/apiserver pkg/storage/names/generate.go.
std::string Generated(std::string prefix, int64_t number) {
  constexpr size_t kMaxPrefix = 63 - kSuffix;
  const std::string suffix = SuffixOf(prefix, number);
  if (prefix.size() > kMaxPrefix) prefix.resize(kMaxPrefix);
  return prefix + suffix;
}

// Source: kubernetes pkg/controller/controller_utils.go; deployment/util, ComputeHash;
// statefulset/stateful_set_utils.go, getPodName; job/indexed_job_utils.go; cronjob/utils.go.
std::string PodNameOf(const Workload& workload, int64_t number, int64_t generated) {
  const std::string& name = workload.name;
  switch (workload.names) {
    case PodNames::kOwn:
      return name;
    case PodNames::kRandom:
      // A Pod's generateName is the prefix as it is.
      return Generated(workload.kind == "Pod" ? name : name + "-", generated);
    case PodNames::kHashed:
      return Generated(name + "-" + Characters(HashOf(name), 10) + "-", generated);
    case PodNames::kOrdinal:
      return name + "-" + std::to_string(workload.first_ordinal + number);
    case PodNames::kIndexed:
      return Generated(name + "-" + std::to_string(number) + "-", generated);
    case PodNames::kJobOf:
      return Generated(name + "-0-", generated);
  }
  return name;
}

std::string PlaceOf(const Workload& workload) {
  return (workload.file.empty() ? "" : workload.file + ": ") + workload.kind + " " +
         workload.name_space + "/" + workload.name;
}

// What the pod's RuntimeClass adds: its overhead. Its scheduling is not considered.
// Source: kubernetes plugin/pkg/admission/runtimeclass/admission.go.
void ResolveRuntimeClass(const Manifests& manifests, const Workload& workload,
                         PlannedPod& planned) {
  if (!planned.faults.empty() || workload.is_resolved) return;
  if (workload.runtime_class.empty()) {
    if (planned.overhead.empty()) return;
    planned.faults.emplace_back(
        "spec.overhead: Pod Overhead set without corresponding RuntimeClass defined Overhead");
    return;
  }
  const auto known = manifests.runtime_classes.find(workload.runtime_class);
  const bool is_known = known != manifests.runtime_classes.end();
  if (!is_known || known->second.has_scheduling) {
    planned.not_considered.emplace_back("RuntimeClass.scheduling");
  }
  if (!is_known) {
    if (planned.overhead.empty()) {
      planned.has_unknown_overhead = true;
      planned.undecided.push_back("spec.runtimeClassName: the overhead of RuntimeClass \"" +
                                  workload.runtime_class +
                                  "\" is not known; add its manifest to the files");
    }
    return;
  }
  if (!planned.overhead.empty() && planned.overhead != known->second.overhead) {
    planned.faults.emplace_back(
        "spec.overhead: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
  }
  planned.overhead = known->second.overhead;
}

// A RuntimeClass that is not known is taken for one of the handler of its name.
std::string HandlerOf(const Manifests& manifests, const Workload& workload) {
  const auto known = manifests.runtime_classes.find(workload.runtime_class);
  return known != manifests.runtime_classes.end() ? known->second.handler : workload.runtime_class;
}

// Errors: a second object, or a second pod of that name or UID.
class Distinct {
 public:
  Result<Done> Add(const Workload& workload) {
    // Pods of one generateName are different pods.
    if (workload.kind == "Pod") return Done{};
    const std::string name = workload.kind + " " + workload.name_space + "/" + workload.name;
    const auto [known, is_new] = objects_.try_emplace(name, PlaceOf(workload));
    return is_new ? Result<Done>(Done{}) : Twice(name + " occurs twice", known->second, workload);
  }

  Result<Done> Add(const Workload& workload, const Pod& pod) {
    const std::string name = pod.name_space + "/" + pod.name;
    const auto [named, is_new] = names_.try_emplace(name, PlaceOf(workload));
    if (!is_new) return Twice("two pods are named " + name, named->second, workload);
    if (pod.uid.empty()) return Done{};
    const auto [known, is_new_uid] = uids_.try_emplace(pod.uid, PlaceOf(workload));
    if (!is_new_uid) return Twice("two pods have the uid " + pod.uid, known->second, workload);
    return Done{};
  }

 private:
  static Error Twice(const std::string& what, const std::string& first, const Workload& second) {
    return {ErrorCode::kInvalidArgument, what + ": " + first + " and " + PlaceOf(second),
            "give each pod once, or use --replicas for more pods of a kind"};
  }

  std::map<std::string, std::string> objects_;
  std::map<std::string, std::string> names_;
  std::map<std::string, std::string> uids_;
};

}  // namespace

Result<std::vector<PlannedPod>> ExpandPods(const Manifests& manifests,
                                           std::optional<int64_t> replicas) {
  std::vector<PlannedPod> pods;
  Distinct distinct;
  int64_t names = 0;  // generated before
  int64_t containers = 0;
  for (Workload workload : manifests.workloads) {
    const Result<Done> is_new = distinct.Add(workload);
    if (!is_new.ok()) return is_new.error();
    int64_t count = workload.one_per_node ? 1 : replicas.value_or(workload.replicas);
    // Of what the API server refuses, also the number of replicas can be wrong: one pod shows why.
    if (!workload.pod.faults.empty()) count = std::max<int64_t>(count, 1);
    if (count > kMaxReplicas) {
      return Error{ErrorCode::kInvalidArgument,
                   PlaceOf(workload) + ": more than " + std::to_string(kMaxReplicas) + " replicas",
                   "plan fewer with --replicas"};
    }
    // Of a few replicas, each can be as large as a file.
    containers += count * std::max<int64_t>(std::ssize(workload.pod.pod.containers), 1);
    if (containers > kMaxPlannedContainers) {
      return Error{ErrorCode::kInvalidArgument,
                   PlaceOf(workload) + ": with it, the pods have more than " +
                       std::to_string(kMaxPlannedContainers) + " containers",
                   "plan fewer pods at once"};
    }
    ResolveRuntimeClass(manifests, workload, workload.pod);
    workload.pod.runtime_handler = HandlerOf(manifests, workload);
    if (replicas && workload.names == PodNames::kOwn) {
      // The pods would need a controller: they get names such as those of a ReplicaSet.
      workload.names = PodNames::kRandom;
      workload.name += "-";
      workload.pod.pod.uid.clear();
    }
    for (int64_t number = 0; number < count; ++number) {
      PlannedPod planned = workload.pod;
      planned.pod.name = PodNameOf(workload, number, names++);
      if (planned.pod.uid.empty() || workload.names != PodNames::kOwn) {
        planned.pod.uid = planned.pod.name_space + "/" + planned.pod.name;
      }
      const Result<Done> added = distinct.Add(workload, planned.pod);
      if (!added.ok()) return added.error();
      pods.push_back(std::move(planned));
    }
  }
  return pods;
}

Result<PlannedPod> ReadOnePod(std::string_view json, const std::string& file) {
  Manifests manifests;
  const Result<Done> read = ReadManifest(json, file, manifests);
  if (!read.ok()) return read.error();
  for (Workload& workload : manifests.workloads) workload.replicas = 1;
  Result<std::vector<PlannedPod>> pods = ExpandPods(manifests, std::nullopt);
  if (!pods.ok()) return pods.error();
  if (pods->size() != 1) {
    return Error{ErrorCode::kInvalidArgument,
                 pods->empty() && !manifests.skipped.empty()
                     ? manifests.skipped.front()
                     : std::to_string(pods->size()) + " objects have pods",
                 "give one object that has pods"};
  }
  PlannedPod& pod = pods->front();
  if (!pod.faults.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "the API server refuses the pod: " + Joined(pod.faults), "correct the manifest"};
  }
  if (!pod.os.empty() && pod.os != "linux") {
    return Error{ErrorCode::kInvalidArgument,
                 "spec.os.name is " + pod.os + ", and nodes have linux", "correct the manifest"};
  }
  // The last of its reasons. The scheduler alone counts overhead.
  if (pod.has_unknown_overhead) pod.undecided.pop_back();
  if (!pod.undecided.empty()) {
    return Error{ErrorCode::kInvalidArgument, "undecided: " + Joined(pod.undecided),
                 "ask for a pod without that"};
  }
  return std::move(pod);
}

}  // namespace alignd::placement
