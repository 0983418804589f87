// The connection to the runtime. It is made when a call needs it, and made again after it broke.
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
class RuntimeConnection {
 public:
  // Gets the connection, or the reason why there is none.
  using Taker = std::function<void(Result<Session*>)>;

  // `path`: of the runtime's socket. `served_within`: the time between accepting the connection and
  // serving it that the runtime may need. `lost` runs when a connection has ended or broken; may be
  // null.
  RuntimeConnection(host::EventLoop& loop, std::string path,
                    std::chrono::milliseconds served_within, std::function<void()> lost)
      : loop_(loop),
        path_(std::move(path)),
        served_within_(served_within),
        lost_(std::move(lost)) {}
  RuntimeConnection(const RuntimeConnection&) = delete;
  RuntimeConnection& operator=(const RuntimeConnection&) = delete;
  ~RuntimeConnection() { *alive_ = false; }

  // Calls `taker` at once if the runtime serves the connection already, or is not there; else when
  // it serves the connection, or has not done so in time. Until then nothing is sent: otherwise a
  // runtime that hangs would later execute calls that have failed for their callers.
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
  const std::chrono::milliseconds served_within_;
  const std::function<void()> lost_;
  std::unique_ptr<Session> current_;
  bool serves_ = false;        // the runtime serves current_
  uint64_t connections_ = 0;   // made so far
  std::vector<Taker> takers_;  // wait until the runtime serves current_
  // They accept no more streams, and end with their last stream.
  std::vector<std::unique_ptr<Session>> old_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace alignd::proxy
