// The extender over HTTP, fed by files that change.
#include "extender/extender_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/machine/node_json.h"
#include "core/machine_builder.h"
#include "edge/fake_tree.h"
#include "edge/http_client.h"
#include "edge/process.h"
#include "extender/node_feed.h"
#include "host/file.h"

namespace alignd::extender {
namespace {

using namespace std::chrono_literals;
using testing::FakeTree;
using testing::HttpReply;

HttpReply PostTo(uint16_t port, const std::string& path, const std::string& body,
                 const std::string& connection_header = "close") {
  const host::Descriptor connection = testing::ConnectTcp(port);
  if (connection.fd() < 0) return {};
  testing::SendText(connection, "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: " +
                                    connection_header +
                                    "\r\n"
                                    "Content-Type: application/json\r\nContent-Length: " +
                                    std::to_string(body.size()) + "\r\n\r\n" + body);
  return testing::ReadReply(connection);
}

HttpReply GetFrom(uint16_t port, const std::string& path) {
  const host::Descriptor connection = testing::ConnectTcp(port);
  if (connection.fd() < 0) return {};
  testing::SendText(connection,
                    "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  return testing::ReadReply(connection);
}

std::string ArgsFor(const std::string& pod, const std::string& cpus) {
  const std::string amounts = R"({"cpu":")" + cpus + R"(","memory":"1Gi"})";
  return R"({"Pod":{"metadata":{"name":")" + pod + R"(","uid":")" + pod +
         R"("},"spec":{"containers":[{"name":"app","resources":{"limits":)" + amounts +
         R"(,"requests":)" + amounts + R"(}}]}},"NodeNames":["w1"]})";
}

std::string NodeFileText() {
  return R"({"name":"w1","node":)" + MachineToNodeJson(MakeMachine("numa:2 core:4")) +
         R"(,"config":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0",)"
         R"("topologyManagerPolicy":"single-numa-node"}})";
}

class ExtenderOverHttp : public ::testing::Test {
 protected:
  ExtenderOverHttp() {
    auto started = ExtenderServer::Start({.ip = "127.0.0.1"}, {}, extender_);
    EXPECT_TRUE(started.ok()) << started.error().Text();
    if (started.ok()) server_ = *std::move(started);
  }

  // Until the page has the text.
  bool Eventually(const std::string& path, const std::string& text) const {
    const auto until = std::chrono::steady_clock::now() + 30s;
    while (std::chrono::steady_clock::now() < until) {
      if (GetFrom(server_->port(), path).body.find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

  FakeTree tree_;
  Extender extender_{{}};
  std::unique_ptr<ExtenderServer> server_;
};

// kube-scheduler asks as soon as it hears of a change, and before this program has heard of it.
TEST(ExtenderServer, ARefusalWaitsForTheNextChanges) {
  const auto node = [](const std::string& config) {
    placement::FleetNode made;
    made.name = "w1";
    made.input = {{MakeMachine("numa:2 core:4"), {}, {}}, {}, {}, {}, {}};
    made.config = config;
    return made;
  };
  Extender extender({});
  extender.SetNodes(std::vector<placement::FleetNode>{node(
                        R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0-6"})")},
                    Extender::Clock::now());
  const auto server =
      ExtenderServer::Start({.ip = "127.0.0.1"}, {}, extender, {}, {}, std::chrono::seconds(3));
  ASSERT_TRUE(server.ok()) << server.error().Text();
  const uint16_t port = (*server)->port();
  auto asked = std::async(std::launch::async,
                          [port] { return PostTo(port, "/filter", ArgsFor("a", "2")).body; });
  std::this_thread::sleep_for(300ms);
  extender.SetNodes(std::vector<placement::FleetNode>{node(
                        R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0"})")},
                    Extender::Clock::now());
  EXPECT_NE(asked.get().find(R"("NodeNames":["w1"])"), std::string::npos);
  EXPECT_NE(PostTo(port, "/filter", ArgsFor("b", "100")).body.find(R"("NodeNames":[])"),
            std::string::npos);
}

// Calls of kube-scheduler 1.36.2, with the names of nodes (nodeCacheCapable) and with whole nodes:
// 2 CPUs and a GPU, and an init container. The second node has no GPU.
TEST_F(ExtenderOverHttp, AnswersRecordedCallsOfKubeScheduler) {
  ASSERT_NE(server_, nullptr);
  std::vector<placement::FleetNode> nodes(2);
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].name = i == 0 ? "w1" : "w2";
    nodes[i].input = {{MakeMachine("socket:2 numa:1 core:8"), {}, {}}, {}, {}, {}, {}};
    nodes[i].config = R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0",)"
                      R"("topologyManagerPolicy":"single-numa-node"})";
  }
  devicemanager::Device device;
  device.numa = {0};
  nodes[0].input.description.devices["nvidia.com/gpu"] = {{"gpu-0", device}, {"gpu-1", device}};
  extender_.SetNodes(nodes, Extender::Clock::now());
  const auto post = [this](const std::string& path, const std::string& recorded) {
    const auto file = std::filesystem::path(ALIGND_SOURCE_DIR) / "tests/data/extender-1.36" /
                      (recorded + ".json");
    const auto body = host::ReadFile(file);
    EXPECT_TRUE(body.ok()) << file;
    const HttpReply reply = PostTo(server_->port(), path, *body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return nlohmann::json::parse(reply.body);
  };
  for (const char* const with : {"", "-with-nodes"}) {
    const nlohmann::json filtered = post("/filter", std::string("filter") + with);
    EXPECT_EQ(filtered.at("Error"), "");
    if (std::string(with).empty()) {
      EXPECT_EQ(filtered.at("NodeNames"), nlohmann::json::array({"w1"})) << filtered;
    } else {
      ASSERT_EQ(filtered.at("Nodes").at("items").size(), 1U) << filtered;
      EXPECT_EQ(filtered.at("Nodes").at("items").at(0).at("metadata").at("name"), "w1");
    }
    const nlohmann::json scores = post("/prioritize", std::string("prioritize") + with);
    ASSERT_EQ(scores.size(), 2U) << scores;
    EXPECT_EQ(scores.at(0).at("Host"), "w1");
    EXPECT_GT(scores.at(0).at("Score"), 0);
    EXPECT_EQ(scores.at(1).at("Score"), 0);
  }
}

TEST_F(ExtenderOverHttp, AnswersWithTheNodesOfFilesThatChange) {
  ASSERT_NE(server_, nullptr);
  const uint16_t port = server_->port();
  tree_.Write({"nodes/w1.json", NodeFileText()});
  {
    const NodeFeed feed(
        {.nodes = {(tree_.root() / "nodes").string()}, .config = {}, .devices = {}},
        [this](const auto& nodes, auto as_of) { extender_.SetNodes(nodes, as_of); }, 10ms);
    ASSERT_TRUE(Eventually("/readyz", "ok\n"));
    HttpReply reply = PostTo(port, "/filter", ArgsFor("a", "4"));
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, R"({"Error":"","FailedAndUnresolvableNodes":{},"FailedNodes":{},)"
                          R"("NodeNames":["w1"],"Nodes":null})");
    reply = PostTo(port, "/prioritize", ArgsFor("a", "4"));
    EXPECT_TRUE(reply.body.starts_with(R"([{"Host":"w1","Score":)")) << reply.body;
    EXPECT_NE(PostTo(port, "/filter", ArgsFor("b", "4")).body.find("on the way to the node"),
              std::string::npos);
    EXPECT_EQ(GetFrom(port, "/healthz").status, 200);
    EXPECT_NE(GetFrom(port, "/metrics").body.find("alignd_extender_kept_pods 1\n"),
              std::string::npos);
    // A file that cannot be read: no pod is let through.
    tree_.Write({"nodes/w1.json", "{"});
    ASSERT_TRUE(Eventually("/readyz", "w1.json"));
    EXPECT_EQ(GetFrom(port, "/readyz").status, 503);
    reply = PostTo(port, "/filter", ArgsFor("c", "1"));
    EXPECT_EQ(reply.status, 200);
    EXPECT_TRUE(reply.body.starts_with(R"({"Error":"alignd-extender: )")) << reply.body;
    EXPECT_EQ(PostTo(port, "/prioritize", ArgsFor("c", "1")).status, 503);
    tree_.Write({"nodes/w1.json", NodeFileText()});
    ASSERT_TRUE(Eventually("/readyz", "ok\n"));
  }
  EXPECT_NE(GetFrom(port, "/metrics")
                .body.find("alignd_extender_calls_total{verb=\"filter\",outcome=\"no_nodes\"} 1\n"),
            std::string::npos);
}

TEST_F(ExtenderOverHttp, AnswersWhatItCannotParseWithAnError) {
  ASSERT_NE(server_, nullptr);
  for (const char* body : {"", "{", "{}", "\xff"}) {
    const HttpReply reply = PostTo(server_->port(), "/filter", body);
    EXPECT_EQ(reply.status, 200) << body;
    EXPECT_TRUE(reply.body.starts_with(R"({"Error":"alignd-extender: )")) << reply.body;
    EXPECT_NE(reply.body.find(R"("NodeNames":null,"Nodes":null)"), std::string::npos);
    EXPECT_EQ(PostTo(server_->port(), "/prioritize", body).status, 400) << body;
  }
  EXPECT_EQ(GetFrom(server_->port(), "/filter").status, 404);
}

// One of several replicas.
class ExtenderReplica : public ::testing::Test {
 protected:
  ExtenderReplica() {
    tree_.Write({"nodes/w1.json", NodeFileText()});
    auto started = ExtenderServer::Start({.ip = "127.0.0.1"}, {}, extender_, {},
                                         [this]() -> Result<uint64_t> { return Permits(); });
    EXPECT_TRUE(started.ok()) << started.error().Text();
    if (started.ok()) server_ = *std::move(started);
  }
  void SetUp() override {
    ASSERT_NE(server_, nullptr);
    ASSERT_TRUE(testing::WaitUntil([this] { return !extender_.Problem(); }));
  }

  Result<uint64_t> Permits() {
    if (!leads_) return Error{ErrorCode::kUnavailable, "NotLeader: b leads", "wait"};
    return stands_still_ ? term_++ : term_.load();
  }
  HttpReply Filter(const std::string& args) const {
    return PostTo(server_->port(), "/filter", args);
  }
  std::string Page(const std::string& path) const { return GetFrom(server_->port(), path).body; }

  // A pod of which kube-scheduler itself knows all.
  const std::string other_ =
      R"({"Pod":{"metadata":{"name":"o","uid":"o"},"spec":{"containers":[{"name":"app"}]}},)"
      R"("NodeNames":["w1"]})";
  std::atomic<uint64_t> term_ = 1;
  std::atomic<bool> stands_still_ = false;
  std::atomic<bool> leads_ = true;
  FakeTree tree_;
  Extender extender_{{}};
  std::unique_ptr<ExtenderServer> server_;
  const NodeFeed feed_{{.nodes = {(tree_.root() / "nodes").string()}, .config = {}, .devices = {}},
                       [this](const auto& nodes, auto as_of) { extender_.SetNodes(nodes, as_of); },
                       10ms};
};

// A process that stands still while it answers can have led before and after another replica.
TEST_F(ExtenderReplica, SendsNoAnswerOfAFormerTerm) {
  stands_still_ = true;
  EXPECT_NE(Filter(ArgsFor("a", "4")).body.find("the term has changed since the call came"),
            std::string::npos);
  // The pod goes nowhere: the leader need not wait for it when it ends.
  EXPECT_EQ(extender_.GetCounts().kept_pods, 0U);
  stands_still_ = false;
  EXPECT_NE(Filter(ArgsFor("a", "4")).body.find(R"("NodeNames":["w1"])"), std::string::npos);
  EXPECT_EQ(extender_.GetCounts().kept_pods, 1U);
  // Of the answer that was sent, the place is still needed.
  stands_still_ = true;
  EXPECT_NE(Filter(ArgsFor("a", "4")).body.find("the term has changed since the call came"),
            std::string::npos);
  EXPECT_EQ(extender_.GetCounts().kept_pods, 1U);
}

TEST_F(ExtenderReplica, AnswersAboutOtherPodsWithoutLeading) {
  leads_ = false;
  EXPECT_NE(Filter(other_).body.find(R"("Error":"")"), std::string::npos);
  EXPECT_NE(Filter(other_).body.find(R"("NodeNames":["w1"])"), std::string::npos);
  EXPECT_EQ(PostTo(server_->port(), "/prioritize", other_).status, 200);
  EXPECT_TRUE(Filter(ArgsFor("a", "4"))
                  .body.starts_with(R"({"Error":"alignd-extender: NotLeader: b leads)"));
  const HttpReply scores = PostTo(server_->port(), "/prioritize", ArgsFor("a", "4"));
  EXPECT_EQ(scores.status, 503);
  EXPECT_NE(scores.body.find("NotLeader: b leads; wait"), std::string::npos) << scores.body;
  EXPECT_NE(Page("/readyz").find("NotLeader: b leads; wait"), std::string::npos);
  EXPECT_EQ(Page("/readyz?exclude=leader"), "ok\n");
  EXPECT_NE(Page("/metrics")
                .find("alignd_extender_calls_total{verb=\"filter\",outcome=\"not_leader\"} 1\n"),
            std::string::npos);
  tree_.Write({"nodes/w1.json", "{"});
  EXPECT_TRUE(
      testing::WaitUntil([this] { return Page("/readyz").find("w1.json") != std::string::npos; }));
}

// An open connection stays with this replica when the Service leads to another one.
TEST_F(ExtenderReplica, ClosesTheConnectionIfItDoesNotLead) {
  const auto closes = [this](const std::string& path) {
    const HttpReply reply = PostTo(server_->port(), path, ArgsFor("a", "4"), "keep-alive");
    EXPECT_NE(reply.status, 0);
    return reply.headers.find("Connection: close") != std::string::npos;
  };
  EXPECT_FALSE(closes("/filter"));
  leads_ = false;
  EXPECT_TRUE(closes("/filter"));
  EXPECT_TRUE(closes("/prioritize"));
}

// A pod has a place kept also for a default of its namespace: a new leader that waits answers
// nothing about it.
TEST(ExtenderServer, AsksWhetherItMayAnswerAboutAPodWithADefault) {
  std::atomic<int> asked = 0;
  Extender extender({});
  const auto server =
      ExtenderServer::Start({.ip = "127.0.0.1"}, {}, extender, {}, [&]() -> Result<uint64_t> {
        ++asked;
        return Error{ErrorCode::kUnavailable, "NewLeader: waits", "wait"};
      });
  ASSERT_TRUE(server.ok()) << server.error().Text();
  placement::FleetNode node;
  node.name = "w1";
  node.input.description.machine = MakeMachine("numa:2 core:4");
  node.config =
      R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","namespacePolicies":[)"
      R"({"namespaces":["db"],"podPolicies":[],"defaults":{"shared-cpus":"single-numa-node"}}]})";
  extender.SetNodes(std::vector<placement::FleetNode>{node}, Extender::Clock::now());
  const auto body = [](const std::string& name_space) {
    return R"({"Pod":{"metadata":{"name":"a","uid":"a","namespace":")" + name_space +
           R"("},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1"}}}]}},)"
           R"("NodeNames":["w1"]})";
  };
  const uint16_t port = (*server)->port();
  EXPECT_NE(PostTo(port, "/filter", body("web")).body.find(R"("NodeNames":["w1"])"),
            std::string::npos);
  EXPECT_EQ(asked, 0);
  EXPECT_NE(PostTo(port, "/filter", body("db")).body.find("NewLeader: waits"), std::string::npos);
  EXPECT_EQ(PostTo(port, "/prioritize", body("db")).status, 503);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(extender.GetCounts().kept_pods, 0U);
}

TEST(ExtenderServer, SaysWhyItCannotServe) {
  Extender extender({});
  const auto tls = ExtenderServer::Start(
      {.ip = "127.0.0.1"}, {.certificate = "/absent.pem", .key = "/absent.key", .client_ca = {}},
      extender);
  ASSERT_FALSE(tls.ok());
  EXPECT_NE(tls.error().message.find("/absent.pem"), std::string::npos);
  const auto first = ExtenderServer::Start({.ip = "127.0.0.1"}, {}, extender);
  ASSERT_TRUE(first.ok());
  // Each would keep the places of its own answers only.
  const auto second =
      ExtenderServer::Start({.ip = "127.0.0.1", .port = (*first)->port()}, {}, extender);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().remedy.find("end the program that has it"), std::string::npos);
}

// As in alignd's state directory.
TEST(NodeFeed, ReadsAChangedCheckpointOfTheDeviceManager) {
  const FakeTree tree;
  const auto write = [&](const std::string& checkpoint) {
    tree.Write({"nodes/w1/device-plugins/kubelet_internal_checkpoint", checkpoint});
  };
  const std::string good = checkpoint::FormatDeviceCheckpoint({});
  tree.Write({"nodes/w1/node.json", MachineToNodeJson(MakeMachine("numa:2 core:4"))});
  write(good);
  std::atomic<bool> is_read = false;
  const NodeFeed feed(
      {.nodes = {(tree.root() / "nodes").string()}, .config = {}, .devices = {}},
      [&](const auto& nodes, auto /*as_of*/) { is_read = nodes.ok(); }, 10ms);
  ASSERT_TRUE(testing::WaitUntil([&] { return is_read.load(); }));
  write("{");
  EXPECT_TRUE(testing::WaitUntil([&] { return !is_read; }, std::chrono::seconds(3)));
  write(good);
  EXPECT_TRUE(testing::WaitUntil([&] { return is_read.load(); }, std::chrono::seconds(3)));
}

// libhwloc compares each attribute of lstopo's XML with all before it.
TEST(NodeFeed, EndsWhileAFileIsReadThatTakesLong) {
  const Result<std::string> xml =
      host::ReadFile(ALIGND_SOURCE_DIR "/tests/fuzz/corpus/lstopo/two_packages.xml");
  ASSERT_TRUE(xml.ok()) << xml.error().Text();
  std::string attributes;
  for (int i = 0; i < 100'000; ++i) {
    attributes += "<memattr name=\"a" + std::to_string(i) + "\" flags=\"1\"/>\n";
  }
  std::string slow = *xml;
  slow.insert(slow.find("</topology>"), attributes);
  const FakeTree tree;
  tree.Write({"nodes/w1.xml", slow});
  int uses = 0;
  {
    const NodeFeed feed(
        {.nodes = {(tree.root() / "nodes").string()}, .config = {}, .devices = {}},
        [&](const auto& /*nodes*/, auto /*as_of*/) { ++uses; }, 10ms);
  }
  // The feed has ended before the file was read.
  EXPECT_EQ(uses, 0);
}

}  // namespace
}  // namespace alignd::extender
