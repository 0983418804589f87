// An event loop with its thread.
#pragma once

#include <memory>

#include "host/event_loop.h"

namespace alignd::testing {

class LoopThread {
 public:
  LoopThread() { loop_->Start(); }
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;
  ~LoopThread() { loop_->Stop(); }

  const std::shared_ptr<host::EventLoop>& loop() const { return loop_; }

 private:
  const std::shared_ptr<host::EventLoop> loop_ = host::EventLoop::Make().value();
};

}  // namespace alignd::testing
