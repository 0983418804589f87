#include "allocation/upkeep_log.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace alignd::allocation {
namespace {

constexpr uint64_t kFailuresBetweenWords = 10;
constexpr std::chrono::hours kBetweenWords{1};

std::string NameOf(const ContainerKey& key) { return key.container + " of pod " + key.pod_uid; }

}  // namespace

void UpkeepLog::Repaired(Repair repair) {
  spdlog::warn("container {} ({}) was moved by somebody else to {}; it is on {} again after {} ms",
               repair.container_id, NameOf(repair.key), repair.was, repair.should,
               repair.lasted.count());
  const MutexLock lock(mutex_);
  ++repairs_;
  newest_first_.push_front(std::move(repair));
  if (newest_first_.size() > kRepairsKept) newest_first_.pop_back();
}

void UpkeepLog::UpdateFailed(const std::string& container_id, const ContainerKey& key,
                             const std::string& should, const Error& error) {
  uint64_t times = 0;
  {
    const MutexLock lock(mutex_);
    FailedUpdate& failed = failed_[container_id];
    if (failed.times == 0) failed.since = std::chrono::system_clock::now();
    failed.container_id = container_id;
    failed.key = key;
    failed.should = should;
    failed.error = error.Text();
    times = ++failed.times;
  }
  if (times % kFailuresBetweenWords == 1) {
    spdlog::warn("container {} ({}) could not be moved to {}: {} (attempt {}, goes on)",
                 container_id, NameOf(key), should, error.Text(), times);
  }
}

void UpkeepLog::UpdateSettled(const std::string& container_id) {
  const MutexLock lock(mutex_);
  failed_.erase(container_id);
}

void UpkeepLog::QuotaStays(const std::string& pod_uid, const Error& error) {
  bool is_news = false;
  {
    const MutexLock lock(mutex_);
    ThrottledPod& pod = throttled_[pod_uid];
    is_news = pod.times == 0 || pod.error != error.message;
    if (pod.times == 0) pod.since = std::chrono::system_clock::now();
    if (is_news) pod.times = 0;
    ++pod.times;
    pod.pod_uid = pod_uid;
    pod.error = error.message;
    pod.cure = error.cure;
  }
  if (is_news) {
    spdlog::warn("pod {} has exclusive CPUs and is throttled by its CFS quota: {}", pod_uid,
                 error.Text());
  }
}

void UpkeepLog::QuotaSettled(const std::string& pod_uid) {
  const MutexLock lock(mutex_);
  throttled_.erase(pod_uid);
}

std::set<std::string> UpkeepLog::ThrottledPods() const {
  const MutexLock lock(mutex_);
  std::set<std::string> uids;
  for (const auto& [uid, pod] : throttled_) uids.insert(uid);
  return uids;
}

void UpkeepLog::SawOtherManager(const std::string& sign, const std::string& cure) {
  const auto now = std::chrono::system_clock::now();
  bool say = true;
  {
    const MutexLock lock(mutex_);
    if (!others_.contains(sign) && others_.size() >= kOtherManagersKept) {
      others_.erase(std::ranges::min_element(others_, {},
                                             [](const auto& entry) { return entry.second.last; }));
    }
    OtherManager& other = others_[sign];
    say = other.times == 0 || now - other.said >= kBetweenWords;
    if (say) other.said = now;
    if (other.times++ == 0) other.first = now;
    other.last = now;
    other.sign = sign;
    other.cure = cure;
  }
  if (say) spdlog::error("another CPU manager works on this node: {}; {}", sign, cure);
}

UpkeepReport UpkeepLog::Report() const {
  const MutexLock lock(mutex_);
  UpkeepReport report{.repairs = repairs_,
                      .last_repairs = {newest_first_.begin(), newest_first_.end()},
                      .failed_updates = {},
                      .throttled_pods = {},
                      .other_managers = {}};
  for (const auto& [id, failed] : failed_) report.failed_updates.push_back(failed);
  for (const auto& [uid, pod] : throttled_) report.throttled_pods.push_back(pod);
  for (const auto& [sign, other] : others_) report.other_managers.push_back(other);
  return report;
}

}  // namespace alignd::allocation
