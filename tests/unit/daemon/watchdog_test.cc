#include "daemon/watchdog.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <future>
#include <string>
#include <utility>

#include "daemon/sd_notify.h"
#include "edge/fake_tree.h"
#include "edge/logged.h"
#include "edge/unix_socket.h"
#include "host/descriptor.h"
#include "sync/task_queue.h"

namespace alignd::daemon {
namespace {

// Receives what alignd sends to systemd.
class WatchdogTest : public ::testing::Test {
 protected:
  WatchdogTest() { setenv("NOTIFY_SOCKET", Path().c_str(), /*replace=*/1); }
  ~WatchdogTest() override { unsetenv("NOTIFY_SOCKET"); }

  std::string Path() const { return (tree_.root() / "notify.sock").string(); }

  // The messages that have come since the last call.
  std::string Received() const {
    std::string received;
    std::array<char, 256> buffer{};
    for (;;) {
      const ssize_t size = recv(socket_.fd(), buffer.data(), buffer.size(), 0);
      if (size <= 0) return received;
      received.append(buffer.data(), static_cast<size_t>(size)) += ";";
    }
  }
  static Watchdog::Post To(TaskQueue& queue) {
    return [&queue](std::function<void()> task) { queue.Post(std::move(task)); };
  }
  // Waits until the queue has run what is posted to it.
  static void Drain(TaskQueue& queue) {
    std::promise<void> ran;
    queue.Post([&] { ran.set_value(); });
    ran.get_future().get();
  }

  const testing::FakeTree tree_;
  const host::Descriptor socket_ = testing::BindUnix(Path(), SOCK_DGRAM | SOCK_NONBLOCK);
};

TEST_F(WatchdogTest, PingsAfterEveryThreadHasAnswered) {
  TaskQueue decision("decision");
  TaskQueue background("background");
  Watchdog watchdog({{"decision", To(decision)}, {"background", To(background)}});
  EXPECT_FALSE(watchdog.Ping());  // begins the first round
  EXPECT_EQ(Received(), "");
  for (int round = 0; round < 3; ++round) {
    Drain(decision);
    Drain(background);
    EXPECT_TRUE(watchdog.Ping());
    EXPECT_EQ(Received(), "WATCHDOG=1;");
  }
}

TEST_F(WatchdogTest, DoesNotPingWhileAThreadIsBlocked) {
  TaskQueue decision("decision");
  TaskQueue background("background");
  Watchdog watchdog({{"decision", To(decision)}, {"background", To(background)}});
  watchdog.Ping();
  Drain(decision);
  Drain(background);
  std::promise<void> release;
  background.Post([blocked = release.get_future().share()] { blocked.wait(); });
  EXPECT_TRUE(watchdog.Ping());  // of the round before
  EXPECT_EQ(Received(), "WATCHDOG=1;");
  for (int i = 0; i < 3; ++i) {
    Drain(decision);
    EXPECT_FALSE(watchdog.Ping());
    EXPECT_EQ(Received(), "");
  }
  release.set_value();
  Drain(background);
  EXPECT_TRUE(watchdog.Ping());
  EXPECT_EQ(Received(), "WATCHDOG=1;");
}

// A restart would not help it. It has one task at most, and is asked again once it has run that.
TEST_F(WatchdogTest, PingsWhilePluginsAloneIsBlocked) {
  TaskQueue decision("decision");
  TaskQueue plugins("plugins");
  int asked = 0;
  const auto post = [&](std::function<void()> task) {
    ++asked;
    plugins.Post(std::move(task));
  };
  Watchdog watchdog({{"decision", To(decision)}, {"plugins", post}});
  std::promise<void> release;
  plugins.Post([blocked = release.get_future().share()] { blocked.wait(); });
  EXPECT_FALSE(watchdog.Ping());  // begins the first round
  for (int round = 0; round < 3; ++round) {
    Drain(decision);
    testing::Logged logged;
    EXPECT_TRUE(watchdog.Ping());
    EXPECT_EQ(Received(), "WATCHDOG=1;");
    EXPECT_NE(logged.Text().find("watchdog: thread `plugins` has not answered"), std::string::npos);
  }
  EXPECT_EQ(asked, 1);
  // Another one withholds the ping as ever.
  Drain(decision);
  std::promise<void> other;
  decision.Post([blocked = other.get_future().share()] { blocked.wait(); });
  EXPECT_TRUE(watchdog.Ping());  // of the round before
  EXPECT_FALSE(watchdog.Ping());
  EXPECT_EQ(Received(), "WATCHDOG=1;");
  other.set_value();
  release.set_value();
  Drain(decision);
  Drain(plugins);
  EXPECT_TRUE(watchdog.Ping());
  EXPECT_EQ(asked, 2);
}

TEST_F(WatchdogTest, ThreadThatDropsTasksDoesNotAnswer) {
  TaskQueue stopped("stopped");
  stopped.Stop();
  Watchdog watchdog({{"stopped", To(stopped)}});
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(watchdog.Ping());
  EXPECT_EQ(Received(), "");
}

TEST_F(WatchdogTest, LateAnswerMayOutliveTheWatchdog) {
  TaskQueue queue("late");
  std::promise<void> release;
  queue.Post([blocked = release.get_future().share()] { blocked.wait(); });
  {
    Watchdog watchdog({{"late", To(queue)}});
    watchdog.Ping();
  }
  release.set_value();
  Drain(queue);
}

TEST_F(WatchdogTest, PeriodIsAQuarterOfSystemdsInterval) {
  EXPECT_FALSE(WatchdogPeriod());
  setenv("WATCHDOG_USEC", "30000000", /*replace=*/1);
  EXPECT_EQ(WatchdogPeriod(), std::chrono::milliseconds(7'500));
  setenv("WATCHDOG_PID", std::to_string(getppid()).c_str(), /*replace=*/1);
  EXPECT_FALSE(WatchdogPeriod());  // another process must ping
  setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), /*replace=*/1);
  EXPECT_EQ(WatchdogPeriod(), std::chrono::milliseconds(7'500));
  for (const char* text : {"0", "", "30s"}) {
    setenv("WATCHDOG_USEC", text, /*replace=*/1);
    EXPECT_FALSE(WatchdogPeriod()) << text;
  }
  unsetenv("WATCHDOG_USEC");
  unsetenv("WATCHDOG_PID");
}

TEST_F(WatchdogTest, NotifiesAnAbstractSocket) {
  const std::string name = "alignd-watchdog-test-" + std::to_string(getpid());
  const host::Descriptor abstract(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(name, address.sun_path + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  ASSERT_EQ(bind(abstract.fd(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  setenv("NOTIFY_SOCKET", ("@" + name).c_str(), /*replace=*/1);
  NotifySystemd("READY=1");
  std::array<char, 16> buffer{};
  EXPECT_EQ(recv(abstract.fd(), buffer.data(), buffer.size(), 0), 7);
  EXPECT_STREQ(buffer.data(), "READY=1");
  EXPECT_EQ(Received(), "");
}

}  // namespace
}  // namespace alignd::daemon
