// When calls are answered: after the first lists, and as long as the API server is heard.
#include "extender/cluster_feed.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "core/pod_builder.h"
#include "edge/process.h"
#include "fake_reader.h"

namespace alignd::extender {
namespace {

using namespace std::chrono_literals;

// Lists one node and nothing else; its watches end at once. Or it does not answer.
class SmallCluster {
 public:
  Result<std::unique_ptr<apiserver::ApiReader>> Connect() {
    if (is_away.load()) return Error{ErrorCode::kUnavailable, "it is away", "wait"};
    return std::unique_ptr<apiserver::ApiReader>(std::make_unique<Reader>());
  }
  std::atomic<bool> is_away = false;

 private:
  class Reader final : public apiserver::ApiReader {
   public:
    Result<apiserver::ApiAnswer> Get(const std::string& path, const Receive& receive) override {
      if (path.find("watch=1") == std::string::npos) {
        receive(R"({"metadata":{"resourceVersion":"5"},"items":[)");
        if (path.find("/nodes?") != std::string::npos) {
          receive(R"({"metadata":{"name":"w"},"status":{"allocatable":{"cpu":"8"}}})");
        }
        receive("]}");
      }
      return apiserver::ApiAnswer{.status = 200};
    }
    void Stop() override {}
  };
};

// As SmallCluster; its watches last until they are stopped, which takes long.
class SlowToStop {
 public:
  Result<std::unique_ptr<apiserver::ApiReader>> Connect() {
    return std::unique_ptr<apiserver::ApiReader>(std::make_unique<Reader>(*this));
  }
  std::atomic<int> watches = 0;
  std::atomic<int> stops = 0;
  std::atomic<bool> may_stop = false;
  std::atomic<bool> had_to_wait = false;

 private:
  class Reader final : public apiserver::ApiReader {
   public:
    explicit Reader(SlowToStop& cluster) : cluster_(cluster) {}
    Result<apiserver::ApiAnswer> Get(const std::string& path, const Receive& receive) override {
      if (path.find("watch=1") == std::string::npos) {
        receive(R"({"metadata":{"resourceVersion":"5"},"items":[]})");
        return apiserver::ApiAnswer{.status = 200};
      }
      ++cluster_.watches;
      while (!has_stopped_.load()) std::this_thread::sleep_for(1ms);
      return Error{ErrorCode::kUnavailable, "stopped", ""};
    }
    void Stop() override {
      ++cluster_.stops;
      if (!testing::WaitUntil([this] { return cluster_.may_stop.load(); }, 10s)) {
        cluster_.had_to_wait = true;
      }
      has_stopped_ = true;
    }

   private:
    SlowToStop& cluster_;
    std::atomic<bool> has_stopped_ = false;
  };
};

ClusterFeed::Settings FastSettings() {
  return {.stale_after = 2s, .coalesced = 1ms, .watch = {.first_pause = 10ms, .last_pause = 20ms}};
}

TEST(ClusterFeed, AnswersWhileTheApiServerIsHeard) {
  SmallCluster cluster;
  cluster.is_away = true;
  Extender extender({});
  ClusterFeed feed(
      FastSettings(), [&cluster] { return cluster.Connect(); }, extender);
  ASSERT_TRUE(testing::WaitUntil([&] {
    const auto problem = extender.Problem();
    return problem && problem->message ==
                          "NodesNotRead: nodes have not been listed yet: nodes: it "
                          "is away";
  })) << extender.Problem()->Text();
  cluster.is_away = false;
  ASSERT_TRUE(testing::WaitUntil([&] { return !extender.Problem(); }));
  EXPECT_EQ(extender.GetCounts().nodes, 1U);
  const std::string page = feed.MetricsPage();
  EXPECT_NE(page.find("alignd_extender_objects{kind=\"nodes\"} 1\n"), std::string::npos) << page;
  EXPECT_NE(page.find("alignd_extender_lists_total{kind=\"pods\"} 1\n"), std::string::npos) << page;
  // A new leader's nodes are newer than its term.
  const auto before = std::chrono::steady_clock::now();
  feed.ListAgain();
  EXPECT_TRUE(testing::WaitUntil([&] {
    return feed.MetricsPage().find("alignd_extender_lists_total{kind=\"pods\"} 2\n") !=
           std::string::npos;
  })) << feed.MetricsPage();
  EXPECT_TRUE(testing::WaitUntil([&] { return feed.AsOf() > before; }));
  cluster.is_away = true;
  ASSERT_TRUE(testing::WaitUntil([&] { return extender.Problem().has_value(); }));
  EXPECT_TRUE(extender.Problem()->message.starts_with("StaleNodes: "))
      << extender.Problem()->Text();
  cluster.is_away = false;
  EXPECT_TRUE(testing::WaitUntil([&] { return !extender.Problem(); }));
}

// The thread that renews the Lease calls it.
TEST(ClusterFeed, DoesNotWaitForWatchesThatEndSlowly) {
  SlowToStop cluster;
  Extender extender({});
  ClusterFeed feed(
      FastSettings(), [&cluster] { return cluster.Connect(); }, extender);
  ASSERT_TRUE(testing::WaitUntil([&] { return cluster.watches == 3; }));
  feed.ListAgain();
  EXPECT_TRUE(testing::WaitUntil([&] { return cluster.stops > 0; }));
  cluster.may_stop = true;
  EXPECT_TRUE(testing::WaitUntil([&] {
    return feed.MetricsPage().find("alignd_extender_lists_total{kind=\"pods\"} 2\n") !=
           std::string::npos;
  })) << feed.MetricsPage();
  EXPECT_FALSE(cluster.had_to_wait);
}

// With the credential that is repaired now, or the API server that is back.
TEST(ClusterFeed, ListsAgainDuringThePauseAfterAFailure) {
  SmallCluster cluster;
  cluster.is_away = true;
  Extender extender({});
  ClusterFeed::Settings settings = FastSettings();
  settings.watch.first_pause = 1h;
  settings.watch.last_pause = 1h;
  ClusterFeed feed(
      settings, [&cluster] { return cluster.Connect(); }, extender);
  ASSERT_TRUE(testing::WaitUntil([&] {
    const std::string page = feed.MetricsPage();
    return page.find("alignd_extender_api_failures_total{kind=\"nodes\"} 1\n") !=
               std::string::npos &&
           page.find("alignd_extender_api_failures_total{kind=\"pods\"} 1\n") !=
               std::string::npos &&
           page.find("alignd_extender_api_failures_total{kind=\"noderesourcetopologies\"} 1\n") !=
               std::string::npos;
  }));
  cluster.is_away = false;
  feed.ListAgain();
  EXPECT_TRUE(testing::WaitUntil([&] { return !extender.Problem(); }));
}

}  // namespace
}  // namespace alignd::extender
