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

TEST(AnnotatedResources, NameThatIsGivenTwiceIsOneContainer) {
  const auto containers =
      ParseAnnotatedResources(R"({"app":{"limits":{"cpu":"1"}},"app":{"limits":{"cpu":"9"}}})");
  ASSERT_TRUE(containers.ok()) << containers.error().Text();
  ASSERT_EQ(containers->size(), 1U);
  EXPECT_EQ(Find(containers->at(0).resources.limits, "cpu")->Value(), 9);  // as in the kubelet
}

}  // namespace
}  // namespace alignd
