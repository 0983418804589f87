#include "proxy/forwarder.h"

#include <fcntl.h>
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "alignd/base/counted.h"
#include "host/log_event.h"
#include "proxy/client_connection.h"
#include "proxy/connection_limit.h"
#include "proxy/forwarded_call.h"
#include "proxy/request_memory.h"
#include "proxy/session.h"
#include "sync/mutex.h"

namespace alignd::proxy {
namespace {

// The wait after an accept that failed, for example because the process has no free descriptor.
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::seconds kTrimPause{5};  // one trim for many short connections
// So many calls at a time take some megabytes, which the allocator keeps.
constexpr size_t kManyCalls = 1024;

Error ErrnoError(const char* what) {
  return Error{ErrorCode::kIo, std::generic_category().message(errno),
               "check alignd's LimitNOFILE= and the kernel's log"}
      .In(what);
}

class LoopForwarder final : public Forwarder, private host::EventLoop::Watcher {
 public:
  LoopForwarder(std::shared_ptr<host::EventLoop> loop, host::Descriptor listening,
                Settings settings)
      : loop_(std::move(loop)),
        listening_(std::move(listening)),
        handlers_(std::move(settings.handlers)),
        events_(settings.events),
        max_request_bytes_(settings.max_request_bytes),
        requests_(std::move(settings.parsed_bytes), settings.max_parsed_bytes,
                  settings.max_held_bytes),
        max_streams_(settings.max_streams),
        max_connections_(settings.max_connections) {
    if (!settings.runtime_socket.empty()) {
      const std::string name = "the runtime at " + settings.runtime_socket;
      runtime_ = std::make_unique<ClientConnection>(*loop_, std::move(settings.runtime_socket),
                                                    name, settings.served_within,
                                                    std::move(settings.runtime_lost));
    }
    held_.limit = settings.max_held_bytes;
    held_.exceeded = [this] { RelieveSoon(); };
    loop_->Post([this] { Accept(); });
  }
  LoopForwarder(const LoopForwarder&) = delete;
  LoopForwarder& operator=(const LoopForwarder&) = delete;
  ~LoopForwarder() override { Stop(std::chrono::milliseconds(0)); }

  void Stop(std::chrono::milliseconds grace) override {
    const MutexLock lock(mutex_);
    if (ended_) return;
    loop_->Post(WhileRunning([this, grace] { Drain(grace); }));
    while (!ended_) all_ended_.Wait(mutex_);
  }

 private:
  struct Caller {
    std::unique_ptr<Session> session;
    CallerProgram program;
    std::shared_ptr<uint64_t> last_call;  // as CallerConnection::last_call
  };

  // --- On the loop's thread, which goes on when the forwarder has ended.

  std::function<void()> WhileRunning(std::function<void()> task) const {
    return [running = running_, task = std::move(task)] {
      if (*running) task();
    };
  }

  void Accept() {
    const Result<Done> watched = loop_->Watch(listening_.fd(), EPOLLIN, *this);
    if (watched.ok()) return;
    spdlog::error("accept connections: {}", watched.error().message);
    AcceptLater();
  }

  void AcceptLater() {
    loop_->After(kAcceptPause, WhileRunning([this] {
                   if (!draining_) Accept();
                 }));
  }

  void OnReady(uint32_t) override {
    const int fd = accept4(listening_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      Serve(host::Descriptor(fd));
      return;
    }
    // Another process may have accepted the connection.
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    static host::LineLimit limit("connections that could not be accepted");
    if (limit.Allow())
      spdlog::error("accept a connection: {}", std::generic_category().message(errno));
    loop_->Unwatch(listening_.fd());
    AcceptLater();
  }

  void Serve(host::Descriptor socket) {
    CallerProgram program = PeerProgram(socket.fd());
    if (callers_.size() >= max_connections_ && !CloseOneFor(program)) return;
    const auto self = std::make_shared<Session*>(nullptr);
    Session::Callbacks callbacks;
    const auto last_call = std::make_shared<uint64_t>(0);
    callbacks.accept = [this, self, last_call, user = program.user](int32_t stream) {
      *last_call = ++calls_begun_;
      return Begin(**self, stream, user);
    };
    callbacks.on_closed = [this, self](const std::string&) {
      std::erase_if(callers_, [&](const Caller& caller) { return caller.session.get() == *self; });
      TrimMemorySoon();
      EndIfDrained();
    };
    auto session =
        Session::MakeServer(*loop_, std::move(socket), std::move(callbacks), max_streams_);
    if (!session.ok()) {
      static host::LineLimit limit("connections that could not be served");
      if (limit.Allow()) spdlog::error("serve a connection: {}", session.error().message);
      return;
    }
    *self = session->get();
    callers_.push_back({*std::move(session), std::move(program), last_call});
  }

  // False: the new connection is closed.
  bool CloseOneFor(const CallerProgram& newcomer) {
    std::vector<CallerConnection> open;
    for (const Caller& caller : callers_) {
      open.push_back({caller.program, caller.session->streams(), *caller.last_call});
    }
    const std::optional<size_t> chosen = ConnectionToClose(open, newcomer);
    static host::LineLimit limit("connections that were closed because there were too many");
    if (limit.Allow()) {
      spdlog::warn(
          "more than {} connections: closed one of process {}, which has the most, or whose cgroup "
          "has; find out why that program opens so many",
          max_connections_, (chosen ? open[*chosen].program : newcomer).process);
    }
    if (!chosen) return false;
    const auto position = callers_.begin() + static_cast<std::ptrdiff_t>(*chosen);
    const std::unique_ptr<Session> session = std::move(position->session);
    callers_.erase(position);
    session->Close();
    return true;
  }

  StreamEvents* Begin(Session& caller, int32_t stream, std::optional<uid_t> user) {
    if (calls_.size() >= kManyCalls) TrimMemorySoon();
    return &ForwardedCall::Make({loop_, runtime_.get(), handlers_, calls_, held_, requests_,
                                 max_request_bytes_, events_, user},
                                caller, stream);
  }

  void RelieveSoon() {
    if (std::exchange(relieves_soon_, true)) return;
    loop_->Post(WhileRunning([this] {
      relieves_soon_ = false;
      Relieve();
    }));
  }

  // Ends the largest calls of the connection that holds the most, then those of the next: other
  // programs' calls go on.
  void Relieve() {
    if (held_.total <= held_.limit) return;  // calls have ended since
    std::map<const Session*, size_t> by_caller;
    for (const ForwardedCall* const call : calls_) by_caller[call->caller()] += call->held();
    std::vector<ForwardedCall*> calls(calls_.begin(), calls_.end());
    std::ranges::sort(calls, std::ranges::greater(), [&](const ForwardedCall* call) {
      return std::pair(by_caller[call->caller()], call->held());
    });
    const std::string limit = std::to_string(held_.limit);
    const grpc::Status status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                              "the calls that alignd holds exceed " + limit +
                                  " bytes, and this connection has the most of them; send fewer "
                                  "calls at a time, and read their answers");
    size_t ended = 0;
    // To below the limit, so that the next bytes do not need the whole list again.
    const size_t enough = held_.limit / 4 * 3;
    for (ForwardedCall* const call : calls) {
      if (held_.total <= enough) break;
      if (!calls_.contains(call)) continue;
      call->Evict(status);
      ++ended;
    }
    if (ended == 0) return;
    static host::LineLimit lines("calls that were ended because they hold too much");
    if (!lines.Allow()) return TrimMemorySoon();
    spdlog::warn(
        "callers made alignd hold more than {} bytes of calls: ended {} of the connections "
        "that had the most; find out which program sends them",
        limit, Counted(ended, "call"));
    TrimMemorySoon();
  }

  // Callers that did not read their answers, and many calls at a time, may have caused much memory
  // to be allocated, which the allocator keeps.
  void TrimMemorySoon() {
    if (std::exchange(trims_soon_, true)) return;
    loop_->After(kTrimPause, WhileRunning([this] {
                   trims_soon_ = false;
                   malloc_trim(0);
                   if (calls_.size() >= kManyCalls) TrimMemorySoon();
                 }));
  }

  void Drain(std::chrono::milliseconds grace) {
    if (std::exchange(draining_, true)) return;
    loop_->Unwatch(listening_.fd());
    for (const Caller& caller : callers_) caller.session->Drain();
    loop_->After(grace, WhileRunning([this] { CutOff(); }));
    EndIfDrained();
  }

  void EndIfDrained() {
    if (draining_ && callers_.empty()) loop_->Post(WhileRunning([this] { End(); }));
  }

  void CutOff() {
    const grpc::Status stopping(grpc::StatusCode::UNAVAILABLE, "alignd is stopping");
    const ForwardedCall::Registry open = calls_;
    for (ForwardedCall* const call : open) {
      if (calls_.contains(call)) call->Abort(stopping);
    }
    End();
  }

  // The loop has nothing of this object any more when Stop returns. So the connections are
  // destroyed here, on the loop's thread.
  void End() {
    for (const Caller& caller : callers_) caller.session->Close();
    callers_.clear();
    if (runtime_) runtime_->Close();
    runtime_.reset();
    *running_ = false;
    const MutexLock lock(mutex_);
    ended_ = true;
    all_ended_.NotifyAll();
  }

  const std::shared_ptr<host::EventLoop> loop_;
  const host::Descriptor listening_;
  const HandlerFactory handlers_;
  CallEvents* const events_;  // may be null
  const size_t max_request_bytes_;
  const RequestMemory requests_;
  const uint32_t max_streams_;
  const size_t max_connections_;
  std::unique_ptr<ClientConnection> runtime_;  // null: there is none
  std::vector<Caller> callers_;
  uint64_t calls_begun_ = 0;
  HeldBytes held_;
  ForwardedCall::Registry calls_;
  bool relieves_soon_ = false;
  bool draining_ = false;
  bool trims_soon_ = false;
  const std::shared_ptr<bool> running_ = std::make_shared<bool>(true);  // the loop's thread only

  Mutex mutex_;
  CondVar all_ended_;
  bool ended_ GUARDED_BY(mutex_) = false;
};

}  // namespace

Result<std::unique_ptr<Forwarder>> Forwarder::Start(std::shared_ptr<host::EventLoop> loop,
                                                    host::Descriptor listening, Settings settings) {
  const int flags = fcntl(listening.fd(), F_GETFL);
  if (flags < 0 || fcntl(listening.fd(), F_SETFL, flags | O_NONBLOCK) < 0) {
    return ErrnoError("set up the listening socket");
  }
  return std::unique_ptr<Forwarder>(
      std::make_unique<LoopForwarder>(std::move(loop), std::move(listening), std::move(settings)));
}

}  // namespace alignd::proxy
