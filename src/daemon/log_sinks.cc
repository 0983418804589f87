#include "daemon/log_sinks.h"

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <array>
#include <cctype>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "host/log_event.h"
#include "host/utc_time.h"

namespace alignd::daemon {
namespace {

using spdlog::details::log_msg;

std::string UtcTimeOf(const log_msg& message) {
  return host::UtcTime(message.time, /*with_ms=*/true);
}

std::string_view LevelOf(const log_msg& message) {
  const auto name = spdlog::level::to_string_view(message.level);
  return {name.data(), name.size()};
}

void Append(std::string_view text, spdlog::memory_buf_t& dest) {
  dest.append(text.data(), text.data() + text.size());
}

class TextLines final : public spdlog::formatter {
 public:
  void format(const log_msg& message, spdlog::memory_buf_t& dest) override {
    Append(UtcTimeOf(message) + " ", dest);
    message.color_range_start = dest.size();
    Append(LevelOf(message), dest);
    message.color_range_end = dest.size();
    Append(" " + host::ReadLine(message).message + "\n", dest);
  }
  std::unique_ptr<formatter> clone() const override { return std::make_unique<TextLines>(); }
};

// POD_UID is `podUid`.
std::string JsonName(const std::string& name) {
  std::string json;
  bool capital = false;
  for (const char c : name) {
    const int lower = std::tolower(static_cast<unsigned char>(c));
    if (c != '_') json += capital ? c : static_cast<char>(lower);
    capital = c == '_';
  }
  return json;
}

class JsonLines final : public spdlog::formatter {
 public:
  void format(const log_msg& message, spdlog::memory_buf_t& dest) override {
    const host::LogLine line = host::ReadLine(message);
    nlohmann::ordered_json object = {{"time", UtcTimeOf(message)}, {"level", LevelOf(message)}};
    if (line.kind != nullptr) object["event"] = line.kind->name;
    object["message"] = line.message;
    for (const auto& [name, value] : line.fields) object[JsonName(name)] = value;
    Append(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", dest);
  }
  std::unique_ptr<formatter> clone() const override { return std::make_unique<JsonLines>(); }
};

// As in syslog.
const char* PriorityOf(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return "7";
    case spdlog::level::warn:
      return "4";
    case spdlog::level::err:
    case spdlog::level::critical:
      return "3";
    default:
      return "6";
  }
}

// The journal adds the time by itself. Used by the log's thread alone.
class JournalSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit JournalSink(const std::filesystem::path& socket) : journal_(socket) {
    fallback_.set_formatter(TextFormatter());
  }

 protected:
  void sink_it_(const log_msg& message) override {
    host::LogLine line = host::ReadLine(message);
    host::Journal::Fields fields = {{"MESSAGE", line.message},
                                    {"PRIORITY", PriorityOf(message.level)},
                                    {"SYSLOG_IDENTIFIER", "alignd"}};
    if (line.kind != nullptr) {
      fields.emplace_back("MESSAGE_ID", line.kind->message_id);
      fields.emplace_back("ALIGND_EVENT", line.kind->name);
    }
    for (auto& field : line.fields) fields.push_back(std::move(field));
    if (!journal_.Send(fields).ok()) fallback_.log(message);
  }
  void flush_() override { fallback_.flush(); }

 private:
  host::Journal journal_;
  spdlog::sinks::stdout_sink_mt fallback_;
};

}  // namespace

std::unique_ptr<spdlog::formatter> TextFormatter() { return std::make_unique<TextLines>(); }
std::unique_ptr<spdlog::formatter> JsonFormatter() { return std::make_unique<JsonLines>(); }

LogFormat ChooseLogFormat(std::string_view name, int standard_output, const char* journal_stream) {
  if (name == "json") return LogFormat::kJson;
  if (name == "journal") return LogFormat::kJournal;
  const bool is_journal = name == "auto" && host::IsJournal(standard_output, journal_stream);
  return is_journal ? LogFormat::kJournal : LogFormat::kText;
}

std::shared_ptr<spdlog::sinks::sink> MakeLogSink(LogFormat format,
                                                 const std::filesystem::path& journal) {
  if (format == LogFormat::kJournal) return std::make_shared<JournalSink>(journal);
  if (format == LogFormat::kText) {
    auto sink = std::make_shared<spdlog::sinks::stdout_color_sink_mt>();
    sink->set_formatter(TextFormatter());
    return sink;
  }
  auto sink = std::make_shared<spdlog::sinks::stdout_sink_mt>();
  sink->set_formatter(JsonFormatter());
  return sink;
}

}  // namespace alignd::daemon
