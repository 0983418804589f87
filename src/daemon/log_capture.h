// The warnings of functions that a start uses, for commands that only look.
#pragma once

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace alignd::daemon {

// Collects the warnings of the functions that a start uses.
class WarningSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  std::vector<std::string> Take() { return std::move(texts_); }

 protected:
  void sink_it_(const spdlog::details::log_msg& line) override {
    if (line.level >= spdlog::level::warn)
      texts_.emplace_back(line.payload.data(), line.payload.size());
  }
  void flush_() override {}

 private:
  std::vector<std::string> texts_;
};

// While it exists, spdlog's lines go to `sink` only.
class LogCapture {
 public:
  explicit LogCapture(std::shared_ptr<WarningSink> sink) : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("check", std::move(sink)));
  }
  ~LogCapture() { spdlog::set_default_logger(before_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

 private:
  const std::shared_ptr<spdlog::logger> before_;
};

}  // namespace alignd::daemon
