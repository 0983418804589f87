#include "proxy/connection_limit.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <vector>

#include "host/descriptor.h"

namespace alignd::proxy {
namespace {

using Connections = std::vector<CallerConnection>;

constexpr pid_t kKubelet = 10;
constexpr pid_t kFlood = 20;
constexpr pid_t kOther = 30;

TEST(ConnectionLimit, AProcessThatFloodsClosesItsOwn) {
  const Connections open = {{.process = kKubelet, .calls = 0, .last_call = 1},
                            {.process = kFlood, .calls = 0, .last_call = 0},
                            {.process = kFlood, .calls = 0, .last_call = 0},
                            {.process = kFlood, .calls = 0, .last_call = 0}};
  EXPECT_EQ(ConnectionToClose(open, kFlood), 1U);
  EXPECT_EQ(ConnectionToClose(open, kKubelet), 1U);
  EXPECT_EQ(ConnectionToClose(open, kOther), 1U);
}

TEST(ConnectionLimit, ThoseWithoutACallGoBeforeThoseThatHadOne) {
  const Connections open = {{.process = kFlood, .calls = 1, .last_call = 9},
                            {.process = kFlood, .calls = 0, .last_call = 5},
                            {.process = kFlood, .calls = 0, .last_call = 2},
                            {.process = kFlood, .calls = 0, .last_call = 0}};
  EXPECT_EQ(ConnectionToClose(open, kFlood), 3U);
  EXPECT_EQ(ConnectionToClose({open.begin(), open.begin() + 3}, kFlood), 2U);
}

// A process that keeps calls open on all its connections must not shut out the kubelet.
TEST(ConnectionLimit, BusyConnectionsOfTheFloodAreClosedForOthersOnly) {
  const Connections open = {{.process = kKubelet, .calls = 1, .last_call = 1},
                            {.process = kFlood, .calls = 1, .last_call = 2},
                            {.process = kFlood, .calls = 3, .last_call = 3}};
  EXPECT_EQ(ConnectionToClose(open, kFlood), std::nullopt);
  EXPECT_EQ(ConnectionToClose(open, kOther), 2U);
}

TEST(ConnectionLimit, OfEqualProcessesTheNewcomerGivesWay) {
  const Connections open = {{.process = kKubelet, .calls = 1, .last_call = 1},
                            {.process = kKubelet, .calls = 1, .last_call = 2},
                            {.process = kOther, .calls = 1, .last_call = 3}};
  EXPECT_EQ(ConnectionToClose(open, kOther), std::nullopt);
}

TEST(ConnectionLimit, KnowsTheProcessOfASocket) {
  std::array<int, 2> pair{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  const host::Descriptor one(pair[0]);
  const host::Descriptor other(pair[1]);
  EXPECT_EQ(PeerProcess(one.fd()), getpid());
  EXPECT_EQ(PeerProcess(-1), 0);
}

}  // namespace
}  // namespace alignd::proxy
