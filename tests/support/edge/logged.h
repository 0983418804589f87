// The log of the test's own process.
#pragma once

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace alignd::testing {

// What is logged while it lives, one line per message. Thread-safe; but it begins and ends while no
// other thread logs.
class Logged {
 public:
  Logged() {
    auto logger = std::make_shared<spdlog::logger>("test", sink_);
    logger->set_pattern("%l %v");
    spdlog::set_default_logger(std::move(logger));
  }
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;
  ~Logged() { spdlog::set_default_logger(before_); }

  // What was logged since the last Take.
  std::string Text() const { return sink_->Text(); }
  std::string Take() { return sink_->Take(); }

 private:
  class Sink final : public spdlog::sinks::base_sink<std::mutex> {
   public:
    std::string Text() {
      const std::lock_guard lock(mutex_);
      return text_;
    }
    std::string Take() {
      const std::lock_guard lock(mutex_);
      return std::exchange(text_, "");
    }

   protected:
    void sink_it_(const spdlog::details::log_msg& line) override {
      spdlog::memory_buf_t text;
      formatter_->format(line, text);
      text_.append(text.data(), text.size());
    }
    void flush_() override {}

   private:
    std::string text_;
  };

  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  const std::shared_ptr<Sink> sink_ = std::make_shared<Sink>();
};

}  // namespace alignd::testing
