// What the tests of conditions share.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "reconcile/conditions.h"

namespace alignd::reconcile {

// What is logged while it lives, one line per message.
class Logged {
 public:
  Logged() {
    auto logger = std::make_shared<spdlog::logger>(
        "conditions", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_));
    logger->set_pattern("%l %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~Logged() { spdlog::set_default_logger(before_); }
  // What was logged since the last call.
  std::string Take() {
    std::string text = text_.str();
    text_.str("");
    return text;
  }

 private:
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream text_;
};

inline const Subject kApp{"c1", {"uid", "app"}, "default/web"};

// The only condition.
inline Condition Only(const std::vector<Condition>& report) {
  EXPECT_EQ(report.size(), 1U);
  return report.empty() ? Condition() : report.front();
}

}  // namespace alignd::reconcile
