// What it takes to keep containers where they were granted to be, and unthrottled there: repairs,
// updates that the runtime would not take, quotas that stay, a runtime that does not answer, and
// other programs that do our work. For those who ask later.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "sync/mutex.h"

namespace alignd::reconcile {

// Whom a note is about. A value.
struct Subject {
  std::string container_id;
  ContainerKey key;
  std::string pod{};  // namespace/name; empty where it is not known
};

// "container app of pod default/web"; by UID where that is all that is known.
std::string NameOf(const Subject& container);

// A cpuset that somebody else had changed and that is again what it should be. A value.
struct Repair {
  std::chrono::system_clock::time_point time;  // when it was right again
  Subject container;
  std::string was;                       // "CPUs 0-27, memory nodes 0-1"
  std::string should;                    // likewise
  std::chrono::milliseconds noticed{0};  // from when it was first seen to be wrong until `time`
  std::chrono::milliseconds lasted{0};   // from when it was last seen to be right; an upper bound
};

// A container that could not be told its CPUs. A value.
struct FailedUpdate {
  std::chrono::system_clock::time_point since;
  Subject container;
  std::string should;  // as in Repair
  std::string error;
  uint64_t times = 0;  // in a row; 0: the runtime has not answered the first time
};

// The runtime does not say what runs. A value.
struct RuntimeOutage {
  std::chrono::system_clock::time_point since;  // it was asked in vain for the first time
  std::string error;                            // empty: it has not answered yet
  bool never_answered = false;                  // in this life of ours
};

// A pod with exclusive CPUs whose cgroup has a CFS quota that could not be lifted. A value.
struct ThrottledPod {
  std::chrono::system_clock::time_point since;
  std::string pod_uid;
  std::string error;
  std::string remedy;
  uint64_t times = 0;  // that it was tried, with this error
};

// A sign that somebody else manages CPUs on this node. A value.
struct ConflictingManager {
  std::chrono::system_clock::time_point first;
  std::chrono::system_clock::time_point last;
  std::string sign;
  std::string remedy;
  uint64_t times = 0;
  std::chrono::system_clock::time_point said;   // in our log
  std::chrono::system_clock::time_point until;  // then it is over, unless it is seen again
};

// A container that somebody made at the runtime itself, so that nothing was granted to it. A value.
struct Unmanaged {
  std::chrono::system_clock::time_point since;  // it was found
  Subject container;
};

// Devices of a mirrored resource that a container has from another plugin than the mirror. A value.
struct PastMirror {
  std::chrono::system_clock::time_point since;  // it was found
  Subject container;
  std::string resource;
  std::set<std::string> ids;
};

// "example.com/gpu gpu0 gpu1 from a plugin that ...", and the remedy.
std::string DescribePastMirror(const PastMirror& devices);
inline constexpr char kOneDevicePlugin[] =
    "let the plugin reach alignd's device plugin directory alone, and restart alignd, which takes "
    "over what the container has, and whose offer the kubelet takes anew then";

struct ConditionsSnapshot {
  uint64_t repairs = 0;              // in this life of ours
  std::vector<Repair> last_repairs;  // newest first
  std::vector<FailedUpdate> failed_updates;
  std::vector<ThrottledPod> throttled_pods;
  std::vector<ConflictingManager> conflicting_managers;
  std::optional<RuntimeOutage> runtime_outage;
  std::vector<Unmanaged> unmanaged;  // in id order
  std::vector<PastMirror> past_mirror;
};

// Thread-safe. Writes to the log as well.
class Conditions {
 public:
  using Time = std::chrono::system_clock::time_point;

  static constexpr size_t kRepairsKept = 64;
  static constexpr size_t kOtherManagersKept = 64;  // the oldest goes first
  // An answer of the runtime that takes longer is worth a word.
  static constexpr std::chrono::seconds kAnswersWithin{3};
  // A sign that is not seen again for so long is over, unless its finder knows better.
  static constexpr std::chrono::minutes kSignLasts{10};

  Conditions() = default;
  Conditions(const Conditions&) = delete;
  Conditions& operator=(const Conditions&) = delete;

  void Repaired(Repair repair);

  // Around each update, whatever comes of it; UpdateFailed comes before UpdateAnswered.
  void UpdateBegun(const Subject& container, const std::string& should);
  void UpdateAnswered(const std::string& container_id);
  // Logged at the first failure and at every tenth.
  void UpdateFailed(const Subject& container, const std::string& should, const Error& error);
  // It was told, or needs not be told any more.
  void UpdateSettled(const std::string& container_id);

  // The pod's quota could not be lifted. Logged when the error is another one than the last time.
  void QuotaNotLifted(const std::string& pod_uid, const Error& error);
  // It has none any more, or is gone.
  void QuotaSettled(const std::string& pod_uid);
  std::set<std::string> ThrottledPods() const;

  // The runtime is being asked what runs; one of the others follows.
  void RuntimeAsked();
  void RuntimeAnswered();
  // Logged once per outage, and when the reason changes.
  void RuntimeFailed(const Error& error);

  // Logged as an error when it is seen first, and again after an hour. Signs of one `key` are one,
  // though what they say may change.
  void SawConflictingManager(const std::string& key, const std::string& sign,
                             const std::string& remedy,
                             std::chrono::milliseconds lasts = kSignLasts);
  void SawConflictingManager(const std::string& sign, const std::string& remedy) {
    SawConflictingManager(sign, sign, remedy);
  }
  // The reason for a sign is gone; nothing if it was never seen.
  void ConflictingManagerGone(const std::string& key);
  // Call now and then: drops the signs that are over, and says so.
  void DropExpired(Time now = std::chrono::system_clock::now());

  // All of them that run. Each is logged once.
  void FoundUnmanaged(const std::vector<Subject>& containers);

  // All of them that run. Each is logged once.
  void FoundPastMirror(std::vector<PastMirror> devices);

  ConditionsSnapshot Report(Time now = std::chrono::system_clock::now()) const;

 private:
  struct Begun {
    Time since;
    Subject container;
    std::string should;
  };

  std::vector<FailedUpdate> FailedUpdates(Time now) const REQUIRES(mutex_);
  std::optional<RuntimeOutage> OutageOf(Time now) const REQUIRES(mutex_);

  mutable Mutex mutex_;
  uint64_t repairs_ GUARDED_BY(mutex_) = 0;
  std::deque<Repair> newest_first_ GUARDED_BY(mutex_);
  std::map<std::string, Begun> begun_ GUARDED_BY(mutex_);                // by container id
  std::map<std::string, FailedUpdate> failed_ GUARDED_BY(mutex_);        // by container id
  std::map<std::string, ThrottledPod> throttled_ GUARDED_BY(mutex_);     // by pod UID
  std::map<std::string, ConflictingManager> others_ GUARDED_BY(mutex_);  // by key
  bool answered_ GUARDED_BY(mutex_) = false;                             // the runtime, ever
  std::optional<Time> asked_ GUARDED_BY(mutex_);                         // and not answered yet
  std::optional<RuntimeOutage> outage_ GUARDED_BY(mutex_);
  std::map<std::string, Unmanaged> unmanaged_ GUARDED_BY(mutex_);  // by container id
  std::vector<PastMirror> past_mirror_ GUARDED_BY(mutex_);
};

}  // namespace alignd::reconcile
