// Nodes of objects that come one by one.
#include "extender/cluster_view.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "alignd/noderesourcetopology/object.h"
#include "apiserver/object_json.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::extender {
namespace {

constexpr const char* kViewNode =
    R"({"kind":"Node","apiVersion":"v1","metadata":{"name":"w"},"status":{"capacity":{"cpu":"8"},)"
    R"("allocatable":{"cpu":"7","memory":"8Gi","pods":"10"}}})";

std::string TopologyText(const std::vector<noderesourcetopology::PodIdentity>& pods = {}) {
  placement::FleetNode node;
  node.name = "w";
  node.input.description.machine = MakeMachine("socket:2 numa:1 core:4");
  node.config = R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0",)"
                R"("topologyManagerPolicy":"single-numa-node"})";
  const auto planned = placement::MakePlannedNode(node);
  return noderesourcetopology::ObjectJson("w", planned->node(), planned->state(), pods);
}

std::string ViewPod(const std::string& name, const std::string& more = "",
                    const std::string& phase = "Pending") {
  return R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":")" + name +
         R"(","namespace":"ns","uid":")" + name +
         R"("},"spec":{"nodeName":"w","containers":[{"name":"app"}])" + more +
         R"(},"status":{"phase":")" + phase + R"("}})";
}

// The change of the node; it must be the only one.
Extender::NodeChange OnlyChange(ClusterView& view) {
  const auto changed = view.TakeChanged();
  EXPECT_EQ(changed.size(), 1U);
  if (changed.size() != 1) return {};
  EXPECT_EQ(changed[0].name, "w");
  return ClusterView::ChangeOf(changed[0], "");
}

placement::Verdict AskFor(const Extender::NodeChange& change, const std::string& cpus) {
  placement::PlannedPod pod;
  pod.pod = AppPod("asked", {{"cpu", cpus}, {"memory", "1Gi"}});
  EXPECT_NE(change.node, nullptr) << (change.problem ? change.problem->Text() : "");
  return change.node == nullptr ? placement::Verdict{} : change.node->Ask(pod);
}

TEST(ClusterView, ANodeNeedsItsTopology) {
  ClusterView view;
  view.Set(ObjectKind::kNode, "w", kViewNode);
  const auto without = OnlyChange(view);
  EXPECT_EQ(AskFor(without, "1").outcome, placement::Outcome::kUndecided);
  EXPECT_EQ(AskFor(without, "8").outcome, placement::Outcome::kRefused);
  view.Set(ObjectKind::kTopology, "w", TopologyText());
  EXPECT_EQ(AskFor(OnlyChange(view), "4").outcome, placement::Outcome::kFits);
  view.Remove(ObjectKind::kNode, "w");
  EXPECT_TRUE(OnlyChange(view).is_gone);
  EXPECT_EQ(view.size(ObjectKind::kTopology), 1U);
  // The objects come in any order.
  view.Set(ObjectKind::kNode, "w", kViewNode);
  EXPECT_EQ(AskFor(OnlyChange(view), "4").outcome, placement::Outcome::kFits);
}

TEST(ClusterView, WhatIsWrittenAgainIsNoChange) {
  ClusterView view;
  view.Set(ObjectKind::kNode, "w", kViewNode);
  view.Set(ObjectKind::kTopology, "w", TopologyText());
  view.Set(ObjectKind::kPod, "ns/a", ViewPod("a"));
  OnlyChange(view);
  std::string beat = kViewNode;
  beat.insert(beat.find("\"capacity\""), R"("conditions":[{"type":"Ready"}],)");
  view.Set(ObjectKind::kNode, "w", beat);
  view.Set(ObjectKind::kTopology, "w", TopologyText());
  view.Set(ObjectKind::kPod, "ns/a", ViewPod("a"));
  view.Remove(ObjectKind::kPod, "ns/b");
  EXPECT_TRUE(view.TakeChanged().empty());
}

TEST(ClusterView, PodsComeAndEnd) {
  ClusterView view;
  view.Set(ObjectKind::kNode, "w", kViewNode);
  view.Set(ObjectKind::kTopology, "w", TopologyText());
  OnlyChange(view);
  view.Set(ObjectKind::kPod, "ns/a", ViewPod("a"));
  EXPECT_EQ(OnlyChange(view).pods, (std::vector<std::string>{"a", "ns/a"}));
  // It runs, and the object does not have it yet.
  view.Set(ObjectKind::kPod, "ns/a", ViewPod("a", "", "Running"));
  EXPECT_EQ(AskFor(OnlyChange(view), "1").outcome, placement::Outcome::kUndecided);
  view.Set(ObjectKind::kTopology, "w", TopologyText({{"ns", "a"}}));
  EXPECT_EQ(AskFor(OnlyChange(view), "1").outcome, placement::Outcome::kFits);
  view.Set(ObjectKind::kPod, "ns/a", ViewPod("a", "", "Succeeded"));
  EXPECT_TRUE(OnlyChange(view).pods.empty());
  view.Set(ObjectKind::kPod, "ns/b", ViewPod("b"));
  view.Set(ObjectKind::kPod, "ns/c", ViewPod("c"));
  view.KeepOnly(ObjectKind::kPod, {"ns/c"});
  EXPECT_EQ(OnlyChange(view).pods, (std::vector<std::string>{"c", "ns/c"}));
  // A pod of the same name on another node.
  std::string moved = ViewPod("c");
  moved.replace(moved.find(R"("nodeName":"w")"), 14, R"("nodeName":"v")");
  view.Set(ObjectKind::kPod, "ns/c", moved);
  const auto changed = view.TakeChanged();
  ASSERT_EQ(changed.size(), 2U);
  EXPECT_EQ(changed[0].name, "v");
  EXPECT_TRUE(changed[0].is_gone);
  EXPECT_TRUE(changed[1].pods.empty());
}

// Between two starts it is on its node, and may not be in the object.
TEST(ClusterView, APodThatCrashesLeavesItsNodeDecided) {
  const auto pod_in = [](const std::string& state) {
    std::string pod = ViewPod("a", "", "Running");
    const std::string phase = R"("phase":"Running")";
    pod.insert(pod.find(phase) + phase.size(),
               R"(,"containerStatuses":[{"name":"app","state":{")" + state + R"(":{}}}])");
    // As the watch gives it.
    return apiserver::Pruned(ObjectKind::kPod, nlohmann::json::parse(pod));
  };
  ClusterView view;
  view.Set(ObjectKind::kNode, "w", kViewNode);
  view.Set(ObjectKind::kTopology, "w",
           TopologyText(std::vector<noderesourcetopology::PodIdentity>{}));
  view.Set(ObjectKind::kPod, "ns/a", pod_in("running"));
  EXPECT_EQ(AskFor(OnlyChange(view), "1").outcome, placement::Outcome::kUndecided);
  view.Set(ObjectKind::kPod, "ns/a", pod_in("waiting"));
  const Extender::NodeChange change = OnlyChange(view);
  EXPECT_EQ(AskFor(change, "1").outcome, placement::Outcome::kFits);
  EXPECT_EQ(change.pods, (std::vector<std::string>{"a", "ns/a"}));
  view.Set(ObjectKind::kTopology, "w", TopologyText({{"ns", "a"}}));
  EXPECT_EQ(AskFor(OnlyChange(view), "1").outcome, placement::Outcome::kFits);
}

// The fingerprint has the names of pods: it does not show that a pod is another one.
TEST(ClusterView, APodThatReplacesAnotherOfItsNameIsNotInTheObject) {
  const auto pod_of = [](const std::string& uid, const std::string& phase,
                         const std::string& resources = "") {
    std::string pod = ViewPod("a", "", phase);
    pod.replace(pod.find(R"("uid":"a")"), 9, R"("uid":")" + uid + "\"");
    return pod.replace(pod.find(R"({"name":"app"})"), 14, R"({"name":"app")" + resources + "}");
  };
  const std::string more = R"(,"resources":{"requests":{"cpu":"1"}})";
  ClusterView view;
  view.Set(ObjectKind::kNode, "w", kViewNode);
  view.Set(ObjectKind::kTopology, "w", TopologyText({{"ns", "a"}}));
  view.Set(ObjectKind::kPod, "ns/a", pod_of("1", "Running"));
  EXPECT_EQ(AskFor(OnlyChange(view), "1").outcome, placement::Outcome::kFits);
  // At once, or after it was seen to be gone.
  for (const bool is_seen : {false, true}) {
    if (is_seen) view.Remove(ObjectKind::kPod, "ns/a");
    view.Set(ObjectKind::kPod, "ns/a", pod_of(is_seen ? "3" : "2", "Pending"));
    const placement::Verdict verdict = AskFor(OnlyChange(view), "1");
    EXPECT_EQ(verdict.outcome, placement::Outcome::kUndecided);
    EXPECT_NE(verdict.cause.find("pod ns/a has replaced another pod"), std::string::npos)
        << verdict.cause;
    // It runs, with what the pod before it had.
    view.Set(ObjectKind::kPod, "ns/a", pod_of(is_seen ? "3" : "2", "Running"));
    const placement::Verdict again = AskFor(OnlyChange(view), "1");
    EXPECT_EQ(again.outcome, placement::Outcome::kFits) << again.cause;
  }
  view.Set(ObjectKind::kPod, "ns/a", pod_of("4", "Running", more));
  EXPECT_EQ(AskFor(OnlyChange(view), "1").outcome, placement::Outcome::kUndecided);
  view.Set(ObjectKind::kTopology, "w", TopologyText({{"ns", "a"}}));
  EXPECT_EQ(AskFor(OnlyChange(view), "1").outcome, placement::Outcome::kFits);
}

// The object shows it by itself, also to an extender that has just started.
TEST(ClusterView, AnObjectWithUidsHasThePodsOfTheseUids) {
  const auto pod_of = [](const std::string& uid) {
    std::string pod = ViewPod("a", "", "Running");
    return pod.replace(pod.find(R"("uid":"a")"), 9, R"("uid":")" + uid + "\"");
  };
  ClusterView view;
  view.Set(ObjectKind::kNode, "w", kViewNode);
  view.Set(ObjectKind::kTopology, "w", TopologyText({{"ns", "a", "1"}}));
  view.Set(ObjectKind::kPod, "ns/a", pod_of("1"));
  EXPECT_EQ(AskFor(OnlyChange(view), "1").outcome, placement::Outcome::kFits);
  view.Set(ObjectKind::kPod, "ns/a", pod_of("2"));
  EXPECT_EQ(AskFor(OnlyChange(view), "1").outcome, placement::Outcome::kUndecided);
  // Another program has changed a label.
  view.Set(ObjectKind::kTopology, "w", TopologyText({{"ns", "a", "1"}}));
  for (const auto& change : view.TakeChanged()) {
    EXPECT_EQ(AskFor(ClusterView::ChangeOf(change, ""), "1").outcome,
              placement::Outcome::kUndecided);
  }
  view.Set(ObjectKind::kTopology, "w", TopologyText({{"ns", "a", "2"}}));
  EXPECT_EQ(AskFor(OnlyChange(view), "1").outcome, placement::Outcome::kFits);
}

TEST(ClusterView, WhatCannotBeReadRefusesItsNode) {
  ClusterView view;
  view.Set(ObjectKind::kNode, "w", R"({"kind":"Node","metadata":{"name":"w"},"status":7})");
  const auto node = OnlyChange(view);
  ASSERT_TRUE(node.problem.has_value());
  EXPECT_TRUE(node.problem->message.starts_with("Node w: ")) << node.problem->Text();
  view.Set(ObjectKind::kNode, "w", kViewNode);
  view.Set(ObjectKind::kTopology, "w",
           R"({"kind":"NodeResourceTopology","apiVersion":"topology.node.k8s.io/v1alpha1",)"
           R"("metadata":{"name":"w"}})");
  const auto topology = OnlyChange(view);
  ASSERT_TRUE(topology.problem.has_value());
  EXPECT_NE(topology.problem->message.find("v1alpha1"), std::string::npos);
  view.Set(ObjectKind::kTopology, "w", TopologyText());
  // The API server can be newer, and have accepted it.
  view.Set(ObjectKind::kPod, "ns/a", ViewPod("a", R"(,"madeUp":1)"));
  EXPECT_EQ(AskFor(OnlyChange(view), "1").outcome, placement::Outcome::kFits);
  view.Set(ObjectKind::kPod, "ns/a",
           R"({"kind":"Pod","apiVersion":"v2","metadata":{"name":"a",)"
           R"("namespace":"ns","uid":"a"},"spec":{"nodeName":"w"}})");
  const auto pod = OnlyChange(view);
  EXPECT_EQ(AskFor(pod, "1").outcome, placement::Outcome::kUndecided);
  EXPECT_EQ(pod.pods, (std::vector<std::string>{"a", "ns/a"}));
}

}  // namespace
}  // namespace alignd::extender
