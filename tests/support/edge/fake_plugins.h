// Device plugins in the test's process, which answer on a thread of their own.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "allocation/device_plugins.h"
#include "sync/mutex.h"
#include "sync/task_queue.h"

namespace alignd::testing {

// Thread-safe. Answers every Allocate with AnswerTo, unless Fail was called.
class FakePlugins final : public allocation::DevicePlugins {
 public:
  // The answer for these devices.
  static std::string AnswerTo(const std::string& resource, const std::vector<std::string>& ids) {
    std::string answer = resource + ":";
    for (const std::string& id : ids) answer += " " + id;
    return answer;
  }

  // Allocate of that resource fails from now on; nullopt: works again.
  void Fail(const std::string& resource, std::optional<Error> error) {
    const MutexLock lock(mutex_);
    if (error) {
      faults_.insert_or_assign(resource, *error);
    } else {
      faults_.erase(resource);
    }
  }

  // Every answer is that much longer from now on.
  void Pad(size_t bytes) {
    const MutexLock lock(mutex_);
    padding_ = bytes;
  }

  // The plugin's preference: called on the fake's thread; without one there is no preference.
  using Preference =
      std::function<std::optional<std::vector<std::string>>(const devicemanager::PreferenceQuery&)>;
  void Prefer(Preference preference) {
    const MutexLock lock(mutex_);
    preference_ = std::move(preference);
  }

  // Delays answers until LetGo.
  void Hold() {
    const MutexLock lock(mutex_);
    delaying_ = true;
  }
  void LetGo() {
    const MutexLock lock(mutex_);
    delaying_ = false;
    for (TaskQueue::Task& answer : delayed_) answers_.Post(std::move(answer));
    delayed_.clear();
  }
  // Returns when that many answers are delayed.
  void AwaitHeld(size_t count) {
    const MutexLock lock(mutex_);
    while (delayed_.size() < count) more_delayed_.Wait(mutex_);
  }

  // How often Allocate was called, and how often a preference was asked for.
  int allocations() const {
    const MutexLock lock(mutex_);
    return allocations_;
  }
  int consultations() const {
    const MutexLock lock(mutex_);
    return consultations_;
  }

  void Allocate(const std::string& resource, std::vector<std::string> ids,
                std::function<void(Result<std::string>)> done) override {
    const MutexLock lock(mutex_);
    ++allocations_;
    Answer([this, resource, ids = std::move(ids), done = std::move(done)] {
      std::optional<Error> fault;
      size_t padding = 0;
      {
        const MutexLock inner(mutex_);
        const auto found = faults_.find(resource);
        if (found != faults_.end()) fault = found->second;
        padding = padding_;
      }
      done(fault ? Result<std::string>(*fault)
                 : AnswerTo(resource, ids) + std::string(padding, 'x'));
    });
  }

  void GetPreferredAllocation(
      const devicemanager::PreferenceQuery& query,
      std::function<void(std::optional<std::vector<std::string>>)> done) override {
    const MutexLock lock(mutex_);
    ++consultations_;
    Answer([this, query, done = std::move(done)] {
      Preference preference;
      {
        const MutexLock inner(mutex_);
        preference = preference_;
      }
      done(preference ? preference(query) : std::nullopt);
    });
  }

  void PreStartContainer(const std::string&, std::vector<std::string>,
                         std::function<void(Result<Done>)> done) override {
    const MutexLock lock(mutex_);
    Answer([done = std::move(done)] { done(Done{}); });
  }

  // The resource's plugin is awaited from now on, or no longer.
  void Await(const std::string& resource, bool awaited) {
    const MutexLock lock(mutex_);
    if (awaited) {
      awaited_.insert(resource);
    } else {
      awaited_.erase(resource);
    }
  }
  std::optional<Error> Awaited(const std::string& resource) const override {
    const MutexLock lock(mutex_);
    if (!awaited_.contains(resource)) return std::nullopt;
    return Error{ErrorCode::kUnavailable, resource + ": awaited"};
  }

 private:
  void Answer(TaskQueue::Task task) REQUIRES(mutex_) {
    if (!delaying_) {
      answers_.Post(std::move(task));
      return;
    }
    delayed_.push_back(std::move(task));
    more_delayed_.NotifyAll();
  }

  mutable Mutex mutex_;
  CondVar more_delayed_;
  bool delaying_ GUARDED_BY(mutex_) = false;
  std::vector<TaskQueue::Task> delayed_ GUARDED_BY(mutex_);
  std::map<std::string, Error> faults_ GUARDED_BY(mutex_);
  std::set<std::string> awaited_ GUARDED_BY(mutex_);
  Preference preference_ GUARDED_BY(mutex_);
  size_t padding_ GUARDED_BY(mutex_) = 0;
  int allocations_ GUARDED_BY(mutex_) = 0;
  int consultations_ GUARDED_BY(mutex_) = 0;
  TaskQueue answers_{"fake-plugins"};  // last: its tasks use the others
};

}  // namespace alignd::testing
