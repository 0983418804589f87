#include <grpcpp/client_context.h>

#include <utility>

#include "cri/forwarder_calls.h"
#include "cri/forwarder_metadata.h"
#include "sync/mutex.h"

namespace alignd::cri {
namespace {

// Thread-safe: gRPC runs the reactions of both halves on many threads.
//
// Messages: each direction is a loop of read on one side, write on the other; the next read starts
// when the write is done, so a slow reader slows the writer down.
//
// Life: each half, the caller's in front and the runtime's behind, keeps the call alive until gRPC
// is done with it. The front is done after Finish. The back is done when the runtime's status is
// there and the hold is released: it is what makes operations legal that do not come out of the
// back's own reactions. One hold and one flag (`back_open_`) guard them all; every operation on the
// back is under the mutex and after a look at the flag.
class StreamCall : public std::enable_shared_from_this<StreamCall> {
 public:
  StreamCall(const ForwarderContext& context, grpc::GenericCallbackServerContext& caller)
      : counted_(context.count), caller_(caller), stub_(context.runtime) {}
  StreamCall(const StreamCall&) = delete;
  StreamCall& operator=(const StreamCall&) = delete;

  grpc::ServerGenericBidiReactor* Start() {
    front_life_ = shared_from_this();
    MutexLock lock(mutex_);
    StartBack();
    front_.StartRead(&request_);
    return &front_;
  }

 private:
  class Front final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Front(StreamCall& call) : call_(call) {}
    void OnReadDone(bool ok) override { call_.RequestArrived(ok); }
    void OnWriteDone(bool ok) override { call_.ResponseSent(ok); }
    void OnCancel() override { call_.runtime_.TryCancel(); }  // its status finishes the front
    void OnDone() override {
      const std::shared_ptr<StreamCall> life = std::move(call_.front_life_);
    }

   private:
    StreamCall& call_;
  };

  class Back final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    explicit Back(StreamCall& call) : call_(call) {}
    void OnReadInitialMetadataDone(bool ok) override { call_.HeadersArrived(ok); }
    void OnReadDone(bool ok) override { call_.ResponseArrived(ok); }
    void OnWriteDone(bool ok) override { call_.RequestSent(ok); }
    void OnDone(const grpc::Status& status) override {
      const std::shared_ptr<StreamCall> life = std::move(call_.back_life_);
      call_.RuntimeFinished(status);
    }

   private:
    StreamCall& call_;
  };

  // --- Requests: caller to runtime.

  void StartBack() REQUIRES(mutex_) {
    ForEachForwarded(caller_.client_metadata(), [this](std::string key, std::string value) {
      runtime_.AddMetadata(key, value);
    });
    runtime_.set_deadline(caller_.raw_deadline());
    stub_->PrepareBidiStreamingCall(&runtime_, caller_.method(), {}, &back_);
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

  void RequestArrived(bool ok) {
    MutexLock lock(mutex_);
    if (!back_open_) return;
    if (ok) {
      back_.StartWrite(&request_);
    } else if (!caller_.IsCancelled()) {
      // A read also fails when the caller has gone or its message is too long. That is no
      // half-close, and OnCancel deals with it.
      back_.StartWritesDone();
    }
  }

  void RequestSent(bool ok) {
    MutexLock lock(mutex_);
    request_.Clear();
    // Not ok: the runtime takes no more; its status is on the way.
    if (ok && back_open_) front_.StartRead(&request_);
  }

  // --- Responses: runtime to caller.

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
    if (ok) {
      TakeHeaders();
      front_.StartWrite(&response_);
    } else {
      CloseBack();  // the status follows
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

  void RuntimeFinished(const grpc::Status& status) {
    MutexLock lock(mutex_);
    ForEachForwarded(
        runtime_.GetServerTrailingMetadata(),
        [this](std::string key, std::string value) { caller_.AddTrailingMetadata(key, value); });
    front_.Finish(status);
  }

  const CallCount::Entry counted_;              // first, so that it goes last
  grpc::GenericCallbackServerContext& caller_;  // gRPC's; lives until the front is done
  const std::shared_ptr<grpc::GenericStub> stub_;
  Front front_{*this};
  Back back_{*this};
  std::shared_ptr<StreamCall> front_life_;  // set before the front starts, taken by its OnDone
  std::shared_ptr<StreamCall> back_life_;   // likewise
  grpc::ClientContext runtime_;

  Mutex mutex_;
  bool back_open_ GUARDED_BY(mutex_) = false;
  bool headers_taken_ GUARDED_BY(mutex_) = false;
  grpc::ByteBuffer request_ GUARDED_BY(mutex_);   // while gRPC reads or writes it, gRPC's
  grpc::ByteBuffer response_ GUARDED_BY(mutex_);  // likewise
};

}  // namespace

grpc::ServerGenericBidiReactor* ForwardStream(const ForwarderContext& context,
                                              grpc::GenericCallbackServerContext& caller) {
  return std::make_shared<StreamCall>(context, caller)->Start();
}

}  // namespace alignd::cri
