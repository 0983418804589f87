#include "proxy/connection_limit.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <vector>

#include "edge/process.h"
#include "host/descriptor.h"

namespace alignd::proxy {
namespace {

using Connections = std::vector<CallerConnection>;

const CallerProgram kKubelet{.process = 10, .cgroup = "0::/system.slice/kubelet.service\n"};
const CallerProgram kFlood{.process = 20, .cgroup = "0::/user.slice\n"};
const CallerProgram kOther{.process = 30, .cgroup = "0::/user.slice\n"};

TEST(ConnectionLimit, AProcessThatFloodsClosesItsOwn) {
  const Connections open = {{kKubelet, 0, 1}, {kFlood, 0, 0}, {kFlood, 0, 0}, {kFlood, 0, 0}};
  EXPECT_EQ(ConnectionToClose(open, kFlood), 1U);
  EXPECT_EQ(ConnectionToClose(open, kKubelet), 1U);
  EXPECT_EQ(ConnectionToClose(open, kOther), 1U);
}

TEST(ConnectionLimit, ThoseWithoutACallGoBeforeThoseThatHadOne) {
  const Connections open = {{kFlood, 1, 9}, {kFlood, 0, 5}, {kFlood, 0, 2}, {kFlood, 0, 0}};
  EXPECT_EQ(ConnectionToClose(open, kFlood), 3U);
  EXPECT_EQ(ConnectionToClose({open.begin(), open.begin() + 3}, kFlood), 2U);
}

// A process that keeps calls open on all its connections must not shut out the kubelet.
TEST(ConnectionLimit, BusyConnectionsOfTheFloodAreClosedForOthersOnly) {
  const Connections open = {{kKubelet, 1, 1}, {kFlood, 1, 2}, {kFlood, 3, 3}};
  EXPECT_EQ(ConnectionToClose(open, kFlood), std::nullopt);
  EXPECT_EQ(ConnectionToClose(open, kOther), 2U);
}

TEST(ConnectionLimit, OfEqualProcessesTheNewcomerGivesWay) {
  const Connections open = {{kKubelet, 1, 1}, {kKubelet, 1, 2}, {kOther, 1, 3}};
  EXPECT_EQ(ConnectionToClose(open, kOther), std::nullopt);
}

// 1,024 short programs, each with one connection and a call, do not shut out a kubelet that starts.
TEST(ConnectionLimit, ManyProcessesOfOneCgroupDoNotShutOutAnother) {
  Connections open;
  for (pid_t process = 100; process < 104; ++process) {
    open.push_back({{.process = process, .cgroup = kFlood.cgroup}, 1, 1});
  }
  EXPECT_EQ(ConnectionToClose(open, kKubelet), 3U);
  EXPECT_EQ(ConnectionToClose(open, kOther), std::nullopt);
  open[2].calls = 0;
  EXPECT_EQ(ConnectionToClose(open, kKubelet), 2U);
}

TEST(ConnectionLimit, KnowsTheProgramOfASocket) {
  std::array<int, 2> pair{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  const host::Descriptor one(pair[0]);
  const host::Descriptor other(pair[1]);
  const CallerProgram self = PeerProgram(one.fd());
  EXPECT_EQ(self.process, getpid());
  EXPECT_EQ(self.cgroup, testing::ReadText("/proc/self/cgroup"));
  EXPECT_NE(self.cgroup, "");
  EXPECT_EQ(self.user, geteuid());
  EXPECT_EQ(PeerProgram(-1).process, 0);
  EXPECT_EQ(PeerProgram(-1).cgroup, "");
  EXPECT_EQ(PeerProgram(-1).user, std::nullopt);
}

}  // namespace
}  // namespace alignd::proxy
