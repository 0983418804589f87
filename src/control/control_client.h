// Asks a running alignd. No gRPC in this header, so that the command line need not know it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "control/reports.h"

namespace alignd::control {

inline constexpr char kDefaultSocket[] = "unix:///run/alignd/control.sock";

// A value. Calls block until the answer is there, `timeout` at most.
class ControlClient {
 public:
  explicit ControlClient(std::string endpoint,
                         std::chrono::milliseconds timeout = std::chrono::seconds(10))
      : endpoint_(std::move(endpoint)), timeout_(timeout) {}

  // Errors: kUnavailable if nobody serves the socket; kInvalidArgument as rpc::SocketPath;
  // kDeadlineExceeded; kCorrupt if the answer makes no sense.
  Result<StatusReport> GetStatus() const;

  // `pod`: UID, name or namespace/name; empty: all. `limit`: of decisions; 0: the server's.
  // Newest first. Errors: as GetStatus.
  Result<std::vector<DecisionReport>> Explain(const std::string& pod, uint32_t limit) const;

 private:
  std::string endpoint_;
  std::chrono::milliseconds timeout_;
};

}  // namespace alignd::control
