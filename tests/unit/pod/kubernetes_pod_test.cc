#include "alignd/pod/kubernetes_pod.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace alignd {
namespace {

std::string Print(const ResourceList& list) {
  std::string text;
  for (const auto& [name, amount] : list) text += name + "=" + amount.ToString() + " ";
  return text;
}

Pod ParsedPod(std::string_view json) {
  const Result<Pod> pod = ParseKubernetesPod(json);
  EXPECT_TRUE(pod.ok()) << pod.error().message;
  return pod.ok() ? *pod : Pod();
}

TEST(KubernetesPod, ReadsEverythingThatMatters) {
  const Pod pod = ParsedPod(R"({
    "apiVersion": "v1", "kind": "Pod",
    "metadata": {"uid": "u1", "name": "web", "namespace": "prod", "labels": {"a": "b"}},
    "spec": {
      "initContainers": [
        {"name": "setup", "resources": {"requests": {"cpu": "100m"}}},
        {"name": "proxy", "restartPolicy": "Always"}],
      "containers": [
        {"name": "app", "image": "x", "restartPolicy": "Always",
         "resources": {"limits": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 1},
                       "requests": {"cpu": "1500m"}}}]},
    "status": {"qosClass": "Burstable", "phase": "Pending"}})");
  EXPECT_EQ(pod.uid, "u1");
  EXPECT_EQ(pod.name, "web");
  EXPECT_EQ(pod.name_space, "prod");
  EXPECT_EQ(pod.stated_qos, QosClass::kBurstable);
  EXPECT_FALSE(pod.pod_level.has_value());
  ASSERT_EQ(pod.containers.size(), 3U);
  EXPECT_EQ(pod.containers[0].name, "setup");
  EXPECT_EQ(pod.containers[0].kind, ContainerKind::kInit);
  EXPECT_EQ(pod.containers[1].name, "proxy");
  EXPECT_EQ(pod.containers[1].kind, ContainerKind::kSidecar);
  EXPECT_EQ(pod.containers[2].kind, ContainerKind::kApp);
  EXPECT_EQ(Print(pod.containers[0].resources.requests), "cpu=100m ");
  EXPECT_EQ(Print(pod.containers[2].resources.limits), "cpu=2 memory=1Gi nvidia.com/gpu=1 ");
  EXPECT_EQ(Print(pod.containers[2].resources.requests), "cpu=1500m memory=1Gi nvidia.com/gpu=1 ");
}

// A scheduler maps them to requests of a claim; no plugin's device is to be had.
TEST(KubernetesPod, ExtendedResourcesThatDraServesAreLeftOut) {
  const std::string spec =
      R"({"metadata":{"name":"p"},"spec":{"containers":[)"
      R"({"name":"a","resources":{"limits":{"v.com/gpu":"1","w.com/nic":"1"}}},)"
      R"({"name":"b","resources":{"limits":{"v.com/gpu":"1"}}}]})";
  const Result<Pod> pod = ParseKubernetesPod(
      spec +
      R"(,"status":{"extendedResourceClaimStatus":{"resourceClaimName":"c","requestMappings":[)"
      R"({"containerName":"a","resourceName":"v.com/gpu","requestName":"r"}]}}})");
  ASSERT_TRUE(pod.ok()) << pod.error().Text();
  EXPECT_FALSE(pod->containers[0].resources.limits.contains("v.com/gpu"));
  EXPECT_FALSE(pod->containers[0].resources.requests.contains("v.com/gpu"));
  EXPECT_TRUE(pod->containers[0].resources.limits.contains("w.com/nic"));
  EXPECT_TRUE(pod->containers[1].resources.limits.contains("v.com/gpu"));
  const Result<Pod> wrong = ParseKubernetesPod(
      spec + R"(,"status":{"extendedResourceClaimStatus":{"requestMappings":7}}})");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("requestMappings"), std::string::npos);
}

TEST(KubernetesPod, ReadsThePriority) {
  const auto with = [](const std::string& priority) {
    return R"({"metadata":{"name":"a"},"spec":{"containers":[{"name":"app"}])" + priority + "}}";
  };
  EXPECT_EQ(ParsedPod(with("")).priority, 0);
  EXPECT_EQ(ParsedPod(with(R"(,"priority":2000001000)")).priority, 2'000'001'000);
  EXPECT_EQ(ParsedPod(with(R"(,"priority":-7)")).priority, -7);
  for (const char* const wrong : {R"("high")", "2147483648", "1.5"}) {
    EXPECT_FALSE(ParseKubernetesPod(with(std::string(R"(,"priority":)") + wrong)).ok()) << wrong;
  }
}

TEST(KubernetesPod, AManifestNeedsOnlyAName) {
  const Pod pod =
      ParsedPod(R"({"metadata":{"name":"web"},"spec":{"containers":[{"name":"app"}]}})");
  EXPECT_EQ(pod.name_space, "default");
  EXPECT_EQ(pod.uid, "default/web");
}

TEST(KubernetesPod, QuantitiesMayBeStringsNumbersOrNull) {
  const Pod pod = ParsedPod(R"({"metadata":{"uid":"u"},"spec":{"containers":[{"name":"app",
      "resources":{"limits":{"a":2,"b":1.5,"c":" 3 ","d":null,"e":1e3}}}]}})");
  EXPECT_EQ(Print(pod.containers[0].resources.limits), "a=2 b=1500m c=3 d=0 e=1k ");
}

TEST(KubernetesPod, PodLevelRequestsComeFromContainersThenFromLimits) {
  const Pod pod = ParsedPod(R"({"metadata":{"uid":"u"},"spec":{
      "resources":{"limits":{"cpu":"8","memory":"8Gi","hugepages-2Mi":"4Mi"}},
      "initContainers":[
        {"name":"big","resources":{"requests":{"cpu":"4"}}},
        {"name":"side","restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}},
        {"name":"last","resources":{"requests":{"cpu":"4"}}}],
      "containers":[{"name":"app","resources":{"requests":{"cpu":"2"}}}]}})");
  ASSERT_TRUE(pod.pod_level.has_value());
  // The last init container runs beside the sidecar.
  EXPECT_EQ(Print(pod.pod_level->requests), "cpu=5 hugepages-2Mi=4Mi memory=8Gi ");
}

TEST(KubernetesPod, PodLevelRequestsAloneStayAsTheyAre) {
  const Pod pod = ParsedPod(R"({"metadata":{"uid":"u"},"spec":{
      "resources":{"requests":{"cpu":"8"}},
      "containers":[{"name":"app","resources":{"requests":{"memory":"1Gi"}}}]}})");
  EXPECT_EQ(Print(pod.pod_level->requests), "cpu=8 ");
}

struct BadPod {
  std::string json;
  std::string message;
};

TEST(KubernetesPod, RefusesWithThePlaceOfTheFault) {
  const auto with_spec = [](const std::string& spec) {
    return R"({"metadata":{"uid":"u"},"spec":)" + spec + "}";
  };
  const auto with_cpu = [&with_spec](const std::string& cpu) {
    return with_spec(R"({"containers":[{"name":"a","resources":{"limits":{"cpu":)" + cpu + "}}}]}");
  };
  const std::vector<BadPod> cases = {
      {"", "not JSON: line 1, column 1: the text ends too early"},
      {"{", "not JSON: line 1, column 2: the text ends too early"},
      {"[]", "array is not an object"},
      {R"({"kind":"Deployment"})", "kind: \"Deployment\" is not \"Pod\""},
      {R"({"kind":1})", "kind: 1 is not a string"},
      {R"({"spec":{}})", "metadata: is missing"},
      {R"({"metadata":{"uid":7}})", "metadata.uid: 7 is not a string"},
      {R"({"metadata":{}})", "metadata: has neither uid nor name"},
      {R"({"metadata":{"uid":"u"}})", "spec: is missing"},
      {with_spec("{}"), "spec: has no containers"},
      {with_spec(R"({"initContainers":[{"name":"a"}]})"), "spec: has no containers"},
      {with_spec(R"({"containers":{}})"), "spec.containers: object is not a list"},
      {with_spec(R"({"containers":[7]})"), "spec.containers[0]: 7 is not an object"},
      {with_spec(R"({"containers":[{}]})"), "spec.containers[0].name: is missing"},
      {with_spec(R"({"containers":[{"name":""}]})"), "spec.containers[0].name: must not be empty"},
      {with_spec(R"({"containers":[{"name":"a","restartPolicy":1}]})"),
       "spec.containers[0].restartPolicy: 1 is not a string"},
      {with_spec(R"({"initContainers":[{"name":"a"}],"containers":[{"name":"b"},{"name":"a"}]})"),
       "spec.containers[1]: a second container named \"a\""},
      {with_spec(R"({"containers":[{"name":"a","resources":[]}]})"),
       "spec.containers[0].resources: array is not an object"},
      {with_cpu("\"2x\""),
       "spec.containers[0].resources.limits.cpu: \"2x\": not a quantity: expected a number and a "
       "suffix such as m, k, Mi or e3"},
      {with_cpu("\"-1\""),
       "spec.containers[0].resources.limits.cpu: \"-1\" is not a quantity of at least 0"},
      {with_cpu("true"), "spec.containers[0].resources.limits.cpu: true is not a quantity"},
      {with_cpu("[1]"), "spec.containers[0].resources.limits.cpu: array is not a quantity"},
      {R"({"metadata":{"uid":"u"},"spec":{"containers":[{"name":"a"}]},"status":{"qosClass":"Best"}})",
       "status.qosClass: \"Best\" is not \"Guaranteed\", \"Burstable\" or \"BestEffort\""},
  };
  for (const BadPod& test : cases) {
    const Result<Pod> pod = ParseKubernetesPod(test.json);
    ASSERT_FALSE(pod.ok()) << test.json;
    EXPECT_EQ(pod.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(pod.error().message, test.message) << test.json;
  }
}

TEST(KubernetesPod, DeepNestingIsNoDanger) {
  const std::string deep(100'000, '[');
  EXPECT_FALSE(ParseKubernetesPod(deep).ok());
  EXPECT_FALSE(ParseKubernetesPod(deep + std::string(100'000, ']')).ok());
}

TEST(ParseResources, AppliesTheDefaultAndNamesThePath) {
  const Result<Resources> resources =
      ParseResources(R"({"limits":{"cpu":"2","memory":"1Gi"},"requests":{"cpu":"1"}})", "x");
  ASSERT_TRUE(resources.ok()) << resources.error().message;
  EXPECT_EQ(Print(resources->requests), "cpu=1 memory=1Gi ");
  EXPECT_EQ(ParseResources("{}", "x").value(), Resources());
  EXPECT_EQ(ParseResources("{", "note").error().message,
            "note: not JSON: line 1, column 2: the text ends too early");
  EXPECT_EQ(ParseResources(R"({"limits":{"cpu":"no"}})", "note")
                .error()
                .message.find("note.limits.cpu: \"no\""),
            0U);
}

}  // namespace
}  // namespace alignd
