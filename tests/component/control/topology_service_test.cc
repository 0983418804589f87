// The topology object over the control socket, and on alignctl's output.
#include "control/topology_service.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "alignd/noderesourcetopology/pod_fingerprint.h"
#include "control_fixture.h"
#include "edge/allocation_outcome.h"
#include "service/unary_server.h"

namespace alignd::control {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

class TopologyServiceTest : public ControlTest {
 protected:
  TopologyServiceTest() {
    server.reset();
    auto started = ControlServer::Start(
        services_.loop(), socket(),
        {.facts = {.version = "1.2.3", .node = "worker"},
         .node = world.node,
         .allocation = *world.manager,
         .conditions = conditions_,
         .names = [this] { return Names(); },
         .running =
             [this](const auto&) {
               const MutexLock lock(pods_mutex_);
               return pods_;
             },
         .published =
             [this](const auto& publication) {
               const MutexLock lock(pods_mutex_);
               published_.push_back(publication.failure());
             }},
        [this](std::function<void()> changed) {
          world.manager->OnChange([changed = std::move(changed)](const auto&) { changed(); });
        });
    if (!started.ok()) ADD_FAILURE() << started.error().Text();
    if (started.ok()) server = *std::move(started);
  }

  void SetPods(ReportSources::Pods pods) {
    const MutexLock lock(pods_mutex_);
    pods_ = std::move(pods);
  }
  v1::GetTopologyResponse Get(const std::string& known = "",
                              milliseconds wait = milliseconds(0)) const {
    const auto answer = ControlClient(socket()).GetTopology(RequestOf(known, wait));
    if (!answer.ok()) ADD_FAILURE() << answer.error().Text();
    return answer.ok() ? *answer : v1::GetTopologyResponse();
  }
  static v1::GetTopologyRequest RequestOf(const std::string& known, milliseconds wait) {
    v1::GetTopologyRequest request;
    request.set_name("worker-1");
    request.set_known_version(known);
    request.set_wait_ms(static_cast<uint32_t>(wait.count()));
    return request;
  }
  // The available amount in the zone.
  static std::string AvailableIn(const std::string& object, size_t zone, const std::string& name) {
    const json parsed = json::parse(object);
    for (const json& resource : parsed["zones"][zone]["resources"]) {
      if (resource["name"] == name) return resource["available"];
    }
    return "none";
  }
  static std::string FingerprintIn(const std::string& object) {
    return json::parse(object)["metadata"]
        .value("annotations", json::object())
        .value("topology.node.k8s.io/fingerprint", "none");
  }

  Mutex pods_mutex_;
  ReportSources::Pods pods_ GUARDED_BY(pods_mutex_);
  std::vector<std::string> published_ GUARDED_BY(pods_mutex_);
};

TEST_F(TopologyServiceTest, SaysWhatIsAvailableNow) {
  const v1::GetTopologyResponse before = Get();
  EXPECT_EQ(json::parse(before.object())["metadata"]["name"], "worker-1");
  EXPECT_EQ(AvailableIn(before.object(), 0, "cpu"), "7");
  EXPECT_EQ(AvailableIn(before.object(), 0, testing::kGpu), "4");
  EXPECT_EQ(Get().version(), before.version());
  ASSERT_TRUE(testing::AllocatedOf(world.Admit(testing::AppPod("a", 2, {{testing::kGpu, "1"}}))));
  const v1::GetTopologyResponse after = Get();
  EXPECT_NE(after.version(), before.version());
  EXPECT_EQ(AvailableIn(after.object(), 0, "cpu"), "5");
  EXPECT_EQ(AvailableIn(after.object(), 0, testing::kGpu), "3");
}

TEST_F(TopologyServiceTest, ACallThatKnowsTheNewestWaitsForTheNext) {
  const std::string known = Get().version();
  auto waiting = std::async(std::launch::async, [&] { return Get(known, seconds(30)); });
  EXPECT_EQ(waiting.wait_for(milliseconds(300)), std::future_status::timeout);
  world.Admit(testing::AppPod("a", 2));
  const v1::GetTopologyResponse answer = waiting.get();
  EXPECT_EQ(AvailableIn(answer.object(), 0, "cpu"), "5");
  // At once for a caller that is behind.
  EXPECT_EQ(Get(known, seconds(30)).version(), answer.version());
}

TEST_F(TopologyServiceTest, TheWaitEndsWithoutAnObjectIfNothingChanges) {
  const std::string known = Get().version();
  const auto begin = steady_clock::now();
  const v1::GetTopologyResponse answer = Get(known, milliseconds(700));
  EXPECT_GE(steady_clock::now() - begin, milliseconds(650));
  EXPECT_EQ(answer.version(), known);
  EXPECT_EQ(answer.object(), "");
}

TEST_F(TopologyServiceTest, APodThatIsAssignedNothingChangesTheFingerprint) {
  EXPECT_EQ(FingerprintIn(Get().object()), noderesourcetopology::PodFingerprint({}));
  // A pod without containers may not have its assignment yet.
  SetPods({{.uid = "a", .name = "web", .name_space = "ns", .containers = {}}});
  EXPECT_EQ(FingerprintIn(Get().object()), noderesourcetopology::PodFingerprint({}));
  const std::string known = Get().version();
  auto waiting = std::async(std::launch::async, [&] { return Get(known, seconds(30)); });
  SetPods({{.uid = "a", .name = "web", .name_space = "ns", .containers = {"app"}}});
  EXPECT_EQ(FingerprintIn(waiting.get().object()),
            noderesourcetopology::PodFingerprint({{"ns", "web"}}));
  // One that has no name makes it unknown.
  SetPods({{.uid = "b", .name = "", .name_space = "", .containers = {"app"}}});
  EXPECT_EQ(FingerprintIn(Get().object()), "none");
}

TEST_F(TopologyServiceTest, PassesOnWhatThePublisherSays) {
  Get();  // alignctl publishes nothing
  v1::GetTopologyRequest request = RequestOf("", milliseconds(0));
  request.mutable_publication()->set_failure("the API server answers 403");
  ASSERT_TRUE(ControlClient(socket()).GetTopology(request).ok());
  const MutexLock lock(pods_mutex_);
  EXPECT_EQ(published_, std::vector<std::string>{"the API server answers 403"});
}

TEST_F(TopologyServiceTest, RefusesFurtherCallersThatWait) {
  const std::string known = Get().version();
  std::vector<std::future<Result<v1::GetTopologyResponse>>> waiting;
  for (size_t i = 0; i <= TopologyService::kMaxWaiting; ++i) {
    waiting.push_back(std::async(std::launch::async, [&] {
      return ControlClient(socket()).GetTopology(RequestOf(known, seconds(3)));
    }));
  }
  size_t refused = 0;
  for (auto& call : waiting) refused += call.get().ok() ? 0 : 1;
  EXPECT_EQ(refused, 1U);
}

TEST_F(TopologyServiceTest, StopsWhileACallWaits) {
  const std::string known = Get().version();
  auto waiting = std::async(std::launch::async, [&] {
    return ControlClient(socket()).GetTopology(RequestOf(known, seconds(30)));
  });
  std::this_thread::sleep_for(milliseconds(200));
  server.reset();
  EXPECT_FALSE(waiting.get().ok());
  world.Admit(testing::AppPod("a", 1));  // the observer of changes is still there
}

TEST_F(TopologyServiceTest, AlignctlPrintsTheObject) {
  world.Admit(testing::AppPod("a", 2));
  const testing::Printed printed =
      Alignctl({"topology", "-o", "nrt", "--node-name", "worker-1", "--socket", socket()});
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_EQ(json::parse(printed.out), json::parse(Get().object()));
  const testing::Printed yaml =
      Alignctl({"topology", "-o", "nrt-yaml", "--node-name", "worker-1", "--socket", socket()});
  EXPECT_NE(yaml.out.find("kind: \"NodeResourceTopology\"\n"), std::string::npos) << yaml.out;
}

TEST_F(TopologyServiceTest, HasKoordinatorsAnnotationsIfAskedForThem) {
  const auto allocs = [](const v1::GetTopologyResponse& response) {
    const json metadata = json::parse(response.object())["metadata"];
    return metadata["annotations"].value("node.koordinator.sh/pod-cpu-allocs", "none");
  };
  v1::GetTopologyRequest request = RequestOf("", milliseconds(0));
  request.set_koordinator_annotations(true);
  const auto get = [&] { return ControlClient(socket()).GetTopology(request).value(); };
  world.Admit(testing::AppPod("a", 2));
  const std::string cpus = world.manager->snapshot()->state.cpu.HeldBy("a").ToString();
  EXPECT_EQ(allocs(Get()), "none");
  EXPECT_EQ(json::parse(allocs(get()))[0]["cpuset"], cpus);
  EXPECT_TRUE(get().koordinator_annotations());
  EXPECT_EQ(get().left_out(), "");
  // What a scheduler has decided, the scheduler counts itself.
  const std::string known = get().version();
  SetPods({{.uid = "a",
            .name = "web",
            .name_space = "ns",
            .containers = {"app"},
            .decided = *CpuSet::Parse(cpus)}});
  EXPECT_EQ(allocs(get()), "null");
  EXPECT_NE(get().version(), known);
  const testing::Printed printed = Alignctl({"topology", "-o", "nrt", "--koordinator-annotations",
                                             "--node-name", "worker-1", "--socket", socket()});
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_EQ(json::parse(printed.out), json::parse(get().object()));
}

// Without the flag, no placements could as well mean that alignd does not know the request.
TEST_F(TopologyServiceTest, SaysThatItReportsPlacementsIfAskedForThem) {
  EXPECT_FALSE(Get().pod_placements());
  v1::GetTopologyRequest request = RequestOf("", milliseconds(0));
  request.set_pod_placements(true);
  const auto answer = ControlClient(socket()).GetTopology(request);
  ASSERT_TRUE(answer.ok()) << answer.error().Text();
  EXPECT_TRUE(answer->pod_placements());
  EXPECT_EQ(answer->placements_size(), 0);
  // Nothing has changed since.
  request.set_known_version(answer->version());
  request.set_wait_ms(1);
  EXPECT_TRUE(ControlClient(socket()).GetTopology(request).ok());
}

TEST_F(TopologyServiceTest, ReportsPodsThatRunAndHaveNothingOnAZone) {
  v1::GetTopologyRequest request = RequestOf("", milliseconds(0));
  request.set_pod_placements(true);
  const auto values = [&] {
    std::map<std::string, std::string> by_name;
    const auto answer = ControlClient(socket()).GetTopology(request);
    if (!answer.ok()) ADD_FAILURE() << answer.error().Text();
    if (!answer.ok()) return by_name;
    for (const v1::PodPlacement& placement : answer->placements()) {
      by_name[placement.name_space() + "/" + placement.name()] = placement.value();
    }
    return by_name;
  };
  SetPods({{.uid = "known-to-runtime",
            .name = "name-of-runtime",
            .name_space = "default",
            .containers = {"app"}}});
  const std::map<std::string, std::string> expected = {{"default/name-of-runtime", ""}};
  EXPECT_EQ(values(), expected);
  world.Admit(testing::AppPod("known-to-runtime", 2));
  EXPECT_NE(values()["default/name-of-runtime"].find("\"cpu\":\"2\""), std::string::npos);
  // Neither runs nor has anything.
  ASSERT_TRUE(world.Release("known-to-runtime").ok());
  SetPods({});
  EXPECT_EQ(values().size(), 0U);
}

TEST_F(TopologyServiceTest, AnAligndWithoutTheMembersOfTheRequestIsRefused) {
  server.reset();
  auto old = service::UnaryServer::Start(services_.loop(), socket(),
                                         {{kGetTopology, [](const service::Call& call) {
                                             v1::GetTopologyResponse response;
                                             response.set_version("1");
                                             response.set_object("{}");
                                             call.answer(response.SerializeAsString());
                                           }}});
  ASSERT_TRUE(old.ok()) << old.error().Text();
  EXPECT_EQ(Get().object(), "{}");
  v1::GetTopologyRequest request = RequestOf("", milliseconds(0));
  request.set_pod_placements(true);
  const auto placements = ControlClient(socket()).GetTopology(request);
  ASSERT_FALSE(placements.ok());
  EXPECT_NE(placements.error().remedy.find("--kai-numa-placement"), std::string::npos);
  request.set_pod_placements(false);
  request.set_koordinator_annotations(true);
  const auto koordinator = ControlClient(socket()).GetTopology(request);
  ASSERT_FALSE(koordinator.ok());
  EXPECT_NE(koordinator.error().remedy.find("--koordinator-annotations"), std::string::npos);
}

// Never an object that looks as if nothing were assigned.
TEST_F(TopologyServiceTest, WithoutAligndAlignctlPrintsTheBareNodeOnlyIfAsked) {
  server.reset();
  const testing::Printed none = Alignctl({"topology", "-o", "nrt", "--socket", socket()});
  EXPECT_EQ(none.status, 2);
  EXPECT_EQ(none.out, "");
  world.tree.Write({"node.json",
                    R"({"cpus":[[0,0,0,0,0],[1,1,0,0,0]],"numa":[{"id":0,"memory":1073741824}],)"
                    R"("devices":{"a.com/x":[{"id":"x0","numa":[0]}]}})"});
  world.tree.Write({"config.yaml",
                    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
                    "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"});
  const testing::Printed bare =
      Alignctl({"topology", "-o", "nrt", "--node", (world.tree.root() / "node.json").string(),
                "--config", (world.tree.root() / "config.yaml").string()});
  ASSERT_EQ(bare.status, 0) << bare.err;
  EXPECT_EQ(AvailableIn(bare.out, 0, "cpu"), "1");
  EXPECT_EQ(AvailableIn(bare.out, 0, "a.com/x"), "1");
  EXPECT_EQ(FingerprintIn(bare.out), "none");
  const testing::Printed for_koordinator =
      Alignctl({"topology", "-o", "nrt", "--koordinator-annotations", "--node",
                (world.tree.root() / "node.json").string()});
  EXPECT_EQ(json::parse(for_koordinator.out)["metadata"]["annotations"]
                                            ["kubelet.koordinator.sh/cpu-manager-policy"],
            R"({"policy":"none"})");
  EXPECT_EQ(Alignctl({"topology", "--koordinator-annotations"}).status, 1);
  const testing::Printed misnamed =
      Alignctl({"topology", "-o", "nrt", "--node-name", "Node_1", "--socket", socket()});
  EXPECT_EQ(misnamed.status, 1);
  EXPECT_EQ(misnamed.out, "");
  EXPECT_NE(misnamed.err.find("\"Node_1\" is not the name of a Node"), std::string::npos)
      << misnamed.err;
  const testing::Printed misplaced = Alignctl({"topology", "--node-name", "x"});
  EXPECT_EQ(misplaced.status, 1);
  EXPECT_NE(misplaced.err.find("add -o nrt"), std::string::npos) << misplaced.err;
}

}  // namespace
}  // namespace alignd::control
