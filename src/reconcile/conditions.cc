#include "reconcile/conditions.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace alignd::reconcile {
namespace {

using std::chrono::system_clock;

constexpr uint64_t kFailuresBetweenWords = 10;
constexpr std::chrono::hours kBetweenWords{1};

std::string Unanswered(Conditions::Time since, Conditions::Time now) {
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

void Conditions::Repaired(Repair repair) {
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

void Conditions::UpdateBegun(const Subject& container, const std::string& should) {
  const MutexLock lock(mutex_);
  begun_[container.container_id] = {system_clock::now(), container, should};
}

void Conditions::UpdateAnswered(const std::string& container_id) {
  const MutexLock lock(mutex_);
  begun_.erase(container_id);
}

void Conditions::UpdateFailed(const Subject& container, const std::string& should,
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

void Conditions::UpdateSettled(const std::string& container_id) {
  const MutexLock lock(mutex_);
  failed_.erase(container_id);
}

void Conditions::QuotaNotLifted(const std::string& pod_uid, const Error& error) {
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
    pod.remedy = error.remedy;
  }
  if (is_news) {
    spdlog::warn("pod {} has exclusive CPUs and is throttled by its CFS quota: {}", pod_uid,
                 error.Text());
  }
}

void Conditions::QuotaSettled(const std::string& pod_uid) {
  const MutexLock lock(mutex_);
  throttled_.erase(pod_uid);
}

std::set<std::string> Conditions::ThrottledPods() const {
  const MutexLock lock(mutex_);
  std::set<std::string> uids;
  for (const auto& [uid, pod] : throttled_) uids.insert(uid);
  return uids;
}

void Conditions::RuntimeAsked() {
  const MutexLock lock(mutex_);
  asked_ = system_clock::now();
}

void Conditions::RuntimeAnswered() {
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

void Conditions::RuntimeFailed(const Error& error) {
  bool say = false;
  {
    const MutexLock lock(mutex_);
    if (!outage_) outage_ = {asked_.value_or(system_clock::now()), {}, !answered_};
    say = std::exchange(outage_->error, error.Text()) != error.Text();
    asked_.reset();
  }
  if (say) spdlog::warn("cannot ask the runtime what runs: {}", error.Text());
}

void Conditions::SawConflictingManager(const std::string& key, const std::string& sign,
                                       const std::string& remedy, std::chrono::milliseconds lasts) {
  const Time now = system_clock::now();
  bool say = true;
  {
    const MutexLock lock(mutex_);
    if (!others_.contains(key) && others_.size() >= kOtherManagersKept) {
      others_.erase(std::ranges::min_element(others_, {},
                                             [](const auto& entry) { return entry.second.last; }));
    }
    ConflictingManager& other = others_[key];
    say = other.times == 0 || now - other.said >= kBetweenWords;
    if (say) other.said = now;
    if (other.times++ == 0) other.first = now;
    other.last = now;
    other.until = now + lasts;
    other.sign = sign;
    other.remedy = remedy;
  }
  if (say) spdlog::error("another CPU manager works on this node: {}; {}", sign, remedy);
}

void Conditions::ConflictingManagerGone(const std::string& key) {
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

void Conditions::DropExpired(Time now) {
  std::vector<std::string> over;
  {
    const MutexLock lock(mutex_);
    std::erase_if(others_, [&](const auto& entry) {
      const ConflictingManager& other = entry.second;
      if (other.until > now) return false;
      over.push_back(other.sign);
      return true;
    });
  }
  for (const std::string& sign : over) spdlog::info("not seen again for a while: {}", sign);
}

void Conditions::FoundUnmanaged(const std::vector<Subject>& containers) {
  std::vector<Subject> fresh;
  {
    const MutexLock lock(mutex_);
    std::map<std::string, Unmanaged> known = std::exchange(unmanaged_, {});
    for (const Subject& container : containers) {
      const auto before = known.find(container.container_id);
      if (before == known.end()) fresh.push_back(container);
      unmanaged_[container.container_id] = {
          before == known.end() ? system_clock::now() : before->second.since, container};
    }
  }
  for (const Subject& container : fresh) {
    spdlog::warn("{} was made past alignd, at the runtime itself: nothing is granted to it",
                 NameOf(container));
  }
}

void Conditions::FoundPastMirror(std::vector<PastMirror> devices) {
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

ConditionsSnapshot Conditions::Report(Time now) const {
  const MutexLock lock(mutex_);
  ConditionsSnapshot report{.repairs = repairs_,
                            .last_repairs = {newest_first_.begin(), newest_first_.end()},
                            .failed_updates = FailedUpdates(now),
                            .throttled_pods = {},
                            .conflicting_managers = {},
                            .runtime_outage = OutageOf(now),
                            .unmanaged = {},
                            .past_mirror = past_mirror_};
  for (const auto& [uid, pod] : throttled_) report.throttled_pods.push_back(pod);
  for (const auto& [sign, other] : others_) report.conflicting_managers.push_back(other);
  for (const auto& [id, unmanaged] : unmanaged_) report.unmanaged.push_back(unmanaged);
  return report;
}

std::vector<FailedUpdate> Conditions::FailedUpdates(Time now) const {
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

std::optional<RuntimeOutage> Conditions::OutageOf(Time now) const {
  if (outage_) return outage_;
  if (!asked_ || now - *asked_ < kAnswersWithin) return std::nullopt;
  return RuntimeOutage{*asked_, {}, !answered_};
}

}  // namespace alignd::reconcile
