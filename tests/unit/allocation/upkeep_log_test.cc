#include "allocation/upkeep_log.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>

namespace alignd::allocation {
namespace {

// What is logged while it lives, a line each.
class Logged {
 public:
  Logged() {
    auto logger = std::make_shared<spdlog::logger>(
        "upkeep", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_));
    logger->set_pattern("%l %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~Logged() { spdlog::set_default_logger(before_); }
  // What has come since the last call.
  std::string Take() {
    std::string text = text_.str();
    text_.str("");
    return text;
  }

 private:
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream text_;
};

TEST(UpkeepLog, QuotaThatStaysIsSaidOnceForEachPodAndReason) {
  Logged logged;
  UpkeepLog log;
  const Error read_only{ErrorCode::kIo, "write cpu.max: read-only", "make it writable"};
  const std::string said =
      "warning pod a has exclusive CPUs and is throttled by its CFS quota: write cpu.max: "
      "read-only; make it writable\n";
  for (int i = 0; i < 3; ++i) log.QuotaStays("a", read_only);
  EXPECT_EQ(logged.Take(), said);
  log.QuotaStays("b", read_only);
  EXPECT_NE(logged.Take(), "");
  const auto since = log.Report().throttled_pods[0].since;
  log.QuotaStays("a", {ErrorCode::kIo, "write cpu.max: denied"});
  EXPECT_NE(logged.Take().find("denied"), std::string::npos);
  EXPECT_EQ(log.Report().throttled_pods[0].since, since);
  log.QuotaStays("a", read_only);
  EXPECT_EQ(logged.Take(), said);

  log.QuotaSettled("a");
  EXPECT_EQ(log.ThrottledPods(), std::set<std::string>{"b"});
  log.QuotaStays("a", read_only);
  EXPECT_EQ(logged.Take(), said);
}

}  // namespace
}  // namespace alignd::allocation
