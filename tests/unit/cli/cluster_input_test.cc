// The lists of `--from-cluster`, with answers that are given.
#include "cli/cluster_input.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "../extender/fake_reader.h"
#include "alignd/noderesourcetopology/pod_fingerprint.h"

namespace alignd::cli {
namespace {

std::string ClusterList(const std::string& items, const std::string& metadata = "") {
  return R"({"metadata":{"resourceVersion":"5")" + metadata + R"(},"items":[)" + items + "]}";
}

std::string ClusterNodeText(const std::string& name) {
  return R"({"metadata":{"name":")" + name +
         R"("},"status":{"allocatable":{"cpu":"4","memory":"4Gi","pods":"110"}}})";
}

class ClusterInput : public ::testing::Test {
 protected:
  void Give(const std::string& body) { answers_->Add({.parts = {body}}); }
  Result<ListedCluster> List() {
    extender::FakeReader reader(answers_);
    return ListCluster(reader);
  }
  std::string Fault() {
    const Result<ListedCluster> listed = List();
    return listed.ok() ? "none" : listed.error().Text();
  }

  const std::shared_ptr<extender::GivenAnswers> answers_ =
      std::make_shared<extender::GivenAnswers>();
};

TEST_F(ClusterInput, ListsAllPagesOfAllKinds) {
  Give(ClusterList(""));
  Give(ClusterList(""));
  Give(ClusterList(ClusterNodeText("a"), R"(,"continue":"a/1","remainingItemCount":1)"));
  Give(ClusterList(ClusterNodeText("b")));
  Give(ClusterList(""));
  const Result<ListedCluster> listed = List();
  ASSERT_TRUE(listed.ok()) << listed.error().Text();
  const auto nodes = listed->objects.Nodes("");
  ASSERT_TRUE(nodes.ok()) << nodes.error().Text();
  EXPECT_EQ(nodes->size(), 2U);
  const std::vector<std::string> paths = answers_->paths();
  ASSERT_EQ(paths.size(), 5U);
  EXPECT_TRUE(paths[0].starts_with("/api/v1/pods?fieldSelector=spec.nodeName%21%3D%2C"));
  EXPECT_EQ(paths[1], "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies?limit=500");
  EXPECT_EQ(paths[3], "/api/v1/nodes?limit=500&continue=a%2F1");
  EXPECT_EQ(paths[4], paths[0]);
}

// After an expired page, nothing of the first attempt is left.
TEST_F(ClusterInput, BeginsAgainWhenAPageHasExpired) {
  Give(ClusterList(""));
  Give(ClusterList(""));
  Give(ClusterList(ClusterNodeText("a"), R"(,"continue":"a")"));
  answers_->Add({.status = 410});
  Give(ClusterList(""));
  Give(ClusterList(""));
  Give(ClusterList(ClusterNodeText("b")));
  Give(ClusterList(""));
  const Result<ListedCluster> listed = List();
  ASSERT_TRUE(listed.ok()) << listed.error().Text();
  const auto nodes = listed->objects.Nodes("");
  ASSERT_TRUE(nodes.ok()) << nodes.error().Text();
  ASSERT_EQ(nodes->size(), 1U);
  EXPECT_EQ(nodes->front().name, "b");
}

// A topology object that is read meanwhile can have one container of a pod that runs then.
TEST_F(ClusterInput, APodThatStartsMeanwhileIsUndecided) {
  const auto give = [&](const std::string& phase) {
    Give(ClusterList(R"({"metadata":{"name":"p","namespace":"ns","uid":"1"},"spec":{"nodeName":)"
                     R"("a","containers":[{"name":"x"},{"name":"y"}]},"status":{"phase":")" +
                     phase + R"("}})"));
  };
  const auto answer = [&](const std::string& before) -> std::string {
    give(before);
    Give(ClusterList(
        R"({"metadata":{"name":"a"},"topologyPolicies":["None"],"attributes":[{"name":)"
        R"("nodeTopologyPodsFingerprint","value":")" +
        noderesourcetopology::PodFingerprint({{"ns", "p"}}) +
        R"("}],"zones":[{"name":"node-0","type":"Node","resources":[{"name":"cpu","capacity":)"
        R"("4","allocatable":"4","available":"4"}]}]})"));
    Give(ClusterList(ClusterNodeText("a")));
    give("Running");
    const Result<ListedCluster> listed = List();
    if (!listed.ok()) return listed.error().Text();
    const auto nodes = listed->objects.Nodes(R"({"topologyManagerPolicy":"none"})");
    if (!nodes.ok()) return nodes.error().Text();
    return nodes->front().input.object_view->unknown;
  };
  EXPECT_EQ(answer("Running"), "");
  EXPECT_TRUE(answer("Pending").starts_with("pod ns/p is starting")) << answer("Pending");
}

// The lists are complete: the node of the object has gone.
TEST_F(ClusterInput, NotesObjectsWithoutANode) {
  Give(ClusterList(""));
  std::string objects;
  for (const char* const name : {"gone-1", "gone-2", "gone-3", "gone-4"}) {
    objects += (objects.empty() ? "" : ",") + (R"({"metadata":{"name":")" + std::string(name)) +
               R"("},"zones":[]})";
  }
  Give(ClusterList(objects));
  Give(ClusterList(ClusterNodeText("a")));
  Give(ClusterList(""));
  const Result<ListedCluster> listed = List();
  ASSERT_TRUE(listed.ok()) << listed.error().Text();
  EXPECT_EQ(listed->objects.Names(), std::set<std::string>{"a"});
  ASSERT_EQ(listed->notes.size(), 1U);
  EXPECT_TRUE(listed->notes[0].starts_with(
      "NodeResourceTopology gone-1, gone-2, gone-3 and 1 more: there is no Node of that name"))
      << listed->notes[0];
}

TEST_F(ClusterInput, ANodeThatCannotBeReadConcernsNoOther) {
  Give(ClusterList(""));
  Give(ClusterList(""));
  Give(ClusterList(ClusterNodeText("a") + R"(,{"metadata":{"name":"b"},"status":{}})"));
  Give(ClusterList(""));
  const Result<ListedCluster> listed = List();
  ASSERT_TRUE(listed.ok()) << listed.error().Text();
  const auto nodes = listed->objects.Nodes("");
  ASSERT_TRUE(nodes.ok()) << nodes.error().Text();
  ASSERT_EQ(nodes->size(), 2U);
  EXPECT_FALSE((*nodes)[0].problem);
  ASSERT_TRUE((*nodes)[1].problem);
  EXPECT_EQ((*nodes)[1].problem->message, "Node b: status.allocatable: is missing");
}

TEST_F(ClusterInput, AClusterWithoutNodesIsNamed) {
  for (int i = 0; i < 4; ++i) Give(ClusterList(""));
  EXPECT_NE(Fault().find("the cluster has no Node; see with kubectl get nodes"), std::string::npos)
      << Fault();
}

TEST_F(ClusterInput, RefusesListsThatAreNotComplete) {
  Give(R"({"metadata":{"resourceVersion":"5"}})");
  EXPECT_NE(Fault().find("pods: the list has no items"), std::string::npos);
  Give(ClusterList("", R"(,"remainingItemCount":7)"));
  EXPECT_NE(Fault().find("the list ends before its last object"), std::string::npos);
  Give(ClusterList("", R"(,"continue":"x")"));
  Give(ClusterList("", R"(,"continue":"x")"));
  EXPECT_NE(Fault().find("the list repeats a page"), std::string::npos);
  answers_->Add({.parts = {R"({"metadata":{"resourceV)"}, .breaks = true});
  EXPECT_NE(Fault().find("pods: the connection broke off"), std::string::npos);
  Give(R"({"metadata":{"resourceV)");
  EXPECT_NE(Fault().find("is no JSON list"), std::string::npos);
  Give(ClusterList(R"({"metadata":{}})"));
  EXPECT_NE(Fault().find("pods: an object of the list has no name"), std::string::npos);
}

}  // namespace
}  // namespace alignd::cli
