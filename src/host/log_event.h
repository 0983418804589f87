// Lines of the log with fields: for the journal and for JSON. Also: limits for lines that other
// programs can provoke.
#pragma once

#include <spdlog/common.h>
#include <spdlog/details/log_msg.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sync/mutex.h"

namespace alignd::host {

// A kind of line. docs/configuration.md lists all of them. Each is a constant of the program.
struct LogKind {
  const char* name;        // "pod-refused": ALIGND_EVENT in the journal, `event` in JSON
  const char* message_id;  // MESSAGE_ID: 32 hexadecimal digits
};

inline constexpr LogKind kLogStarting{"starting", "7d1f0a5c2b6e4c0f9a3d5e8b1c274a60"};
inline constexpr LogKind kLogReady{"ready", "2f6c8e9b4d1a4b7e8c05f3a6d97b1e42"};
inline constexpr LogKind kLogStopping{"stopping", "c4a7e2d95b8f4163b0e9d7f2a8c5163e"};
inline constexpr LogKind kLogPodAdmitted{"pod-admitted", "91b5d3f7e8a24c6d8f1e0b7a5c3d9e24"};
inline constexpr LogKind kLogPodRefused{"pod-refused", "5e8d2c7a9f1b4e36a4c8d0f7b2e59163"};
inline constexpr LogKind kLogPodFailed{"pod-failed", "e3b9f5a17c2d48e0b6f4a9d8c1e57320"};
inline constexpr LogKind kLogPodReleased{"pod-released", "08f7c6b5a4d34e2f9183a7b6c5d4e3f2"};
inline constexpr LogKind kLogContainerMoved{"container-moved", "b27e4d8f6a1c4953a0d7e5f8c9b3a614"};
inline constexpr LogKind kLogCondition{"condition", "6a9e8d7c5b4f4a3e92d1c0b8f7a6e5d4"};
inline constexpr LogKind kLogResolved{"condition-resolved", "d8c3b7a2f6e14d5c9b0a8f7e6d5c4b31"};
inline constexpr LogKind kLogPlugin{"device-plugin", "f1e2d3c4b5a64978a8b9c0d1e2f30415"};
inline constexpr LogKind kLogSuppressed{"suppressed", "3c5d7e9f1a2b4c6d8e0f9a7b5c3d1e28"};

// The fields of a line, by their names in the journal: POD_UID, POD_NAME, POD_NAMESPACE, CONTAINER,
// RESOURCE, CONDITION. Empty values are left out.
using LogFields = std::vector<std::pair<const char*, std::string>>;

// "namespace/name" as the fields POD_NAMESPACE and POD_NAME.
void AddPodName(const std::string& pod, LogFields& fields);

// Logs the line to spdlog's default logger. The fields are part of it only while a log that knows
// them exists (LogFieldsOn). Thread-safe.
void LogEvent(const LogKind& kind, spdlog::level::level_enum level, const LogFields& fields,
              const std::string& message);

// A line, taken apart again by a sink.
struct LogLine {
  std::string message;
  const LogKind* kind = nullptr;  // null: a line without a kind
  std::vector<std::pair<std::string, std::string>> fields;
};

// Texts of other programs cannot forge fields.
LogLine ReadLine(const spdlog::details::log_msg& message);

// While one exists, LogEvent adds the fields, and the default logger's sink reads its lines with
// ReadLine. One at a time.
class LogFieldsOn {
 public:
  LogFieldsOn();
  LogFieldsOn(const LogFieldsOn&) = delete;
  LogFieldsOn& operator=(const LogFieldsOn&) = delete;
  ~LogFieldsOn();
};

// The limit of a kind of lines that other programs can provoke: a burst, then so many lines per
// second. What is more is counted, and the count is logged. An object of static storage.
// Thread-safe.
class LineLimit {
 public:
  static constexpr int kBurst = 200;
  static constexpr double kPerSecond = 5;

  // `what`: "registrations of device plugins".
  explicit LineLimit(const char* what);
  LineLimit(const LineLimit&) = delete;
  LineLimit& operator=(const LineLimit&) = delete;

  // Whether the next line may be logged.
  bool Allow();

  // Logs for each limit how many lines were suppressed since the last call.
  static void ReportAll();

 private:
  const char* const what_;
  Mutex mutex_;
  double tokens_ GUARDED_BY(mutex_) = kBurst;
  std::chrono::steady_clock::time_point last_ GUARDED_BY(mutex_);
  uint64_t suppressed_ GUARDED_BY(mutex_) = 0;
};

}  // namespace alignd::host
