#include <grpcpp/client_context.h>

#include <optional>
#include <utility>

#include "cri/forwarder_calls.h"
#include "cri/forwarder_metadata.h"
#include "sync/mutex.h"

namespace alignd::cri {
namespace {

// Thread-safe: gRPC runs the reactions of both halves on many threads.
//
// Life: each half, the caller's in front and the runtime's behind, keeps the call alive until gRPC
// is done with it. The front is done after Finish, the back when the runtime's status is there.
class UnaryCall : public std::enable_shared_from_this<UnaryCall> {
 public:
  UnaryCall(const ForwarderContext& context, grpc::GenericCallbackServerContext& caller,
            std::shared_ptr<CallHandler> handler)
      : counted_(context.count),
        caller_(caller),
        stub_(context.runtime),
        handler_(std::move(handler)) {}
  UnaryCall(const UnaryCall&) = delete;
  UnaryCall& operator=(const UnaryCall&) = delete;

  grpc::ServerGenericBidiReactor* Start() {
    front_life_ = shared_from_this();
    MutexLock lock(mutex_);
    front_.StartRead(&request_);
    return &front_;
  }

  // The handler's answer; nothing happens after the first, or when the caller has gone.
  void Decide(CallHandler::Decision decision) {
    MutexLock lock(mutex_);
    if (state_ == State::kAsking) {
      // OnRequest has not returned, and OnResponse must not overtake it.
      state_ = State::kDecided;
      decision_ = std::move(decision);
    } else if (state_ == State::kWaiting) {
      Apply(std::move(decision));
    }
  }

 private:
  // What the call is waiting for, as far as the front is concerned.
  enum class State {
    kReading,    // the message
    kAsking,     // OnRequest is running
    kDecided,    // OnRequest is running and has decided
    kWaiting,    // the decision
    kForwarded,  // the runtime
    kFinished,   // nothing: the caller has its status
  };

  class Front final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Front(UnaryCall& call) : call_(call) {}
    void OnReadDone(bool ok) override { call_.RequestArrived(ok); }
    void OnCancel() override { call_.CallerCancelled(); }
    void OnDone() override { const std::shared_ptr<UnaryCall> life = std::move(call_.front_life_); }

   private:
    UnaryCall& call_;
  };

  class Back final : public grpc::ClientUnaryReactor {
   public:
    explicit Back(UnaryCall& call) : call_(call) {}
    void OnReadInitialMetadataDone(bool ok) override {
      if (ok) call_.HeadersArrived();
    }
    void OnDone(const grpc::Status& status) override {
      const std::shared_ptr<UnaryCall> life = std::move(call_.back_life_);
      call_.RuntimeFinished(status);
    }

   private:
    UnaryCall& call_;
  };

  void RequestArrived(bool ok) {
    grpc::ByteBuffer request;
    {
      MutexLock lock(mutex_);
      if (state_ == State::kFinished) return;
      if (!ok) {
        // Either the caller has gone, which CallerCancelled deals with, or its message is too long,
        // which gRPC has said, or there is no message.
        if (!caller_.IsCancelled()) {
          Finish({grpc::StatusCode::INTERNAL, caller_.method() + " without a request"});
        }
        return;
      }
      if (handler_ == nullptr) {
        StartBack();
        return;
      }
      state_ = State::kAsking;
      request = std::exchange(request_, grpc::ByteBuffer());
    }
    handler_->OnRequest(std::move(request), MakeDecide());
    MutexLock lock(mutex_);
    if (state_ == State::kDecided) {
      Apply(*std::exchange(decision_, std::nullopt));
    } else if (state_ == State::kAsking) {
      state_ = State::kWaiting;
    }
  }

  std::function<void(CallHandler::Decision)> MakeDecide();

  void Apply(CallHandler::Decision decision) REQUIRES(mutex_) {
    if (const auto* status = std::get_if<grpc::Status>(&decision)) {
      Finish(*status);
      return;
    }
    request_ = std::get<grpc::ByteBuffer>(std::move(decision));
    StartBack();
  }

  void StartBack() REQUIRES(mutex_) {
    state_ = State::kForwarded;
    ForEachForwarded(caller_.client_metadata(), [this](std::string key, std::string value) {
      runtime_.AddMetadata(key, value);
    });
    runtime_.set_deadline(caller_.raw_deadline());
    stub_->PrepareUnaryCall(&runtime_, caller_.method(), {}, &request_, &answer_, &back_);
    back_life_ = shared_from_this();
    back_.StartCall();
  }

  void HeadersArrived() {
    MutexLock lock(mutex_);
    ForEachForwarded(
        runtime_.GetServerInitialMetadata(),
        [this](std::string key, std::string value) { caller_.AddInitialMetadata(key, value); });
  }

  void RuntimeFinished(grpc::Status status) {
    if (status.ok() && !answer_.Valid()) {
      status = {grpc::StatusCode::INTERNAL,
                "the runtime answered " + caller_.method() + " with nothing"};
    }
    // The back is done, so the answer stays as it is until Finish, and the front waits for it.
    if (handler_ != nullptr) handler_->OnResponse(status, status.ok() ? &answer_ : nullptr);
    MutexLock lock(mutex_);
    ForEachForwarded(
        runtime_.GetServerTrailingMetadata(),
        [this](std::string key, std::string value) { caller_.AddTrailingMetadata(key, value); });
    Finish(status);
  }

  void CallerCancelled() {
    MutexLock lock(mutex_);
    if (state_ == State::kForwarded) {
      runtime_.TryCancel();  // its status finishes the front
    } else {
      Finish(grpc::Status::CANCELLED);
    }
  }

  void Finish(const grpc::Status& status) REQUIRES(mutex_) {
    if (std::exchange(state_, State::kFinished) == State::kFinished) return;
    decision_.reset();
    if (status.ok()) {
      front_.StartWriteAndFinish(&answer_, grpc::WriteOptions(), status);
    } else {
      front_.Finish(status);
    }
  }

  const CallCount::Entry counted_;              // first, so that it goes last
  grpc::GenericCallbackServerContext& caller_;  // gRPC's; lives until the front is done
  const std::shared_ptr<grpc::GenericStub> stub_;
  const std::shared_ptr<CallHandler> handler_;  // null if the call is only relayed
  Front front_{*this};
  Back back_{*this};
  std::shared_ptr<UnaryCall> front_life_;  // set before the front starts, taken by its OnDone
  std::shared_ptr<UnaryCall> back_life_;   // likewise
  grpc::ClientContext runtime_;
  grpc::ByteBuffer answer_;  // the back's until it is done, then the front's

  Mutex mutex_;
  State state_ GUARDED_BY(mutex_) = State::kReading;
  grpc::ByteBuffer request_ GUARDED_BY(mutex_);                       // while gRPC reads it, gRPC's
  std::optional<CallHandler::Decision> decision_ GUARDED_BY(mutex_);  // in kDecided
};

// What a handler's `decide` stands for. Shared by its copies.
class PendingDecision {
 public:
  PendingDecision(std::weak_ptr<UnaryCall> call, std::shared_ptr<CallHandler> handler)
      : call_(std::move(call)), handler_(std::move(handler)) {}
  PendingDecision(const PendingDecision&) = delete;
  PendingDecision& operator=(const PendingDecision&) = delete;
  ~PendingDecision() {
    // Without effect if there was a decision.
    Decide(grpc::Status(grpc::StatusCode::UNAVAILABLE, "alignd gave the request up"));
  }

  void Decide(CallHandler::Decision decision) const {
    if (const std::shared_ptr<UnaryCall> call = call_.lock()) call->Decide(std::move(decision));
  }

 private:
  const std::weak_ptr<UnaryCall> call_;
  const std::shared_ptr<CallHandler> handler_;  // alive while somebody may decide
};

std::function<void(CallHandler::Decision)> UnaryCall::MakeDecide() {
  return [pending = std::make_shared<PendingDecision>(weak_from_this(), handler_)](
             CallHandler::Decision decision) { pending->Decide(std::move(decision)); };
}

}  // namespace

grpc::ServerGenericBidiReactor* ForwardUnary(const ForwarderContext& context,
                                             grpc::GenericCallbackServerContext& caller,
                                             std::unique_ptr<CallHandler> handler) {
  return std::make_shared<UnaryCall>(context, caller, std::move(handler))->Start();
}

}  // namespace alignd::cri
