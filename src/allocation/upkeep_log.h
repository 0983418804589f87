// What it takes to keep containers where they were granted to be, and unthrottled there: repairs,
// updates that the runtime would not take, quotas that stay, and other programs that do our work.
// For those who ask later.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "sync/mutex.h"

namespace alignd::allocation {

// A cpuset that somebody else had changed and that is again what it should be. A value.
struct Repair {
  std::chrono::system_clock::time_point time;  // when it was right again
  std::string container_id;
  ContainerKey key;
  std::string was;                      // "CPUs 0-27, memory nodes 0-1"
  std::string should;                   // likewise
  std::chrono::milliseconds lasted{0};  // at most: since it was last seen to be right
};

// A container that could not be told its CPUs. A value.
struct FailedUpdate {
  std::chrono::system_clock::time_point since;
  std::string container_id;
  ContainerKey key;
  std::string should;  // as in Repair
  std::string error;
  uint64_t times = 0;  // in a row
};

// A pod with exclusive CPUs whose cgroup has a CFS quota that could not be lifted. A value.
struct ThrottledPod {
  std::chrono::system_clock::time_point since;
  std::string pod_uid;
  std::string error;
  std::string cure;
  uint64_t times = 0;  // that it was tried, with this error
};

// A sign that somebody else manages CPUs on this node. A value.
struct OtherManager {
  std::chrono::system_clock::time_point first;
  std::chrono::system_clock::time_point last;
  std::string sign;
  std::string cure;
  uint64_t times = 0;
  std::chrono::system_clock::time_point said;  // in our log
};

struct UpkeepReport {
  uint64_t repairs = 0;              // in this life of ours
  std::vector<Repair> last_repairs;  // newest first
  std::vector<FailedUpdate> failed_updates;
  std::vector<ThrottledPod> throttled_pods;
  std::vector<OtherManager> other_managers;
};

// Thread-safe. Writes to the log as well.
class UpkeepLog {
 public:
  static constexpr size_t kRepairsKept = 64;
  static constexpr size_t kOtherManagersKept = 64;  // the oldest goes first

  UpkeepLog() = default;
  UpkeepLog(const UpkeepLog&) = delete;
  UpkeepLog& operator=(const UpkeepLog&) = delete;

  void Repaired(Repair repair);

  // Logged at the first failure and at every tenth.
  void UpdateFailed(const std::string& container_id, const ContainerKey& key,
                    const std::string& should, const Error& error);
  // It was told, or needs not be told any more.
  void UpdateSettled(const std::string& container_id);

  // The pod's quota could not be lifted. Logged when the error is another one than the last time.
  void QuotaStays(const std::string& pod_uid, const Error& error);
  // It has none any more, or is gone.
  void QuotaSettled(const std::string& pod_uid);
  std::set<std::string> ThrottledPods() const;

  // Logged as an error when it is seen first, and again after an hour.
  void SawOtherManager(const std::string& sign, const std::string& cure);

  UpkeepReport Report() const;

 private:
  mutable Mutex mutex_;
  uint64_t repairs_ GUARDED_BY(mutex_) = 0;
  std::deque<Repair> newest_first_ GUARDED_BY(mutex_);
  std::map<std::string, FailedUpdate> failed_ GUARDED_BY(mutex_);     // by container id
  std::map<std::string, ThrottledPod> throttled_ GUARDED_BY(mutex_);  // by pod UID
  std::map<std::string, OtherManager> others_ GUARDED_BY(mutex_);     // by sign
};

}  // namespace alignd::allocation
