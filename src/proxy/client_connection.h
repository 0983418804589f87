// The connection to a server on a unix socket: the runtime, a device plugin. It is made when a call
// needs it, and made again after it broke.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "host/event_loop.h"
#include "proxy/session.h"

namespace alignd::proxy {

// Used on the loop's thread alone.
class ClientConnection {
 public:
  // Gets the connection, or the reason why there is none; that has a remedy if it is alignd's own.
  using Taker = std::function<void(Result<Session*>)>;

  // `path`: of the server's socket. `name`: of the server, in errors. `served_within`: the time
  // between accepting the connection and serving it that the server may need. `lost` runs when a
  // connection has ended or broken; may be null.
  ClientConnection(host::EventLoop& loop, std::string path, std::string name,
                   std::chrono::milliseconds served_within, std::function<void()> lost)
      : loop_(loop),
        path_(std::move(path)),
        name_(std::move(name)),
        served_within_(served_within),
        lost_(std::move(lost)) {}
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;
  ~ClientConnection() { *alive_ = false; }

  // Calls `taker` at once if the server serves the connection already, or is not there; else when
  // it serves the connection, or has not done so in time. Until then nothing is sent: otherwise a
  // server that hangs would later execute calls that have failed for their callers.
  void Take(Taker taker);
  // The session accepts no more streams; the next Take makes another one.
  void Retire(Session& session);
  // Sends what can be sent without waiting; streams get OnClosed.
  void Close();

 private:
  Result<Done> Connect();
  void Settle(const Result<Session*>& outcome);
  void Forget(const Session* session, const std::string& why);

  host::EventLoop& loop_;
  const std::string path_;
  const std::string name_;
  const std::chrono::milliseconds served_within_;
  const std::function<void()> lost_;
  std::unique_ptr<Session> current_;
  bool serves_ = false;        // the server serves current_
  uint64_t connections_ = 0;   // made so far
  std::vector<Taker> takers_;  // wait until the server serves current_
  // They accept no more streams, and end with their last stream.
  std::vector<std::unique_ptr<Session>> old_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace alignd::proxy
