// Extended resources that a DRA driver serves, by the names of the scheduler's requests.
#include "cri/extended_resources.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/pod_builder.h"

namespace alignd::cri {
namespace {

using Names = std::vector<std::string>;

dra::PreparedDevice For(const std::string& request) {
  dra::PreparedDevice device = {"example.com", "node", "gpu0", {"example.com/gpu=0"}};
  device.extended_requests = {request};
  return device;
}

// Sorted by name: a.com/gpu, b.com/nic, cpu, memory.
Container TwoResources() {
  return App("app", {{"cpu", "2"}, {"memory", "64Mi"}, {"a.com/gpu", "1"}, {"b.com/nic", "1"}});
}

devicemanager::DeviceState WithPlugin(const std::string& resource) {
  devicemanager::DeviceState state;
  state.resources[resource] = {};
  return state;
}

TEST(ExtendedResources, RequestsOfThemAreKnown) {
  EXPECT_TRUE(RequestsExtended(App("app", {{"a.com/gpu", "1"}})));
  EXPECT_TRUE(RequestsExtended(App("app", {{"deviceclass.resource.kubernetes.io/gpu", "1"}})));
  EXPECT_FALSE(RequestsExtended(App("app", {{"a.com/gpu", "0"}})));
  EXPECT_FALSE(RequestsExtended(App("app", {{"cpu", "1"}, {"memory", "1Gi"}})));
}

TEST(ExtendedResources, TheOnlyOneIsRemovedAlsoBesideAPlugin) {
  for (const char* const plugin : {"b.com/nic", "other.com/x"}) {
    Container container =
        App("app", {{"cpu", "2"}, {"memory", "64Mi"}, {"a.com/gpu", "0"}, {"b.com/nic", "1"}});
    const auto removed =
        RemoveServedByDra(WithPlugin(plugin), {For("container-3-request-1")}, container);
    ASSERT_TRUE(removed.ok()) << removed.error().Text();
    EXPECT_EQ(*removed, Names{"b.com/nic"});
    EXPECT_FALSE(container.resources.limits.contains("b.com/nic"));
    EXPECT_FALSE(container.resources.requests.contains("b.com/nic"));
  }
  Container container = TwoResources();
  const auto both = RemoveServedByDra(
      {}, {For("container-0-request-0"), For("container-0-request-1")}, container);
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(*both, (Names{"a.com/gpu", "b.com/nic"}));
}

// The scheduler's index also counts resources that alignd does not know.
TEST(ExtendedResources, OneOfSeveralIsRefused) {
  for (const char* const request : {"container-0-request-0", "container-0-request-1"}) {
    Container container = TwoResources();
    const auto refused = RemoveServedByDra({}, {For(request)}, container);
    ASSERT_FALSE(refused.ok()) << request;
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(container, TwoResources());
  }
}

TEST(ExtendedResources, WithoutDevicesNothingIsRemoved) {
  Container container = TwoResources();
  const auto removed = RemoveServedByDra(WithPlugin("a.com/gpu"), {}, container);
  ASSERT_TRUE(removed.ok());
  EXPECT_TRUE(removed->empty());
  EXPECT_EQ(container, TwoResources());
}

// An annotation that does not name all resources, or another form of the name.
TEST(ExtendedResources, UnknownRequestIsRefusedBesideAPluginOnly) {
  for (const char* const request : {"container-0-request-2", "container-0-request-4", "gpus",
                                    "container-0-request-", "container-0-request-1x"}) {
    Container container = TwoResources();
    const auto refused = RemoveServedByDra(WithPlugin("a.com/gpu"), {For(request)}, container);
    ASSERT_FALSE(refused.ok()) << request;
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(refused.error().message.find("container app has a device of DRA for " +
                                           std::string(request) +
                                           ", and it is not known whether that is its a.com/gpu"),
              std::string::npos)
        << refused.error().message;
    const auto kept = RemoveServedByDra({}, {For(request)}, container);
    ASSERT_TRUE(kept.ok()) << request;
    EXPECT_TRUE(kept->empty());
    EXPECT_EQ(container, TwoResources());
  }
}

}  // namespace
}  // namespace alignd::cri
