#include "proxy/forwarded_call.h"

#include <optional>
#include <utility>

#include "proxy/collected_answer.h"
#include "proxy/grpc_framing.h"
#include "proxy/message_stream.h"
#include "proxy/pending_decision.h"

namespace alignd::proxy {
namespace {

class Call final : public ForwardedCall, public std::enable_shared_from_this<Call> {
 public:
  Call(const Context& context, Session& caller, int32_t stream)
      : context_(context),
        caller_(*this, caller, stream),
        record_(context.events),
        held_(context.held) {
    context_.calls.insert(this);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() override { context_.calls.erase(this); }

  StreamEvents& Begin() {
    caller_.life = shared_from_this();
    return caller_;
  }

  void Abort(const grpc::Status& status) override {
    const std::shared_ptr<Call> self = shared_from_this();
    if (state_ == State::kAsking) handler_->OnCancelled();
    EndRuntimeSide(status);
    Answer(status);
  }

  size_t held() const override { return held_.bytes(); }
  const Session* caller() const override { return caller_.session; }

  void Evict(const grpc::Status& status) override {
    const std::shared_ptr<Call> self = shared_from_this();
    if (caller_.answered && caller_.session != nullptr) {
      // A status would wait behind the bytes that the caller does not read.
      EndRuntimeSide(status);
      sender_.reset();
      state_ = State::kFinished;
      record_.End(status.error_code());
      caller_.session->Reset(caller_.stream, NGHTTP2_ENHANCE_YOUR_CALM);
    } else {
      Abort(status);
    }
    message_ = {};
    answer_ = {};
    to_runtime_ = {};
    request_ = {};
    if (handler_ != nullptr) handler_ = std::make_shared<EndedHandler>();
    held_.ReleaseAll();
    held_.SetOwn(kCallBytes);
  }

  // The handler's decision. Only the first one has an effect, and none if the caller has cancelled.
  void Decided(CallHandler::Decision decision) {
    if (state_ != State::kAsking) return;
    if (!runtime_.ended) record_.Decided();
    if (const auto* status = std::get_if<grpc::Status>(&decision)) return Answer(*status);
    if (auto* answer = std::get_if<CallHandler::Answer>(&decision)) {
      held_.Hold(answer->message.size());
      return Deliver(WholeAnswer(std::move(answer->message)));
    }
    if (auto* messages = std::get_if<CallHandler::Stream>(&decision)) return Stream(*messages);
    to_runtime_ = FrameOf(std::move(std::get<std::string>(decision)));
    to_runtime_ended_ = true;
    Forward();
  }

 private:
  enum class State {
    kReading,    // the request of an intercepted call
    kAsking,     // waits for the handler's decision
    kStreaming,  // the handler answers with messages of its own
    kForwarded,  // waits for a connection to the runtime, or for the runtime
    kFinished,   // the whole answer has been sent or queued for the caller, or it has cancelled
  };

  // Receives the events of the caller's stream.
  struct CallerSide final : StreamEvents {
    CallerSide(Call& of, Session& with, int32_t number)
        : call(of), session(&with), stream(number) {}

    void OnHeaders(Headers headers, bool end) override {
      call.RequestBegins(std::move(headers));
      if (end) OnEnd();
    }
    void OnData(const SharedBytes& data) override { call.RequestBytes(data); }
    void OnEnd() override { call.RequestEnds(); }
    void OnWritten(size_t bytes) override {
      call.held_.Release(bytes);
      if (call.sender_ != nullptr) call.sender_->Written(bytes);
      if (call.handler_ == nullptr && call.runtime_.session != nullptr) {
        call.runtime_.session->Consumed(call.runtime_.stream, bytes);
      }
    }
    void OnClosed(uint32_t) override {
      session = nullptr;
      const std::shared_ptr<Call> last = std::move(life);
      call.CallerCancelled();
    }

    Call& call;
    Session* session;  // null once the stream is closed
    const int32_t stream;
    bool answered = false;  // the answer has begun
    std::shared_ptr<Call> life;
  };

  // Receives the events of the runtime's stream.
  struct RuntimeSide final : StreamEvents {
    explicit RuntimeSide(Call& of) : call(of) {}

    void OnHeaders(Headers headers, bool end) override {
      call.AnswerHeaders(std::move(headers), end);
    }
    void OnData(const SharedBytes& data) override { call.AnswerBytes(data); }
    void OnEnd() override { call.AnswerEnds({}); }
    void OnWritten(size_t bytes) override {
      written = true;
      if (call.handler_ != nullptr) return;  // it keeps the request until the answer
      call.held_.Release(bytes);
      if (call.caller_.session != nullptr) {
        call.caller_.session->Consumed(call.caller_.stream, bytes);
      }
    }
    void OnClosed(uint32_t code) override {
      const std::string why = std::exchange(session, nullptr)->why();
      const std::shared_ptr<Call> last = std::move(life);
      call.RuntimeGone(code, why);
    }

    Call& call;
    Session* session = nullptr;  // null before there is a stream, and once it is closed
    int32_t stream = 0;
    bool written = false;  // the runtime may have the request
    bool ended = false;    // the answer is complete
    std::shared_ptr<Call> life;
  };

  // --- The request.

  void RequestBegins(Headers headers) {
    if (std::exchange(begun_, true)) return;  // trailers; gRPC's callers send none
    request_ = std::move(headers);
    held_.SetOwn(kCallBytes + request_.bytes());
    if (!Method().starts_with('/')) {
      state_ = State::kFinished;
      return caller_.session->Reset(caller_.stream, NGHTTP2_PROTOCOL_ERROR);
    }
    record_.Begin(Method());
    handler_ = context_.handlers(std::string(Method()));
    if (handler_ != nullptr && handler_->IsRelayed()) observer_ = std::exchange(handler_, nullptr);
    if (handler_ == nullptr) return Forward();
    handler_->OnCaller(context_.user);
    if (const grpc::Status status = handler_->OnCall(); !status.ok()) return Answer(status);
    if (const auto timeout = ParseTimeout(request_.Find("grpc-timeout"))) {
      handler_->OnDeadline(std::chrono::steady_clock::now() + *timeout);
    }
  }

  std::string_view Method() const { return request_.Find(":path"); }

  void RequestBytes(const SharedBytes& data) {
    if (state_ == State::kForwarded && handler_ == nullptr) {
      held_.Hold(data.bytes.size());
      if (runtime_.session != nullptr) {
        runtime_.session->Write(runtime_.stream, data);
      } else {
        to_runtime_.append(data.bytes);
      }
      return;
    }
    if (caller_.session != nullptr) caller_.session->Consumed(caller_.stream, data.bytes.size());
    if (state_ == State::kAsking && !data.bytes.empty()) {
      handler_->OnCancelled();
      return Answer(MoreThanOneMessage());
    }
    if (state_ != State::kReading) return;
    held_.Hold(data.bytes.size());
    const grpc::Status read = message_.Append(data.bytes);
    if (!read.ok()) return Answer(read);
    if (!message_.IsComplete()) return;
    // Even if the caller has not half-closed yet: a handler need not wait for that.
    std::string request = message_.TakeMessage();
    RequestMemory::Admitted admitted = context_.requests.Admit(std::string(Method()), request);
    if (!admitted.status.ok()) return Answer(admitted.status);
    held_.SetOwn(kCallBytes + request_.bytes() + admitted.parsed);
    state_ = State::kAsking;
    record_.Ask();
    handler_->OnRequest(std::move(request), MakeDecide(std::move(admitted.kept)));
  }

  void RequestEnds() {
    if (state_ == State::kReading && handler_ != nullptr) {
      return Answer(
          {grpc::StatusCode::INTERNAL, std::string(Method()) + " without a whole request"});
    }
    if (state_ != State::kForwarded || handler_ != nullptr) return;
    to_runtime_ended_ = true;
    if (runtime_.session != nullptr) runtime_.session->End(runtime_.stream);
  }

  std::function<void(CallHandler::Decision)> MakeDecide(std::shared_ptr<const void> kept) {
    auto decided = [weak = weak_from_this()](CallHandler::Decision decision) {
      if (const std::shared_ptr<Call> call = weak.lock()) call->Decided(std::move(decision));
    };
    return PendingDecision::Make(context_.loop, std::move(decided), handler_, std::move(kept));
  }

  // --- To the runtime.

  void Forward() {
    state_ = State::kForwarded;
    context_.runtime->Take([weak = weak_from_this()](const Result<Session*>& session) {
      if (const std::shared_ptr<Call> call = weak.lock()) call->Open(session);
    });
  }

  void Open(const Result<Session*>& session) {
    if (state_ != State::kForwarded) return;
    if (!session.ok()) return Fail({grpc::StatusCode::UNAVAILABLE, session.error().Text()});
    const std::optional<int32_t> stream =
        (*session)->Request(handler_ == nullptr ? request_ : ForNewMessage(request_), runtime_);
    if (!stream) {  // all stream numbers of the connection are used up
      context_.runtime->Retire(**session);
      return Forward();
    }
    runtime_.session = *session;
    runtime_.stream = *stream;
    runtime_.life = shared_from_this();
    runtime_.session->Write(runtime_.stream, std::exchange(to_runtime_, {}));
    if (to_runtime_ended_) runtime_.session->End(runtime_.stream);
  }

  // --- The answer.

  void AnswerHeaders(Headers headers, bool end) {
    if (!end && headers.Find(":status").starts_with('1')) return;  // more headers follow
    if (handler_ != nullptr) {
      answer_.Add(std::move(headers));
      if (end) Conclude();
      return;
    }
    if (end) runtime_.ended = true;
    if (end) record_.End(StatusIn(headers).error_code());
    if (caller_.session == nullptr) return;
    if (std::exchange(caller_.answered, true)) {
      if (end) AnswerEnds(std::move(headers));
    } else if (end) {
      state_ = State::kFinished;
      caller_.session->RespondAndEnd(caller_.stream, headers);
    } else {
      caller_.session->Respond(caller_.stream, headers);
    }
  }

  void AnswerBytes(const SharedBytes& data) {
    if (handler_ == nullptr && state_ != State::kFinished && caller_.session != nullptr) {
      held_.Hold(data.bytes.size());
      caller_.session->Write(caller_.stream, data);
      return;
    }
    if (runtime_.session != nullptr) runtime_.session->Consumed(runtime_.stream, data.bytes.size());
    if (handler_ == nullptr || state_ == State::kFinished || answer_.IsBroken()) return;
    held_.Hold(data.bytes.size());
    answer_.Append(data.bytes);
  }

  void AnswerEnds(Headers trailers) {
    if (handler_ != nullptr) return Conclude();
    runtime_.ended = true;
    state_ = State::kFinished;
    if (caller_.session != nullptr) caller_.session->End(caller_.stream, std::move(trailers));
  }

  // The whole answer to an intercepted call has arrived.
  void Conclude() {
    runtime_.ended = true;
    if (state_ == State::kFinished) return;  // the caller has cancelled, and the handler knows it
    CollectedAnswer::Parts result = answer_.Take(Method());
    if (!result.is_whole) return Fail(result.status);
    handler_->OnResponse(result.status, result.status.ok() ? &*result.message : nullptr);
    if (!result.status.ok() && handler_->AnswersInsteadOf(result.status)) {
      state_ = State::kAsking;
      return handler_->AnswerInstead(result.status, MakeDecide(nullptr));
    }
    Deliver(std::move(result));
  }

  // The handler's own messages, until the caller cancels.
  void Stream(const CallHandler::Stream& messages) {
    state_ = State::kStreaming;
    caller_.answered = true;
    sender_ =
        MessageSender::Start(context_.loop, *caller_.session, caller_.stream, held_, messages);
  }

  void Deliver(CollectedAnswer::Parts answer) {
    state_ = State::kFinished;
    record_.End(answer.status.error_code());
    if (caller_.session == nullptr) return;
    caller_.answered = true;
    Send(std::move(answer), *caller_.session, caller_.stream);
  }

  // Ends the call for the caller, unless that has happened.
  void Answer(const grpc::Status& status) {
    if (std::exchange(state_, State::kFinished) == State::kFinished) return;
    sender_.reset();
    record_.End(status.error_code());
    if (caller_.session == nullptr) return;
    EndWith(status, *caller_.session, caller_.stream, std::exchange(caller_.answered, true));
  }

  // --- Ends that come too early.

  // Without an answer of the runtime: the handler gets the same status as the caller.
  void Fail(const grpc::Status& status) {
    if (handler_ != nullptr) handler_->OnResponse(status, nullptr);
    Answer(status);
  }

  // Reports to the runtime and to the handler that the answer is not wanted any more.
  void EndRuntimeSide(const grpc::Status& status, bool awaits_answer = false) {
    if (state_ != State::kForwarded || runtime_.ended) return;
    if (handler_ != nullptr) handler_->OnResponse(status, nullptr);
    if (runtime_.session == nullptr) return;
    if (!awaits_answer) return runtime_.session->Reset(runtime_.stream, NGHTTP2_CANCEL);
    runtime_.session->End(runtime_.stream);  // without a part of its request, the call fails
  }

  void CallerCancelled() {
    sender_.reset();
    if (state_ == State::kAsking) handler_->OnCancelled();
    const auto& handler = handler_ != nullptr ? handler_ : observer_;
    EndRuntimeSide({grpc::StatusCode::CANCELLED, "the caller cancelled the call"},
                   runtime_.written && handler != nullptr && handler->OutlivesCaller());
    state_ = State::kFinished;
    record_.End(grpc::StatusCode::CANCELLED);
    // The runtime answered before it had the whole request.
    if (runtime_.session != nullptr && runtime_.ended) {
      runtime_.session->Reset(runtime_.stream, NGHTTP2_NO_ERROR);
    }
  }

  void RuntimeGone(uint32_t code, const std::string& why) {
    if (runtime_.ended || state_ != State::kForwarded) return;
    const bool lost = code == kConnectionLost || code == NGHTTP2_NO_ERROR;
    const grpc::Status status = ResetStatus(code, lost, why);
    if (handler_ != nullptr) handler_->OnResponse(status, nullptr);
    const bool as_it_came = handler_ == nullptr || code == NGHTTP2_REFUSED_STREAM;
    if (!lost && as_it_came && code != kHeadersTooLong && caller_.session != nullptr) {
      // The caller interprets the code itself: it may repeat a call that was refused.
      state_ = State::kFinished;
      record_.End(status.error_code());
      caller_.session->Reset(caller_.stream, code);
      return;
    }
    Answer(status);
  }

  const Context context_;
  State state_ = State::kReading;
  bool begun_ = false;  // the request's headers are there
  Headers request_;
  std::shared_ptr<CallHandler> handler_;   // null if the call is only relayed
  std::shared_ptr<CallHandler> observer_;  // of a relayed call; may be null
  CallerSide caller_;
  RuntimeSide runtime_{*this};
  CallRecord record_;
  HeldShare held_;
  MessageReader message_{context_.max_request_bytes};  // the request of an intercepted call
  std::string to_runtime_;  // bytes for the runtime, until there is a stream
  bool to_runtime_ended_ = false;
  CollectedAnswer answer_;                 // to an intercepted call
  std::shared_ptr<MessageSender> sender_;  // of a handler's own messages; null: there are none
};

}  // namespace

StreamEvents& ForwardedCall::Make(const Context& context, Session& caller, int32_t stream) {
  // Not make_shared: a weak pointer would keep the memory of a call that has ended.
  return std::shared_ptr<Call>(new Call(context, caller, stream))->Begin();
}

}  // namespace alignd::proxy
