#include "host/log_event.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>

#include "host/printable.h"

namespace alignd::host {
namespace {

// Between the message and its fields. Printable escapes it in both.
constexpr char kBetween = '\x1f';

// Marks the lines of LogEvent. Only the address counts: no other line has it.
constexpr char kMark[] = "alignd-event";

std::atomic<int> fields_on = 0;

struct Limits {
  Mutex mutex;
  std::vector<LineLimit*> all GUARDED_BY(mutex);
};

Limits& AllLimits() {
  static auto* const limits = new Limits();
  return *limits;
}

}  // namespace

void AddPodName(const std::string& pod, LogFields& fields) {
  const size_t slash = pod.find('/');
  if (slash == std::string::npos) return;
  fields.emplace_back("POD_NAMESPACE", pod.substr(0, slash));
  fields.emplace_back("POD_NAME", pod.substr(slash + 1));
}

void LogEvent(const LogKind& kind, spdlog::level::level_enum level, const LogFields& fields,
              const std::string& message) {
  spdlog::logger* const logger = spdlog::default_logger_raw();
  if (logger == nullptr || !logger->should_log(level)) return;
  if (fields_on == 0) return logger->log(level, "{}", message);
  std::string line = Printable(message);
  for (const auto& [name, value] : fields) {
    if (!value.empty()) line += kBetween + std::string(name) + "=" + Printable(value);
  }
  // The kind travels in the place of a function's name: both are constants of the program.
  logger->log(spdlog::source_loc(kMark, 1, reinterpret_cast<const char*>(&kind)), level, "{}",
              line);
}

LogLine ReadLine(const spdlog::details::log_msg& message) {
  const std::string_view payload(message.payload.data(), message.payload.size());
  if (message.source.filename != kMark) return {Printable(payload), nullptr, {}};
  LogLine line;
  line.kind = reinterpret_cast<const LogKind*>(message.source.funcname);
  size_t end = std::min(payload.find(kBetween), payload.size());
  line.message = std::string(payload.substr(0, end));
  while (end < payload.size()) {
    const size_t begin = end + 1;
    end = std::min(payload.find(kBetween, begin), payload.size());
    const std::string_view field = payload.substr(begin, end - begin);
    const size_t equals = field.find('=');
    line.fields.emplace_back(field.substr(0, equals), field.substr(equals + 1));
  }
  return line;
}

LogFieldsOn::LogFieldsOn() { ++fields_on; }
LogFieldsOn::~LogFieldsOn() { --fields_on; }

LineLimit::LineLimit(const char* what) : what_(what) {
  Limits& limits = AllLimits();
  const MutexLock lock(limits.mutex);
  limits.all.push_back(this);
}

bool LineLimit::Allow() {
  const auto now = std::chrono::steady_clock::now();
  const MutexLock lock(mutex_);
  const std::chrono::duration<double> passed = now - last_;
  tokens_ = std::min<double>(kBurst, tokens_ + passed.count() * kPerSecond);
  last_ = now;
  if (tokens_ >= 1) {
    tokens_ -= 1;
    return true;
  }
  ++suppressed_;
  return false;
}

void LineLimit::ReportAll() {
  std::vector<LineLimit*> all;
  {
    Limits& limits = AllLimits();
    const MutexLock lock(limits.mutex);
    all = limits.all;
  }
  for (LineLimit* const limit : all) {
    uint64_t suppressed = 0;
    {
      const MutexLock lock(limit->mutex_);
      std::swap(suppressed, limit->suppressed_);
    }
    if (suppressed == 0) continue;
    LogEvent(kLogSuppressed, spdlog::level::warn, {},
             std::to_string(suppressed) +
                 (suppressed == 1 ? " log line about " : " log lines about ") + limit->what_ +
                 (suppressed == 1 ? " was suppressed: there were too many"
                                  : " were suppressed: there were too many"));
  }
}

}  // namespace alignd::host
