// A handler's `decide`: passes the first decision to the call, on the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "host/event_loop.h"
#include "proxy/forwarder.h"

namespace alignd::proxy {

// The state of one `decide`, shared by its copies. Thread-safe.
class PendingDecision {
 public:
  using Decided = std::function<void(CallHandler::Decision)>;  // runs on the loop's thread

  // The handler and `kept` live as long as a decision is possible.
  static Decided Make(std::shared_ptr<host::EventLoop> loop, Decided decided,
                      std::shared_ptr<CallHandler> handler, std::shared_ptr<const void> kept) {
    return [pending = std::make_shared<PendingDecision>(std::move(loop), std::move(decided),
                                                        std::move(handler), std::move(kept))](
               CallHandler::Decision decision) { pending->Decide(std::move(decision)); };
  }

  PendingDecision(std::shared_ptr<host::EventLoop> loop, Decided decided,
                  std::shared_ptr<CallHandler> handler, std::shared_ptr<const void> kept)
      : loop_(std::move(loop)),
        decided_(std::move(decided)),
        handler_(std::move(handler)),
        kept_(std::move(kept)) {}
  PendingDecision(const PendingDecision&) = delete;
  PendingDecision& operator=(const PendingDecision&) = delete;
  ~PendingDecision() {
    // Without effect if there was a decision.
    Decide(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                        "alignd dropped the request without a decision"));
  }

  void Decide(CallHandler::Decision decision) const {
    loop_->Post([decided = decided_, decision = std::move(decision)]() mutable {
      decided(std::move(decision));
    });
  }

 private:
  const std::shared_ptr<host::EventLoop> loop_;
  const Decided decided_;
  const std::shared_ptr<CallHandler> handler_;
  const std::shared_ptr<const void> kept_;
};

}  // namespace alignd::proxy
