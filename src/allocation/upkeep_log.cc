#include "allocation/upkeep_log.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace alignd::allocation {
namespace {

using std::chrono::system_clock;

constexpr uint64_t kFailuresBetweenWords = 10;
constexpr std::chrono::hours kBetweenWords{1};

std::string Unanswered(UpkeepLog::Time since, UpkeepLog::Time now) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - since);
  return "the runtime has not answered for " + std::to_string(seconds.count()) + " s";
}

}  // namespace

std::string NameOf(const Subject& container) {
  return "container " + container.key.container + " of pod " +
         (container.pod.empty() ? container.key.pod_uid : container.pod);
}

std::string DescribePastMirror(const PastMirror& devices) {
  std::string text = devices.resource;
  for (const std::string& id : devices.ids) text += " " + id;
  return text +
         " from a plugin that is registered with the kubelet itself, beside alignd, which knows "
         "nothing of it and may give it to others";
}

void UpkeepLog::Repaired(Repair repair) {
  spdlog::warn(
      "{} was moved by somebody else to {}; it is on {} again, within {} ms of that being noticed "
      "(it was last seen to be right {} ms ago)",
      NameOf(repair.container), repair.was, repair.should, repair.noticed.count(),
      repair.lasted.count());
  const MutexLock lock(mutex_);
  ++repairs_;
  newest_first_.push_front(std::move(repair));
  if (newest_first_.size() > kRepairsKept) newest_first_.pop_back();
}

void UpkeepLog::UpdateBegun(const Subject& container, const std::string& should) {
  const MutexLock lock(mutex_);
  begun_[container.container_id] = {system_clock::now(), container, should};
}

void UpkeepLog::UpdateAnswered(const std::string& container_id) {
  const MutexLock lock(mutex_);
  begun_.erase(container_id);
}

void UpkeepLog::UpdateFailed(const Subject& container, const std::string& should,
                             const Error& error) {
  uint64_t times = 0;
  {
    const MutexLock lock(mutex_);
    FailedUpdate& failed = failed_[container.container_id];
    if (failed.times == 0) {
      const auto begun = begun_.find(container.container_id);
      failed.since = begun == begun_.end() ? system_clock::now() : begun->second.since;
    }
    failed.container = container;
    failed.should = should;
    failed.error = error.Text();
    times = ++failed.times;
  }
  if (times % kFailuresBetweenWords == 1) {
    spdlog::warn("{} could not be moved to {}: {} (attempt {}, goes on)", NameOf(container), should,
                 error.Text(), times);
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

void UpkeepLog::AsksRuntime() {
  const MutexLock lock(mutex_);
  asked_ = system_clock::now();
}

void UpkeepLog::RuntimeAnswered() {
  bool again = false;
  {
    const MutexLock lock(mutex_);
    answered_ = true;
    asked_.reset();
    again = outage_.has_value();
    outage_.reset();
  }
  if (again) spdlog::info("the runtime answers again");
}

void UpkeepLog::RuntimeFailed(const Error& error) {
  bool say = false;
  {
    const MutexLock lock(mutex_);
    if (!outage_) outage_ = {asked_.value_or(system_clock::now()), {}, !answered_};
    say = std::exchange(outage_->error, error.Text()) != error.Text();
    asked_.reset();
  }
  if (say) spdlog::warn("cannot ask the runtime what runs: {}", error.Text());
}

void UpkeepLog::SawOtherManager(const std::string& key, const std::string& sign,
                                const std::string& cure, std::chrono::milliseconds lasts) {
  const Time now = system_clock::now();
  bool say = true;
  {
    const MutexLock lock(mutex_);
    if (!others_.contains(key) && others_.size() >= kOtherManagersKept) {
      others_.erase(std::ranges::min_element(others_, {},
                                             [](const auto& entry) { return entry.second.last; }));
    }
    OtherManager& other = others_[key];
    say = other.times == 0 || now - other.said >= kBetweenWords;
    if (say) other.said = now;
    if (other.times++ == 0) other.first = now;
    other.last = now;
    other.until = now + lasts;
    other.sign = sign;
    other.cure = cure;
  }
  if (say) spdlog::error("another CPU manager works on this node: {}; {}", sign, cure);
}

void UpkeepLog::OtherManagerGone(const std::string& key) {
  std::string sign;
  {
    const MutexLock lock(mutex_);
    const auto other = others_.find(key);
    if (other == others_.end()) return;
    sign = std::move(other->second.sign);
    others_.erase(other);
  }
  spdlog::info("no longer so: {}", sign);
}

void UpkeepLog::DropOldSigns(Time now) {
  std::vector<std::string> over;
  {
    const MutexLock lock(mutex_);
    std::erase_if(others_, [&](const auto& entry) {
      const OtherManager& other = entry.second;
      if (other.until > now) return false;
      over.push_back(other.sign);
      return true;
    });
  }
  for (const std::string& sign : over) spdlog::info("not seen again for a while: {}", sign);
}

void UpkeepLog::MadePastUs(const std::vector<Subject>& containers) {
  std::vector<Subject> fresh;
  {
    const MutexLock lock(mutex_);
    std::map<std::string, Unplaced> known = std::exchange(unplaced_, {});
    for (const Subject& container : containers) {
      const auto before = known.find(container.container_id);
      if (before == known.end()) fresh.push_back(container);
      unplaced_[container.container_id] = {
          before == known.end() ? system_clock::now() : before->second.since, container};
    }
  }
  for (const Subject& container : fresh) {
    spdlog::warn("{} was made past alignd, at the runtime itself: nothing is granted to it",
                 NameOf(container));
  }
}

void UpkeepLog::GotPastMirror(std::vector<PastMirror> devices) {
  std::vector<PastMirror> fresh;
  {
    const MutexLock lock(mutex_);
    for (PastMirror& found : devices) {
      const auto before = std::ranges::find_if(past_mirror_, [&found](const PastMirror& known) {
        return known.container.container_id == found.container.container_id &&
               known.resource == found.resource;
      });
      found.since = before == past_mirror_.end() ? system_clock::now() : before->since;
      if (before == past_mirror_.end()) fresh.push_back(found);
    }
    past_mirror_ = std::move(devices);
  }
  for (const PastMirror& found : fresh) {
    spdlog::error("{} has {}; {}", NameOf(found.container), DescribePastMirror(found),
                  kOneDevicePlugin);
  }
}

UpkeepReport UpkeepLog::Report(Time now) const {
  const MutexLock lock(mutex_);
  UpkeepReport report{.repairs = repairs_,
                      .last_repairs = {newest_first_.begin(), newest_first_.end()},
                      .failed_updates = FailedUpdates(now),
                      .throttled_pods = {},
                      .other_managers = {},
                      .runtime_outage = OutageOf(now),
                      .unplaced = {},
                      .past_mirror = past_mirror_};
  for (const auto& [uid, pod] : throttled_) report.throttled_pods.push_back(pod);
  for (const auto& [sign, other] : others_) report.other_managers.push_back(other);
  for (const auto& [id, unplaced] : unplaced_) report.unplaced.push_back(unplaced);
  return report;
}

std::vector<FailedUpdate> UpkeepLog::FailedUpdates(Time now) const {
  std::map<std::string, FailedUpdate> failed = failed_;
  for (const auto& [id, begun] : begun_) {
    if (now - begun.since < kAnswersWithin) continue;
    FailedUpdate& update = failed[id];
    if (update.times == 0) update.since = begun.since;
    update.container = begun.container;
    update.should = begun.should;
    update.error += (update.error.empty() ? "" : "; now ") + Unanswered(begun.since, now);
  }
  std::vector<FailedUpdate> updates;
  for (auto& [id, update] : failed) updates.push_back(std::move(update));
  return updates;
}

std::optional<RuntimeOutage> UpkeepLog::OutageOf(Time now) const {
  if (outage_) return outage_;
  if (!asked_ || now - *asked_ < kAnswersWithin) return std::nullopt;
  return RuntimeOutage{*asked_, {}, !answered_};
}

}  // namespace alignd::allocation
