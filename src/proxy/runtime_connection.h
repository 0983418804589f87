// The way to the runtime, made when somebody wants it and made anew when it breaks.
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
  // Gets the connection, or why there is none.
  using Taker = std::function<void(Result<Session*>)>;

  // `path`: of the runtime's socket. `served_within`: how long a runtime that takes the connection
  // may need until it serves it. `lost`: one has ended or broken; may be null.
  RuntimeConnection(host::EventLoop& loop, std::string path,
                    std::chrono::milliseconds served_within, std::function<void()> lost)
      : loop_(loop),
        path_(std::move(path)),
        served_within_(served_within),
        lost_(std::move(lost)) {}
  RuntimeConnection(const RuntimeConnection&) = delete;
  RuntimeConnection& operator=(const RuntimeConnection&) = delete;
  ~RuntimeConnection() { *alive_ = false; }

  // At once where the runtime serves already or is not there; else when it says that it serves, or
  // has not said so in time. Until then nothing is sent: a runtime that hangs would do later
  // what its caller was told had failed.
  void Take(Taker taker);
  // The session takes no more streams; the next Take is for another one.
  void Retire(Session& session);
  // Sends what is left; streams get OnClosed.
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
  bool serves_ = false;        // the current one
  uint64_t connections_ = 0;   // made so far
  std::vector<Taker> takers_;  // wait until it does
  // Take no more streams; go when theirs have ended.
  std::vector<std::unique_ptr<Session>> old_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace alignd::proxy
