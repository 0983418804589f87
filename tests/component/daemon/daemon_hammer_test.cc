// Many clients at once. At every change of a container, the fixture checks that no other container
// may use an exclusive CPU.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

class DaemonHammer : public DaemonTest {
 protected:
  // The pods of one client. Two of them exist at a time.
  void Client(int client, int pods) {
    std::mt19937 random(static_cast<unsigned>(client));
    std::vector<std::string> sandboxes;
    for (int i = 0; i < pods; ++i) {
      const std::string uid = "c" + std::to_string(client) + "-" + std::to_string(i);
      const bool pinned = random() % 3 != 0;
      const v1::PodSandboxConfig pod = pinned ? PodConfig(uid) : BurstablePod(uid);
      const std::string sandbox = Run(pod);
      ASSERT_FALSE(sandbox.empty());
      sandboxes.push_back(sandbox);
      const int cpus = static_cast<int>(1 + random() % 3);
      const auto created = Create(sandbox, pod, pinned ? Pinned(cpus) : Shared());
      if (created.status.ok()) {
        const grpc::Status started = StartContainer(created.response.container_id());
        EXPECT_TRUE(started.ok()) << started.error_message();
        ++(pinned ? pinned_ : shared_);
      } else {
        EXPECT_EQ(created.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION)
            << created.status.error_message();
      }
      while (sandboxes.size() > 2 || (!sandboxes.empty() && random() % 4 == 0)) {
        const size_t victim = random() % sandboxes.size();
        EXPECT_TRUE(StopSandbox(sandboxes[victim]).ok());
        EXPECT_TRUE(RemoveSandbox(sandboxes[victim]).ok());
        sandboxes.erase(sandboxes.begin() + static_cast<std::ptrdiff_t>(victim));
      }
    }
    for (const std::string& sandbox : sandboxes) {
      EXPECT_TRUE(StopSandbox(sandbox).ok());
      EXPECT_TRUE(RemoveSandbox(sandbox).ok());
    }
  }

  std::atomic<int> pinned_ = 0;
  std::atomic<int> shared_ = 0;
};

TEST_F(DaemonHammer, ExclusiveCpusAreNeverShared) {
  Start();
  const Running bystander = RunOne(BurstablePod("bystander"), Shared());
  std::vector<std::thread> clients;
  for (int client = 0; client < 8; ++client) {
    clients.emplace_back([this, client] { Client(client, 50); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(pinned_, 50);
  EXPECT_GT(shared_, 50);
  EXPECT_TRUE(Eventually([&] { return CpusOf(bystander.container) == "0-27"; }));
  EXPECT_TRUE(Eventually([&] { return State().find("entries") == std::string::npos; })) << State();
}

}  // namespace
}  // namespace alignd::daemon
