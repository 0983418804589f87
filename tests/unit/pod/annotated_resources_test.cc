#include "alignd/pod/annotated_resources.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace alignd {
namespace {

TEST(AnnotatedResources, ContainersComeInTheOrderOfTheText) {
  const auto containers = ParseAnnotatedResources(
      R"({"z":{"init":true},"y":{"init":true,"restartPolicy":"Always"},)"
      R"("b":{"limits":{"cpu":"2","example.com/gpu":1}},"a":{"requests":{"cpu":"100m"}}})");
  ASSERT_TRUE(containers.ok()) << containers.error().Text();
  std::vector<std::string> names;
  std::vector<ContainerKind> kinds;
  for (const Container& container : *containers) {
    names.push_back(container.name);
    kinds.push_back(container.kind);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"z", "y", "b", "a"}));
  EXPECT_EQ(kinds, (std::vector<ContainerKind>{ContainerKind::kInit, ContainerKind::kSidecar,
                                               ContainerKind::kApp, ContainerKind::kApp}));
}

TEST(AnnotatedResources, LimitsAreRequestsWhereNoneIsMade) {
  const auto containers = ParseAnnotatedResources(R"({"app":{"limits":{"cpu":"2","a.b/c":3}}})");
  ASSERT_TRUE(containers.ok()) << containers.error().Text();
  const Resources& resources = containers->at(0).resources;
  EXPECT_EQ(resources.requests, resources.limits);
  EXPECT_EQ(Find(resources.requests, "a.b/c")->Value(), 3);
}

TEST(AnnotatedResources, FaultsComeWithTheirPlace) {
  struct Case {
    const char* name;
    const char* text;
    const char* place;
  };
  const Case cases[] = {
      {"misspelt member", R"({"app":{"limit":{"cpu":"2"}}})", "app.limit"},
      {"no quantity", R"({"app":{"limits":{"cpu":"two"}}})", "app.limits.cpu"},
      {"negative", R"({"app":{"limits":{"cpu":"-1"}}})", "app.limits.cpu"},
      {"half a device", R"({"app":{"limits":{"x.com/gpu":"1500m"}}})", "limits.x.com/gpu is 1500m"},
      {"no object", R"({"app":{"limits":[]}})", "app.limits"},
      {"entry is no object", R"({"app":7})", "app"},
      {"init is no truth value", R"({"app":{"init":"yes"}})", "app.init"},
      {"other policy", R"({"app":{"init":true,"restartPolicy":"Never"}})", "app.restartPolicy"},
      {"policy of an app", R"({"app":{"restartPolicy":"Always"}})", "app.restartPolicy"},
      {"init after app", R"({"app":{},"late":{"init":true}})", "late"},
      {"no names", "[]", "object"},
      {"nothing", "", ""},
      {"cut", R"({"app":{"limits")", ""},
  };
  for (const Case& c : cases) {
    const auto containers = ParseAnnotatedResources(c.text);
    ASSERT_FALSE(containers.ok()) << c.name;
    EXPECT_EQ(containers.error().code, ErrorCode::kInvalidArgument) << c.name;
    EXPECT_NE(containers.error().message.find(c.place), std::string::npos)
        << c.name << ": " << containers.error().message;
  }
}

TEST(AnnotatedResources, NameThatIsGivenTwiceIsRefused) {
  for (const char* const text : {R"({"app":{"limits":{"cpu":"1"}},"app":{"limits":{"cpu":"9"}}})",
                                 R"({"app":{"limits":{"cpu":"1"},"limits":{"cpu":"9"}}})",
                                 R"({"app":{"limits":{"cpu":"1","cpu":"9"}}})"}) {
    const auto containers = ParseAnnotatedResources(text);
    ASSERT_FALSE(containers.ok()) << text;
    EXPECT_NE(containers.error().message.find("occurs twice"), std::string::npos);
  }
}

TEST(AnnotatedResources, EntryOfThePodIsNoContainer) {
  const std::string text = R"({"app":{"limits":{"cpu":"2","memory":"1Gi"}},)"
                           R"("spec.resources":{"limits":{"cpu":"4","memory":"2Gi"}},"log":{}})";
  const auto containers = ParseAnnotatedResources(text);
  ASSERT_TRUE(containers.ok()) << containers.error().Text();
  ASSERT_EQ(containers->size(), 2U);
  const auto own = ParseAnnotatedPodLevel(text, *containers);
  ASSERT_TRUE(own.ok()) << own.error().Text();
  ASSERT_TRUE(own->has_value());
  EXPECT_EQ(Find((*own)->limits, "cpu")->Value(), 4);
  // As the API server: the requests of the containers take precedence over the pod's limits.
  EXPECT_EQ(Find((*own)->requests, "cpu")->Value(), 2);

  const auto stated = ParseAnnotatedPodLevel(
      R"({"spec.resources":{"requests":{"cpu":"4"},"limits":{"cpu":"4"}},"app":{}})", *containers);
  ASSERT_TRUE(stated.ok()) << stated.error().Text();
  EXPECT_EQ(Find((*stated)->requests, "cpu")->Value(), 4);
  const auto none = ParseAnnotatedPodLevel(R"({"app":{}})", *containers);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

TEST(AnnotatedResources, FaultsOfThePodsEntryComeWithTheirPlace) {
  for (const auto& [text, place] :
       {std::pair{R"({"spec.resources":7})", "spec.resources"},
        {R"({"spec.resources":{"init":true}})", "spec.resources.init"},
        {R"({"spec.resources":{"limits":{"cpu":"x"}}})", "limits.cpu"}}) {
    const auto own = ParseAnnotatedPodLevel(text, {});
    ASSERT_FALSE(own.ok()) << text;
    EXPECT_NE(own.error().message.find(place), std::string::npos) << own.error().message;
  }
}

// --- intel.com/resources ----------------------------------------------------------------------

TEST(IntelResources, AreReadAsTheWebhookWritesThem) {
  const auto containers = ParseIntelResources(
      R"({"initContainers":{"prepare":{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}},)"
      R"("containers":{"a":{"limits":{"cpu":"2","memory":"64Mi","nvidia.com/gpu":"1"},)"
      R"("claims":[{"name":"x"}]},"b":{}}})");
  ASSERT_TRUE(containers.ok()) << containers.error().Text();
  ASSERT_EQ(containers->size(), 3U);
  EXPECT_EQ(containers->at(0).name, "prepare");
  EXPECT_EQ(containers->at(0).kind, ContainerKind::kInit);
  EXPECT_EQ(containers->at(1).name, "a");
  EXPECT_EQ(containers->at(1).kind, ContainerKind::kApp);
  EXPECT_EQ(Find(containers->at(1).resources.requests, "nvidia.com/gpu")->Value(), 1);
  EXPECT_EQ(containers->at(2).resources, Resources());
}

TEST(IntelResources, AMemberMayBeAbsentOrNull) {
  const auto containers = ParseIntelResources(R"({"initContainers":null,"containers":{"a":{}}})");
  ASSERT_TRUE(containers.ok()) << containers.error().Text();
  EXPECT_EQ(containers->size(), 1U);
  EXPECT_TRUE(ParseIntelResources("{}").ok());
}

// --- Koordinator ------------------------------------------------------------------------------

TEST(KoordinatorResources, AreExtendedResourcesOfAppContainers) {
  const auto containers = ParseKoordinatorResources(
      R"({"containers":{"a":{"limits":{"kubernetes.io/batch-cpu":"1000","example.com/gpu":"2"},)"
      R"("requests":{"kubernetes.io/batch-cpu":"1000"}}}})");
  ASSERT_TRUE(containers.ok()) << containers.error().Text();
  ASSERT_EQ(containers->size(), 1U);
  EXPECT_EQ(containers->at(0).kind, ContainerKind::kApp);
  EXPECT_EQ(Find(containers->at(0).resources.requests, "example.com/gpu")->Value(), 2);
  EXPECT_EQ(ParseKoordinatorResources("{}")->size(), 0U);
}

TEST(ForeignAnnotations, FaultsComeWithTheirPlace) {
  using Parse = Result<std::vector<Container>> (*)(std::string_view);
  struct Case {
    Parse parse;
    const char* text;
    const char* place;
  };
  const Case cases[] = {
      {&ParseIntelResources, R"({"container":{}})", "container: is not known"},
      {&ParseIntelResources, R"({"containers":[]})", "containers"},
      {&ParseIntelResources, R"({"containers":{"a":{"limit":{}}}})", "containers.a.limit"},
      {&ParseIntelResources, R"({"containers":{"a":null}})", "containers.a"},
      {&ParseIntelResources, R"({"containers":{"a":{"limits":{"cpu":"x"}}}})",
       "containers.a.limits.cpu"},
      {&ParseIntelResources, R"({"initContainers":{"a":{}},"containers":{"a":{}}})",
       "containers.a: a second container"},
      {&ParseIntelResources, "[]", "object"},
      {&ParseIntelResources, "", "not JSON"},
      {&ParseKoordinatorResources, R"({"containers":{"a":{"limits":{"cpu":"1"}}}})",
       "containers.a: limits.cpu is no extended resource"},
      {&ParseKoordinatorResources, R"({"containers":{"a":{"requests":{"memory":"1Mi"}}}})",
       "containers.a: requests.memory"},
      {&ParseKoordinatorResources, R"({"containers":{"a":{"limits":{"a.b/c":"-1"}}}})",
       "containers.a.limits.a.b/c"},
      {&ParseKoordinatorResources, R"({"initContainers":{}})", "initContainers"},
      {&ParseKoordinatorResources, R"({"containers":{"a":{},"a":{}}})", "a: occurs twice"},
      {&ParseKoordinatorResources, "7", "object"},
  };
  for (const Case& c : cases) {
    const auto containers = c.parse(c.text);
    ASSERT_FALSE(containers.ok()) << c.text;
    EXPECT_EQ(containers.error().code, ErrorCode::kInvalidArgument) << c.text;
    EXPECT_NE(containers.error().message.find(c.place), std::string::npos)
        << c.text << ": " << containers.error().message;
  }
}

}  // namespace
}  // namespace alignd
