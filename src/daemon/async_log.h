// Writes the log on a thread of its own, so that a full pipe or a slow disk blocks no other thread.
#pragma once

#include <spdlog/logger.h>
#include <spdlog/sinks/sink.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "host/log_event.h"

namespace alignd::daemon {

class LineQueue;

// While it exists, spdlog's default logger writes through it. One at a time. If the queue is full,
// the oldest lines are dropped; the number of dropped lines is logged. One thread at a time.
class AsyncLog {
 public:
  static constexpr size_t kMaxLines = 2048;  // in the queue; 1 MB, while they wait
  static constexpr std::chrono::milliseconds kMaxFlush{2'000};

  // `sink`: as MakeLogSink makes it. Its formatter, or the sink itself, uses host::ReadLine.
  AsyncLog(const std::string& level, std::shared_ptr<spdlog::sinks::sink> sink,
           size_t max_lines = kMaxLines);
  AsyncLog(const AsyncLog&) = delete;
  AsyncLog& operator=(const AsyncLog&) = delete;
  ~AsyncLog() { Close(); }

  // Logs how many lines were dropped, or suppressed by limits, since the last call.
  void ReportLostLines();

  // Restores the logger from before and waits until all lines are written. False: they are not
  // after `patience`. Then end the process with _Exit: exit() would wait for the same output.
  bool Close(std::chrono::milliseconds patience = kMaxFlush);

 private:
  const host::LogFieldsOn fields_on_;
  const std::shared_ptr<spdlog::logger> previous_;
  std::shared_ptr<LineQueue> queue_;  // null once closed
  size_t reported_ = 0;
};

}  // namespace alignd::daemon
