// alignd-events publishes the topology object: as a process, between a daemon and an API server
// with TLS that conflicts, refuses, forgets the credential, and is slow.
#include <gtest/gtest.h>
#include <httplib.h>

#include <chrono>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../daemon/daemon_fixture.h"
#include "alignd/noderesourcetopology/pod_fingerprint.h"
#include "certificates.h"
#include "control/control_client.h"
#include "core/koordinator_view.h"
#include "edge/process.h"
#include "edge/status_conditions.h"

namespace alignd::events {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr char kPath[] = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";

// What the server does instead of its work, for some calls.
struct Trouble {
  int status = 0;  // 0: none
  std::string retry_after = {};
  std::chrono::milliseconds delay{0};
};

// Keeps one object, with resource versions, as an API server does. It accepts one token.
class FakeTopologyServer {
 public:
  explicit FakeTopologyServer(const Certificates& certificates)
      : server_(certificates.Path("server.crt").c_str(), certificates.Path("server.key").c_str()) {
    const auto handle = [this](const httplib::Request& request, httplib::Response& response) {
      Trouble trouble;
      {
        const MutexLock lock(mutex_);
        ++calls_;
        if (request.get_header_value("Authorization") != "Bearer " + token_) {
          response.status = 401;
          return;
        }
        if (!troubles_.empty()) {
          trouble = troubles_.front();
          troubles_.pop_front();
        }
      }
      std::this_thread::sleep_for(trouble.delay);
      if (!trouble.retry_after.empty()) response.set_header("Retry-After", trouble.retry_after);
      const MutexLock lock(mutex_);
      response.status = trouble.status != 0 ? trouble.status : Work(request);
      response.set_content(trouble.status != 0 ? "trouble" : object_.dump(), "application/json");
    };
    server_.Get(std::string(kPath) + "/.*", handle);
    server_.Post(kPath, handle);
    server_.Put(std::string(kPath) + "/.*", handle);
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  FakeTopologyServer(const FakeTopologyServer&) = delete;
  FakeTopologyServer& operator=(const FakeTopologyServer&) = delete;
  ~FakeTopologyServer() {
    server_.stop();
    thread_.join();
  }

  int port() const { return port_; }
  json object() const {
    const MutexLock lock(mutex_);
    return object_;
  }
  void Accept(const std::string& token) {
    const MutexLock lock(mutex_);
    token_ = token;
  }
  void Expect(std::deque<Trouble> troubles) {
    const MutexLock lock(mutex_);
    troubles_ = std::move(troubles);
  }
  bool IsOver() const {
    const MutexLock lock(mutex_);
    return troubles_.empty();
  }
  // Another program writes, so that the version that alignd-events knows is old.
  void Touch() {
    const MutexLock lock(mutex_);
    object_["metadata"]["labels"]["touched"] = "yes";
    object_["metadata"]["resourceVersion"] = std::to_string(++version_);
  }
  // The available amount of the zone; empty: not known.
  std::string Available(size_t zone, const std::string& resource) const {
    const json known = object();
    if (!known.contains("zones")) return "";
    for (const json& info : known["zones"][zone]["resources"]) {
      if (info["name"] == resource) return info["available"];
    }
    return "";
  }

 private:
  int Work(const httplib::Request& request) REQUIRES(mutex_) {
    const bool exists = !object_.is_null();
    if (request.method == "GET") return exists ? 200 : 404;
    const json sent = json::parse(request.body, nullptr, false);
    if (!sent.is_object() || sent["metadata"]["name"] != "node-1") return 400;
    if (request.method == "POST" && exists) return 409;
    if (request.method == "PUT") {
      if (!exists) return 404;
      if (sent["metadata"]["resourceVersion"] != object_["metadata"]["resourceVersion"]) return 409;
    }
    object_ = sent;
    object_["metadata"]["resourceVersion"] = std::to_string(++version_);
    return request.method == "POST" ? 201 : 200;
  }

  httplib::SSLServer server_;
  int port_ = 0;
  mutable Mutex mutex_;
  json object_ GUARDED_BY(mutex_);
  int version_ GUARDED_BY(mutex_) = 0;
  int calls_ GUARDED_BY(mutex_) = 0;
  std::string token_ GUARDED_BY(mutex_) = "first";
  std::deque<Trouble> troubles_ GUARDED_BY(mutex_);
  std::thread thread_;
};

class AligndTopologyTest : public daemon::DaemonTest {
 protected:
  ~AligndTopologyTest() override { StopDaemon(); }

  testing::Process Publish(const std::vector<std::string>& flags = {}) {
    tree_.Write({"token", "first"});
    tree_.Write({"user.conf",
                 "current-context: here\n"
                 "contexts: [{name: here, context: {cluster: c, user: u}}]\n"
                 "clusters:\n- {name: c, cluster: {certificate-authority: pki/ca.crt, server: "
                 "'https://127.0.0.1:" +
                     std::to_string(server_.port()) +
                     "'}}\nusers:\n- {name: u, user: {tokenFile: token}}\n"});
    std::vector<std::string> command = {ALIGND_EVENTS_PROGRAM,
                                        "--kubeconfig",
                                        (tree_.root() / "user.conf").string(),
                                        "--control-socket",
                                        DaemonOptions().ControlSocket(),
                                        "--node-name",
                                        "node-1",
                                        "--topology",
                                        "--no-events"};
    command.insert(command.end(), flags.begin(), flags.end());
    return testing::Process(command, tree_.root() / "events.log");
  }
  bool BecomesAvailable(const std::string& cpus) const {
    return Eventually([&] { return server_.Available(0, "cpu") == cpus; });
  }
  // The message of alignd's condition TopologyNotPublished; empty: there is none.
  std::string NotPublished() const {
    const auto found = testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                             reconcile::ConditionType::kTopologyNotPublished);
    return found.empty() ? "" : found.front().message();
  }
  Running RunPinned(const std::string& uid, int cpus) const {
    return RunOne(daemon::PodConfig(uid), daemon::Pinned(cpus));
  }
  void End(const Running& pod) const {
    EXPECT_TRUE(StopSandbox(pod.sandbox).ok());
    EXPECT_TRUE(RemoveSandbox(pod.sandbox).ok());
  }

  const Certificates certificates_{tree_.root() / "pki"};
  FakeTopologyServer server_{certificates_};
};

TEST_F(AligndTopologyTest, FollowsTheDaemon) {
  Start(daemon::StaticConfig("topologyManagerPolicy: single-numa-node\n"));
  StartGpus();
  const testing::Process events = Publish();
  ASSERT_TRUE(BecomesAvailable("13")) << events.Log();
  EXPECT_EQ(server_.object()["topologyPolicies"], json::array({"SingleNUMANodeContainerLevel"}));
  EXPECT_EQ(server_.Available(0, daemon::kGpu), "1");
  EXPECT_EQ(server_.Available(1, daemon::kGpu), "2");
  const Running first = RunPinned("a", 3);
  const Clock::time_point started = Clock::now();
  ASSERT_TRUE(BecomesAvailable("10")) << events.Log();
  RecordProperty("published_after_ms",
                 std::to_string((Clock::now() - started).count() / 1'000'000));
  RunPinned("b", 2);
  ASSERT_TRUE(BecomesAvailable("8")) << events.Log();
  const std::string both =
      noderesourcetopology::PodFingerprint({{"default", "pod-a"}, {"default", "pod-b"}});
  EXPECT_TRUE(Eventually([&] {
    return server_.object()["metadata"]["annotations"]["topology.node.k8s.io/fingerprint"] == both;
  })) << server_.object();
  End(first);
  ASSERT_TRUE(BecomesAvailable("11")) << events.Log();
  // The same as what the daemon says itself.
  control::v1::GetTopologyRequest request;
  request.set_name("node-1");
  const auto own = control::ControlClient(DaemonOptions().ControlSocket()).GetTopology(request);
  ASSERT_TRUE(own.ok()) << own.error().Text();
  EXPECT_TRUE(Eventually([&] {
    return json::parse(own->object())["zones"] == server_.object()["zones"];
  })) << server_.object();
}

TEST_F(AligndTopologyTest, PublishesKoordinatorsAnnotations) {
  Start();
  const testing::Process events = Publish({"--koordinator-annotations"});
  const auto annotation = [&](const std::string& name) -> std::string {
    const json object = server_.object();
    return object.is_null() ? "" : object["metadata"]["annotations"].value(name, "none");
  };
  const auto allocs = [&] { return annotation("node.koordinator.sh/pod-cpu-allocs"); };
  ASSERT_TRUE(Eventually([&] { return allocs() == "null"; })) << events.Log();
  const Running pod = RunPinned("a", 3);
  ASSERT_TRUE(Eventually([&] { return json::parse(allocs()).size() == 1; })) << events.Log();
  const noderesourcetopology::KoordinatorView view =
      noderesourcetopology::ViewOf(server_.object().dump());
  EXPECT_EQ(view.allocs[0]["name"], "pod-a");
  EXPECT_EQ(view.allocs[0]["namespace"], "default");
  EXPECT_EQ(view.allocs[0]["uid"], "a");
  const CpuSet cpus = noderesourcetopology::ParsedCpus(view.allocs[0]["cpuset"]);
  EXPECT_EQ(cpus.Count(), 3);
  EXPECT_FALSE(view.available.Intersects(cpus));
  EXPECT_FALSE(view.pool.Intersects(cpus));
  EXPECT_EQ(view.policy["policy"], "static");
  End(pod);
  EXPECT_TRUE(Eventually([&] { return allocs() == "null"; })) << events.Log();
}

TEST_F(AligndTopologyTest, OutlivesAnApiServerInTrouble) {
  Start();
  server_.Accept("second");
  const testing::Process events = Publish();
  ASSERT_TRUE(
      events.WaitForLog("TopologyNotPublished: the API server does not accept the "
                        "credential: the API server answers 401"))
      << events.Log();
  // alignd itself says so, too.
  EXPECT_TRUE(Eventually([&] { return NotPublished().find("answers 401") != std::string::npos; }));
  // The file has the next token: it is read again.
  tree_.Write({"token", "second\n"});
  ASSERT_TRUE(BecomesAvailable("13")) << events.Log();
  ASSERT_TRUE(events.WaitForLog("the NodeResourceTopology node-1 is published")) << events.Log();
  EXPECT_TRUE(Eventually([&] { return NotPublished().empty(); })) << NotPublished();

  server_.Touch();  // a conflict
  const Running a = RunPinned("a", 1);
  ASSERT_TRUE(BecomesAvailable("12")) << events.Log();
  EXPECT_EQ(server_.object()["metadata"]["labels"]["touched"], "yes");

  server_.Expect({{.status = 429, .retry_after = "1"}, {.status = 503}});
  RunPinned("b", 1);
  ASSERT_TRUE(BecomesAvailable("11")) << events.Log();
  EXPECT_TRUE(server_.IsOver());

  // While the API server is slow, containers are created as ever.
  server_.Expect({{.status = 0, .delay = std::chrono::seconds(4)}});
  End(a);
  const Clock::time_point begin = Clock::now();
  RunPinned("c", 2);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(3));
  ASSERT_TRUE(BecomesAvailable("10")) << events.Log();
}

TEST_F(AligndTopologyTest, NamesAMissingDefinitionOnce) {
  Start();
  server_.Expect(std::deque<Trouble>(50, {.status = 404}));
  const testing::Process events = Publish();
  ASSERT_TRUE(events.WaitForLog("the cluster has no NodeResourceTopology")) << events.Log();
  RunPinned("a", 1);
  RunPinned("b", 1);
  const std::string log = events.Log();
  const size_t first = log.find("the cluster has no NodeResourceTopology");
  EXPECT_EQ(log.find("the cluster has no NodeResourceTopology", first + 1), std::string::npos)
      << log;
}

}  // namespace
}  // namespace alignd::events
