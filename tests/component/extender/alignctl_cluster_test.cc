// `alignctl fit --from-cluster` as a process, with an API server over TLS.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <map>
#include <string>
#include <vector>

#include "cluster_node.h"
#include "edge/fake_tree.h"
#include "edge/process.h"
#include "fake_cluster.h"

namespace alignd::extender {
namespace {

constexpr int kWrongInput = 2;

// What a process has written, and its exit status; -1: it has not ended by itself.
struct Ended {
  int status = -1;
  std::string text;
};

class AlignctlCluster : public ::testing::Test {
 protected:
  AlignctlCluster() {
    tree_.Write({"token", "first"});
    tree_.Write({"kubeconfig", KubeconfigText("pki/ca.crt", cluster_.port())});
    tree_.Write({"pod.yaml",
                 "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - {name: "
                 "app, image: i, resources: {limits: {cpu: 4, memory: 1Gi}}}\n"});
    for (const auto& [name, node] : nodes_) {
      cluster_.Put(kNodesPath, node.NodeObject());
      cluster_.Put(kTopologiesPath, node.Topology());
    }
  }

  // A pod runs on the node, and alignd has published that.
  void Run(const std::string& pod, const std::string& cpus, const std::string& node) {
    nodes_.at(node).Admit(pod, cpus);
    Object running = PodObject(pod, cpus, node);
    running["status"]["phase"] = "Running";
    cluster_.Put(kPodsPath, running);
    cluster_.Put(kTopologiesPath, nodes_.at(node).Topology());
  }

  Ended Fit(const std::vector<std::string>& options,
            const std::vector<std::string>& environment = {}) const {
    std::vector<std::string> command = {"env",
                                        "-u",
                                        "KUBECONFIG",
                                        "-u",
                                        "KUBERNETES_SERVICE_HOST",
                                        "HOME=" + tree_.root().string()};
    command.insert(command.end(), environment.begin(), environment.end());
    const std::vector<std::string> fit = {ALIGNCTL_PROGRAM, "fit", "-f", At("pod.yaml"),
                                          "--from-cluster"};
    command.insert(command.end(), fit.begin(), fit.end());
    command.insert(command.end(), options.begin(), options.end());
    testing::Process process(command, tree_.root() / "alignctl.log");
    if (!testing::WaitUntil([&] { return process.HasEnded(); })) return {-1, process.Log()};
    const int status = process.Kill(0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, process.Log()};
  }
  Ended FitByFile() const { return Fit({"--kubeconfig", At("kubeconfig")}); }
  std::string At(const std::string& file) const { return (tree_.root() / file).string(); }

  testing::FakeTree tree_;
  const events::Certificates certificates_{tree_.root() / "pki"};
  FakeCluster cluster_{certificates_};
  std::map<std::string, ClusterNode> nodes_ = {
      {"w1", ClusterNode("w1")}, {"w2", ClusterNode("w2")}, {"w3", ClusterNode("w3")}};
};

// More nodes than a page has.
TEST_F(AlignctlCluster, PlansWithTheNodesAndPodsOfTheCluster) {
  Ended fit = FitByFile();
  EXPECT_EQ(fit.status, 0) << fit.text;
  EXPECT_TRUE(fit.text.starts_with("Pod default/p: 3 of 3 nodes can take it\n")) << fit.text;
  Run("a", "4", "w1");
  Run("b", "4", "w3");
  // It waits for a node.
  cluster_.Put(kPodsPath, PodObject("c", "4"));
  fit = FitByFile();
  EXPECT_EQ(fit.status, 0) << fit.text;
  EXPECT_TRUE(fit.text.starts_with("Pod default/p: 1 of 3 nodes can take it\n")) << fit.text;
  EXPECT_NE(fit.text.find("2 nodes (w1, w3): refused by scheduler: Unschedulable: Insufficient "
                          "cpu\n    w1: Insufficient cpu: 4 requested, 3 of 7 free\n"),
            std::string::npos)
      << fit.text;
  EXPECT_NE(fit.text.find("  placed on w2\n    app: 4 exclusive CPUs (NUMA node 1)\n"),
            std::string::npos)
      << fit.text;
}

TEST_F(AlignctlCluster, FindsTheKubeconfigAsKubectlDoes) {
  const Ended none = Fit({});
  EXPECT_EQ(none.status, kWrongInput);
  EXPECT_NE(none.text.find("there is no kubeconfig"), std::string::npos) << none.text;
  EXPECT_NE(none.text.find("name one with --kubeconfig"), std::string::npos) << none.text;
  const Ended by_variable = Fit({}, {"KUBECONFIG=" + At("kubeconfig")});
  EXPECT_EQ(by_variable.status, 0) << by_variable.text;
  const Ended several = Fit({}, {"KUBECONFIG=" + At("kubeconfig") + ":" + At("other")});
  EXPECT_EQ(several.status, kWrongInput);
  EXPECT_NE(several.text.find("KUBECONFIG names several files"), std::string::npos) << several.text;
  tree_.Write({".kube/token", "first"});
  tree_.Write({".kube/config", KubeconfigText("../pki/ca.crt", cluster_.port())});
  const Ended of_user = Fit({});
  EXPECT_EQ(of_user.status, 0) << of_user.text;
  EXPECT_EQ(Fit({"--kubeconfig", At("absent")}).status, kWrongInput);
  const Ended empty = Fit({"--kubeconfig", ""});
  EXPECT_EQ(empty.status, kWrongInput) << "the default may be another cluster";
  EXPECT_NE(empty.text.find("--kubeconfig: is empty"), std::string::npos) << empty.text;
}

// A file in the directory of the caller can be anybody's.
TEST_F(AlignctlCluster, WithoutAHomeThereIsNoDefault) {
  tree_.Write({".kube/token", "first"});
  tree_.Write({".kube/config", KubeconfigText("../pki/ca.crt", cluster_.port())});
  const Ended fit = Fit({}, {"HOME=", "env", "-C", tree_.root().string()});
  EXPECT_EQ(fit.status, kWrongInput) << fit.text;
  EXPECT_NE(fit.text.find("KUBECONFIG is not set, HOME is not set"), std::string::npos) << fit.text;
}

TEST_F(AlignctlCluster, NamesWhatTheApiServerRefusesAndTheRemedy) {
  tree_.Write({"token", "second"});
  Ended fit = FitByFile();
  EXPECT_EQ(fit.status, kWrongInput) << fit.text;
  EXPECT_NE(fit.text.find("the API server answers 401: Unauthorized; renew the token"),
            std::string::npos)
      << fit.text;
  tree_.Write({"token", "first"});
  cluster_.Fail(403, 1);
  fit = FitByFile();
  EXPECT_EQ(fit.status, kWrongInput) << fit.text;
  EXPECT_NE(fit.text.find("pods: list: the API server answers 403: trouble; give the credential a "
                          "ClusterRole with apiGroups: [\"\"], resources: [pods], verbs: [list]"),
            std::string::npos)
      << fit.text;
  cluster_.Fail(404, 1);
  fit = FitByFile();
  EXPECT_NE(fit.text.find("correct the server of the kubeconfig"), std::string::npos) << fit.text;
}

TEST_F(AlignctlCluster, TrustsTheServerOfTheNamedCaOnly) {
  tree_.Write({"kubeconfig", KubeconfigText("pki/other-ca.crt", cluster_.port())});
  const Ended fit = FitByFile();
  EXPECT_EQ(fit.status, kWrongInput) << fit.text;
  EXPECT_NE(
      fit.text.find("its certificate is not of the credential's CA, or not of this host); see "
                    "certificate-authority and server of the kubeconfig"),
      std::string::npos)
      << fit.text;
  EXPECT_EQ(cluster_.lists(kTopologiesPath), 0);
}

// A part of the cluster is no answer.
TEST_F(AlignctlCluster, UsesNoListThatIsNotComplete) {
  cluster_.BreakLists();
  const Ended fit = FitByFile();
  EXPECT_EQ(fit.status, kWrongInput) << fit.text;
  EXPECT_NE(fit.text.find("pods: no answer of the API server"), std::string::npos) << fit.text;
  EXPECT_EQ(fit.text.find("can take it"), std::string::npos) << fit.text;
}

TEST_F(AlignctlCluster, ListsAgainWhenAPageHasExpired) {
  cluster_.Fail(410, 2);
  Ended fit = FitByFile();
  EXPECT_EQ(fit.status, 0) << fit.text;
  cluster_.Fail(410, 1000);
  fit = FitByFile();
  EXPECT_EQ(fit.status, kWrongInput) << fit.text;
  EXPECT_NE(fit.text.find("expired, in each of 3 attempts"), std::string::npos) << fit.text;
}

TEST_F(AlignctlCluster, NamesTheObjectThatCannotBeRead) {
  Object broken = nodes_.at("w1").Topology();
  broken["zones"][0]["resources"][0]["available"] = "many";
  cluster_.Put(kTopologiesPath, broken);
  Ended fit = FitByFile();
  EXPECT_EQ(fit.status, kWrongInput) << fit.text;
  EXPECT_NE(fit.text.find("2 of 3 nodes can take it"), std::string::npos) << fit.text;
  EXPECT_NE(fit.text.find("1 node (w1): cannot be decided: Undecided: NodeResourceTopology: "),
            std::string::npos)
      << fit.text;
  EXPECT_NE(fit.text.find("1 node cannot be used (w1): NodeResourceTopology: "), std::string::npos)
      << fit.text;
  cluster_.Put(kTopologiesPath, nodes_.at("w1").Topology());
  // A pod concerns its node only.
  Object unknown = PodObject("u", "1", "w2");
  unknown["spec"]["containers"][0]["resources"]["madeUp"] = Object::object();
  cluster_.Put(kPodsPath, unknown);
  fit = FitByFile();
  EXPECT_EQ(fit.status, 0) << fit.text;
  EXPECT_NE(fit.text.find("1 node (w2): cannot be decided: Undecided: pod default/u of the node "
                          "cannot be read: spec.containers[0].resources.madeUp: unknown field"),
            std::string::npos)
      << fit.text;
  cluster_.Delete(kPodsPath, "default/u");
  cluster_.Delete(kNodesPath, "w2");
  fit = FitByFile();
  EXPECT_EQ(fit.status, 0) << fit.text;
  EXPECT_NE(fit.text.find("note: NodeResourceTopology w2: there is no Node of that name, the node "
                          "has gone"),
            std::string::npos)
      << fit.text;
}

// A pod that alignd has not published yet.
TEST_F(AlignctlCluster, LeavesUndecidedWhereObjectAndPodsDiffer) {
  Object running = PodObject("a", "2", "w1");
  running["status"]["phase"] = "Running";
  cluster_.Put(kPodsPath, running);
  const Ended fit = FitByFile();
  EXPECT_EQ(fit.status, 0) << fit.text;
  EXPECT_NE(fit.text.find("1 node (w1): cannot be decided"), std::string::npos) << fit.text;
}

}  // namespace
}  // namespace alignd::extender
