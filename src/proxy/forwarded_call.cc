#include "proxy/forwarded_call.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "proxy/grpc_framing.h"
#include "proxy/pending_decision.h"

namespace alignd::proxy {
namespace {

constexpr char kPath[] = ":path";

// About what a call takes without its headers and messages.
constexpr size_t kCallBytes = 2048;

class Call final : public ForwardedCall, public std::enable_shared_from_this<Call> {
 public:
  Call(const Context& context, Session& caller, int32_t stream)
      : context_(context), caller_(*this, caller, stream) {
    context_.calls.insert(this);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() override {
    Release(held_);
    context_.held.total -= own_;
    context_.calls.erase(this);
  }

  StreamEvents& Begin() {
    caller_.life = shared_from_this();
    return caller_;
  }

  void Abort(const grpc::Status& status) override {
    const std::shared_ptr<Call> self = shared_from_this();
    if (state_ == State::kAsking) handler_->OnAbandoned();
    EndRuntimeSide(status);
    Answer(status);
  }

  size_t held() const override { return held_ + own_; }
  const Session* caller() const override { return caller_.session; }

  void Evict(const grpc::Status& status) override {
    const std::shared_ptr<Call> self = shared_from_this();
    if (caller_.answered && caller_.session != nullptr) {
      // A status would wait behind the bytes that the caller does not read.
      EndRuntimeSide(status);
      state_ = State::kFinished;
      caller_.session->Reset(caller_.stream, NGHTTP2_ENHANCE_YOUR_CALM);
    } else {
      Abort(status);
    }
    message_ = {};
    answer_message_ = {};
    to_runtime_ = {};
    request_ = {};
    Release(held_);
    SetOwn(kCallBytes);
  }

  // The handler's decision. Only the first one has an effect, and none if the caller has gone.
  void Decided(CallHandler::Decision decision) {
    if (state_ != State::kAsking) return;
    if (const auto* status = std::get_if<grpc::Status>(&decision)) {
      Answer(*status);
      return;
    }
    to_runtime_ = FrameOf(std::move(std::get<std::string>(decision)));
    to_runtime_ended_ = true;
    Forward();
  }

 private:
  enum class State {
    kReading,    // the request of an intercepted call
    kAsking,     // waits for the handler's decision
    kForwarded,  // waits for a connection to the runtime, or for the runtime
    kFinished,   // the whole answer has been sent or queued for the caller, or the caller has gone
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
      call.Release(bytes);
      if (call.handler_ == nullptr && call.runtime_.session != nullptr) {
        call.runtime_.session->Consumed(call.runtime_.stream, bytes);
      }
    }
    void OnClosed(uint32_t) override {
      session = nullptr;
      const std::shared_ptr<Call> last = std::move(life);
      call.CallerGone();
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
      if (call.handler_ != nullptr) return;  // it keeps the request until the answer
      call.Release(bytes);
      if (call.caller_.session != nullptr) {
        call.caller_.session->Consumed(call.caller_.stream, bytes);
      }
    }
    void OnClosed(uint32_t code) override {
      session = nullptr;
      const std::shared_ptr<Call> last = std::move(life);
      call.RuntimeGone(code);
    }

    Call& call;
    Session* session = nullptr;  // null before there is a stream, and once it is closed
    int32_t stream = 0;
    bool ended = false;  // the answer is complete
    std::shared_ptr<Call> life;
  };

  void Hold(size_t bytes) {
    held_ += bytes;
    context_.held.total += bytes;
    if (context_.held.total > context_.held.limit) context_.held.exceeded();
  }
  // At most what is held: what is written has prefixes, and is not always what was read.
  void Release(size_t bytes) {
    bytes = std::min(bytes, held_);
    held_ -= bytes;
    context_.held.total -= bytes;
  }

  // What the call holds until it is destroyed.
  void SetOwn(size_t bytes) {
    context_.held.total = context_.held.total - own_ + bytes;
    own_ = bytes;
    if (context_.held.total > context_.held.limit) context_.held.exceeded();
  }

  // --- The request.

  void RequestBegins(Headers headers) {
    if (std::exchange(begun_, true)) return;  // trailers; gRPC's callers send none
    request_ = std::move(headers);
    SetOwn(kCallBytes + request_.bytes());
    if (!Method().starts_with('/')) {
      state_ = State::kFinished;
      caller_.session->Reset(caller_.stream, NGHTTP2_PROTOCOL_ERROR);
      return;
    }
    handler_ = context_.handlers(std::string(Method()));
    if (handler_ != nullptr && handler_->IsRelayed()) observer_ = std::exchange(handler_, nullptr);
    if (handler_ == nullptr) return Forward();
    if (const grpc::Status status = handler_->OnCall(); !status.ok()) {
      return Answer(status);
    }
    if (const auto timeout = ParseTimeout(request_.Find("grpc-timeout"))) {
      handler_->OnDeadline(std::chrono::steady_clock::now() + *timeout);
    }
  }

  std::string_view Method() const { return request_.Find(kPath); }

  void RequestBytes(const SharedBytes& data) {
    if (state_ == State::kForwarded && handler_ == nullptr) {
      Hold(data.bytes.size());
      if (runtime_.session != nullptr) {
        runtime_.session->Write(runtime_.stream, data);
      } else {
        to_runtime_.append(data.bytes);
      }
      return;
    }
    if (caller_.session != nullptr) caller_.session->Consumed(caller_.stream, data.bytes.size());
    if (state_ == State::kAsking && !data.bytes.empty()) {
      handler_->OnAbandoned();
      return Answer(MoreThanOneMessage());
    }
    if (state_ != State::kReading) return;
    Hold(data.bytes.size());
    const grpc::Status read = message_.Append(data.bytes);
    if (!read.ok()) {
      Answer(read);
    } else if (message_.IsComplete()) {
      // Even if the caller has not half-closed yet: a handler need not wait for that.
      state_ = State::kAsking;
      handler_->OnRequest(message_.TakeMessage(), MakeDecide());
    }
  }

  void RequestEnds() {
    if (state_ == State::kReading && handler_ != nullptr) {
      Answer({grpc::StatusCode::INTERNAL, std::string(Method()) + " without a whole request"});
      return;
    }
    if (state_ != State::kForwarded || handler_ != nullptr) return;
    to_runtime_ended_ = true;
    if (runtime_.session != nullptr) runtime_.session->End(runtime_.stream);
  }

  std::function<void(CallHandler::Decision)> MakeDecide() {
    auto decided = [weak = weak_from_this()](CallHandler::Decision decision) {
      if (const std::shared_ptr<Call> call = weak.lock()) call->Decided(std::move(decision));
    };
    return PendingDecision::Make(context_.loop, std::move(decided), handler_);
  }

  // --- To the runtime.

  void Forward() {
    state_ = State::kForwarded;
    context_.runtime.Take([weak = weak_from_this()](const Result<Session*>& session) {
      if (const std::shared_ptr<Call> call = weak.lock()) call->Open(session);
    });
  }

  void Open(const Result<Session*>& session) {
    if (state_ != State::kForwarded) return;
    std::optional<int32_t> stream;
    if (session.ok()) {
      stream =
          (*session)->Request(handler_ == nullptr ? request_ : ForNewMessage(request_), runtime_);
    }
    if (session.ok() && !stream) {  // all stream numbers of the connection are used up
      context_.runtime.Retire(**session);
      Forward();
      return;
    }
    if (!session.ok()) {
      const grpc::Status status(grpc::StatusCode::UNAVAILABLE, session.error().message);
      if (handler_ != nullptr) handler_->OnResponse(status, nullptr);
      Answer(status);
      return;
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
      (answer_headers_.empty() ? answer_headers_ : answer_trailers_) = std::move(headers);
      if (end) Conclude();
      return;
    }
    if (end) runtime_.ended = true;
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
      Hold(data.bytes.size());
      caller_.session->Write(caller_.stream, data);
      return;
    }
    if (runtime_.session != nullptr) runtime_.session->Consumed(runtime_.stream, data.bytes.size());
    if (handler_ == nullptr || state_ == State::kFinished || !answer_fault_.ok()) return;
    Hold(data.bytes.size());
    answer_fault_ = answer_message_.Append(data.bytes);
  }

  void AnswerEnds(Headers trailers) {
    runtime_.ended = true;
    if (handler_ != nullptr) {
      Conclude();
      return;
    }
    state_ = State::kFinished;
    if (caller_.session != nullptr) caller_.session->End(caller_.stream, std::move(trailers));
  }

  // The whole answer to an intercepted call has arrived.
  void Conclude() {
    runtime_.ended = true;
    if (state_ == State::kFinished) return;  // the caller has gone, and the handler knows it
    const bool is_short = answer_trailers_.empty();
    const Headers& last = is_short ? answer_headers_ : answer_trailers_;
    const bool has_message = answer_fault_.ok() && answer_message_.IsComplete();
    grpc::Status status = StatusIn(last);
    if (!HasStatus(last) || (status.ok() && !has_message)) {
      if (HasStatus(last)) {
        status = answer_fault_.ok() ? grpc::Status(grpc::StatusCode::INTERNAL,
                                                   "the runtime answered " + std::string(Method()) +
                                                       " without a message")
                                    : answer_fault_;
      }
      handler_->OnResponse(status, nullptr);
      Answer(status);  // the same that the handler gets
      return;
    }
    std::string message = has_message ? answer_message_.TakeMessage() : std::string();
    handler_->OnResponse(status, status.ok() ? &message : nullptr);
    state_ = State::kFinished;
    if (caller_.session == nullptr) return;
    caller_.answered = true;
    if (is_short) {
      caller_.session->RespondAndEnd(caller_.stream, answer_headers_);
      return;
    }
    caller_.session->Respond(caller_.stream, answer_headers_);
    if (has_message) caller_.session->Write(caller_.stream, FrameOf(std::move(message)));
    caller_.session->End(caller_.stream, std::move(answer_trailers_));
  }

  // Ends the call for the caller, unless that has happened.
  void Answer(const grpc::Status& status) {
    if (std::exchange(state_, State::kFinished) == State::kFinished) return;
    if (caller_.session == nullptr) return;
    if (std::exchange(caller_.answered, true)) {
      caller_.session->End(caller_.stream, TrailersWith(status));
    } else {
      caller_.session->RespondAndEnd(caller_.stream, AnswerWith(status));
    }
  }

  // --- Ends that come too early.

  // Reports to the runtime and to the handler that the answer is not wanted any more.
  void EndRuntimeSide(const grpc::Status& status) {
    if (state_ != State::kForwarded || runtime_.ended) return;
    if (handler_ != nullptr) handler_->OnResponse(status, nullptr);
    if (runtime_.session != nullptr) runtime_.session->Reset(runtime_.stream, NGHTTP2_CANCEL);
  }

  void CallerGone() {
    if (state_ == State::kAsking) handler_->OnAbandoned();
    EndRuntimeSide({grpc::StatusCode::CANCELLED, "the caller has gone"});
    state_ = State::kFinished;
    // The runtime answered before it had the whole request.
    if (runtime_.session != nullptr && runtime_.ended) {
      runtime_.session->Reset(runtime_.stream, NGHTTP2_NO_ERROR);
    }
  }

  void RuntimeGone(uint32_t code) {
    if (runtime_.ended || state_ != State::kForwarded) return;
    const bool lost = code == kConnectionLost || code == NGHTTP2_NO_ERROR;
    const grpc::Status status(
        code == NGHTTP2_CANCEL ? grpc::StatusCode::CANCELLED : grpc::StatusCode::UNAVAILABLE,
        lost ? "the connection to the runtime is gone" : "the runtime reset the call");
    if (handler_ != nullptr) handler_->OnResponse(status, nullptr);
    const bool as_it_came = handler_ == nullptr || code == NGHTTP2_REFUSED_STREAM;
    if (!lost && as_it_came && caller_.session != nullptr) {
      // The caller interprets the code itself: it may repeat a call that was refused.
      state_ = State::kFinished;
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

  // Its parts of context_.held: messages, and the call with its headers.
  size_t held_ = 0;
  size_t own_ = 0;

  MessageReader message_;   // the request of an intercepted call
  std::string to_runtime_;  // bytes for the runtime, until there is a stream
  bool to_runtime_ended_ = false;

  // The answer to an intercepted call.
  Headers answer_headers_;
  MessageReader answer_message_;
  grpc::Status answer_fault_;
  Headers answer_trailers_;
};

}  // namespace

StreamEvents& ForwardedCall::Make(const Context& context, Session& caller, int32_t stream) {
  // Not make_shared: a weak pointer would keep the memory of a call that has ended.
  return std::shared_ptr<Call>(new Call(context, caller, stream))->Begin();
}

}  // namespace alignd::proxy
