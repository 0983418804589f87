// When a new leader decides, and when a former one releases the Lease.
#include "extender/leadership.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "edge/fake_leases.h"
#include "edge/process.h"
#include "extender/leader_endpoint.h"
#include "sync/mutex.h"

namespace alignd::extender {
namespace {

using namespace std::chrono_literals;
using ViewTime = std::chrono::steady_clock::time_point;

// The API server, and what a replica knows of it: a list is complete at once.
class LeadershipTest : public ::testing::Test {
 protected:
  LeadershipTest() { leases_.AddReleased("alignd-extender"); }

  std::unique_ptr<Leadership> Replica(const std::string& identity, std::chrono::milliseconds wait) {
    Leadership::Settings settings{.wait = wait};
    settings.election = {
        .identity = identity, .lease_duration = 3s, .renew_deadline = 2s, .retry_period = 20ms};
    return std::make_unique<Leadership>(
        settings,
        [this]() -> Result<apiserver::ApiCall> {
          return apiserver::ApiCall(
              [this](const std::string& method, const std::string& path,
                     const std::string& body) -> Result<apiserver::ApiAnswer> {
                const MutexLock lock(mutex_);
                const auto answer = leases_.Call(method, path, body);
                return apiserver::ApiAnswer{.status = answer.status, .body = answer.body};
              });
        },
        Leadership::View{.as_of =
                             [this] {
                               const MutexLock lock(mutex_);
                               return as_of_;
                             },
                         .list_again =
                             [this] {
                               const MutexLock lock(mutex_);
                               ++lists_;
                               if (lists_at_once_) as_of_ = std::chrono::steady_clock::now();
                             },
                         .pods_on_their_way = [this] { return pods_.load(); }});
  }
  static std::string Why(const Leadership& replica) {
    const auto permitted = replica.Permits();
    return permitted.ok() ? "" : permitted.error().Text();
  }
  static bool Decides(const Leadership& replica) {
    return testing::WaitUntil([&] { return Why(replica).empty(); });
  }
  // It leads, and does not decide yet.
  static bool WaitsForPods(const Leadership& replica) {
    return testing::WaitUntil([&] {
      return Why(replica).find("NewLeader: pods that the former leader let through") !=
             std::string::npos;
    });
  }

  Mutex mutex_;
  testing::FakeLeases leases_ GUARDED_BY(mutex_){"kube-system"};
  ViewTime as_of_ GUARDED_BY(mutex_){};
  int lists_ GUARDED_BY(mutex_) = 0;
  std::atomic<bool> lists_at_once_ = true;
  std::atomic<size_t> pods_ = 0;
};

TEST_F(LeadershipTest, DecidesWithWhatWasListedAfterItBecameTheLeader) {
  lists_at_once_ = false;
  {
    const MutexLock lock(mutex_);
    as_of_ = std::chrono::steady_clock::now();
  }
  const auto replica = Replica("a", 60s);
  ASSERT_TRUE(testing::WaitUntil([&] {
    const MutexLock lock(mutex_);
    return lists_ == 1;
  }));
  EXPECT_NE(Why(*replica).find("NewLeader: the nodes are listed again"), std::string::npos);
  {
    const MutexLock lock(mutex_);
    as_of_ = std::chrono::steady_clock::now();
  }
  EXPECT_EQ(Why(*replica), "");
  EXPECT_EQ(*replica->Permits(), 1U);
  EXPECT_NE(replica->MetricsPage().find("alignd_extender_leader 1\n"), std::string::npos);
  EXPECT_NE(replica->MetricsPage().find("alignd_extender_lease_transitions 5\n"),
            std::string::npos);
}

TEST_F(LeadershipTest, ReleasesTheLeaseWhenAllPodsAreShown) {
  const auto first = Replica("a", 60s);
  ASSERT_TRUE(Decides(*first));
  const auto second = Replica("b", 60s);
  pods_ = 1;
  std::thread shows([this] {
    std::this_thread::sleep_for(100ms);
    pods_ = 0;
  });
  first->HandOver(20s);
  shows.join();
  EXPECT_NE(Why(*first).find("this replica ends"), std::string::npos);
  // Without the wait of 60 s.
  EXPECT_TRUE(Decides(*second)) << Why(*second);
}

TEST_F(LeadershipTest, LeavesTheLeaseToExpireIfPodsAreOnTheirWay) {
  const auto first = Replica("a", 1s);
  ASSERT_TRUE(Decides(*first));
  const auto second = Replica("b", 5s);
  pods_ = 1;
  first->HandOver(50ms);
  {
    const MutexLock lock(mutex_);
    EXPECT_EQ(leases_.Spec()["holderIdentity"], "a");
  }
  ASSERT_TRUE(WaitsForPods(*second)) << Why(*second);
  const auto leads = std::chrono::steady_clock::now();
  ASSERT_TRUE(Decides(*second)) << Why(*second);
  EXPECT_GT(std::chrono::steady_clock::now() - leads, 500ms);
}

// It does not know which pods of the former leader are on their way.
TEST_F(LeadershipTest, DoesNotReleaseWhileItWaitsItself) {
  {
    const MutexLock lock(mutex_);
    leases_.Delete();
  }
  const auto first = Replica("a", 60s);
  ASSERT_TRUE(WaitsForPods(*first)) << Why(*first);
  first->HandOver(10s);
  const MutexLock lock(mutex_);
  EXPECT_EQ(leases_.Spec()["holderIdentity"], "a");
}

TEST(LeaderEndpoint, SaysWhatToDo) {
  apiserver::ApiAnswer given;
  LeaderEndpoint endpoint(
      {.name_space = "ns", .slice = "leader", .address = "fd00::7"},
      [&]() -> Result<apiserver::ApiCall> {
        return apiserver::ApiCall([&](const std::string& method, const std::string& path,
                                      const std::string& body) -> Result<apiserver::ApiAnswer> {
          EXPECT_EQ(method, "PATCH");
          EXPECT_TRUE(path.ends_with("/ns/endpointslices/leader")) << path;
          EXPECT_NE(body.find("fd00::7"), std::string::npos) << body;
          return given;
        });
      });
  const auto expect = [&](int status, const std::string& text) {
    given = {.status = status, .body = R"({"message":"why"})"};
    const auto done = endpoint.Announce();
    ASSERT_FALSE(done.ok());
    EXPECT_NE(done.error().Text().find("ns/leader: the API server answers " +
                                       std::to_string(status) + ": why; "),
              std::string::npos)
        << done.error().Text();
    EXPECT_NE(done.error().remedy.find(text), std::string::npos) << done.error().remedy;
  };
  expect(403, "allow the credential to patch endpointslices.discovery.k8s.io");
  expect(404, "create the EndpointSlice ns/leader");
  expect(422, "see that the addressType of the EndpointSlice ns/leader is that of fd00::7");
  given = {.status = 200};
  EXPECT_TRUE(endpoint.Announce().ok());
}

}  // namespace
}  // namespace alignd::extender
