// What the handlers share whose calls wait: for a listing, for a decision, for the runtime.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "proxy/forwarder.h"

namespace alignd::cri {

// Knows the caller's deadline, and whether it has cancelled the call. `cancelled` may be read on
// any thread; the rest is bound to the events thread.
class WaitingCall : public proxy::CallHandler {
 public:
  void OnDeadline(std::chrono::steady_clock::time_point deadline) final { deadline_ = deadline; }
  void OnCancelled() override { *cancelled_ = true; }

 protected:
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;

  const Deadline& deadline() const { return deadline_; }
  std::shared_ptr<const std::atomic<bool>> cancelled() const { return cancelled_; }

 private:
  Deadline deadline_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace alignd::cri
