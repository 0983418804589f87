// The extender's answers: which nodes, and whose places it keeps.
#include "extender/extender.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <string>
#include <vector>

#include "core/machine_builder.h"
#include "core/pod_builder.h"
#include "core/random_planned.h"
#include "extender/messages.h"

namespace alignd::extender {
namespace {

using namespace std::chrono_literals;
using placement::FleetNode;
using placement::PlannedPod;

constexpr const char* kExtenderConfig =
    R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","topologyManagerPolicy":)"
    R"("single-numa-node"})";

// Two NUMA nodes of 10 CPUs, one of them reserved.
FleetNode TwoTimesTen(const std::string& name, const std::vector<PlannedPod>& running = {}) {
  FleetNode node;
  node.name = name;
  node.input.description.machine = MakeMachine("socket:2 numa:1 core:10");
  node.config = kExtenderConfig;
  node.running = running;
  return node;
}

PlannedPod PodOf(const std::string& name, const std::string& cpus) {
  PlannedPod pod;
  pod.pod = AppPod(name, {{"cpu", cpus}, {"memory", "1Gi"}});
  return pod;
}

const Extender::Clock::time_point kStart = Extender::Clock::time_point() + 1h;
const std::vector<std::string> kBoth = {"n1", "n2"};

constexpr const char* kConfigWithDefault =
    R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","namespacePolicies":[{"namespaces":)"
    R"(["db"],"podPolicies":[],"defaults":{"shared-cpus":"single-numa-node"}}]})";

// Burstable: only the default of its namespace says that NUMA nodes matter.
PlannedPod PodOfDb(const std::string& name) {
  PlannedPod pod = PodOf(name, "4");
  pod.pod.name_space = "db";
  pod.pod.containers[0].resources.limits.clear();
  return pod;
}

// A node that is not readable any more still has its defaults. Before the first one has been read,
// no defaults are known.
TEST(Extender, KnowsTheDefaultsOfANodeThatIsNotReadable) {
  const auto unreadable = [](const std::string& name) {
    FleetNode node;
    node.name = name;
    node.problem = Error{ErrorCode::kUnavailable, "x", "y"};
    return node;
  };
  FleetNode with_default = TwoTimesTen("n1");
  with_default.config = kConfigWithDefault;
  Extender extender({});
  EXPECT_FALSE(extender.Concerns(PodOfDb("a")));
  EXPECT_EQ(extender.Filter(PodOfDb("a"), kBoth, kStart)->nodes, kBoth);
  extender.SetNodes(std::vector<FleetNode>{with_default, TwoTimesTen("n2")}, kStart);
  EXPECT_TRUE(extender.Concerns(PodOfDb("a")));
  EXPECT_FALSE(extender.Concerns([] {
    PlannedPod pod = PodOfDb("a");
    pod.pod.name_space = "web";
    return pod;
  }()));
  const auto only_n2 = [&] {
    const auto filtered = extender.Filter(PodOfDb("a"), kBoth, kStart);
    return filtered.ok() && filtered->nodes == std::vector<std::string>{"n2"} &&
           filtered->unresolvable.contains("n1");
  };
  extender.SetNodes(std::vector<FleetNode>{unreadable("n1"), TwoTimesTen("n2")}, kStart);
  EXPECT_TRUE(only_n2());
  extender.SetNodes(std::vector<FleetNode>{with_default, TwoTimesTen("n2")}, kStart);
  extender.ChangeNodes({{.name = "n1", .problem = Error{ErrorCode::kUnavailable, "x", "y"}}});
  EXPECT_TRUE(only_n2());
  extender.ChangeNodes({{.name = "n1", .is_gone = true}});
  EXPECT_FALSE(extender.Concerns(PodOfDb("a")));
  // Nothing is known of the nodes any more: not all nodes, as if the pod concerned none.
  extender.SetNodes(std::vector<FleetNode>{with_default, TwoTimesTen("n2")}, kStart);
  extender.SetProblem(Error{ErrorCode::kUnavailable, "x", "y"});
  EXPECT_FALSE(extender.Filter(PodOfDb("a"), kBoth, kStart).ok());
}

// A Burstable pod that must have exclusive CPUs by its label is refused by nodes that follow it.
TEST(Extender, FollowsALabelForExclusiveCpus) {
  FleetNode follows = TwoTimesTen("n1");
  follows.config =
      R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","podPolicies":["qosClass"]})";
  PlannedPod pod = PodOf("a", "4");
  pod.pod.containers[0].resources.limits.clear();
  Extender extender({});
  extender.SetNodes(std::vector<FleetNode>{follows, TwoTimesTen("n2")}, kStart);
  EXPECT_FALSE(extender.Concerns(pod));
  ReadSharingLabel(kQosClassLabel, "LSR", pod.pod.policies.sharing);
  ASSERT_TRUE(extender.Concerns(pod));
  const auto filtered = extender.Filter(pod, kBoth, kStart);
  ASSERT_TRUE(filtered.ok());
  EXPECT_EQ(filtered->nodes, std::vector<std::string>{"n2"});
  EXPECT_TRUE(filtered->unresolvable.contains("n1") || filtered->failed.contains("n1"));
  // The same where only namespaces may choose.
  follows.config =
      R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","namespacePolicies":[{"namespaces":)"
      R"(["db"],"podPolicies":["qosClass"]}]})";
  extender.SetNodes(std::vector<FleetNode>{follows, TwoTimesTen("n2")}, kStart);
  EXPECT_FALSE(extender.Concerns(pod));
  pod.pod.name_space = "db";
  EXPECT_TRUE(extender.Concerns(pod));
}

TEST(Extender, TwoPodsNeverGetTheSamePlace) {
  Extender extender({});
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1"), TwoTimesTen("n2")}, kStart);
  // 10 CPUs are free on one NUMA node of each.
  EXPECT_EQ(extender.Filter(PodOf("a", "10"), kBoth, kStart)->nodes,
            std::vector<std::string>{"n1"});
  EXPECT_EQ(extender.Filter(PodOf("b", "10"), kBoth, kStart)->nodes,
            std::vector<std::string>{"n2"});
  const auto refused = extender.Filter(PodOf("c", "10"), kBoth, kStart);
  ASSERT_TRUE(refused.ok());
  EXPECT_TRUE(refused->nodes.empty());
  EXPECT_EQ(refused->failed.at("n1"),
            "Unschedulable: Insufficient cpu (with 1 pod on the way to the node)");
  EXPECT_EQ(extender.GetCounts().kept_pods, 2U);
}

// The end of a place that is dropped by time is no change of the cluster: kube-scheduler has to ask
// again by itself. What the nodes alone refuse, it need not.
TEST(Extender, NamesTheRefusalThatOnlyKeptPodsCause) {
  Extender extender({.keep_for = 60s});
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1"), TwoTimesTen("n2")}, kStart);
  ASSERT_EQ(extender.Filter(PodOf("a", "10"), {"n1"}, kStart)->nodes.size(), 1U);
  const auto waits = [&](const std::string& cpus, const std::vector<std::string>& names,
                         Extender::Clock::time_point now) {
    const auto filtered = extender.Filter(PodOf("b", cpus), names, now);
    extender.DropPlace("b", filtered->place);
    return filtered->waits ? filtered->waits->message : "";
  };
  EXPECT_EQ(waits("10", {"n1"}, kStart),
            "PlacesKept: node n1: Unschedulable: Insufficient cpu (with 1 pod on the way to the "
            "node)");
  EXPECT_EQ(waits("10", kBoth, kStart), "") << "it goes to n2";
  EXPECT_EQ(waits("12", {"n1"}, kStart), "");
  EXPECT_NE(waits("10", {"n1"}, kStart + 119s), "");
  EXPECT_EQ(waits("10", {"n1"}, kStart + 2h), "") << "files that show no pods";
  // The node has changed, and has nothing for the kept pod.
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1", {PodOf("other", "10")})}, kStart);
  EXPECT_TRUE(waits("2", {"n1"}, kStart).starts_with("PlacesKept: node n1: pod default/a was let"))
      << waits("2", {"n1"}, kStart);
  EXPECT_EQ(waits("12", {"n1"}, kStart), "") << "the node refuses it without the kept pod, too";
}

// kube-scheduler preempts no pods for one whose call has failed.
TEST(Extender, APodDoesNotWaitForPlacesForEver) {
  Extender extender({.keep_for = 600s});
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1")}, kStart);
  ASSERT_EQ(extender.Filter(PodOf("a", "10"), {"n1"}, kStart)->nodes.size(), 1U);
  const auto waits = [&](const std::string& uid, Extender::Clock::time_point now) {
    const auto filtered = extender.Filter(PodOf(uid, "10"), {"n1"}, now);
    EXPECT_TRUE(filtered->nodes.empty());
    EXPECT_TRUE(filtered->failed.contains("n1"));
    return filtered->waits.has_value();
  };
  EXPECT_TRUE(waits("b", kStart));
  EXPECT_TRUE(waits("b", kStart + 19s));
  EXPECT_FALSE(waits("b", kStart + 20s));
  EXPECT_FALSE(waits("b", kStart + 21s));
  EXPECT_TRUE(waits("c", kStart + 21s)) << "each pod for itself";
  EXPECT_TRUE(waits("b", kStart + 5min)) << "anew";
  EXPECT_FALSE(waits("b", kStart + 5min + 20s));
  // It has had a place.
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1"), TwoTimesTen("n2")}, kStart);
  EXPECT_EQ(extender.Filter(PodOf("b", "10"), {"n1", "n2"}, kStart + 321s)->nodes.size(), 1U);
  EXPECT_TRUE(waits("b", kStart + 322s));
}

TEST(Extender, DropsThePlacesOfDeletedPodsAndKeepsNoOthers) {
  Extender extender({.keep_for = 60s});
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1")}, kStart);
  ASSERT_EQ(extender.Filter(PodOf("a", "10"), {"n1"}, kStart)->nodes.size(), 1U);
  extender.DropPlacesOf({"a", "never seen"}, kStart);
  EXPECT_EQ(extender.GetCounts().kept_pods, 0U);
  EXPECT_EQ(extender.GetCounts().dropped, 0U);
  for (const char* const pod : {"a", "never seen"}) {
    const auto late = extender.Filter(PodOf(pod, "10"), {"n1"}, kStart);
    ASSERT_FALSE(late.ok());
    EXPECT_TRUE(late.error().message.starts_with("PodDeleted: ")) << late.error().Text();
  }
  EXPECT_EQ(extender.Filter(PodOf("b", "10"), {"n1"}, kStart)->nodes.size(), 1U);
  // They are forgotten when a place would be dropped by time, and the oldest of very many before.
  extender.DropPlacesOf({"b"}, kStart + 60s);
  EXPECT_EQ(extender.Filter(PodOf("a", "10"), {"n1"}, kStart + 60s)->nodes.size(), 1U);
  EXPECT_FALSE(extender.Filter(PodOf("b", "10"), {"n1"}, kStart + 60s).ok());
  std::set<std::string> many;
  for (int i = 0; i < 20'000; ++i) many.insert("m" + std::to_string(i));
  extender.DropPlacesOf(many, kStart + 60s);
  EXPECT_TRUE(extender.Filter(PodOf("b", "10"), {"n1"}, kStart + 60s).ok());
}

// Most pods of a cluster concern no node: they are let through while the nodes decide about others.
TEST(Extender, PodsThatConcernNoNodeDoNotWaitForOthers) {
  std::promise<void> is_deciding;
  std::promise<void> may_decide;
  bool has_waited = false;
  Extender extender({.for_each = [&](size_t count, const auto& each) {
    if (count > 0 && !std::exchange(has_waited, true)) {
      is_deciding.set_value();
      may_decide.get_future().wait();
    }
    placement::ForEachInTurn(count, each);
  }});
  FleetNode with_default = TwoTimesTen("n1");
  with_default.config = kConfigWithDefault;
  extender.SetNodes(std::vector<FleetNode>{with_default, TwoTimesTen("n2")}, kStart);
  auto concerned = std::async(std::launch::async, [&] {
    return extender.Filter(PodOf("a", "10"), kBoth, kStart)->nodes.size();
  });
  is_deciding.get_future().wait();
  auto other = std::async(std::launch::async, [&] {
    PlannedPod pod = PodOfDb("b");
    pod.pod.name_space = "web";
    return !extender.Concerns(pod) && extender.Filter(pod, kBoth, kStart)->nodes == kBoth;
  });
  const bool has_answered = other.wait_for(10s) == std::future_status::ready;
  may_decide.set_value();
  EXPECT_TRUE(has_answered);
  EXPECT_TRUE(other.get());
  EXPECT_EQ(concerned.get(), 1U);
}

// A pod that kube-scheduler asks about again went nowhere.
TEST(Extender, APodThatIsAskedAboutAgainLosesItsPlace) {
  Extender extender({});
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1"), TwoTimesTen("n2")}, kStart);
  EXPECT_EQ(extender.Filter(PodOf("a", "10"), {"n1"}, kStart)->nodes.size(), 1U);
  EXPECT_EQ(extender.Filter(PodOf("a", "10"), {"n2"}, kStart)->nodes.size(), 1U);
  EXPECT_EQ(extender.Filter(PodOf("b", "10"), {"n1"}, kStart)->nodes.size(), 1U);
  EXPECT_EQ(extender.Filter(PodOf("c", "10"), {"n2"}, kStart)->nodes.size(), 0U);
}

// As the pod of a StatefulSet: an earlier one of its name is gone.
TEST(Extender, ANewPodOfTheNameTakesThePlace) {
  Extender extender({});
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1")}, kStart);
  PlannedPod pod = PodOf("a", "10");
  ASSERT_EQ(extender.Filter(pod, {"n1"}, kStart)->nodes.size(), 1U);
  pod.pod.uid = "another";
  EXPECT_EQ(extender.Filter(pod, {"n1"}, kStart)->nodes.size(), 1U);
  EXPECT_EQ(extender.GetCounts().kept_pods, 1U);
}

TEST(Extender, ThePlaceIsDroppedWhenTheNodesShowThePod) {
  Extender extender({});
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1")}, kStart);
  ASSERT_EQ(extender.Filter(PodOf("a", "4"), {"n1"}, kStart)->nodes.size(), 1U);
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1", {PodOf("a", "4")})}, kStart + 1s);
  EXPECT_EQ(extender.GetCounts().kept_pods, 0U);
  EXPECT_EQ(extender.GetCounts().dropped, 0U);
  // It is counted once: 6 and 9 CPUs are left.
  EXPECT_EQ(extender.Filter(PodOf("b", "9"), {"n1"}, kStart)->nodes.size(), 1U);
  EXPECT_EQ(extender.Filter(PodOf("c", "6"), {"n1"}, kStart)->nodes.size(), 0U)
      << "5 and 0 are left";
}

// Without a newer look at the nodes, nothing says that the pod is not there.
TEST(Extender, ThePlaceIsDroppedAfterAWhileIfTheNodesAreReadWithoutThePod) {
  Extender extender({.keep_for = 60s});
  const Result<std::vector<FleetNode>> nodes = std::vector<FleetNode>{TwoTimesTen("n1")};
  extender.SetNodes(nodes, kStart);
  ASSERT_EQ(extender.Filter(PodOf("a", "10"), {"n1"}, kStart)->nodes.size(), 1U);
  EXPECT_EQ(extender.Filter(PodOf("b", "10"), {"n1"}, kStart + 2h)->nodes.size(), 0U);
  extender.SetNodes(nodes, kStart + 59s);
  EXPECT_EQ(extender.Filter(PodOf("b", "10"), {"n1"}, kStart + 2h)->nodes.size(), 0U);
  extender.SetNodes(nodes, kStart + 60s);
  EXPECT_EQ(extender.Filter(PodOf("b", "10"), {"n1"}, kStart + 2h)->nodes.size(), 1U);
  EXPECT_EQ(extender.GetCounts().dropped, 1U);
}

// Of the nodes of --nodes without state files: two pods can be on one NUMA node of n1, or on both.
TEST(Extender, LetsNoPodThroughOfWhichItDependsWhereOthersRun) {
  Extender extender({});
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1", {PodOf("a", "4"), PodOf("b", "4")}),
                                           TwoTimesTen("n2", {PodOf("c", "4")})},
                    kStart);
  ASSERT_FALSE(extender.Problem()) << extender.Problem()->Text();
  EXPECT_EQ(extender.Filter(PodOf("x", "5"), kBoth, kStart)->nodes.size(), 1U);
  const auto filtered = extender.Filter(PodOf("y", "7"), {"n1"}, kStart);
  ASSERT_TRUE(filtered.ok()) << filtered.error().Text();
  EXPECT_TRUE(filtered->nodes.empty());
  EXPECT_TRUE(filtered->unresolvable.at("n1").starts_with(
      "Undecided: no state file has what pods are assigned that run"))
      << filtered->unresolvable.at("n1");
}

// single-numa-node would refuse `wide`. It stopped the extender from knowing any node.
TEST(Extender, KnowsNodesWithAPodThatTheyWouldNotAdmit) {
  Extender extender({});
  extender.SetNodes(
      std::vector<FleetNode>{TwoTimesTen("n1", {PodOf("wide", "12")}), TwoTimesTen("n2")}, kStart);
  ASSERT_FALSE(extender.Problem()) << extender.Problem()->Text();
  const auto filtered = extender.Filter(PodOf("x", "4"), kBoth, kStart);
  ASSERT_TRUE(filtered.ok()) << filtered.error().Text();
  EXPECT_EQ(filtered->nodes, std::vector<std::string>{"n2"});
  EXPECT_TRUE(filtered->unresolvable.contains("n1"));
}

// A resource of the Node's status alone. n2 has the flag --not-devices, or its field.
TEST(Extender, CountsLicencesThatNoPluginServes) {
  const auto node = [](const std::string& name, const std::string& more) {
    FleetNode with_licences = TwoTimesTen(name);
    with_licences.config.insert(1, more);
    placement::NodeObject& object = with_licences.input.object.emplace();
    object.name = name;
    object.allocatable =
        Amounts({{"cpu", "19"}, {"memory", "8Gi"}, {"pods", "110"}, {"example.com/licence", "5"}});
    return with_licences;
  };
  PlannedPod pod;
  pod.pod = AppPod("a", {{"example.com/licence", "4"}});
  Extender extender({});
  extender.SetNodes(std::vector<FleetNode>{node("n1", ""),
                                           node("n2", R"("notDevices":["example.com/licence"],)")},
                    kStart);
  ASSERT_FALSE(extender.Problem()) << extender.Problem()->Text();
  const auto filtered = extender.Filter(pod, kBoth, kStart);
  ASSERT_TRUE(filtered.ok()) << filtered.error().Text();
  EXPECT_EQ(filtered->nodes, std::vector<std::string>{"n2"});
  EXPECT_TRUE(filtered->unresolvable.contains("n1"));
  PlannedPod next;
  next.pod = AppPod("b", {{"example.com/licence", "2"}});
  EXPECT_TRUE(extender.Filter(next, kBoth, kStart)->nodes.empty());
}

// As the nodes of a watch: the problem of one does not stop the others.
TEST(Extender, ANodeWithAProblemConcernsNoOther) {
  FleetNode bad;
  bad.name = "n2";
  bad.problem = Error{ErrorCode::kInvalidArgument, "Node n2: nothing is known", "see its kubelet"};
  Extender extender({});
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1"), bad}, kStart);
  const auto filtered = extender.Filter(PodOf("a", "4"), kBoth, kStart);
  ASSERT_TRUE(filtered.ok()) << filtered.error().Text();
  EXPECT_EQ(filtered->nodes, std::vector<std::string>{"n1"});
  EXPECT_EQ(filtered->unresolvable.at("n2"), "Node n2: nothing is known; see its kubelet");
  EXPECT_EQ(extender.GetCounts().nodes_with_problem, 1U);
}

TEST(Extender, NamesTheFirstNodesThatCannotBeUsed) {
  std::vector<FleetNode> nodes = {TwoTimesTen("n1")};
  for (const char* const name : {"n2", "n3", "n4", "n5", "n6"}) {
    nodes.emplace_back().name = name;
    nodes.back().problem = Error{ErrorCode::kInvalidArgument, "broken", "repair it"};
  }
  Extender extender({});
  extender.SetNodes(nodes, kStart);
  EXPECT_EQ(DescribeProblems(extender.NodeProblems()),
            "5 nodes cannot be used: n2: broken; repair it | n3: broken; repair it | n4: broken; "
            "repair it | and 2 more");
  extender.SetNodes(std::vector<FleetNode>(nodes.begin(), nodes.begin() + 2), kStart);
  EXPECT_EQ(DescribeProblems(extender.NodeProblems()),
            "1 node cannot be used: n2: broken; repair it");
}

Extender::NodeChange ChangeOf(const FleetNode& node) {
  const auto planned = placement::MakePlannedNode(node);
  return {.name = node.name,
          .node = std::make_shared<const placement::PlannedNode>(*planned),
          .pods = planned->KnownPods()};
}

// kube-scheduler asks about one pod at a time; others may call as well, while nodes change.
TEST(Extender, CallsAndChangesMayCoincide) {
  constexpr int kCallers = 3;
  constexpr int kPodsOfACaller = 8;
  const auto let_through = [](Extender& extender, const std::string& pod) {
    return static_cast<int>(extender.Filter(PodOf(pod, "4"), {"n1", "n2"}, kStart)->nodes.size());
  };
  const auto nodes = [] {
    return std::vector<Extender::NodeChange>{ChangeOf(TwoTimesTen("n1")),
                                             ChangeOf(TwoTimesTen("n2"))};
  };
  Extender alone({});
  alone.ChangeNodes(nodes());
  int expected = 0;
  for (int i = 0; i < kCallers * kPodsOfACaller; ++i) {
    expected += let_through(alone, "p" + std::to_string(i));
  }
  Extender extender({});
  extender.ChangeNodes(nodes());
  std::atomic<bool> is_over = false;
  auto changing = std::async(std::launch::async, [&] {
    while (!is_over) {
      extender.ChangeNodes(nodes());
      extender.DropPlacesBefore(kStart);
      (void)extender.GetCounts();
    }
  });
  std::vector<std::future<int>> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.push_back(std::async(std::launch::async, [&, caller] {
      int count = 0;
      for (int i = 0; i < kPodsOfACaller; ++i) {
        const std::string name = "p" + std::to_string(caller) + "-" + std::to_string(i);
        count += let_through(extender, name);
        EXPECT_TRUE(extender.Prioritize(PodOf(name, "4"), {"n1", "n2"}).ok());
      }
      return count;
    }));
  }
  int count = 0;
  for (auto& caller : callers) count += caller.get();
  is_over = true;
  changing.get();
  EXPECT_EQ(count, expected);
  EXPECT_GT(expected, 0);
}

// Nodes that come one by one, as from an API server.
TEST(Extender, KeepsPlacesWhileNodesChange) {
  Extender extender({.keep_for = 60s});
  extender.ChangeNodes({ChangeOf(TwoTimesTen("n1")), ChangeOf(TwoTimesTen("n2"))});
  ASSERT_EQ(extender.Filter(PodOf("a", "10"), {"n1"}, kStart)->nodes.size(), 1U);
  // The node changes, and does not have the pod yet.
  extender.ChangeNodes({ChangeOf(TwoTimesTen("n1"))});
  extender.DropPlacesBefore(kStart + 59s);
  EXPECT_EQ(extender.Filter(PodOf("b", "10"), {"n1"}, kStart)->nodes.size(), 0U);
  extender.ChangeNodes({ChangeOf(TwoTimesTen("n1", {PodOf("a", "10")}))});
  EXPECT_EQ(extender.GetCounts().kept_pods, 0U);
  const auto again = extender.Filter(PodOf("a", "10"), {"n2"}, kStart);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().message,
            "AlreadyExists: a node has a pod named default/a or with its UID, as the nodes were "
            "read last");
  // The node of a pod on its way goes, and comes back.
  ASSERT_EQ(extender.Filter(PodOf("c", "10"), {"n2"}, kStart)->nodes.size(), 1U);
  extender.ChangeNodes({{.name = "n2", .is_gone = true}});
  EXPECT_EQ(extender.GetCounts().nodes, 1U);
  EXPECT_EQ(extender.Filter(PodOf("d", "1"), {"n2"}, kStart)->unresolvable.size(), 1U);
  extender.ChangeNodes({ChangeOf(TwoTimesTen("n2"))});
  EXPECT_EQ(extender.Filter(PodOf("d", "10"), {"n2"}, kStart)->nodes.size(), 0U);
  extender.DropPlacesBefore(kStart + 60s);
  EXPECT_EQ(extender.GetCounts().dropped, 1U);
  EXPECT_EQ(extender.Filter(PodOf("d", "10"), {"n2"}, kStart)->nodes.size(), 1U);
}

TEST(Extender, LetsNothingThroughToANodeThatCannotBeRead) {
  Extender extender({});
  extender.ChangeNodes(
      {{.name = "n1", .problem = Error{ErrorCode::kInvalidArgument, "broken", "repair it"}},
       ChangeOf(TwoTimesTen("n2"))});
  const auto filtered = extender.Filter(PodOf("a", "1"), kBoth, kStart);
  ASSERT_TRUE(filtered.ok());
  EXPECT_EQ(filtered->nodes, std::vector<std::string>{"n2"});
  EXPECT_EQ(filtered->unresolvable.at("n1"), "broken; repair it");
  EXPECT_EQ(extender.Prioritize(PodOf("a", "1"), kBoth)->at(0).second, 0);
  EXPECT_EQ(extender.GetCounts().nodes_with_problem, 1U);
  extender.SetProblem({ErrorCode::kUnavailable, "stale", "wait"});
  EXPECT_EQ(extender.Filter(PodOf("a", "1"), kBoth, kStart).error().message, "stale");
  extender.ChangeNodes({});
  EXPECT_TRUE(extender.Filter(PodOf("a", "1"), kBoth, kStart).ok());
}

TEST(Extender, PodsWithoutAlignedResourcesPass) {
  Extender extender({});
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1")}, kStart);
  PlannedPod pod;
  pod.pod = MakePod("p", {App("app", {})});
  EXPECT_EQ(extender.Filter(pod, {"n1", "other"}, kStart)->nodes,
            (std::vector<std::string>{"n1", "other"}));
  EXPECT_EQ(extender.GetCounts().kept_pods, 0U);
  EXPECT_EQ(extender.Prioritize(pod, {"n1", "other"})->at(1).second, 0);
  pod.pod.containers[0].resources.limits["a.com/dev"] = Quantity(1);
  EXPECT_TRUE(IsConcerned(pod));
}

TEST(Extender, AnswersNothingForNodesThatItDoesNotKnow) {
  Extender extender({});
  EXPECT_EQ(extender.Filter(PodOf("a", "1"), {"n1"}, kStart).error().message,
            "the nodes have not been read yet");
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1")}, kStart);
  const auto filtered = extender.Filter(PodOf("a", "1"), {"n7"}, kStart);
  EXPECT_TRUE(filtered->nodes.empty());
  EXPECT_EQ(filtered->unresolvable.count("n7"), 1U);
  extender.SetNodes(Error{ErrorCode::kIo, "cannot be read", "repair it"}, kStart);
  EXPECT_EQ(extender.Filter(PodOf("a", "1"), {"n1"}, kStart).error().message, "cannot be read");
  EXPECT_EQ(extender.Prioritize(PodOf("a", "1"), {"n1"}).error().message, "cannot be read");
  EXPECT_TRUE(extender.Problem().has_value());
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1")}, kStart);
  EXPECT_TRUE(extender.Filter(PodOf("a", "1"), {"n1"}, kStart).ok());
}

TEST(Extender, ScoresAreThoseOfFitFromZeroToTen) {
  Extender extender({.nodes_per_pod = 2});
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1"), TwoTimesTen("n2", {PodOf("r", "8")})},
                    kStart);
  ASSERT_EQ(extender.Filter(PodOf("a", "2"), kBoth, kStart)->nodes, kBoth);
  const auto scores = extender.Prioritize(PodOf("a", "2"), kBoth);
  ASSERT_TRUE(scores.ok());
  // LeastAllocated counts cpu alone here, and memory, which is not reported: 77 and 50 per cent.
  EXPECT_EQ(scores->at(0).first, "n1");
  EXPECT_GT(scores->at(0).second, scores->at(1).second);
  EXPECT_LE(scores->at(0).second, 10);
}

// A pod that may go to two nodes has a place on both, until fewer are scored.
TEST(Extender, KeepsAPlaceOnEachNodeThatThePodMayGoTo) {
  Extender extender({.nodes_per_pod = 2});
  extender.SetNodes(std::vector<FleetNode>{TwoTimesTen("n1"), TwoTimesTen("n2")}, kStart);
  ASSERT_EQ(extender.Filter(PodOf("a", "10"), kBoth, kStart)->nodes, kBoth);
  EXPECT_TRUE(extender.Filter(PodOf("b", "10"), kBoth, kStart)->nodes.empty());
  ASSERT_TRUE(extender.Prioritize(PodOf("a", "10"), {"n2"}).ok());
  EXPECT_EQ(extender.Filter(PodOf("b", "10"), kBoth, kStart)->nodes,
            std::vector<std::string>{"n1"});
}

// The pods are placed where they were let through, some get lost, and the nodes are shown late.
TEST(Extender, WhatItLetsThroughIsAdmitted) {
  Random random;
  int admitted = 0;
  int refused = 0;
  for (int run = Iterations(30); run > 0; --run) {
    std::vector<FleetNode> nodes;
    std::vector<std::string> names;
    const Machine machine = RandomMachine(random);
    for (int i = 0; i < 4; ++i) {
      nodes.push_back(TwoTimesTen("n" + std::to_string(i)));
      nodes.back().input.description.machine = i < 2 ? machine : MakeMachine("numa:2 core:4");
      nodes.back().input.description.devices["a.com/dev"] =
          placement::RandomDeviceList(nodes.back().input.description.machine, random);
      names.push_back(nodes.back().name);
    }
    std::vector<placement::PlannedNode> truth;
    bool can_start = true;
    for (const FleetNode& node : nodes) {
      Result<placement::PlannedNode> made = placement::MakePlannedNode(node);
      can_start = can_start && made.ok();
      if (made.ok()) truth.push_back(*std::move(made));
    }
    if (!can_start) continue;
    Extender extender({});
    extender.SetNodes(nodes, kStart);
    for (int step = 0; step < 20; ++step) {
      const std::string name = "p" + std::to_string(step);
      PlannedPod pod = placement::RandomPlanned(name, machine, random);
      pod.pod.name = pod.pod.uid = name;
      pod.undecided.clear();
      pod.faults.clear();
      for (Container& container : pod.pod.containers) {
        container.resources.limits.erase("memory");
        container.resources.requests.erase("memory");
        container.resources.limits.erase("hugepages-2Mi");
        container.resources.requests.erase("hugepages-2Mi");
        container.resources.limits.emplace("memory", Quantity(1));
        container.resources.requests.emplace("memory", Quantity(1));
      }
      if (!IsConcerned(pod)) continue;
      const auto filtered = extender.Filter(pod, names, kStart);
      ASSERT_TRUE(filtered.ok());
      if (filtered->nodes.empty()) {
        ++refused;
        continue;
      }
      ASSERT_EQ(filtered->nodes.size(), 1U);
      if (random.OnceIn(5)) continue;  // it is lost on its way
      const auto at =
          static_cast<size_t>(std::ranges::find(names, filtered->nodes[0]) - names.begin());
      ASSERT_EQ(truth[at].Place(pod).outcome, placement::Outcome::kFits) << "run " << run;
      ++admitted;
      nodes[at].running.push_back(pod);
      if (random.OnceIn(3)) extender.SetNodes(nodes, kStart);
    }
  }
  EXPECT_GT(admitted, 10);
  EXPECT_GT(refused, 10);
}

constexpr const char* kArgs =
    R"({"Pod":{"metadata":{"name":"p","namespace":"ns","uid":"u","creationTimestamp":null},)"
    R"("spec":{"containers":[{"name":"app","image":"i","resources":{"limits":{"cpu":"2",)"
    R"("memory":"1Gi"},"requests":{"cpu":"2","memory":"1Gi"}}}],"schedulerName":"s"},"status":{}},)"
    R"("Nodes":null,"NodeNames":["n1","n2"]})";

TEST(ExtenderMessages, ReadsWhatKubeSchedulerSends) {
  Result<Request> request = ParseRequest(kArgs);
  ASSERT_TRUE(request.ok()) << request.error().Text();
  EXPECT_EQ(request->names, kBoth);
  EXPECT_FALSE(request->has_nodes);
  EXPECT_EQ(request->pod.pod.uid, "u");
  EXPECT_EQ(request->pod.pod.name_space, "ns");
  EXPECT_TRUE(IsConcerned(request->pod));
  std::string with_nodes = kArgs;
  const std::string names = R"("Nodes":null,"NodeNames":["n1","n2"])";
  with_nodes.replace(with_nodes.find(names), names.size(),
                     R"("Nodes":{"items":[{"metadata":{"name":"n1"}},{"metadata":{"name":"n2",)"
                     R"("labels":{"a":"b"}}}]},"NodeNames":null)");
  request = ParseRequest(with_nodes);
  ASSERT_TRUE(request.ok()) << request.error().Text();
  EXPECT_EQ(request->names, kBoth);
  EXPECT_EQ(
      FilterResult(*request, {.nodes = {"n2"}, .failed = {{"n1", "why"}}, .unresolvable = {}}),
      R"({"Error":"","FailedAndUnresolvableNodes":{},"FailedNodes":{"n1":"why"},)"
      R"("NodeNames":null,"Nodes":{"items":[{"metadata":{"labels":{"a":"b"},"name":"n2"}}],)"
      R"("metadata":{}}})");
}

TEST(ExtenderMessages, RefusesEverythingElse) {
  for (const std::string text :
       {"", "null", "[]", "{", "{}", R"({"Pod":null,"NodeNames":[]})",
        R"({"Pod":{},"NodeNames":7})",
        R"({"Pod":{"metadata":{"name":"p"},"spec":{}},"NodeNames":[7]})",
        R"({"Pod":{"metadata":{"name":"p"},"spec":{}}})",
        R"({"Pod":{"metadata":{"name":"p"},"spec":{}},"Nodes":{"items":[{}]}})",
        R"({"Pod":{"metadata":{"name":"p"},"spec":{}},"NodeNames":["a","a"]})",
        R"({"Pod":{"metadata":{"name":"p"},"status":{"phase":"Failed"}},"NodeNames":["a"]})"}) {
    const Result<Request> request = ParseRequest(text);
    ASSERT_FALSE(request.ok()) << text;
    EXPECT_FALSE(request.error().remedy.empty() && request.error().message.empty());
  }
  const std::string deep = "{\"Pod\":" + std::string(500, '[') + std::string(500, ']') + "}";
  EXPECT_NE(ParseRequest(deep).error().message.find("more than 100 levels"), std::string::npos);
  EXPECT_EQ(FilterError({ErrorCode::kIo, "broken", "repair it"}),
            R"({"Error":"alignd-extender: broken; repair it","FailedAndUnresolvableNodes":null,)"
            R"("FailedNodes":null,"NodeNames":null,"Nodes":null})");
}

}  // namespace
}  // namespace alignd::extender
