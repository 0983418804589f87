// Several alignd-extender as processes: one of them answers, and pods that fit once go to one node
// once, whatever happens to the leader.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cluster_node.h"
#include "edge/fake_tree.h"
#include "edge/process.h"
#include "fake_cluster.h"

namespace alignd::extender {
namespace {

using namespace std::chrono_literals;

// One process.
class ReplicaProcess {
 public:
  ReplicaProcess(const testing::FakeTree& tree, const std::string& name)
      : process_({ALIGND_EXTENDER_PROGRAM, "--kubeconfig",
                  (tree.root() / "scheduler.conf").string(), "--listen", "127.0.0.1:0", "--keep-s",
                  "10", "--leader-elect", "--leader-elect-lease-duration=6s",
                  "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=500ms",
                  "--leader-endpoint-slice=extender", "--leader-endpoint-address=10.0.0." + name},
                 tree.root() / (name + ".log")) {
    const std::string served = "serves HTTP at 127.0.0.1:";
    EXPECT_TRUE(process_.WaitForLog(served)) << process_.Log();
    const std::string log = process_.Log();
    port_ = std::stoi(log.substr(log.find(served) + served.size()));
  }

  testing::Process& process() { return process_; }
  std::string Log() const { return process_.Log(); }

  // Empty: no answer.
  std::string Page(const std::string& path) const {
    httplib::Client client("127.0.0.1", port_);
    client.set_read_timeout(2s);
    const httplib::Result answer = client.Get(path);
    return answer ? answer->body : "";
  }
  bool IsReady() const { return Page("/readyz") == "ok\n"; }
  // kube-scheduler's call; without fields: no answer within its httpTimeout.
  Object Filter(const std::string& pod, const std::string& cpus,
                std::chrono::seconds patience = 2s) const {
    return Filter(PodObject(pod, cpus), patience);
  }
  Object Filter(const Object& pod, std::chrono::seconds patience = 2s) const {
    httplib::Client client("127.0.0.1", port_);
    client.set_read_timeout(patience);
    const Object args = {{"Pod", pod}, {"Nodes", nullptr}, {"NodeNames", {"w1", "w2", "w3"}}};
    const httplib::Result answer = client.Post("/filter", args.dump(), "application/json");
    return answer ? Object::parse(answer->body, nullptr, false) : Object::object();
  }

 private:
  testing::Process process_;
  int port_ = 0;
};

class ReplicasTest : public ::testing::Test {
 protected:
  ReplicasTest() {
    tree_.Write({"token", "first"});
    tree_.Write({"scheduler.conf", KubeconfigText("pki/ca.crt", cluster_.port())});
    for (const auto& [name, node] : nodes_) {
      cluster_.Put(kNodesPath, node.NodeObject());
      cluster_.Put(kTopologiesPath, node.Topology());
    }
    cluster_.AddReleasedLease("alignd-extender");
  }

  // The first one leads.
  void Start() {
    first_ = std::make_unique<ReplicaProcess>(tree_, "1");
    ASSERT_TRUE(testing::WaitUntil([this] { return first_->IsReady(); })) << first_->Log();
    second_ = std::make_unique<ReplicaProcess>(tree_, "2");
    ASSERT_TRUE(testing::WaitUntil([this] {
      return second_->Page("/readyz?exclude=leader") == "ok\n";
    })) << second_->Log();
  }

  // kube-scheduler asks until it gets an answer. The node; empty: none takes the pod.
  std::string NodeFor(const ReplicaProcess& replica, const std::string& pod,
                      const std::string& cpus) const {
    Object result;
    EXPECT_TRUE(testing::WaitUntil(
        [&] {
          result = replica.Filter(pod, cpus);
          return result.value("Error", "-").empty();
        },
        60s))
        << result << replica.Log();
    if (result["NodeNames"].size() != 1) return "";
    return result["NodeNames"][0].get<std::string>();
  }
  // kube-scheduler binds the pod, the kubelet admits it, and alignd publishes that.
  void Bind(const std::string& pod, const std::string& node) {
    cluster_.Put(kPodsPath, PodObject(pod, "4", node));
    nodes_.at(node).Admit(pod, "4");
    Object running = PodObject(pod, "4", node);
    running["status"]["phase"] = "Running";
    cluster_.Put(kPodsPath, running);
    cluster_.Put(kTopologiesPath, nodes_.at(node).Topology());
  }
  static bool Has(const ReplicaProcess& replica, const std::string& line) {
    return testing::WaitUntil(
        [&] { return replica.Page("/metrics").find(line + "\n") != std::string::npos; });
  }
  // Each node takes one of these pods; `used` have one.
  void ExpectTheOthers(const ReplicaProcess& leader, std::set<std::string> used) const {
    while (used.size() < 3) {
      const std::string node = NodeFor(leader, "next-" + std::to_string(used.size()), "4");
      ASSERT_TRUE(!node.empty() && used.insert(node).second) << node << leader.Log();
    }
    const Object refused = leader.Filter("last", "4");
    EXPECT_NE(refused.value("Error", "").find("PlacesKept: "), std::string::npos) << refused;
  }
  // A signal stops the threads of a process one after the other.
  static bool HasStopped(pid_t process) {
    const std::filesystem::path threads = "/proc/" + std::to_string(process) + "/task";
    for (const auto& thread : std::filesystem::directory_iterator(threads)) {
      const std::string stat = testing::ReadText(thread.path() / "stat");
      // The state follows the name in brackets.
      if (stat.find(") T ") == std::string::npos) return false;
    }
    return true;
  }
  static Object BurstablePod() {
    Object pod = PodObject("burstable", "1");
    pod["spec"]["containers"][0]["resources"].erase("limits");
    return pod;
  }
  static void ExpectRefused(const Object& result) {
    EXPECT_NE(result.value("Error", "").find("NotLeader: "), std::string::npos) << result;
    EXPECT_TRUE(result["NodeNames"].is_null()) << result;
  }

  testing::FakeTree tree_;
  const events::Certificates certificates_{tree_.root() / "pki"};
  FakeCluster cluster_{certificates_};
  std::map<std::string, ClusterNode> nodes_ = {
      {"w1", ClusterNode("w1")}, {"w2", ClusterNode("w2")}, {"w3", ClusterNode("w3")}};
  std::unique_ptr<ReplicaProcess> first_;
  std::unique_ptr<ReplicaProcess> second_;
};

TEST_F(ReplicasTest, OneAnswersAndHandsOverWhenItEnds) {
  Start();
  EXPECT_NE(cluster_.LeaseSpec()["holderIdentity"], "");
  EXPECT_EQ(cluster_.LeaseSpec()["leaseTransitions"], 5);
  EXPECT_NE(cluster_.endpoints().find("10.0.0.1"), std::string::npos) << cluster_.endpoints();
  EXPECT_TRUE(Has(*first_, "alignd_extender_leader 1"));
  EXPECT_TRUE(Has(*second_, "alignd_extender_leader 0"));
  ExpectRefused(second_->Filter("a", "4"));
  EXPECT_TRUE(
      Has(*second_, "alignd_extender_calls_total{verb=\"filter\",outcome=\"not_leader\"} 1"));
  // Pods of which kube-scheduler itself knows all go on.
  EXPECT_EQ(second_->Filter(BurstablePod()).value("Error", "-"), "");
  EXPECT_NE(second_->Page("/readyz").find("has the Lease kube-system/alignd-extender"),
            std::string::npos);
  const std::string node = NodeFor(*first_, "a", "4");
  ASSERT_NE(node, "");
  // The pod is bound while the leader ends: it waits for that.
  std::thread binds([&] {
    std::this_thread::sleep_for(1s);
    Bind("a", node);
  });
  const int status = first_->process().Kill(SIGTERM);
  binds.join();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_NE(first_->Log().find("the Lease is released"), std::string::npos) << first_->Log();
  ExpectTheOthers(*second_, {node});
  EXPECT_EQ(second_->Log().find("has not released the Lease"), std::string::npos) << second_->Log();
  EXPECT_TRUE(testing::WaitUntil([this] {
    return cluster_.endpoints().find("10.0.0.2") != std::string::npos;
  })) << cluster_.endpoints();
}

// It does not know the places that are kept, only pods that are bound.
TEST_F(ReplicasTest, ANewLeaderWaitsForPodsOfALeaderThatWasKilled) {
  Start();
  const std::string node = NodeFor(*first_, "a", "4");
  ASSERT_NE(node, "");
  first_->process().Kill(SIGKILL);
  ASSERT_TRUE(second_->process().WaitForLog("has not released the Lease")) << second_->Log();
  EXPECT_EQ(second_->Filter(BurstablePod(), 20s).value("Error", "-"), "");
  EXPECT_NE(second_->Page("/readyz").find("NewLeader: "), std::string::npos);
  EXPECT_NE(second_->Filter("b", "4", 20s).value("Error", "").find("NewLeader: "),
            std::string::npos);
  Bind("a", node);
  ExpectTheOthers(*second_, {node});
}

TEST_F(ReplicasTest, AStoppedLeaderDoesNotAnswerWhenItGoesOn) {
  Start();
  const std::string node = NodeFor(*first_, "a", "4");
  ASSERT_NE(node, "");
  Bind("a", node);
  kill(first_->process().pid(), SIGSTOP);
  ASSERT_TRUE(testing::WaitUntil([this] { return HasStopped(first_->process().pid()); }));
  // A call that waits in the stopped process.
  Object late = Object::object();
  std::thread calls([&] { late = first_->Filter("x", "4", 120s); });
  ExpectTheOthers(*second_, {node});
  kill(first_->process().pid(), SIGCONT);
  calls.join();
  ExpectRefused(late);
  ExpectRefused(first_->Filter("y", "4"));
  EXPECT_TRUE(second_->IsReady());
}

TEST_F(ReplicasTest, AnswersNothingWhileTheLeaseCannotBeRenewed) {
  Start();
  std::atomic<bool> ends = false;
  std::atomic<int> both = 0;
  std::thread looks([&] {
    while (!ends) {
      const bool first = first_->Filter("z", "4").value("Error", "-").empty();
      if (first && second_->Filter("z", "4").value("Error", "-").empty()) ++both;
    }
  });
  cluster_.FailLeases(403);
  EXPECT_TRUE(testing::WaitUntil([this] {
    return first_->Page("/readyz").find("allow the credential to get, create and update") !=
           std::string::npos;
  })) << first_->Log();
  cluster_.FailLeases(0);
  EXPECT_TRUE(testing::WaitUntil([this] { return first_->IsReady() || second_->IsReady(); }, 60s));
  ends = true;
  looks.join();
  EXPECT_EQ(both, 0);
}

TEST(ReplicasOptions, RefusesTimesThatDoNotFit) {
  const testing::FakeTree tree;
  const auto refused = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> command = {ALIGND_EXTENDER_PROGRAM, "--leader-elect"};
    command.insert(command.end(), flags.begin(), flags.end());
    testing::Process process(command, tree.root() / "log");
    EXPECT_TRUE(testing::WaitUntil([&] { return process.HasEnded(); }));
    return process.Log();
  };
  const auto expect = [&](std::vector<std::string> flags, const std::string& text) {
    flags.emplace_back("--in-cluster");
    const std::string log = refused(flags);
    EXPECT_NE(log.find(text), std::string::npos) << log;
  };
  expect({"--leader-elect-lease-duration=10s"},
         "must be greater than --leader-elect-renew-deadline");
  expect({"--leader-elect-retry-period=9s"}, "must be greater than 1.2 times");
  expect({"--leader-elect-lease-duration=10.5s"}, "whole seconds");
  expect({"--leader-elect-lease-duration=15"}, "15 is not a duration");
  expect({"--leader-elect-retry-period=0s"}, "0s is not a duration");
  expect({"--leader-elect-lease-duration=25h"}, "25h is more than 24h");
  expect({"--leader-endpoint-slice=a", "--leader-endpoint-address=abc"},
         "abc is no IPv4 or IPv6 address");
  expect({"--leader-endpoint-slice=a", "--leader-endpoint-address=\xff"},
         "is no IPv4 or IPv6 address");
  expect({"--leader-elect-resource-name=A"}, "is no name of the Kubernetes API");
  expect({"--leader-elect-resource-namespace=a.b"}, "is no name of the Kubernetes API");
  expect({"--leader-endpoint-slice=a"}, "give both");
  EXPECT_NE(refused({"--nodes", "/tmp"}).find("give --kubeconfig or --in-cluster"),
            std::string::npos);
}

}  // namespace
}  // namespace alignd::extender
