// Shared CPUs of one NUMA node, on a node that is known from its NodeResourceTopology object.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "object_texts.h"

namespace alignd::placement {
namespace {

constexpr char kSharing[] =
    R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","topologyManagerPolicy":)"
    R"("single-numa-node","podPolicies":["sharedNUMANode"]})";

void SetBacking(size_t zone, const std::string& requests, const std::string& cpus, Json& object) {
  object["zones"][zone]["attributes"] =
      Json::array({{{"name", "alignd.io/sharedCpuRequests"}, {"value", requests}},
                   {{"name", "alignd.io/backingCpus"}, {"value", cpus}}});
}

// NUMA node 0 has 9 CPUs that are not reserved: 2 are assigned, 2 back 1500m, 5 are available.
// NUMA node 1 has 10, all of them available.
Json ObjectWithBacking() {
  Json object = ForeignObject();
  SetBacking(0, "1500m", "7", object);
  SetBacking(1, "0m", "10", object);
  SetFingerprint({}, object);
  return object;
}

Result<PlannedNode> NodeOf(const Json& object) {
  return NodeFromObjects({object, NodeJsonOf("w1")}, kSharing);
}

PlannedPod SharingPod(const std::string& name, const std::string& cpu) {
  PlannedPod pod;
  pod.pod = AppPod(name, {});
  pod.pod.name = name;
  pod.pod.containers[0].resources.requests = Amounts({{"cpu", cpu}});
  pod.pod.stated_qos.reset();
  pod.pod.policies.shared_on_one_node = true;
  return pod;
}

std::string Text(const Verdict& verdict) {
  std::string text(ToString(verdict.outcome));
  if (verdict.refusal) text += ": " + verdict.refusal->message;
  return text;
}

TEST(ObjectBacking, ANumaNodeHasWhatOthersLeaveOfIt) {
  Result<PlannedNode> node = NodeOf(ObjectWithBacking());
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_EQ(Text(node->Ask(SharingPod("most", "10"))), "fits");
  EXPECT_EQ(node->Ask(SharingPod("more", "10001m")).outcome, Outcome::kRefused);
  ASSERT_EQ(Text(node->Place(SharingPod("first", "9500m"))), "fits");
  EXPECT_EQ(Text(node->Ask(SharingPod("rest", "5500m"))), "fits");
  EXPECT_EQ(node->Ask(SharingPod("beyond", "5501m")).outcome, Outcome::kRefused);
}

// What such a container requests is not available to others any more, in whole CPUs.
TEST(ObjectBacking, PodsWithCpusOfTheirOwnLeaveThem) {
  Result<PlannedNode> node = NodeOf(ObjectWithBacking());
  EXPECT_EQ(ObjectAnswer(node, {{"cpu", "10"}, {"memory", "1Gi"}}), "fits");
  EXPECT_EQ(Text(node->Place(SharingPod("first", "7100m"))), "fits");
  EXPECT_EQ(ObjectAnswer(node, {{"cpu", "5"}, {"memory", "1Gi"}}), "fits");
  EXPECT_TRUE(ObjectAnswer(node, {{"cpu", "6"}, {"memory", "1Gi"}}).starts_with("refused"));
}

TEST(ObjectBacking, AnObjectThatDoesNotSayItIsUndecided) {
  Json object = ForeignObject();
  SetFingerprint({}, object);
  Result<PlannedNode> node = NodeOf(object);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_TRUE(HasPart(Text(node->Ask(SharingPod("a", "1"))),
                      "undecided: the annotation alignd.io/shared-cpus asks for shared CPUs of one "
                      "NUMA node: the object does not say what containers request there; ask"));
  EXPECT_EQ(ObjectAnswer(node, {{"cpu", "4"}, {"memory", "1Gi"}}), "fits");
}

// With policy none, the NUMA node of exclusive CPUs is the node's choice: it decides what is left
// for shared ones.
TEST(ObjectBacking, AfterExclusiveCpusThatCanBeAnywhereItIsUndecided) {
  Json object = ObjectWithBacking();
  object["attributes"][0]["value"] = "none";
  Result<PlannedNode> node = NodeFromObjects(
      {object, NodeJsonOf("w1")},
      R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","podPolicies":["sharedNUMANode"]})");
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_EQ(Text(node->Ask(SharingPod("before", "1"))), "fits");
  PlannedPod exclusive;
  exclusive.pod = AppPod("exclusive", {{"cpu", "2"}, {"memory", "1Gi"}});
  exclusive.pod.name = "exclusive";
  ASSERT_EQ(Text(node->Place(exclusive)), "fits");
  EXPECT_TRUE(HasPart(Text(node->Ask(SharingPod("after", "1"))),
                      "has on each of several NUMA nodes is the node's choice"));
  EXPECT_EQ(ObjectAnswer(node, {{"cpu", "2"}, {"memory", "1Gi"}}), "fits");
}

TEST(ObjectBacking, AttributesThatCannotBeAreRefused) {
  struct Case {
    std::string requests;
    std::string cpus;
    std::string attribute;
  };
  for (const Case& c : std::vector<Case>{{"1500", "7", "backingCpus"},
                                         {"-1m", "7", "sharedCpuRequests"},
                                         {"1500u", "7", "sharedCpuRequests"},
                                         {"9000000m", "7", "sharedCpuRequests"},
                                         {"many", "7", "sharedCpuRequests"},
                                         {"1500m", "4", "backingCpus"},
                                         {"1500m", "10", "backingCpus"},
                                         {"1500m", "6", "backingCpus"},
                                         {"1500m", "8", "backingCpus"},
                                         {"2001m", "7", "backingCpus"},
                                         {"0m", "7", "backingCpus"},
                                         {"1500m", "7500m", "backingCpus"},
                                         {"1500m", "", "backingCpus"}}) {
    Json object = ObjectWithBacking();
    SetBacking(0, c.requests, c.cpus, object);
    const std::string answer = ObjectAnswer(NodeOf(object), {{"cpu", "1"}});
    EXPECT_TRUE(answer.starts_with("error: ") &&
                HasPart(answer, "zone node-0: attribute alignd.io/" + c.attribute + ": \"") &&
                HasPart(answer, "; let alignd write the object"))
        << c.requests << " " << c.cpus << ": " << answer;
  }
  Json object = ObjectWithBacking();
  object["zones"][1].erase("attributes");
  EXPECT_TRUE(HasPart(ObjectAnswer(NodeOf(object), {}),
                      "zone node-1: the attribute alignd.io/sharedCpuRequests is missing"));
}

// A container without a request needs a CPU, too: one is not available.
TEST(ObjectBacking, ACpuThatBacksNoRequestIsOfAContainerWithoutOne) {
  Json object = ObjectWithBacking();
  SetBacking(0, "0m", "6", object);
  Result<PlannedNode> node = NodeOf(object);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_EQ(Text(node->Place(SharingPod("a", "10"))), "fits");
  EXPECT_EQ(Text(node->Place(SharingPod("b", "6"))), "fits");
  EXPECT_EQ(node->Ask(SharingPod("c", "1m")).outcome, Outcome::kRefused);
}

// A pod that runs there is not in it.
TEST(ObjectBacking, ARunningPodContradictsAnUnusedObject) {
  Json object = ForeignObject();
  for (Json& zone : object["zones"]) {
    for (Json& resource : zone["resources"]) resource["available"] = resource["allocatable"];
  }
  SetBacking(0, "0m", "9", object);
  SetBacking(1, "0m", "10", object);
  Json pod = BoundJson("a");
  pod["spec"]["containers"][0]["resources"] = {{"requests", {{"cpu", "1500m"}}}};
  pod["metadata"]["annotations"] = {{"alignd.io/shared-cpus", "single-numa-node"}};
  const auto asked = [&](const Json& bound) {
    return ObjectAnswer(NodeFromObjects({object, NodeJsonOf("w1"), bound}, kSharing),
                        {{"cpu", "1"}, {"memory", "1Gi"}});
  };
  EXPECT_TRUE(HasPart(asked(pod), "pod default/a runs, and the object has no fingerprint"));
  pod["status"]["phase"] = "Pending";
  EXPECT_EQ(asked(pod), "fits");
}

// It does not ask itself: the pods of its namespace have it by default.
TEST(ObjectBacking, ARunningPodWithTheDefaultContradictsAnUnusedObject) {
  Json object = ForeignObject();
  for (size_t zone = 0; zone < 2; ++zone) {
    for (Json& resource : object["zones"][zone]["resources"]) {
      resource["available"] = resource["allocatable"];
    }
    SetBacking(zone, "0m", zone == 0 ? "9" : "10", object);
  }
  Json pod = BoundJson("a");
  pod["spec"]["containers"][0]["resources"] = {{"requests", {{"cpu", "1500m"}}}};
  const auto asked = [&](const std::string& name_space) {
    const std::string config =
        R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","topologyManagerPolicy":)"
        R"("single-numa-node","namespacePolicies":[{"namespaces":[")" +
        name_space + R"("],"podPolicies":[],"defaults":{"shared-cpus":"single-numa-node"}}]})";
    return ObjectAnswer(NodeFromObjects({object, NodeJsonOf("w1"), pod}, config),
                        {{"cpu", "1"}, {"memory", "1Gi"}});
  };
  EXPECT_TRUE(HasPart(asked("default"), "pod default/a runs, and the object has no fingerprint"))
      << asked("default");
  EXPECT_EQ(asked("other"), "fits");
}

// With one CPU in each core, none is beside another one. The numbers fit each other without that.
TEST(ObjectBacking, CpusBesideOthersInCoresOfOneCpuAreRefused) {
  const auto asked = [](const std::string& core_cpus) {
    Json object = ForeignObject();
    object["attributes"].push_back({{"name", "alignd.io/cpusPerCore"}, {"value", "1"}});
    SetBacking(0, "1000m", "6", object);
    SetBacking(1, "0m", "10", object);
    const auto add = [&object](size_t zone, const std::string& name, const std::string& value) {
      object["zones"][zone]["attributes"].push_back({{"name", name}, {"value", value}});
    };
    add(0, "alignd.io/freeCoreCpus", "5");
    add(0, "alignd.io/backingCoreCpus", core_cpus);
    add(1, "alignd.io/freeCoreCpus", "10");
    add(1, "alignd.io/backingCoreCpus", "10");
    SetFingerprint({}, object);
    return ObjectAnswer(
        NodeFromObjects(
            {object, NodeJsonOf("w1")},
            R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","topologyManagerPolicy":)"
            R"("single-numa-node","podPolicies":["sharedNUMANode"],)"
            R"("cpuManagerPolicyOptions":{"full-pcpus-only":"true"}})"),
        {});
  };
  EXPECT_TRUE(
      HasPart(asked("5"), "zone node-0: attribute alignd.io/backingCoreCpus: \"5\" cannot be"))
      << asked("5");
  EXPECT_EQ(asked("6"), "fits");  // one of the six is held back
}

}  // namespace
}  // namespace alignd::placement
