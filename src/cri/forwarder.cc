#include "cri/forwarder.h"

#include <grpc/grpc.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "sync/mutex.h"

namespace alignd::cri {
namespace {

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// Whether a header is the user's and not the connection's, and can be sent. gRPC ends the program
// when asked to send what HTTP/2 does not allow, though it accepts some of that from a peer.
bool IsForwarded(std::string_view key, std::string_view value) {
  constexpr std::array<std::string_view, 7> kOfTheConnection = {
      "connection", "content-type", "host", "keep-alive", "te", "transfer-encoding", "user-agent"};
  if (key.starts_with(':') || key.starts_with("grpc-")) return false;
  for (const std::string_view name : kOfTheConnection) {
    if (key == name) return false;
  }
  const grpc_slice key_slice = grpc_slice_from_static_buffer(key.data(), key.size());
  if (grpc_header_key_is_legal(key_slice) == 0) return false;
  if (grpc_is_binary_header(key_slice) != 0) return true;
  return grpc_header_nonbin_value_is_legal(
             grpc_slice_from_static_buffer(value.data(), value.size())) != 0;
}

template <typename Add>
void ForEachForwarded(const Metadata& metadata, Add add) {
  for (const auto& [key, value] : metadata) {
    if (!IsForwarded({key.data(), key.size()}, {value.data(), value.size()})) continue;
    add(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
  }
}

// How many calls are under way. Thread-safe.
class CallCount {
 public:
  // Counts one for as long as it lives.
  class Entry {
   public:
    explicit Entry(std::shared_ptr<CallCount> count) : count_(std::move(count)) { count_->Add(1); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() { count_->Add(-1); }

   private:
    const std::shared_ptr<CallCount> count_;
  };

  void WaitForZero() {
    MutexLock lock(mutex_);
    while (count_ > 0) zero_.Wait(mutex_);
  }

 private:
  void Add(int change) {
    MutexLock lock(mutex_);
    count_ += change;
    if (count_ == 0) zero_.NotifyAll();
  }

  Mutex mutex_;
  CondVar zero_;
  int count_ GUARDED_BY(mutex_) = 0;
};

// One call: the caller's half in front, the runtime's half behind. Thread-safe: gRPC runs the
// reactions of both halves on many threads.
//
// Messages: each direction is a loop of read on one side, write on the other; the next read starts
// when the write is done, so a slow reader slows the writer down.
//
// Life: each half keeps the call alive until gRPC is done with it. The front is done after Finish.
// The back is done when the runtime's status is there and the hold is released: it is what makes
// operations legal that do not come out of the back's own reactions. One hold and one flag
// (`back_open_`) guard them all; every operation on the back is under the mutex and after a look at
// the flag.
class Call : public std::enable_shared_from_this<Call> {
 public:
  // `handler` is null for a call that is only relayed.
  Call(grpc::GenericCallbackServerContext& caller, std::shared_ptr<grpc::GenericStub> stub,
       std::shared_ptr<CallHandler> handler, std::shared_ptr<CallCount> count)
      : counted_(std::move(count)),
        caller_(caller),
        method_(caller.method()),
        stub_(std::move(stub)),
        handler_(std::move(handler)),
        intercepted_(handler_ != nullptr) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Starts both halves, or the front alone if a handler is to decide first.
  grpc::ServerGenericBidiReactor* Start() {
    front_life_ = shared_from_this();
    MutexLock lock(mutex_);
    if (!intercepted_) StartBack();
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
    kForwarded,  // nothing: the back has started
    kFinished,   // nothing: the caller has its status
  };

  class Front final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Front(Call& call) : call_(call) {}
    void OnReadDone(bool ok) override { call_.RequestArrived(ok); }
    void OnWriteDone(bool ok) override { call_.ResponseSent(ok); }
    void OnCancel() override { call_.CallerCancelled(); }
    void OnDone() override { const std::shared_ptr<Call> life = std::move(call_.front_life_); }

   private:
    Call& call_;
  };

  class Back final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    explicit Back(Call& call) : call_(call) {}
    void OnReadInitialMetadataDone(bool ok) override { call_.HeadersArrived(ok); }
    void OnReadDone(bool ok) override { call_.ResponseArrived(ok); }
    void OnWriteDone(bool ok) override { call_.RequestSent(ok); }
    void OnDone(const grpc::Status& status) override {
      const std::shared_ptr<Call> life = std::move(call_.back_life_);
      call_.RuntimeFinished(status);
    }

   private:
    Call& call_;
  };

  // --- Requests: caller to runtime.

  void RequestArrived(bool ok) {
    grpc::ByteBuffer request;
    {
      MutexLock lock(mutex_);
      if (state_ == State::kFinished) return;
      if (!ok || !intercepted_) {
        Relay(ok);
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

  void Relay(bool ok) REQUIRES(mutex_) {
    if (ok) {
      if (back_open_) back_.StartWrite(&request_);
      return;
    }
    // A read also fails when the caller has gone or its message is too long. That is no half-close,
    // and CallerCancelled deals with it.
    if (caller_.IsCancelled()) return;
    if (intercepted_) {
      // Not one message, so nothing to ask the handler; the runtime shall say what it thinks.
      intercepted_ = false;
      StartBack();
    }
    if (back_open_) back_.StartWritesDone();
  }

  void RequestSent(bool ok) {
    MutexLock lock(mutex_);
    request_.Clear();
    // Not ok: the runtime takes no more; its status is on the way.
    if (ok && back_open_ && !intercepted_) front_.StartRead(&request_);
  }

  void Apply(CallHandler::Decision decision) REQUIRES(mutex_) {
    if (const auto* status = std::get_if<grpc::Status>(&decision)) {
      Finish(*status);
      return;
    }
    request_ = std::get<grpc::ByteBuffer>(std::move(decision));
    StartBack();
    back_.StartWriteLast(&request_, grpc::WriteOptions());
  }

  std::function<void(CallHandler::Decision)> MakeDecide();

  // --- Responses: runtime to caller.

  void StartBack() REQUIRES(mutex_) {
    state_ = State::kForwarded;
    ForEachForwarded(caller_.client_metadata(), [this](std::string key, std::string value) {
      runtime_.AddMetadata(key, value);
    });
    runtime_.set_deadline(caller_.raw_deadline());
    stub_->PrepareBidiStreamingCall(&runtime_, method_, {}, &back_);
    back_life_ = shared_from_this();
    back_open_ = true;
    back_.AddHold();
    back_.StartRead(&response_);
    back_.StartCall();
  }

  // No operation on the back after this.
  void CloseBack() REQUIRES(mutex_) {
    if (std::exchange(back_open_, false)) back_.RemoveHold();
  }

  void HeadersArrived(bool ok) {
    MutexLock lock(mutex_);
    if (ok && TakeHeaders()) front_.StartSendInitialMetadata();
  }

  // Copies the runtime's initial metadata, once; it leaves with the next write if not before.
  bool TakeHeaders() REQUIRES(mutex_) {
    if (std::exchange(headers_taken_, true)) return false;
    ForEachForwarded(
        runtime_.GetServerInitialMetadata(),
        [this](std::string key, std::string value) { caller_.AddInitialMetadata(key, value); });
    return true;
  }

  void ResponseArrived(bool ok) {
    MutexLock lock(mutex_);
    if (!ok) {
      CloseBack();  // the status follows
      return;
    }
    TakeHeaders();
    if (!intercepted_) {
      front_.StartWrite(&response_);
    } else if (!answer_.has_value()) {
      // Kept until the status is there and the handler has seen both.
      answer_ = std::exchange(response_, grpc::ByteBuffer());
      back_.StartRead(&response_);
    } else {
      too_many_answers_ = true;
      runtime_.TryCancel();
      CloseBack();
    }
  }

  void ResponseSent(bool ok) {
    MutexLock lock(mutex_);
    response_.Clear();
    if (!back_open_) return;
    if (ok) {
      back_.StartRead(&response_);
    } else {
      runtime_.TryCancel();  // the caller has gone
      CloseBack();
    }
  }

  void RuntimeFinished(grpc::Status status) {
    const grpc::ByteBuffer* answer = nullptr;
    bool intercepted = false;
    {
      MutexLock lock(mutex_);
      intercepted = intercepted_;
      if (intercepted && too_many_answers_) {
        status = {grpc::StatusCode::INTERNAL, "the runtime answered " + method_ + " twice"};
      } else if (intercepted && status.ok() && !answer_.has_value()) {
        status = {grpc::StatusCode::INTERNAL, "the runtime answered " + method_ + " with nothing"};
      }
      if (status.ok() && answer_.has_value()) answer = &*answer_;
    }
    // The back is done, so the answer stays as it is until Finish.
    if (intercepted) handler_->OnResponse(status, answer);
    MutexLock lock(mutex_);
    ForEachForwarded(
        runtime_.GetServerTrailingMetadata(),
        [this](std::string key, std::string value) { caller_.AddTrailingMetadata(key, value); });
    Finish(status);
  }

  // --- Both.

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
    if (answer_.has_value() && status.ok()) {
      front_.StartWriteAndFinish(&*answer_, grpc::WriteOptions(), status);
    } else {
      front_.Finish(status);
    }
  }

  const CallCount::Entry counted_;              // first, so that it goes last
  grpc::GenericCallbackServerContext& caller_;  // gRPC's; lives until the front is done
  const std::string method_;
  const std::shared_ptr<grpc::GenericStub> stub_;
  const std::shared_ptr<CallHandler> handler_;
  Front front_{*this};
  Back back_{*this};
  std::shared_ptr<Call> front_life_;  // set before the front starts, taken by its OnDone
  std::shared_ptr<Call> back_life_;   // likewise

  Mutex mutex_;
  grpc::ClientContext runtime_;
  bool intercepted_ GUARDED_BY(mutex_);  // does not change once the back has started
  State state_ GUARDED_BY(mutex_) = State::kReading;
  bool back_open_ GUARDED_BY(mutex_) = false;
  bool headers_taken_ GUARDED_BY(mutex_) = false;
  grpc::ByteBuffer request_ GUARDED_BY(mutex_);   // while gRPC reads or writes it, gRPC's
  grpc::ByteBuffer response_ GUARDED_BY(mutex_);  // likewise
  std::optional<CallHandler::Decision> decision_ GUARDED_BY(mutex_);  // in kDecided
  std::optional<grpc::ByteBuffer> answer_ GUARDED_BY(mutex_);         // only if intercepted
  bool too_many_answers_ GUARDED_BY(mutex_) = false;                  // likewise
};

// What a handler's `decide` stands for. Shared by its copies.
class PendingDecision {
 public:
  PendingDecision(std::weak_ptr<Call> call, std::shared_ptr<CallHandler> handler)
      : call_(std::move(call)), handler_(std::move(handler)) {}
  PendingDecision(const PendingDecision&) = delete;
  PendingDecision& operator=(const PendingDecision&) = delete;
  ~PendingDecision() {
    // Without effect if there was a decision.
    Decide(grpc::Status(grpc::StatusCode::UNAVAILABLE, "alignd gave the request up"));
  }

  void Decide(CallHandler::Decision decision) const {
    if (const std::shared_ptr<Call> call = call_.lock()) call->Decide(std::move(decision));
  }

 private:
  const std::weak_ptr<Call> call_;
  const std::shared_ptr<CallHandler> handler_;  // alive while somebody may decide
};

std::function<void(CallHandler::Decision)> Call::MakeDecide() {
  return [pending = std::make_shared<PendingDecision>(weak_from_this(), handler_)](
             CallHandler::Decision decision) { pending->Decide(std::move(decision)); };
}

class Forwarder final : public grpc::CallbackGenericService {
 public:
  Forwarder(std::shared_ptr<grpc::Channel> backend, HandlerFactory handlers)
      : stub_(std::make_shared<grpc::GenericStub>(std::move(backend))),
        handlers_(std::move(handlers)) {}
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;
  ~Forwarder() override { count_->WaitForZero(); }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* caller) override {
    return std::make_shared<Call>(*caller, stub_, handlers_(caller->method()), count_)->Start();
  }

 private:
  const std::shared_ptr<grpc::GenericStub> stub_;
  const HandlerFactory handlers_;
  const std::shared_ptr<CallCount> count_ = std::make_shared<CallCount>();
};

}  // namespace

std::unique_ptr<grpc::CallbackGenericService> MakeForwarder(std::shared_ptr<grpc::Channel> backend,
                                                            HandlerFactory handlers) {
  return std::make_unique<Forwarder>(std::move(backend), std::move(handlers));
}

}  // namespace alignd::cri
