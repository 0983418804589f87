#include "daemon/async_log.h"

#include <grpc/support/log.h>
#include <pthread.h>
#include <spdlog/async_logger.h>
#include <spdlog/spdlog.h>

#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "daemon/log_sinks.h"
#include "sync/mutex.h"

namespace alignd::daemon {
namespace {

// The lines of gRPC, which have bytes of its callers as they came. Its threads may log at any time.
class GrpcLines {
 public:
  // Null: gRPC writes them itself. Else the logger lives until the next call.
  static void WriteTo(spdlog::logger* logger) {
    gpr_set_log_function(logger != nullptr ? &GrpcLines::Write : nullptr);
    const MutexLock lock(mutex_);
    logger_ = logger;
  }

 private:
  static void Write(gpr_log_func_args* line) {
    static host::LineLimit limit("faults of gRPC's connections");
    const bool is_error = line->severity == GPR_LOG_SEVERITY_ERROR;
    if (is_error && !limit.Allow()) return;
    const MutexLock lock(mutex_);
    if (logger_ == nullptr) return;
    logger_->log(is_error ? spdlog::level::warn : spdlog::level::debug, "gRPC: {}", line->message);
  }

  inline static Mutex mutex_;
  inline static spdlog::logger* logger_ GUARDED_BY(mutex_) = nullptr;
};

}  // namespace

AsyncLog::AsyncLog(const std::string& level, std::shared_ptr<spdlog::sinks::sink> sink,
                   size_t max_lines)
    : previous_(spdlog::default_logger()),
      pool_(std::make_shared<spdlog::details::thread_pool>(
          max_lines, /*threads_n=*/1, [] { (void)pthread_setname_np(pthread_self(), "log"); })) {
  host::LineLimit::ReportAll();  // what was suppressed before belongs to the logger from before
  auto logger = std::make_shared<spdlog::async_logger>(
      "", std::move(sink), pool_, spdlog::async_overflow_policy::overrun_oldest);
  logger->set_level(spdlog::level::from_str(level));
  GrpcLines::WriteTo(logger.get());
  spdlog::set_default_logger(std::move(logger));
}

void AsyncLog::ReportLostLines() {
  host::LineLimit::ReportAll();
  const size_t lost = pool_->overrun_counter();
  if (lost == reported_) return;
  spdlog::warn("{} log lines were lost: the log is written too slowly", lost - reported_);
  reported_ = lost;
}

bool AsyncLog::Close(std::chrono::milliseconds patience) {
  if (!pool_) return true;
  ReportLostLines();
  GrpcLines::WriteTo(nullptr);
  spdlog::set_default_logger(previous_);
  // The pool's destructor writes the lines in the queue. It cannot be interrupted, so it runs on a
  // thread that may be left behind.
  auto written = std::make_shared<std::promise<void>>();
  const std::future<void> done = written->get_future();
  std::thread([pool = std::move(pool_), written]() mutable {
    pool.reset();
    written->set_value();
  }).detach();
  return done.wait_for(patience) == std::future_status::ready;
}

}  // namespace alignd::daemon
