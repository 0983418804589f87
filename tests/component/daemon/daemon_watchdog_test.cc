// The wiring of systemd's watchdog: its ping passes through the daemon's own threads.
#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>

#include "daemon/watchdog.h"
#include "daemon_fixture.h"
#include "service/client.h"

namespace alignd::daemon {
namespace {

class DaemonWatchdog : public DaemonTest {
 protected:
  using Threads = std::map<std::string, Watchdog::Post>;

  void SetUp() override {
    Start();
    ASSERT_TRUE(daemon_);
    threads_ = daemon_->WatchedThreads();
    ASSERT_TRUE(service::CallsLoop(service::CallThread::kPlugins).ok());  // starts with a plugin
  }

  // The name of the thread that runs what is posted. Returns when it has run what was posted
  // before.
  static std::string NameBehind(const Watchdog::Post& post) {
    const auto ran = std::make_shared<std::promise<std::string>>();
    post([ran] {
      std::array<char, 16> name{};
      (void)pthread_getname_np(pthread_self(), name.data(), name.size());
      ran->set_value(name.data());
    });
    std::future<std::string> name = ran->get_future();
    return name.wait_for(kPatience) == std::future_status::ready ? name.get() : "no answer";
  }

  Threads threads_;
};

// The threads that docs/architecture.md names: "only after `events` and `decision` have each run".
std::set<std::string> DocumentedThreads() {
  std::ifstream file(ALIGND_SOURCE_DIR "/docs/architecture.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::smatch sentence;
  if (!std::regex_search(text, sentence, std::regex("only after ([^.|]*) have each run a task"))) {
    return {};
  }
  const std::string list = sentence[1];
  const std::regex name("`([a-z]+)`");
  std::set<std::string> names;
  for (std::sregex_iterator match(list.begin(), list.end(), name), end; match != end; ++match) {
    names.insert((*match)[1]);
  }
  return names;
}

TEST_F(DaemonWatchdog, AsksExactlyTheThreadsThatTheDocumentsName) {
  std::set<std::string> names;
  for (const auto& [name, post] : threads_) {
    names.insert(name);
    EXPECT_EQ(NameBehind(post), name);
  }
  EXPECT_FALSE(names.empty());
  EXPECT_EQ(names, DocumentedThreads());
}

// A file system that hangs blocks `plugins`, after a restart again.
TEST_F(DaemonWatchdog, SendsNoPingWhileOneOfThemIsBlockedButPlugins) {
  for (const auto& [blocked, post] : threads_) {
    std::promise<void> release;
    post([released = release.get_future().share()] { released.wait(); });
    Watchdog watchdog(threads_);
    EXPECT_FALSE(watchdog.Ping());  // begins the first round
    for (const auto& [name, others] : threads_) {
      if (name == blocked) continue;
      EXPECT_EQ(NameBehind(others), name) << "while " << blocked << " waits";
    }
    EXPECT_EQ(watchdog.Ping(), blocked == "plugins") << blocked;
    release.set_value();
    for (const auto& [name, each] : threads_) EXPECT_EQ(NameBehind(each), name);
    EXPECT_TRUE(watchdog.Ping()) << blocked;
  }
}

}  // namespace
}  // namespace alignd::daemon
