// The log in the journal, as text and as JSON.
#include "daemon/log_sinks.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "allocation/decision_log.h"
#include "daemon/async_log.h"
#include "edge/fake_tree.h"
#include "edge/unix_socket.h"
#include "host/descriptor.h"
#include "host/log_event.h"
#include "reconcile/conditions.h"

namespace alignd::daemon {
namespace {

using Entry = std::map<std::string, std::string>;

// The socket of a journal, which takes the datagrams apart.
class FakeJournal {
 public:
  std::filesystem::path path() const { return tree_.root() / "socket"; }

  // All that was sent so far.
  std::vector<Entry> Take() {
    std::vector<Entry> entries;
    std::vector<char> bytes(1 << 20);
    for (;;) {
      const ssize_t size = recv(socket_.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (size < 0) return entries;
      entries.push_back(Parse({bytes.data(), static_cast<size_t>(size)}));
    }
  }

 private:
  static Entry Parse(const std::string& datagram) {
    Entry entry;
    for (size_t at = 0; at < datagram.size();) {
      const size_t end = datagram.find_first_of("=\n", at);
      const std::string name = datagram.substr(at, end - at);
      EXPECT_TRUE(std::regex_match(name, std::regex("[A-Z][A-Z0-9_]*"))) << name;
      size_t size = 0;
      size_t begin = end + 1;
      if (datagram[end] == '=') {
        size = datagram.find('\n', begin) - begin;
      } else {
        for (size_t i = 0; i < 8; ++i) {
          size += static_cast<size_t>(static_cast<unsigned char>(datagram[begin + i])) << (8 * i);
        }
        begin += 8;
      }
      EXPECT_EQ(datagram[begin + size], '\n');
      entry[name] = datagram.substr(begin, size);
      at = begin + size + 1;
    }
    return entry;
  }

  const testing::FakeTree tree_;
  const host::Descriptor socket_ = testing::BindUnix(path(), SOCK_DGRAM);
};

allocation::PodDecision Refused() {
  allocation::PodDecision decision;
  decision.pod_uid = "uid-1";
  decision.name_space = "default";
  decision.name = "train";
  decision.refusal = Refusal{"TopologyAffinityError", "does not fit"};
  return decision;
}

TEST(LogSinks, JournalGetsFieldsAndPriorities) {
  FakeJournal journal;
  AsyncLog log("debug", MakeLogSink(LogFormat::kJournal, journal.path()));
  allocation::DecisionLog().Add(Refused());
  reconcile::Conditions().FoundUnmanaged({{"id-1", {"uid-2", "app"}, "default/web"}});
  spdlog::error("disk full");
  spdlog::debug("detail");
  ASSERT_TRUE(log.Close(std::chrono::seconds(30)));
  const std::vector<Entry> entries = journal.Take();
  ASSERT_EQ(entries.size(), 4U);
  const Entry& refused = entries[0];
  EXPECT_EQ(refused.at("PRIORITY"), "4");  // journalctl -p warning shows it
  EXPECT_EQ(refused.at("SYSLOG_IDENTIFIER"), "alignd");
  EXPECT_EQ(refused.at("ALIGND_EVENT"), "pod-refused");
  EXPECT_EQ(refused.at("MESSAGE_ID"), host::kLogPodRefused.message_id);
  EXPECT_EQ(refused.at("POD_UID"), "uid-1");
  EXPECT_EQ(refused.at("POD_NAMESPACE"), "default");
  EXPECT_EQ(refused.at("POD_NAME"), "train");
  EXPECT_EQ(refused.at("REASON"), "TopologyAffinityError");
  EXPECT_TRUE(refused.at("MESSAGE").starts_with("pod default/train (uid-1) refused"))
      << refused.at("MESSAGE");
  const Entry& unmanaged = entries[1];
  EXPECT_EQ(unmanaged.at("CONDITION"), "UnmanagedContainer");
  EXPECT_EQ(unmanaged.at("CONTAINER"), "app");
  EXPECT_EQ(unmanaged.at("POD_NAME"), "web");
  EXPECT_EQ(entries[2],
            (Entry{{"MESSAGE", "disk full"}, {"PRIORITY", "3"}, {"SYSLOG_IDENTIFIER", "alignd"}}));
  EXPECT_EQ(entries[3].at("PRIORITY"), "7");
}

TEST(LogSinks, TextOfOthersForgesNoFieldAndIsCut) {
  FakeJournal journal;
  AsyncLog log("info", MakeLogSink(LogFormat::kJournal, journal.path()));
  spdlog::info("a\x1fPOD_UID=forged\nPRIORITY=0");
  host::LogEvent(host::kLogPlugin, spdlog::level::info,
                 {{"RESOURCE", "x\x1fPOD_UID=forged\n"}, {"POD_NAME", ""}}, "b\x1fPOD_UID=forged");
  spdlog::info(std::string(300'000, 'x'));
  ASSERT_TRUE(log.Close(std::chrono::seconds(30)));
  const std::vector<Entry> entries = journal.Take();
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].at("MESSAGE"), "a\\u001fPOD_UID=forged\\nPRIORITY=0");
  EXPECT_EQ(entries[0].at("PRIORITY"), "6");
  EXPECT_EQ(entries[1].at("MESSAGE"), "b\\u001fPOD_UID=forged");
  EXPECT_EQ(entries[1].at("RESOURCE"), "x\\u001fPOD_UID=forged\\n");
  for (const Entry& entry : entries) EXPECT_FALSE(entry.contains("POD_UID"));
  EXPECT_FALSE(entries[1].contains("POD_NAME"));
  EXPECT_EQ(entries[2].at("MESSAGE").size(), host::Journal::kMaxValue);
}

TEST(LogSinks, ValuesWithLineEndsHaveTheirLength) {
  FakeJournal fake;
  host::Journal journal(fake.path());
  ASSERT_TRUE(journal.Send({{"MESSAGE", "a\nb=c\n"}, {"X", ""}}).ok());
  EXPECT_EQ(fake.Take(), (std::vector<Entry>{{{"MESSAGE", "a\nb=c\n"}, {"X", ""}}}));
}

TEST(LogSinks, WithoutAJournalLinesGoToStandardOutput) {
  const testing::FakeTree tree;
  ::testing::internal::CaptureStdout();
  {
    AsyncLog log("info", MakeLogSink(LogFormat::kJournal, tree.root() / "none"));
    spdlog::warn("still seen");
    EXPECT_TRUE(log.Close(std::chrono::seconds(30)));
  }
  const std::string out = ::testing::internal::GetCapturedStdout();
  EXPECT_TRUE(std::regex_match(
      out, std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning still seen\n)")))
      << out;
}

TEST(LogSinks, EachLineOfJsonIsAnObject) {
  std::ostringstream out;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(out);
  sink->set_formatter(JsonFormatter());
  AsyncLog log("info", sink);
  allocation::DecisionLog().Add(Refused());
  spdlog::info("quote \" backslash \\ line\nend \xff \x1b[2J größer");
  ASSERT_TRUE(log.Close(std::chrono::seconds(30)));
  std::istringstream lines(out.str());
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_EQ(objects[0]["level"], "warning");
  EXPECT_EQ(objects[0]["event"], "pod-refused");
  EXPECT_EQ(objects[0]["podNamespace"], "default");
  EXPECT_EQ(objects[0]["podUid"], "uid-1");
  EXPECT_TRUE(std::regex_match(objects[0]["time"].get<std::string>(),
                               std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)")));
  EXPECT_EQ(objects[1]["message"], "quote \" backslash \\ line\\nend \\xff \\u001b[2J größer");
  EXPECT_FALSE(objects[1].contains("event"));
}

TEST(LogSinks, AutoChoosesTheJournalIfStandardOutputIsConnectedToIt) {
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const host::Descriptor in(pipe_ends[0]);
  const host::Descriptor out(pipe_ends[1]);
  struct stat status {};
  ASSERT_EQ(fstat(out.fd(), &status), 0);
  const std::string stream = std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
  EXPECT_EQ(ChooseLogFormat("auto", out.fd(), stream.c_str()), LogFormat::kJournal);
  EXPECT_EQ(ChooseLogFormat("auto", out.fd(), "8:1"), LogFormat::kText);
  EXPECT_EQ(ChooseLogFormat("auto", out.fd(), nullptr), LogFormat::kText);
  EXPECT_EQ(ChooseLogFormat("text", out.fd(), stream.c_str()), LogFormat::kText);
  EXPECT_EQ(ChooseLogFormat("json", out.fd(), stream.c_str()), LogFormat::kJson);
  EXPECT_EQ(ChooseLogFormat("journal", out.fd(), nullptr), LogFormat::kJournal);
}

TEST(LogSinks, LinesThatAPeerProvokesAreLimitedAndCounted) {
  FakeJournal journal;
  AsyncLog log("info", MakeLogSink(LogFormat::kJournal, journal.path()));
  static host::LineLimit limit("tests");
  int allowed = 0;
  constexpr int kTries = 2'000;
  for (int i = 0; i < kTries; ++i) allowed += limit.Allow() ? 1 : 0;
  EXPECT_GE(allowed, host::LineLimit::kBurst);
  EXPECT_LT(allowed, kTries);
  log.ReportLostLines();
  log.ReportLostLines();
  ASSERT_TRUE(log.Close(std::chrono::seconds(30)));
  const std::vector<Entry> entries = journal.Take();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].at("MESSAGE"), std::to_string(kTries - allowed) +
                                          " log lines about tests were suppressed: there were too "
                                          "many");
  EXPECT_EQ(entries[0].at("PRIORITY"), "4");
}

}  // namespace
}  // namespace alignd::daemon
