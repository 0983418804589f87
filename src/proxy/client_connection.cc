#include "proxy/client_connection.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace alignd::proxy {
void ClientConnection::Take(Taker taker) {
  if (current_ == nullptr) {
    const Result<Done> connected = Connect();
    if (!connected.ok()) {
      taker(connected.error().In(name_));
      return;
    }
  }
  if (serves_) {
    taker(current_.get());
  } else {
    takers_.push_back(std::move(taker));
  }
}

Result<Done> ClientConnection::Connect() {
  host::Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(path_, address.sun_path);
  if (socket.fd() < 0) {
    return Error{ErrorCode::kIo, std::generic_category().message(errno),
                 "check alignd's LimitNOFILE= and the kernel's log"}
        .In("make a socket");
  }
  if (connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    // EAGAIN: the server's queue of connections is full.
    return Error{ErrorCode::kUnavailable, std::generic_category().message(errno), {}}.In("connect");
  }
  Session::Callbacks callbacks;
  callbacks.on_ready = [this] {
    serves_ = true;
    Settle(current_.get());
  };
  // Never called before the session has been stored.
  const auto self = std::make_shared<const Session*>(nullptr);
  callbacks.on_closed = [this, self](const std::string& why) { Forget(*self, why); };
  callbacks.on_going_away = [this, self] {
    if (current_.get() != *self) return;
    serves_ = false;
    old_.push_back(std::move(current_));  // no taker waits: nghttp2 takes settings alone as first
  };
  auto session = Session::MakeClient(loop_, std::move(socket), std::move(callbacks));
  if (!session.ok()) return session.error();
  current_ = *std::move(session);
  *self = current_.get();
  loop_.After(served_within_, [this, alive = alive_, number = ++connections_] {
    if (!*alive || connections_ != number || current_ == nullptr || serves_) return;
    Forget(current_.get(), "accepts connections but has not served any for " +
                               std::to_string(served_within_.count()) + " ms");
  });
  return Done{};
}

void ClientConnection::Retire(Session& session) {
  if (current_.get() != &session) return;
  serves_ = false;
  session.Drain();
  old_.push_back(std::move(current_));
}

void ClientConnection::Settle(const Result<Session*>& outcome) {
  for (const Taker& taker : std::exchange(takers_, {})) taker(outcome);
}

void ClientConnection::Forget(const Session* session, const std::string& why) {
  const bool was_old =
      std::erase_if(old_, [session](const auto& old) { return old.get() == session; }) > 0;
  if (was_old && lost_) lost_();  // a server's orderly stop begins with GOAWAY
  if (current_.get() != session) return;
  const std::unique_ptr<Session> gone = std::move(current_);
  serves_ = false;
  Settle(Error{ErrorCode::kUnavailable, why, {}}.In(name_));
  if (lost_) lost_();
}

void ClientConnection::Close() {
  for (const auto& session : old_) session->Close();
  if (current_ != nullptr) current_->Close();
}

}  // namespace alignd::proxy
