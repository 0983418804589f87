#include "daemon/async_log.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "daemon/log_sinks.h"

namespace alignd::daemon {
namespace {

// Keeps the lines. Writes none before Open, like a full pipe.
class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void Open() { open_.set_value(); }
  std::vector<std::string> Lines() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& line) override {
    opened_.wait();
    lines_.emplace_back(line.payload.data(), line.payload.size());
  }
  void flush_() override {}

 private:
  std::promise<void> open_;
  std::shared_future<void> opened_ = open_.get_future().share();
  std::vector<std::string> lines_;
};

TEST(AsyncLog, WritesAllLinesInOrderBeforeItCloses) {
  const auto sink = std::make_shared<Sink>();
  sink->Open();
  AsyncLog log("info", sink);
  std::vector<std::string> expected;
  for (int i = 0; i < 100; ++i) {
    spdlog::debug("not at this level");
    spdlog::info("line {}", i);
    expected.push_back("line " + std::to_string(i));
  }
  EXPECT_TRUE(log.Close(std::chrono::seconds(30)));
  EXPECT_EQ(sink->Lines(), expected);
}

TEST(AsyncLog, EscapesWhatIsNoVisibleCharacter) {
  std::ostringstream out;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(out);
  sink->set_formatter(TextFormatter());
  AsyncLog log("info", sink);
  spdlog::warn("pod {}", "a\x1b[2J\nforged \u202e\xff größer");
  EXPECT_TRUE(log.Close(std::chrono::seconds(30)));
  EXPECT_TRUE(out.str().ends_with("Z warning pod a\\u001b[2J\\nforged \\u202e\\xff größer\n"))
      << out.str();
}

TEST(AsyncLog, BlocksNoThreadAndReportsHowManyLinesWereLost) {
  const auto sink = std::make_shared<Sink>();
  AsyncLog log("info", sink, /*max_lines=*/10);
  for (int i = 0; i < 100; ++i) spdlog::info("line {}", i);
  log.ReportLostLines();
  sink->Open();
  const std::string report = " lost: the log is written too slowly";  // one line, or more
  while (sink->Lines().empty() || !sink->Lines().back().ends_with(report)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(log.Close(std::chrono::seconds(30)));
  const std::vector<std::string> lines = sink->Lines();
  // Ten lines of the queue, one that was on its way to the sink, and the report of Close.
  EXPECT_LE(lines.size(), 12U);
  int lost = 0;
  int written = 0;
  for (const std::string& line : lines) {
    if (line.ends_with(report)) lost += std::stoi(line);
    if (line.starts_with("line ")) ++written;
  }
  // The first report takes the place of a line, which Close reports.
  EXPECT_EQ(written + lost, 100);
}

// Throws at each second line.
class FaultySink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  int written() const { return written_; }

 protected:
  void sink_it_(const spdlog::details::log_msg&) override {
    if (++tried_ % 2 == 0) throw std::runtime_error("no memory");
    ++written_;
  }
  void flush_() override {}

 private:
  int tried_ = 0;
  int written_ = 0;
};

TEST(AsyncLog, ALineThatCannotBeWrittenHoldsUpNoOtherLine) {
  const auto sink = std::make_shared<FaultySink>();
  AsyncLog log("info", sink);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 10; ++i) spdlog::info("line");
  EXPECT_TRUE(log.Close(std::chrono::seconds(30)));
  EXPECT_EQ(sink->written(), 5);
  EXPECT_TRUE(::testing::internal::GetCapturedStderr().starts_with(
      "alignd: a line of the log cannot be written: no memory\n"));
}

// Bytes that are allocated.
size_t Allocated() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

TEST(AsyncLog, TakesMemoryOnlyForLinesThatWait) {
  constexpr size_t kLines = AsyncLog::kMaxLines;
  constexpr size_t kMuch = kLines * 100;
  const auto sink = std::make_shared<Sink>();
  const size_t before = Allocated();
  if (before == 0) GTEST_SKIP() << "a sanitizer's allocator, which does not count";
  AsyncLog log("info", sink);
  EXPECT_LT(Allocated(), before + kMuch);
  for (size_t i = 0; i < kLines; ++i) spdlog::info("x");
  EXPECT_GT(Allocated(), before + kMuch);
  sink->Open();
  EXPECT_TRUE(log.Close(std::chrono::seconds(30)));
  ASSERT_EQ(sink->Lines().size(), kLines);
  // What the sink has kept is less.
  EXPECT_LT(Allocated(), before + kMuch);
}

TEST(AsyncLog, CloseDoesNotWaitForeverForAnOutputThatIsNotRead) {
  const auto sink = std::make_shared<Sink>();
  AsyncLog log("info", sink);
  spdlog::info("line");
  EXPECT_FALSE(log.Close(std::chrono::milliseconds(10)));
  sink->Open();
}

}  // namespace
}  // namespace alignd::daemon
