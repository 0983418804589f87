#include "service/client.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <cstddef>
#include <future>
#include <map>
#include <system_error>
#include <utility>

#include "proxy/client_connection.h"
#include "proxy/grpc_framing.h"
#include "proxy/headers.h"
#include "proxy/session.h"
#include "rpc/decode.h"
#include "rpc/unix_socket.h"
#include "sync/thread_limit.h"

namespace alignd::service {
namespace {

// For a peer that accepts the connection and does not serve it. The kernel connects at once; what
// may take time on a busy machine is the peer's first frame.
constexpr std::chrono::seconds kServedWithin{5};
// Between two attempts of a call that waits for its peer.
constexpr std::chrono::milliseconds kConnectPause{100};

// Source: gRPC's doc/PROTOCOL-HTTP2.md, "Errors".
grpc::StatusCode CodeOfReset(uint32_t code) {
  switch (code) {
    case NGHTTP2_REFUSED_STREAM:
      return grpc::StatusCode::UNAVAILABLE;
    case NGHTTP2_CANCEL:
      return grpc::StatusCode::CANCELLED;
    case NGHTTP2_ENHANCE_YOUR_CALM:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case NGHTTP2_INADEQUATE_SECURITY:
      return grpc::StatusCode::PERMISSION_DENIED;
    default:
      return grpc::StatusCode::INTERNAL;
  }
}

// The stream has ended before its status. `why`: why its connection has, if it has.
grpc::Status StatusOfEnd(uint32_t code, const std::string& why) {
  if (code != proxy::kConnectionLost) {
    return {CodeOfReset(code), "the call was reset: " + proxy::ResetReason(code)};
  }
  return {grpc::StatusCode::UNAVAILABLE,
          "the connection has ended" + (why.empty() ? why : ": " + why)};
}

grpc::Status Cancelled() { return {grpc::StatusCode::CANCELLED, "the call was cancelled"}; }

// The value of `grpc-timeout`, which has at most 8 digits.
std::string TimeoutValue(std::chrono::milliseconds timeout) {
  constexpr int64_t kMaxDigits = 99'999'999;
  if (timeout.count() <= kMaxDigits) return std::to_string(timeout.count()) + "m";
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(timeout).count()) + "S";
}

// Those of all clients.
struct Loops {
  Mutex mutex;
  std::map<CallThread, std::shared_ptr<host::EventLoop>> started GUARDED_BY(mutex);
};
Loops& AllLoops() {
  static auto* const loops = new Loops();  // is never destroyed
  return *loops;
}

Result<std::shared_ptr<host::EventLoop>> StartLoop(const std::string& name) {
  Result<std::shared_ptr<host::EventLoop>> made = host::EventLoop::Make(name);
  if (!made.ok()) return made;
  try {
    (*made)->Start();
  } catch (const std::system_error& failure) {
    return Error{ErrorCode::kIo, failure.code().message(), std::string(kRaiseThreads)}.In(
        "start the thread `" + name + "`");
  }
  return made;
}

}  // namespace

Result<std::shared_ptr<host::EventLoop>> CallsLoop(CallThread thread) {
  Loops& loops = AllLoops();
  const MutexLock lock(loops.mutex);
  const auto found = loops.started.find(thread);
  if (found != loops.started.end()) return found->second;
  Result<std::shared_ptr<host::EventLoop>> made =
      StartLoop(thread == CallThread::kPlugins ? "plugins" : "calls");
  if (made.ok()) loops.started.emplace(thread, *made);
  return made;
}

void RunOn(CallThread thread, std::function<void()> task) {
  std::shared_ptr<host::EventLoop> loop;
  {
    Loops& loops = AllLoops();
    const MutexLock lock(loops.mutex);
    const auto found = loops.started.find(thread);
    if (found != loops.started.end()) loop = found->second;
  }
  if (loop == nullptr) return task();
  loop->Post(std::move(task));
}

// Made and destroyed on any thread, used and closed on that of the loop.
struct Client::Peer {
  Peer(std::shared_ptr<host::EventLoop> on, const std::string& path)
      : loop(std::move(on)), connection(*loop, path, path, kServedWithin, nullptr) {}
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() { connection.Close(); }  // the streams that are left get their OnClosed

  const std::shared_ptr<host::EventLoop> loop;
  proxy::ClientConnection connection;
  Mutex mutex;
  bool has_connected GUARDED_BY(mutex) = false;
  std::string failure GUARDED_BY(mutex);  // of the last attempt to connect; empty if it succeeded
};

// A call under way. Used on the loop's thread. Waiting tasks, the connection and the open stream
// own it.
class ClientCall::Exchange final : public proxy::StreamEvents,
                                   public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<Client::Peer> peer, Options options, std::string method,
           std::string request, Client::OnMessage on_message, Client::OnEnd on_end)
      : loop_(peer->loop),
        peer_(std::move(peer)),
        options_(options),
        method_(std::move(method)),
        request_(proxy::FrameOf(std::move(request))),
        unwritten_(request_.size()),
        on_message_(std::move(on_message)),
        on_end_(std::move(on_end)) {}

  host::EventLoop& loop() const { return *loop_; }

  void Begin() {
    if (on_end_ == nullptr) return;  // cancelled before this task was posted
    if (options_.timeout) {
      deadline_ = host::EventLoop::Clock::now() + *options_.timeout;
      timer_ = loop_->After(*options_.timeout, [weak = weak_from_this()] {
        const std::shared_ptr<Exchange> call = weak.lock();
        if (call == nullptr) return;
        call->timer_.reset();
        call->End(call->Late());
      });
    }
    Connect();
  }

  void End(const grpc::Status& status) {
    if (on_end_ == nullptr) return;
    const std::shared_ptr<Exchange> self = shared_from_this();
    // The peer would go on with the call, or wait for the rest of the request.
    if (session_ != nullptr && (!answered_ || unwritten_ > 0)) {
      session_->Reset(stream_, NGHTTP2_CANCEL);
    }
    // A call that has ended may be kept: the peer has not read the reset, or the timeout is long.
    if (timer_) loop_->Cancel(*std::exchange(timer_, std::nullopt));
    message_ = proxy::MessageReader();
    on_message_ = nullptr;
    // Not here: one of its sessions may be calling this.
    loop_->Post([peer = std::move(peer_)] {});
    const Client::OnEnd on_end = std::exchange(on_end_, nullptr);
    on_end(status);
  }

  void OnHeaders(proxy::Headers headers, bool end) override {
    const std::string_view http = headers.Find(":status");
    if (!end && http.starts_with('1')) return;  // more headers follow
    if (end) return Conclude(headers);
    if (std::exchange(begun_, true)) return;  // trailers without an end: the end follows
    if (http != "200") End(proxy::StatusIn(headers));
  }

  void OnData(const proxy::SharedBytes& data) override {
    if (session_ != nullptr) session_->Consumed(stream_, data.bytes.size());
    std::string_view bytes = data.bytes;
    while (!bytes.empty() && on_end_ != nullptr) {
      const std::string_view part = bytes.substr(0, message_.Missing());
      bytes.remove_prefix(part.size());
      grpc::Status read = message_.Append(part);
      // UNIMPLEMENTED would be about the method.
      if (read.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
        read = {grpc::StatusCode::INTERNAL,
                "the peer sent a compressed message, which was not accepted"};
      }
      if (read.ok() && message_.IsComplete()) read = on_message_(message_.TakeMessage());
      if (!read.ok()) End(read);
    }
  }

  void OnEnd() override { Conclude({}); }

  void OnWritten(size_t bytes) override { unwritten_ -= bytes; }

  void OnClosed(uint32_t code) override {
    const std::string why = std::exchange(session_, nullptr)->why();
    const std::shared_ptr<Exchange> last = std::move(life_);
    // A peer resets the call at its deadline, too: as gRPC does, whichever is read first.
    const bool is_late = options_.timeout && host::EventLoop::Clock::now() >= deadline_;
    End(code == NGHTTP2_CANCEL && is_late ? Late() : StatusOfEnd(code, why));
  }

 private:
  void Connect() {
    if (on_end_ == nullptr) return;
    peer_->connection.Take([self = shared_from_this()](const Result<proxy::Session*>& session) {
      self->Open(session);
    });
  }

  void Open(const Result<proxy::Session*>& session) {
    if (on_end_ == nullptr) return;
    const std::string failure = session.ok() ? std::string() : session.error().Text();
    {
      const MutexLock lock(peer_->mutex);
      if (session.ok()) peer_->has_connected = true;
      peer_->failure = failure;
    }
    if (!session.ok()) {
      if (!options_.waits_for_peer) return End({grpc::StatusCode::UNAVAILABLE, failure});
      loop_->After(kConnectPause, [self = shared_from_this()] { self->Connect(); });
      return;
    }
    const std::optional<int32_t> stream = (*session)->Request(RequestHeaders(), *this);
    if (!stream) {  // all stream numbers of the connection are used up
      peer_->connection.Retire(**session);
      return Connect();
    }
    session_ = *session;
    stream_ = *stream;
    life_ = shared_from_this();
    session_->Write(stream_, std::exchange(request_, {}));
    session_->End(stream_);
  }

  grpc::Status Late() const {
    std::string text = "Deadline Exceeded";
    if (peer_ != nullptr && stream_ == 0) {
      const MutexLock lock(peer_->mutex);
      if (!peer_->failure.empty()) text += ": " + peer_->failure;
    }
    return {grpc::StatusCode::DEADLINE_EXCEEDED, text};
  }

  // The wait for the peer has used a part of the timeout. A call that is over would have ended.
  std::chrono::milliseconds TimeLeft() const {
    using std::chrono::milliseconds;
    const auto left = std::chrono::ceil<milliseconds>(deadline_ - host::EventLoop::Clock::now());
    return std::max(left, milliseconds(1));
  }

  proxy::Headers RequestHeaders() const {
    proxy::Headers headers = {
        {":method", "POST"}, {":scheme", "http"}, {":path", method_}, {":authority", "localhost"}};
    headers.Add("te", "trailers");
    headers.Add("content-type", "application/grpc");
    headers.Add("user-agent", "alignd");
    headers.Add("grpc-accept-encoding", "identity");
    if (options_.timeout) headers.Add("grpc-timeout", TimeoutValue(TimeLeft()));
    return headers;
  }

  // The peer has sent everything.
  void Conclude(const proxy::Headers& last) {
    answered_ = true;
    const grpc::Status status = proxy::StatusIn(last);
    if (status.ok() && message_.HasBegun()) {
      return End({grpc::StatusCode::INTERNAL, "the answer ended within a message"});
    }
    End(status);
  }

  const std::shared_ptr<host::EventLoop> loop_;
  std::shared_ptr<Client::Peer> peer_;  // null once the call has ended
  const Options options_;
  host::EventLoop::Clock::time_point deadline_;  // if there is a timeout
  std::optional<host::EventLoop::Timer> timer_;  // until it or the call has ended
  const std::string method_;
  std::string request_;  // with gRPC's prefix, until it is sent
  size_t unwritten_;     // bytes of it
  Client::OnMessage on_message_;
  Client::OnEnd on_end_;               // null once the call has ended
  proxy::Session* session_ = nullptr;  // null before there is a stream, and once it is closed
  int32_t stream_ = 0;
  std::shared_ptr<Exchange> life_;                            // while there is a stream
  bool begun_ = false;                                        // the answer's headers have arrived
  bool answered_ = false;                                     // the answer is complete
  proxy::MessageReader message_{options_.max_message_bytes};  // that arrives
};

void ClientCall::Cancel() {
  std::shared_ptr<Exchange> exchange;
  {
    const MutexLock lock(mutex_);
    cancelled_ = true;
    exchange = exchange_.lock();
  }
  if (exchange == nullptr) return;
  host::EventLoop& loop = exchange->loop();
  loop.Post([exchange = std::move(exchange)] { exchange->End(Cancelled()); });
}

Result<std::shared_ptr<Client>> Client::Dial(std::string_view endpoint, CallThread thread) {
  const Result<std::string> path = rpc::SocketPath(endpoint);
  if (!path.ok()) return path.error().In("dial");
  Result<std::shared_ptr<host::EventLoop>> loop = CallsLoop(thread);
  if (!loop.ok()) return loop.error().In("dial " + *path);
  return std::shared_ptr<Client>(new Client(*loop, std::make_shared<Peer>(*loop, *path)));
}

Client::Client(std::shared_ptr<host::EventLoop> loop, std::shared_ptr<Peer> peer)
    : loop_(std::move(loop)), peer_(std::move(peer)) {}

Client::~Client() {
  loop_->Post([peer = std::move(peer_)] {});
}

void Client::Start(ClientCall& call, const std::string& method,
                   const google::protobuf::Message& request, OnMessage on_message, OnEnd on_end) {
  const auto exchange = std::make_shared<ClientCall::Exchange>(
      peer_, call.options_, method, request.SerializeAsString(), std::move(on_message),
      std::move(on_end));
  bool cancelled = false;
  {
    const MutexLock lock(call.mutex_);
    call.exchange_ = exchange;
    cancelled = call.cancelled_;
  }
  // From here on, the call may be cancelled, end and be destroyed on other threads.
  loop_->Post([exchange, cancelled] {
    if (cancelled) return exchange->End(Cancelled());
    exchange->Begin();
  });
}

void Client::StartUnary(ClientCall& call, const std::string& method,
                        const google::protobuf::Message& request,
                        google::protobuf::Message& response, OnEnd on_end) {
  const auto answer = std::make_shared<std::optional<std::string>>();
  Start(
      call, method, request,
      [answer](std::string message) {
        if (*answer) return proxy::MoreThanOneMessage();
        *answer = std::move(message);
        return grpc::Status();
      },
      [answer, &response, on_end = std::move(on_end)](const grpc::Status& status) {
        if (!status.ok()) return on_end(status);
        if (!*answer) {
          return on_end({grpc::StatusCode::INTERNAL, "success without an answer"});
        }
        on_end(rpc::Decode(**answer, response));
      });
}

grpc::Status Client::CallAndWait(ClientCall& call, const std::string& method,
                                 const google::protobuf::Message& request,
                                 google::protobuf::Message& response) {
  std::promise<grpc::Status> ended;
  StartUnary(call, method, request, response,
             [&ended](const grpc::Status& status) { ended.set_value(status); });
  return ended.get_future().get();
}

std::optional<std::string> Client::WhyNeverConnected() const {
  const MutexLock lock(peer_->mutex);
  if (peer_->has_connected) return std::nullopt;
  return peer_->failure;
}

void Client::After(std::chrono::milliseconds delay, std::function<void()> task) {
  loop_->Post([loop = loop_, delay, task = std::move(task)] { loop->After(delay, task); });
}

}  // namespace alignd::service
