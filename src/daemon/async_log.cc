#include "daemon/async_log.h"

#include <spdlog/details/log_msg_buffer.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <deque>
#include <exception>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "daemon/log_sinks.h"
#include "sync/mutex.h"
#include "sync/task_queue.h"

namespace alignd::daemon {

// The lines that wait for the log's thread, which writes them to `output`. Thread-safe. Unlike the
// queue of spdlog's async_logger, it takes memory only for lines that wait.
class LineQueue final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  LineQueue(std::shared_ptr<spdlog::sinks::sink> output, size_t max_lines)
      : output_(std::move(output)), max_lines_(max_lines) {}

  // How many lines were dropped.
  size_t lost() const {
    const MutexLock lock(mutex_);
    return lost_;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& line) override {
    {
      const MutexLock lock(mutex_);
      lines_.emplace_back(line);
      if (lines_.size() > max_lines_) {
        lines_.pop_front();  // the new line is written in its place
        ++lost_;
        return;
      }
    }
    thread_.Post([this] { WriteOne(); });
  }
  void flush_() override {}  // the outputs flush after each line

 private:
  void WriteOne() {
    try {
      output_->log(Take());
    } catch (const std::exception& fault) {
      std::fprintf(stderr, "alignd: a line of the log cannot be written: %s\n", fault.what());
    }
  }

  spdlog::details::log_msg_buffer Take() {
    const MutexLock lock(mutex_);
    spdlog::details::log_msg_buffer line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }

  const std::shared_ptr<spdlog::sinks::sink> output_;  // used by the log's thread alone
  const size_t max_lines_;
  mutable Mutex mutex_;
  std::deque<spdlog::details::log_msg_buffer> lines_ GUARDED_BY(mutex_);
  size_t lost_ GUARDED_BY(mutex_) = 0;
  TaskQueue thread_{"log"};  // one task for each line; ends first, and writes what waits
};

AsyncLog::AsyncLog(const std::string& level, std::shared_ptr<spdlog::sinks::sink> sink,
                   size_t max_lines)
    : previous_(spdlog::default_logger()),
      queue_(std::make_shared<LineQueue>(std::move(sink), max_lines)) {
  host::LineLimit::ReportAll();  // what was suppressed before belongs to the logger from before
  auto logger = std::make_shared<spdlog::logger>("", queue_);
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

void AsyncLog::ReportLostLines() {
  host::LineLimit::ReportAll();
  const size_t lost = queue_->lost();
  if (lost == reported_) return;
  spdlog::warn("{}{}: the log is written too slowly", lost - reported_,
               lost - reported_ == 1 ? " log line was lost" : " log lines were lost");
  reported_ = lost;
}

bool AsyncLog::Close(std::chrono::milliseconds patience) {
  if (!queue_) return true;
  ReportLostLines();
  spdlog::set_default_logger(previous_);
  // The queue's destructor writes the lines in it. It cannot be interrupted, so it runs on a thread
  // that may be left behind.
  auto written = std::make_shared<std::promise<void>>();
  const std::future<void> done = written->get_future();
  std::thread([queue = std::move(queue_), written]() mutable {
    queue.reset();
    written->set_value();
  }).detach();
  return done.wait_for(patience) == std::future_status::ready;
}

}  // namespace alignd::daemon
