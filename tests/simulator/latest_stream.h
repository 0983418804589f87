// A server stream of one value that changes. Every watcher gets the newest value; a slow watcher
// skips older ones.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <set>
#include <utility>

#include "sync/mutex.h"

namespace alignd::simulator {

// Thread-safe. Outlives the server on which it is watched.
template <typename Message>
class LatestStream {
 public:
  LatestStream() = default;
  LatestStream(const LatestStream&) = delete;
  LatestStream& operator=(const LatestStream&) = delete;

  void Set(Message message) {
    const MutexLock lock(mutex_);
    latest_ = std::move(message);
    for (Watcher* watcher : watchers_) Poke(*watcher);
  }

  // Ends all streams; the value stays.
  void End(const grpc::Status& status) {
    const MutexLock lock(mutex_);
    for (Watcher* watcher : watchers_) Finish(*watcher, status);
  }

  // Whether there is an open stream.
  bool IsWatched() const {
    const MutexLock lock(mutex_);
    return std::ranges::any_of(watchers_,
                               [](const Watcher* watcher) { return !watcher->finished; });
  }

  // For the handler of one call. Sends the value at once. Deletes itself.
  grpc::ServerWriteReactor<Message>* Watch() { return new Watcher(*this); }

 private:
  class Watcher final : public grpc::ServerWriteReactor<Message> {
   public:
    explicit Watcher(LatestStream& stream) : stream_(stream) {
      const MutexLock lock(stream_.mutex_);
      stream_.watchers_.insert(this);
      stream_.Poke(*this);
    }

    void OnWriteDone(bool ok) override {
      const MutexLock lock(stream_.mutex_);
      writing = false;
      if (!ok) {
        stream_.Finish(*this, grpc::Status::CANCELLED);
      } else if (stale) {
        stream_.Poke(*this);
      }
    }

    void OnCancel() override {
      const MutexLock lock(stream_.mutex_);
      stream_.Finish(*this, grpc::Status::CANCELLED);
    }

    void OnDone() override {
      {
        const MutexLock lock(stream_.mutex_);
        stream_.watchers_.erase(this);
      }
      delete this;
    }

    // All guarded by the stream's mutex.
    bool writing = false;
    bool stale = false;  // changed since the last message went out
    bool finished = false;
    Message message;

   private:
    LatestStream& stream_;
  };

  // Sends the current value, at the latest after the message that is being sent.
  void Poke(Watcher& watcher) REQUIRES(mutex_) {
    watcher.stale = true;
    if (watcher.writing || watcher.finished) return;
    watcher.stale = false;
    watcher.writing = true;
    watcher.message = latest_;
    watcher.StartWrite(&watcher.message);
  }

  void Finish(Watcher& watcher, const grpc::Status& status) REQUIRES(mutex_) {
    if (!std::exchange(watcher.finished, true)) watcher.Finish(status);
  }

  mutable Mutex mutex_;
  Message latest_ GUARDED_BY(mutex_);
  std::set<Watcher*> watchers_ GUARDED_BY(mutex_);
};

}  // namespace alignd::simulator
