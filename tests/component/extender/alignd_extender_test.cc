// alignd-extender as a process, between kube-scheduler's calls and an API server that lists and
// watches.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cluster_node.h"
#include "edge/fake_tree.h"
#include "edge/process.h"
#include "fake_cluster.h"

namespace alignd::extender {
namespace {

class AligndExtenderTest : public ::testing::Test {
 protected:
  AligndExtenderTest() {
    tree_.Write({"token", "first"});
    tree_.Write({"scheduler.conf", KubeconfigText("pki/ca.crt", cluster_.port())});
    for (const auto& [name, node] : nodes_) {
      cluster_.Put(kNodesPath, node.NodeObject());
      cluster_.Put(kTopologiesPath, node.Topology());
    }
  }

  void Start() {
    Run({}, "HTTP");
    client_ = std::make_unique<httplib::Client>("127.0.0.1", port_);
  }

  // Sets the port.
  void Run(const std::vector<std::string>& more, const std::string& protocol) {
    std::vector<std::string> command = {ALIGND_EXTENDER_PROGRAM, "--kubeconfig",
                                        (tree_.root() / "scheduler.conf").string(), "--listen",
                                        "127.0.0.1:0",
                                        // Longer than the slowest machine takes.
                                        "--keep-s", "3600"};
    command.insert(command.end(), more.begin(), more.end());
    extender_ = std::make_unique<testing::Process>(command, tree_.root() / "extender.log");
    const std::string served = "serves " + protocol + " at 127.0.0.1:";
    ASSERT_TRUE(extender_->WaitForLog(served)) << Log();
    const std::string log = Log();
    port_ = std::stoi(log.substr(log.find(served) + served.size()));
  }

  std::string Log() const { return extender_->Log(); }
  std::string Page(const std::string& path) const {
    const httplib::Result answer = client_->Get(path);
    return answer ? answer->body : "";
  }
  bool BecomesReady() const {
    return testing::WaitUntil([&] { return Page("/readyz") == "ok\n"; });
  }
  bool Has(const std::string& line) const {
    return testing::WaitUntil(
        [&] { return Page("/metrics").find(line + "\n") != std::string::npos; });
  }
  // kube-scheduler's call with nodeCacheCapable.
  Object Filter(const Object& pod) const {
    Object names = Object::array();
    for (const auto& [name, node] : nodes_) names.push_back(name);
    const Object args = {{"Pod", pod}, {"Nodes", nullptr}, {"NodeNames", names}};
    const httplib::Result answer = client_->Post("/filter", args.dump(), "application/json");
    return answer ? Object::parse(answer->body, nullptr, false) : Object();
  }
  // The node that the pod is let through to; empty: none.
  std::string NodeFor(const std::string& name, const std::string& cpus) const {
    const Object result = Filter(PodObject(name, cpus));
    return result["NodeNames"].size() == 1 ? result["NodeNames"][0].get<std::string>() : "";
  }
  // kube-scheduler binds the pod, the kubelet admits it, and alignd publishes that.
  void Bind(const std::string& name, const std::string& cpus, const std::string& node) {
    cluster_.Put(kPodsPath, PodObject(name, cpus, node));
    nodes_.at(node).Admit(name, cpus);
    Object running = PodObject(name, cpus, node);
    running["status"]["phase"] = "Running";
    cluster_.Put(kPodsPath, running);
    cluster_.Put(kTopologiesPath, nodes_.at(node).Topology());
  }

  testing::FakeTree tree_;
  const events::Certificates certificates_{tree_.root() / "pki"};
  FakeCluster cluster_{certificates_};
  std::map<std::string, ClusterNode> nodes_ = {
      {"w1", ClusterNode("w1")}, {"w2", ClusterNode("w2")}, {"w3", ClusterNode("w3")}};
  std::unique_ptr<testing::Process> extender_;
  int port_ = 0;
  std::unique_ptr<httplib::Client> client_;
};

TEST_F(AligndExtenderTest, FollowsTheCluster) {
  cluster_.Fail(500, 4);
  Start();
  ASSERT_TRUE(BecomesReady()) << Log();
  EXPECT_NE(Log().find("the API server answers 500: trouble"), std::string::npos) << Log();
  // Each node has one NUMA node with 4 CPUs free, and one with 3.
  std::set<std::string> used;
  for (const char* pod : {"a", "b", "c"}) used.insert(NodeFor(pod, "4"));
  EXPECT_EQ(used, (std::set<std::string>{"w1", "w2", "w3"}));
  // kube-scheduler asks again: the places can be dropped without a change of the cluster.
  const Object refused = Filter(PodObject("d", "4"));
  EXPECT_NE(refused.value("Error", "").find("PlacesKept: node w1: "), std::string::npos) << refused;
  EXPECT_EQ(Filter(PodObject("large", "5"))["FailedNodes"].size(), 3U);
  EXPECT_TRUE(Has("alignd_extender_kept_pods 3"));
  // What the cluster shows is counted once.
  Bind("a", "4", "w1");
  EXPECT_TRUE(Has("alignd_extender_kept_pods 2")) << Page("/metrics");
  EXPECT_TRUE(testing::WaitUntil([&] { return NodeFor("e", "3") == "w1"; }))
      << Filter(PodObject("e", "3"));
  // A pod that ends is deleted, and the object shows its CPUs as available.
  EXPECT_EQ(NodeFor("f", "4"), "");
  cluster_.Delete(kPodsPath, "default/a");
  nodes_.at("w1") = ClusterNode("w1");
  cluster_.Put(kTopologiesPath, nodes_.at("w1").Topology());
  EXPECT_TRUE(testing::WaitUntil([&] { return NodeFor("g", "4") == "w1"; }))
      << Filter(PodObject("g", "4"));
}

// As a Job that is deleted while one of its pods waits, and one that is deleted by force when it
// has just been bound. With --keep-s, the places of both would be kept for an hour.
TEST_F(AligndExtenderTest, DropsThePlacesOfPodsThatAreDeleted) {
  Start();
  ASSERT_TRUE(BecomesReady()) << Log();
  for (const char* pod : {"waiting", "b", "c"}) {
    cluster_.Put(kPodsPath, PodObject(pod, "4"));
    ASSERT_NE(NodeFor(pod, "4"), "");
  }
  EXPECT_EQ(NodeFor("successor", "4"), "");
  cluster_.Delete(kPodsPath, "default/waiting");
  EXPECT_TRUE(testing::WaitUntil([&] { return NodeFor("successor", "4") != ""; }))
      << Filter(PodObject("successor", "4"));
  // The call is late: nothing would drop its place.
  const Object late = Filter(PodObject("waiting", "4"));
  EXPECT_NE(late.value("Error", "").find("PodDeleted: pod default/waiting"), std::string::npos)
      << late;
  EXPECT_TRUE(Has("alignd_extender_kept_pods 3"));
  const std::string node = NodeFor("b", "4");
  cluster_.Put(kPodsPath, PodObject("b", "4", node));
  cluster_.Delete(kPodsPath, "default/b");
  EXPECT_TRUE(testing::WaitUntil([&] { return NodeFor("last", "4") == node; }))
      << Filter(PodObject("last", "4"));
  EXPECT_TRUE(Has("alignd_extender_objects{kind=\"pods\"} 0"));
}

TEST_F(AligndExtenderTest, ListsAgainWhenTheHistoryIsLost) {
  Start();
  ASSERT_TRUE(BecomesReady()) << Log();
  for (const bool in_stream : {true, false}) {
    const int lists = cluster_.lists(kNodesPath);
    ASSERT_TRUE(testing::WaitUntil([&] { return cluster_.open_watches() == 3; }));
    // While no watch is open, a node goes: no event shows it.
    cluster_.Fail(503, 1000);
    cluster_.CloseWatches();
    ASSERT_TRUE(testing::WaitUntil([&] { return cluster_.open_watches() == 0; }));
    const std::string gone = in_stream ? "w3" : "w2";
    cluster_.Delete(kNodesPath, gone);
    cluster_.Delete(kTopologiesPath, gone);
    cluster_.Compact(in_stream);
    cluster_.Fail(503, 0);
    EXPECT_TRUE(Has(in_stream ? "alignd_extender_nodes 2" : "alignd_extender_nodes 1")) << Log();
    EXPECT_GT(cluster_.lists(kNodesPath), lists);
    EXPECT_NE(Filter(PodObject("x", "4"))["FailedAndUnresolvableNodes"].value(gone, "").find(
                  "does not know the node"),
              std::string::npos);
  }
}

TEST_F(AligndExtenderTest, ReadsTheTokenAgain) {
  Start();
  ASSERT_TRUE(BecomesReady()) << Log();
  cluster_.Accept("second");
  cluster_.CloseWatches();
  ASSERT_TRUE(extender_->WaitForLog("the API server answers 401: Unauthorized")) << Log();
  tree_.Write({"token", "second"});
  EXPECT_TRUE(testing::WaitUntil([&] { return cluster_.open_watches() == 3; })) << Log();
  nodes_.at("w1").Admit("a", "4");
  cluster_.Put(kPodsPath, PodObject("a", "4", "w1"));
  cluster_.Put(kTopologiesPath, nodes_.at("w1").Topology());
  EXPECT_TRUE(Has("alignd_extender_objects{kind=\"pods\"} 1"));
  const int status = extender_->Kill(SIGTERM);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// An object that cannot be read concerns its node only.
TEST_F(AligndExtenderTest, RefusesOnlyTheNodeWhoseObjectsCannotBeRead) {
  Object broken = nodes_.at("w1").Topology();
  broken["zones"][0]["resources"][0]["available"] = "many";
  cluster_.Put(kTopologiesPath, broken);
  Object unknown = PodObject("u", "1", "w2");
  unknown["spec"]["containers"][0]["resources"]["madeUp"] = Object::object();
  cluster_.Put(kPodsPath, unknown);
  Start();
  ASSERT_TRUE(BecomesReady()) << Log();
  const Object result = Filter(PodObject("a", "3"));
  EXPECT_EQ(result["NodeNames"], Object::array({"w3"})) << result;
  EXPECT_NE(result["FailedAndUnresolvableNodes"].value("w1", "").find("NodeResourceTopology w1"),
            std::string::npos)
      << result;
  EXPECT_NE(result["FailedAndUnresolvableNodes"].value("w2", "").find("cannot"), std::string::npos)
      << result;
  EXPECT_TRUE(Has("alignd_extender_unreadable_nodes 1"));
  cluster_.Put(kTopologiesPath, nodes_.at("w1").Topology());
  EXPECT_TRUE(testing::WaitUntil([&] { return NodeFor("b", "4") == "w1"; })) << Log();
}

// As kube-scheduler with enableHTTPS and tlsConfig.
TEST_F(AligndExtenderTest, ServesCallersOfItsCaOverTls) {
  Run({"--tls-cert", certificates_.Path("server.crt"), "--tls-key",
       certificates_.Path("server.key"), "--tls-client-ca", certificates_.Path("ca.crt")},
      "HTTPS");
  httplib::SSLClient other("127.0.0.1", port_);
  other.set_ca_cert_path(certificates_.Path("ca.crt").c_str());
  EXPECT_FALSE(other.Get("/healthz"));
  httplib::SSLClient scheduler("127.0.0.1", port_, certificates_.Path("client.crt"),
                               certificates_.Path("client.key"));
  scheduler.set_ca_cert_path(certificates_.Path("ca.crt").c_str());
  scheduler.enable_server_certificate_verification(true);
  ASSERT_TRUE(testing::WaitUntil([&] {
    const httplib::Result ready = scheduler.Get("/readyz");
    return ready && ready->body == "ok\n";
  })) << Log();
  const Object args = {{"Pod", PodObject("a", "4")},
                       {"Nodes", {{"items", {nodes_.at("w2").NodeObject()}}}},
                       {"NodeNames", nullptr}};
  const httplib::Result answer = scheduler.Post("/filter", args.dump(), "application/json");
  ASSERT_TRUE(answer);
  const Object result = Object::parse(answer->body, nullptr, false);
  // Without nodeCacheCapable, the Node comes back as it was sent.
  EXPECT_EQ(result["Nodes"]["items"], Object::array({nodes_.at("w2").NodeObject()})) << result;
}

TEST_F(AligndExtenderTest, DoesNotServeWithoutTheCaOfItsCallers) {
  for (const char* const ca : {"absent.crt", "server.key"}) {
    const std::string path = certificates_.Path(ca);
    testing::Process extender(
        {ALIGND_EXTENDER_PROGRAM, "--kubeconfig", (tree_.root() / "scheduler.conf").string(),
         "--listen", "127.0.0.1:0", "--tls-cert", certificates_.Path("server.crt"), "--tls-key",
         certificates_.Path("server.key"), "--tls-client-ca", path},
        tree_.root() / "extender.log");
    ASSERT_TRUE(testing::WaitUntil([&] { return extender.HasEnded(); })) << extender.Log();
    EXPECT_NE(extender.Log().find("the CA " + path), std::string::npos) << extender.Log();
  }
}

TEST_F(AligndExtenderTest, IsNotReadyBeforeItHasListed) {
  cluster_.Accept("another");
  Start();
  ASSERT_TRUE(testing::WaitUntil([&] {
    return Page("/readyz").find("401: Unauthorized") != std::string::npos;
  })) << Log();
  EXPECT_EQ(client_->Get("/readyz")->status, 503);
  EXPECT_EQ(Page("/healthz"), "ok\n");
  const Object result = Filter(PodObject("a", "1"));
  EXPECT_NE(result.value("Error", "").find("have not been listed yet"), std::string::npos)
      << result;
  EXPECT_TRUE(result["NodeNames"].is_null());
  cluster_.Accept("first");
  EXPECT_TRUE(BecomesReady()) << Log();
}

TEST(AligndExtenderOfFiles, LogsNodesThatCannotBeUsed) {
  const testing::FakeTree tree;
  const auto list = [](const std::vector<Object>& objects) {
    return Object{{"kind", "List"}, {"apiVersion", "v1"}, {"items", objects}}.dump();
  };
  const ClusterNode good("w1");
  const ClusterNode bad("w2");
  Object broken = bad.Topology();
  broken["zones"][0]["resources"][0]["available"] = "many";
  const auto nodes_with = [&](const Object& topology) {
    return list({good.NodeObject(), good.Topology(), bad.NodeObject(), topology});
  };
  tree.Write({"nodes.json", nodes_with(broken)});
  const testing::Process extender(
      {ALIGND_EXTENDER_PROGRAM, "--nodes", (tree.root() / "nodes.json").string(), "--listen",
       "127.0.0.1:0"},
      tree.root() / "extender.log");
  EXPECT_TRUE(
      extender.WaitForLog("NodeNotRead: 1 node cannot be used: w2: NodeResourceTopology w2"))
      << extender.Log();
  tree.Write({"nodes.json", nodes_with(bad.Topology())});
  EXPECT_TRUE(extender.WaitForLog("NodeNotRead: resolved")) << extender.Log();
}

}  // namespace
}  // namespace alignd::extender
