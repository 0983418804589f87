// A stream of one value that changes. Every watcher gets the newest value; a slow watcher skips
// older ones.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "proxy/message_stream.h"
#include "sync/mutex.h"

namespace alignd::service {

// Thread-safe.
class LatestMessage {
 public:
  // `message`: its bytes. A watcher gets nothing before the first one.
  void Set(std::string message) { value_->Set(std::move(message)); }

  // Whether there is an open stream.
  bool IsWatched() const { return value_->IsWatched(); }

  // The answer to one call.
  std::shared_ptr<proxy::MessageStream> Watch() const { return std::make_shared<Watcher>(value_); }

 private:
  class Watcher;

  // Shared with the watchers, which may outlive this object. Thread-safe.
  class Value {
   public:
    void Set(std::string message) {
      const MutexLock lock(mutex_);
      message_ = std::make_shared<const std::string>(std::move(message));
      ++version_;
      for (const Watcher* watcher : watchers_) watcher->Wake();
    }
    bool IsWatched() const {
      const MutexLock lock(mutex_);
      return !watchers_.empty();
    }
    void Add(const Watcher& watcher) {
      const MutexLock lock(mutex_);
      watchers_.insert(&watcher);
    }
    void Remove(const Watcher& watcher) {
      const MutexLock lock(mutex_);
      watchers_.erase(&watcher);
    }
    // The message, if `seen` is not its version; then `seen` is.
    std::shared_ptr<const std::string> Newer(uint64_t& seen) const {
      const MutexLock lock(mutex_);
      return std::exchange(seen, version_) == version_ ? nullptr : message_;
    }

   private:
    mutable Mutex mutex_;
    std::shared_ptr<const std::string> message_ GUARDED_BY(mutex_);
    uint64_t version_ GUARDED_BY(mutex_) = 0;
    std::set<const Watcher*> watchers_ GUARDED_BY(mutex_);
  };

  class Watcher final : public proxy::MessageStream {
   public:
    explicit Watcher(std::shared_ptr<Value> value) : value_(std::move(value)) {}
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;
    ~Watcher() override { value_->Remove(*this); }

    void Follow(std::function<void()> wake) override {
      wake_ = std::move(wake);
      value_->Add(*this);
    }
    std::optional<std::string> Next() override {
      const std::shared_ptr<const std::string> newer = value_->Newer(seen_);
      return newer ? std::optional(*newer) : std::nullopt;
    }
    // Once it is followed.
    void Wake() const { wake_(); }

   private:
    const std::shared_ptr<Value> value_;
    std::function<void()> wake_;
    uint64_t seen_ = 0;
  };

  const std::shared_ptr<Value> value_ = std::make_shared<Value>();
};

}  // namespace alignd::service
