// The health conditions of the node: what prevents alignd from keeping containers on the CPUs,
// memory nodes and devices that they are assigned. Written to the log and shown by
// `alignctl status`. docs/conditions.md explains each of them.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "sync/mutex.h"

namespace alignd::reconcile {

// In the order in which the status shows them.
enum class ConditionType {
  kBypass,
  kKubeletNotAttached,
  kRuntimeUnavailable,
  kStateNotWritable,
  kConfigurationNotApplied,
  kStateRebuilt,  // an event of the start
  kAssignmentUnknown,
  kCpuOffline,
  kConflictingCpuManager,
  kUnmanagedContainer,
  kConflictingDevicePlugin,
  kProcessOutsideCgroup,
  kPodQuotaNotLifted,
  kPodQuotaNotRestored,
  kPodQuotaRewritten,
  kPodResizeRefused,
  kCpusetUpdateFailed,
  kMetricsUnavailable,
  kTopologyNotPublished,
  kStatsProviderChanged,
  kUnsupportedAnnotation,
  kUnknownFeatureGate,
  kCpusetRepaired,  // an event: it stays in the list, and its count grows
};

// The stable names, by ConditionType. docs/conditions.md has a section for each.
inline constexpr std::array<std::string_view, 23> kConditionNames = {
    "Bypass",
    "KubeletNotAttached",
    "RuntimeUnavailable",
    "StateNotWritable",
    "ConfigurationNotApplied",
    "StateRebuilt",
    "AssignmentUnknown",
    "CPUOffline",
    "ConflictingCPUManager",
    "UnmanagedContainer",
    "ConflictingDevicePlugin",
    "ProcessOutsideCgroup",
    "PodQuotaNotLifted",
    "PodQuotaNotRestored",
    "PodQuotaRewritten",
    "PodResizeRefused",
    "CpusetUpdateFailed",
    "MetricsUnavailable",
    "TopologyNotPublished",
    "StatsProviderChanged",
    "UnsupportedAnnotation",
    "UnknownFeatureGate",
    "CpusetRepaired",
};

constexpr std::string_view ToString(ConditionType type) {
  return kConditionNames[static_cast<size_t>(type)];
}

// What a condition is about. A value.
struct Subject {
  std::string container_id;  // empty: a pod, or the node
  ContainerKey key;          // empty: the node
  std::string pod{};         // namespace/name; empty: not known

  friend bool operator==(const Subject&, const Subject&) = default;
};

// "container app of pod default/web" or "pod default/web". The UID stands for a name that is not
// known. Empty for the node.
std::string NameOf(const Subject& subject);

// A problem that lasts, or an event that repeats. A value.
struct Condition {
  using Time = std::chrono::system_clock::time_point;

  ConditionType type = ConditionType::kRuntimeUnavailable;
  Subject subject{};
  Time first{};  // seen
  Time last{};   // seen
  // How often it was seen. CpusetUpdateFailed: failed attempts; 0: the runtime has not answered the
  // first attempt yet.
  uint64_t times = 0;
  std::string message{};
  std::string remedy{};  // empty: nothing to do
};

// A cpuset that another program changed and that alignd restored. A value.
struct Repair {
  Condition::Time time;  // of the first check that found the cpuset correct again
  Subject container;
  std::string was;                       // "CPUs 0-27, memory nodes 0-1"
  std::string should;                    // likewise
  std::chrono::milliseconds noticed{0};  // from the first check that found it wrong until `time`
  std::chrono::milliseconds lasted{0};   // from the last check that found it correct until `time`
};

// Devices of a mirrored resource that a container has from another plugin than the mirror. A value.
struct PastMirror {
  Subject container;
  std::string resource;
  std::set<std::string> ids;
};

// What a container, or the node, lacks because CPUs are offline. A value.
struct OfflineCpus {
  Subject subject;  // the node: those of the shared pool
  CpuSet assigned;  // all its exclusive CPUs, or those of its pod; empty: the node
  CpuSet offline;   // those of them that are offline

  friend bool operator==(const OfflineCpus&, const OfflineCpus&) = default;
};

// A process of a container that is not in the container's cgroup. A value.
struct OutsideProcess {
  int pid = 0;
  std::string name;     // of the program, as the kernel shows it
  Subject container;    // to which it belongs
  std::string cgroup;   // in which it is
  CpuSet cpus;          // the exclusive CPUs of other containers on which it may run
  std::string holders;  // the names of those containers
};

// Thread-safe. Each condition is logged when it appears, when its message changes (of
// UnsupportedAnnotation: the names of annotations), and if it is seen an hour after it was logged.
// If it clears, that is logged as "resolved".
class Conditions {
 public:
  using Time = Condition::Time;

  // Conditions of the types CpusetRepaired and ConflictingCPUManager, each. The one that was seen
  // least recently is dropped first.
  static constexpr size_t kMaxKept = 64;
  // Names in an UnsupportedAnnotation.
  static constexpr size_t kMaxUnsupportedShown = 12;
  // A runtime that answers a call later than this is reported.
  static constexpr std::chrono::seconds kAnswersWithin{3};
  // A ConflictingCPUManager that is not seen again for this time clears, unless the caller gives
  // another time.
  static constexpr std::chrono::minutes kSignLasts{10};
  // A PodResizeRefused that is not seen again for this time clears. The kubelet repeats a resize
  // that is refused at least every 90 s.
  static constexpr std::chrono::minutes kRefusedResizeLasts{5};

  // An alignd-events --topology that has called, and does not call for this time, has ended. It
  // calls every 20 s, and after each attempt to write; one can take most of a minute.
  static constexpr std::chrono::minutes kPublisherSilent{2};

  Conditions() = default;
  Conditions(const Conditions&) = delete;
  Conditions& operator=(const Conditions&) = delete;

  // CpusetRepaired: one condition per container. Every repair is logged.
  void Repaired(const Repair& repair);
  // All repairs since the start, also those whose conditions were dropped.
  uint64_t Repairs() const { return repairs_; }

  // MetricsUnavailable: the address of the metrics cannot be used.
  void MetricsFailed(const Error& error) {
    Raise("", {.condition = {.type = ConditionType::kMetricsUnavailable,
                             .message = error.message,
                             .remedy = error.remedy + "; alignd tries again every 10 s"}});
  }
  // TopologyNotPublished: what alignd-events --topology says of its last attempt to write the
  // object; nullopt: it has not failed.
  void PublisherCalled(const std::optional<Error>& failure,
                       Time now = std::chrono::system_clock::now());
  // To be called regularly: raises TopologyNotPublished if it has not called for kPublisherSilent.
  void LookForPublisher(Time now = std::chrono::system_clock::now());
  // StateNotWritable: a write of the state files has failed.
  void StateNotWritable(const Error& error) {
    Raise("", {.condition = {.type = ConditionType::kStateNotWritable,
                             .message = "the assignments cannot be saved: " + error.message +
                                        "; pods that need a new assignment fail, and running "
                                        "containers keep theirs",
                             .remedy = error.remedy + "; alignd tries again at each reconcile"}});
  }
  // ConfigurationNotApplied: a reload has failed, and the file is another one than what applies.
  void ConfigurationNotApplied(const Error& error);
  void ConfigurationApplied() { Clear(ConditionType::kConfigurationNotApplied, ""); }
  // StateNotWritable: a file that a start can do without could not be written.
  void FileNotSaved(const std::string& name, const std::string& effect, const Error& error) {
    Raise(name,
          {.condition = {.type = ConditionType::kStateNotWritable,
                         .message = name + " cannot be saved: " + error.message + "; " + effect,
                         .remedy = error.remedy + "; alignd tries again at each reconcile"}});
  }
  void FileSaved(const std::string& name) { Clear(ConditionType::kStateNotWritable, name); }
  // StateRebuilt: assignments were rebuilt from the containers of the runtime. It stays until
  // alignd ends.
  void StateRebuilt(const std::string& message, const std::string& remedy) {
    Raise("", {.condition = {
                   .type = ConditionType::kStateRebuilt, .message = message, .remedy = remedy}});
  }
  // AssignmentUnknown: what the container is assigned could not be rebuilt in all. Until its pod is
  // gone.
  void AssignmentUnknown(const Subject& container, const std::string& message);

  // CPUOffline: all that is affected now.
  void FoundOffline(const std::vector<OfflineCpus>& affected);

  void StateSaved() { Clear(ConditionType::kStateNotWritable, ""); }

  void MetricsServed() { Clear(ConditionType::kMetricsUnavailable, ""); }

  // Bypass: all calls are relayed as they come.
  void BypassIsOn(Time since);
  void BypassEnded() { Clear(ConditionType::kBypass, ""); }

  // KubeletNotAttached: `containers`, such as `example`, were created past alignd, and no kubelet
  // has called.
  void KubeletMissing(size_t containers, const std::string& example);
  void KubeletAttached() { Clear(ConditionType::kKubeletNotAttached, ""); }

  // StatsProviderChanged: the runtime is CRI-O, and the kubelet cannot see that by the path
  // `socket` of alignd's socket.
  void CrioNotSeen(const std::string& socket);

  // UnknownFeatureGate: the configuration has gates that alignd does not know, for as long as it
  // applies.
  void UnknownFeatureGates(const Error& warning);
  void StatsProviderKept() { Clear(ConditionType::kStatsProviderChanged, ""); }

  // CpusetUpdateFailed. UpdateBegun and UpdateAnswered enclose each update. UpdateFailed comes
  // between them.
  void UpdateBegun(const Subject& container, const std::string& should);
  void UpdateAnswered(const std::string& container_id);
  // It has not been answered for kAnswersWithin. The report has it by itself; this logs it once.
  void UpdateIsSilent(const std::string& container_id);
  void UpdateFailed(const Subject& container, const std::string& should, const Error& error);
  // Instead of an update: others, which `why` names, have yet to leave CPUs of the container.
  void UpdateWaits(const Subject& container, const std::string& should, const std::string& why);
  // The update succeeded, or is not needed any more.
  void UpdateSettled(const std::string& container_id);

  // PodQuotaNotLifted.
  void QuotaNotLifted(const std::string& pod_uid, const Error& error,
                      const std::string& pod_name = "");
  // The pod has no quota any more.
  void QuotaSettled(const std::string& pod_uid);

  // PodQuotaNotRestored: the pod has no exclusive CPUs any more, and not its `quota`
  // (microseconds).
  void QuotaNotRestored(const Subject& pod, int64_t quota, const Error& error);
  // It has it, has exclusive CPUs again, or is gone.
  void QuotaRestored(const std::string& pod_uid);

  // PodQuotaRewritten: the pod's quota was lifted, or its shares were restored, more than `times`
  // times within `window`. `refused`: alignd has refused a resize of the pod within that time.
  void QuotaRewritten(const Subject& pod, size_t times, std::chrono::seconds window, bool refused);
  void QuotaLeftAlone(const std::string& pod_uid);

  // PodResizeRefused. `why` follows "it": "has 1 exclusive CPU (1), and ...".
  void ResizeRefused(const Subject& container, const std::string& why, const std::string& remedy);
  // The container has the size that its pod asks for.
  void ResizeSettled(const ContainerKey& container);

  // The UIDs of the pods with one of the four conditions above, or with AssignmentUnknown.
  std::set<std::string> PodsWithConditions() const;
  // Clears them: the pod is gone.
  void PodGone(const std::string& pod_uid);

  // RuntimeUnavailable. One of the last two follows each RuntimeAsked.
  void RuntimeAsked();
  // It has not answered for kAnswersWithin.
  void RuntimeIsSilent();
  void RuntimeAnswered();
  void RuntimeFailed(const Error& error);

  // ConflictingCPUManager. Signs with the same `key` are one condition.
  void SawConflictingManager(const std::string& key, const std::string& sign,
                             const std::string& remedy,
                             std::chrono::milliseconds lasts = kSignLasts);
  void SawConflictingManager(const std::string& sign, const std::string& remedy) {
    SawConflictingManager(sign, sign, remedy);
  }
  // The sign is gone. Does nothing if it was never seen.
  void ConflictingManagerGone(const std::string& key);
  // To be called regularly: clears the signs that have lasted their time.
  void DropExpired(Time now = std::chrono::system_clock::now());

  // UnmanagedContainer: all such containers that run now.
  void FoundUnmanaged(const std::vector<Subject>& containers);

  // UnsupportedAnnotation: all such annotations of pods that run now. By name one of the pods
  // (namespace/name) that have it.
  void FoundUnsupported(const std::map<std::string, std::string>& annotations);

  // ProcessOutsideCgroup: all such processes now.
  void FoundOutside(const std::vector<OutsideProcess>& processes);

  // ConflictingDevicePlugin: all such devices of containers that run now.
  void FoundPastMirror(const std::vector<PastMirror>& devices);

  // Sorted by type; CpusetRepaired by `last`, newest first.
  std::vector<Condition> Report(Time now = std::chrono::system_clock::now()) const;

 private:
  struct Begun {
    Time since;
    Subject container;
    std::string should;
    std::optional<Condition> logged;  // that the runtime does not answer
  };
  struct Entry {
    Condition condition;
    std::string cause{};      // CpusetUpdateFailed: the error
    std::string logged_as{};  // it is logged when this changes; empty: when the message does
    Time logged{};
    std::optional<Time> expires{};
  };
  using Key = std::pair<ConditionType, std::string>;
  using Entries = std::map<Key, Entry>;

  static bool IsAboutPod(ConditionType type) {
    return type == ConditionType::kPodQuotaNotLifted ||
           type == ConditionType::kPodQuotaNotRestored ||
           type == ConditionType::kPodQuotaRewritten || type == ConditionType::kPodResizeRefused ||
           type == ConditionType::kAssignmentUnknown;
  }
  // Adds the entry, or updates the one with that key: its `first` stays, and `times` grows by one.
  void Raise(const std::string& key, Entry entry) EXCLUDES(mutex_);
  void Clear(ConditionType type, const std::string& key) EXCLUDES(mutex_);
  // Clears all of this type whose key is not in `keys`.
  void ClearOthers(ConditionType type, const std::set<std::string>& keys) EXCLUDES(mutex_);
  void DropSurplus(ConditionType type) REQUIRES(mutex_);
  // Adds what the runtime has not answered in time.
  void AddUnanswered(Time now, Entries& entries) const REQUIRES(mutex_);

  std::atomic<uint64_t> repairs_ = 0;
  mutable Mutex mutex_;
  Entries entries_ GUARDED_BY(mutex_);
  std::map<std::string, Begun> begun_ GUARDED_BY(mutex_);    // updates, by container id
  bool answered_ GUARDED_BY(mutex_) = false;                 // the runtime, since alignd started
  std::optional<Time> asked_ GUARDED_BY(mutex_);             // unset: the runtime has answered
  std::optional<Time> publisher_called_ GUARDED_BY(mutex_);  // unset: never
};

}  // namespace alignd::reconcile
