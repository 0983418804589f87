#include "proxy/forwarder.h"

#include <fcntl.h>
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "host/event_loop.h"
#include "proxy/forwarded_call.h"
#include "proxy/runtime_connection.h"
#include "proxy/session.h"
#include "sync/mutex.h"

namespace alignd::proxy {
namespace {

// How long to wait when the process has no descriptor left for another connection.
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::seconds kTrimPause{5};  // not for every one of many short connections

Error ErrnoError(const char* what) {
  return Error{ErrorCode::kIo, std::generic_category().message(errno)}.In(what);
}

class LoopForwarder final : public Forwarder, private host::EventLoop::Watcher {
 public:
  LoopForwarder(std::shared_ptr<host::EventLoop> loop, host::Descriptor listening,
                Settings settings)
      : loop_(std::move(loop)),
        listening_(std::move(listening)),
        handlers_(std::move(settings.handlers)),
        runtime_(*loop_, std::move(settings.runtime_socket), settings.served_within,
                 std::move(settings.runtime_lost)) {}
  LoopForwarder(const LoopForwarder&) = delete;
  LoopForwarder& operator=(const LoopForwarder&) = delete;
  ~LoopForwarder() override { Stop(std::chrono::milliseconds(0)); }

  Result<Done> Start() {
    const Result<Done> watched = loop_->Watch(listening_.fd(), EPOLLIN, *this);
    if (!watched.ok()) return watched.error();
    loop_->Start();
    started_ = true;
    return Done{};
  }

  void Stop(std::chrono::milliseconds grace) override {
    if (!started_) return;
    loop_->Post([this, grace] { Drain(grace); });
    {
      const MutexLock lock(mutex_);
      while (!ended_) all_ended_.Wait(mutex_);
    }
    loop_->Stop();
  }

 private:
  // --- On the loop's thread.

  void OnReady(uint32_t) override {
    const int fd = accept4(listening_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      Serve(host::Descriptor(fd));
      return;
    }
    // Another process may have taken the connection that we were woken for.
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    spdlog::error("take a connection: {}", std::generic_category().message(errno));
    loop_->Unwatch(listening_.fd());
    AcceptLater();
  }

  void AcceptLater() {
    loop_->After(kAcceptPause, [this] {
      if (draining_) return;
      const Result<Done> watched = loop_->Watch(listening_.fd(), EPOLLIN, *this);
      if (!watched.ok()) AcceptLater();
    });
  }

  void Serve(host::Descriptor socket) {
    const auto self = std::make_shared<Session*>(nullptr);
    Session::Callbacks callbacks;
    callbacks.accept = [this, self](int32_t stream) { return Begin(**self, stream); };
    callbacks.on_closed = [this, self](const std::string&) {
      std::erase_if(callers_, [&](const auto& caller) { return caller.get() == *self; });
      GiveMemoryBackSoon();
      EndIfDrained();
    };
    auto session = Session::MakeServer(*loop_, std::move(socket), std::move(callbacks));
    if (!session.ok()) {
      spdlog::error("serve a connection: {}", session.error().message);
      return;
    }
    *self = session->get();
    callers_.push_back(*std::move(session));
  }

  StreamEvents* Begin(Session& caller, int32_t stream) {
    const auto call = ForwardedCall::Make({loop_, runtime_, handlers_}, caller, stream);
    if (calls_.size() >= 2 * calls_at_sweep_ + 64) {
      std::erase_if(calls_, [](const auto& weak) { return weak.expired(); });
      calls_at_sweep_ = calls_.size();
    }
    calls_.push_back(call);
    return &call->caller_events();
  }

  // Callers that did not read their answers may have left much of it, which the allocator keeps.
  void GiveMemoryBackSoon() {
    if (std::exchange(trims_soon_, true)) return;
    loop_->After(kTrimPause, [this] {
      trims_soon_ = false;
      malloc_trim(0);
    });
  }

  void Drain(std::chrono::milliseconds grace) {
    if (std::exchange(draining_, true)) return;
    loop_->Unwatch(listening_.fd());
    for (const auto& caller : callers_) caller->Drain();
    loop_->After(grace, [this] { CutOff(); });
    EndIfDrained();
  }

  void EndIfDrained() {
    if (draining_ && callers_.empty()) loop_->Post([this] { End(); });
  }

  void CutOff() {
    const grpc::Status stopping(grpc::StatusCode::UNAVAILABLE, "alignd is stopping");
    for (const auto& weak : std::exchange(calls_, {})) {
      if (const auto call = weak.lock()) call->Abort(stopping);
    }
    End();
  }

  void End() {
    for (const auto& caller : callers_) caller->Close();
    callers_.clear();
    runtime_.Close();
    const MutexLock lock(mutex_);
    ended_ = true;
    all_ended_.NotifyAll();
  }

  const std::shared_ptr<host::EventLoop> loop_;
  const host::Descriptor listening_;
  const HandlerFactory handlers_;
  RuntimeConnection runtime_;
  std::vector<std::unique_ptr<Session>> callers_;
  std::vector<std::weak_ptr<ForwardedCall>> calls_;  // among them some that have ended
  size_t calls_at_sweep_ = 0;
  bool draining_ = false;
  bool trims_soon_ = false;
  bool started_ = false;  // not touched by the loop's thread

  Mutex mutex_;
  CondVar all_ended_;
  bool ended_ GUARDED_BY(mutex_) = false;
};

}  // namespace

Result<std::unique_ptr<Forwarder>> Forwarder::Start(host::Descriptor listening, Settings settings) {
  const int flags = fcntl(listening.fd(), F_GETFL);
  if (flags < 0 || fcntl(listening.fd(), F_SETFL, flags | O_NONBLOCK) < 0) {
    return ErrnoError("set up the listening socket");
  }
  Result<std::shared_ptr<host::EventLoop>> loop = host::EventLoop::Make();
  if (!loop.ok()) return loop.error();
  auto forwarder =
      std::make_unique<LoopForwarder>(*std::move(loop), std::move(listening), std::move(settings));
  const Result<Done> started = forwarder->Start();
  if (!started.ok()) return started.error();
  return std::unique_ptr<Forwarder>(std::move(forwarder));
}

}  // namespace alignd::proxy
