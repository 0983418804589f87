// A unary call that is answered later, from another thread.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "sync/mutex.h"

namespace alignd::rpc {

// Finishes the call once: by the first Finish, or by the end of the call. Thread-safe.
class PendingAnswer {
 public:
  explicit PendingAnswer(grpc::ServerUnaryReactor* reactor) : reactor_(reactor) {}

  // `fill` writes the response. It does not run if the call has ended.
  void Finish(const grpc::Status& status, const std::function<void()>& fill = {}) {
    grpc::ServerUnaryReactor* reactor = nullptr;
    {
      const MutexLock lock(mutex_);
      std::swap(reactor, reactor_);
    }
    if (reactor == nullptr) return;
    if (fill) fill();  // the response exists until the reactor is finished
    reactor->Finish(status);
  }

 private:
  Mutex mutex_;
  grpc::ServerUnaryReactor* reactor_ GUARDED_BY(mutex_);
};

// The reactor of such a call; deletes itself at its end.
class PendingReactor final : public grpc::ServerUnaryReactor {
 public:
  PendingReactor() : answer_(std::make_shared<PendingAnswer>(this)) {}

  const std::shared_ptr<PendingAnswer>& answer() const { return answer_; }

  void OnCancel() override { answer_->Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<PendingAnswer> answer_;
};

}  // namespace alignd::rpc
