// Extended resources that a DRA driver serves, by the names of the scheduler's requests.
#include "cri/extended_resources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <set>
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

// No other container is known.
Result<Names> RemoveOwn(const devicemanager::DeviceState& plugins,
                        const std::vector<dra::PreparedDevice>& devices, Container& container) {
  return RemoveServedByDra(plugins, devices, {Container(container)}, container);
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
    const auto removed = RemoveOwn(WithPlugin(plugin), {For("container-3-request-1")}, container);
    ASSERT_TRUE(removed.ok()) << removed.error().Text();
    EXPECT_EQ(*removed, Names{"b.com/nic"});
    EXPECT_FALSE(container.resources.limits.contains("b.com/nic"));
    EXPECT_FALSE(container.resources.requests.contains("b.com/nic"));
  }
  Container container = TwoResources();
  const auto both =
      RemoveOwn({}, {For("container-0-request-0"), For("container-0-request-1")}, container);
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(*both, (Names{"a.com/gpu", "b.com/nic"}));
}

// The scheduler's index also counts resources that alignd does not know.
TEST(ExtendedResources, OneOfSeveralIsRefused) {
  for (const char* const request : {"container-0-request-0", "container-0-request-1"}) {
    Container container = TwoResources();
    const auto refused = RemoveOwn({}, {For(request)}, container);
    ASSERT_FALSE(refused.ok()) << request;
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(container, TwoResources());
  }
}

TEST(ExtendedResources, WithoutDevicesNothingIsRemoved) {
  Container container = TwoResources();
  const auto removed = RemoveOwn(WithPlugin("a.com/gpu"), {}, container);
  ASSERT_TRUE(removed.ok());
  EXPECT_TRUE(removed->empty());
  EXPECT_EQ(container, TwoResources());
}

// An annotation that does not name all resources, or another form of the name.
TEST(ExtendedResources, UnknownRequestIsRefusedBesideAPluginOnly) {
  for (const char* const request : {"container-0-request-2", "container-0-request-4", "gpus",
                                    "container-0-request-", "container-0-request-1x"}) {
    Container container = TwoResources();
    const auto refused = RemoveOwn(WithPlugin("a.com/gpu"), {For(request)}, container);
    ASSERT_FALSE(refused.ok()) << request;
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(refused.error().message.find("container app has a device of DRA for " +
                                           std::string(request) +
                                           ", and it is not known whether that is its a.com/gpu"),
              std::string::npos)
        << refused.error().message;
    const auto kept = RemoveOwn({}, {For(request)}, container);
    ASSERT_TRUE(kept.ok()) << request;
    EXPECT_TRUE(kept->empty());
    EXPECT_EQ(container, TwoResources());
  }
}

// The index is one of the container of that number, as far as it is known.
TEST(ExtendedResources, RequestOfAnotherContainerIsUnderstood) {
  const Container later = App("later", {{"a.com/gpu", "1"}, {"cpu", "1"}, {"b.com/nic", "1"}});
  Container container = Init("init", {{"cpu", "1"}, {"b.com/nic", "1"}});
  const auto removed =
      RemoveServedByDra({}, {For("container-1-request-1")}, {container, later}, container);
  ASSERT_TRUE(removed.ok()) << removed.error().Text();
  EXPECT_EQ(*removed, Names{"b.com/nic"});
  // Of that container, it is a resource that this one does not request: the list is not the spec.
  Container other = Init("init", {{"b.com/nic", "1"}, {"cpu", "1"}});
  const auto own = RemoveServedByDra({}, {For("container-1-request-0")}, {other, later}, other);
  ASSERT_TRUE(own.ok()) << own.error().Text();
  EXPECT_EQ(*own, Names{"b.com/nic"});
}

TEST(ExtendedResources, OfASpecAreRemovedFromEachContainer) {
  const std::vector<Container> spec = {Init("init", {{"cpu", "1"}, {"b.com/nic", "1"}}),
                                       TwoResources()};
  const auto served =
      ServedByDra(WithPlugin("a.com/gpu"), {For("container-1-request-1")}, {"p", spec});
  ASSERT_TRUE(served.ok()) << served.error().Text();
  EXPECT_EQ(*served, Names{"b.com/nic"});
  for (Container container : spec) {
    RemoveResources(*served, container);
    EXPECT_FALSE(container.resources.limits.contains("b.com/nic"));
    EXPECT_FALSE(container.resources.requests.contains("b.com/nic"));
    EXPECT_EQ(container.resources.limits.contains("a.com/gpu"), container.name == "app");
  }
}

TEST(ExtendedResources, UnknownRequestOfASpecIsRefusedBesideAPluginOnly) {
  const std::vector<Container> spec = {TwoResources()};
  for (const char* const request : {"container-0-request-2", "container-1-request-0", "gpus",
                                    "container-0-request-4", "all its requests"}) {
    const auto refused = ServedByDra(WithPlugin("a.com/gpu"), {For(request)}, {"p", spec});
    ASSERT_FALSE(refused.ok()) << request;
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(refused.error().message,
              "the pod has a device of DRA for " + std::string(request) +
                  ", and it is not known whether that is the a.com/gpu of container app, of which "
                  "there is a device plugin, too");
    const auto kept = ServedByDra(WithPlugin("other.com/x"), {For(request)}, {"p", spec});
    ASSERT_TRUE(kept.ok()) << request;
    EXPECT_TRUE(kept->empty());
  }
}

// The scheduler's requests, and which of them serve which resource of which container.
struct Claim {
  std::set<std::string> requests;
  std::map<std::string, std::set<std::string>> resources;              // by container
  std::map<std::string, std::set<std::string>> requests_of_container;  // by container
};

// As kube-scheduler claims these resources: a container that ends early has the requests of later
// containers, and one more if they are too few; all that end early share the largest of these.
Claim ClaimOf(const Pod& pod, const std::vector<std::string>& served) {
  Claim claim;
  const auto name_of = [&](size_t at, const std::string& resource) {
    const ResourceList& sorted = pod.containers[at].resources.requests;
    const auto index = std::distance(sorted.begin(), sorted.find(resource));
    return "container-" + std::to_string(at) + "-request-" + std::to_string(index);
  };
  for (const std::string& resource : served) {
    std::map<size_t, int64_t> lasting;  // amounts, by container
    const auto amount_of = [&](size_t at) {
      const ResourceList& requests = pod.containers[at].resources.requests;
      const auto found = requests.find(resource);
      return found == requests.end() ? int64_t{0} : found->second.Value();
    };
    const auto map = [&](size_t at, const std::string& request) {
      claim.requests.insert(request);
      claim.resources[pod.containers[at].name].insert(resource);
      claim.requests_of_container[pod.containers[at].name].insert(request);
    };
    for (size_t at = 0; at < pod.containers.size(); ++at) {
      if (pod.containers[at].kind == ContainerKind::kInit || amount_of(at) == 0) continue;
      lasting[at] = amount_of(at);
      map(at, name_of(at, resource));
    }
    std::map<size_t, int64_t> extra;
    for (size_t at = 0; at < pod.containers.size(); ++at) {
      if (pod.containers[at].kind != ContainerKind::kInit || amount_of(at) == 0) continue;
      int64_t sum = 0;
      for (auto later = lasting.lower_bound(at); later != lasting.end() && sum < amount_of(at);
           ++later) {
        sum += later->second;
        map(at, name_of(later->first, resource));
      }
      if (sum < amount_of(at)) extra[at] = amount_of(at) - sum;
    }
    const auto largest = std::ranges::max_element(
        extra, [](const auto& a, const auto& b) { return a.second < b.second; });
    for (const auto& [at, amount] : extra) map(at, name_of(largest->first, resource));
  }
  return claim;
}

TEST(ExtendedResources, OfRandomPodsAreThoseThatTheSchedulerHasServed) {
  std::mt19937 random(15);
  const auto below = [&](int end) {
    return std::uniform_int_distribution<int>(0, end - 1)(random);
  };
  const std::vector<std::string> extended = {"a.com/gpu", "d.com/x", "z.com/nic"};
  int kept = 0;
  int removed = 0;
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<Container> containers;
    const int init = below(3);
    const int count = init + 1 + below(2);
    for (int i = 0; i < count; ++i) {
      std::map<std::string, std::string> amounts;
      for (const char* const plain : {"cpu", "ephemeral-storage", "memory"}) {
        if (below(2) == 0) amounts[plain] = "1";
      }
      for (const std::string& resource : extended) {
        if (below(2) == 0) amounts[resource] = std::to_string(below(3));
      }
      const std::string name = "c" + std::to_string(i);
      containers.push_back(i >= init       ? App(name, amounts)
                           : below(3) == 0 ? Sidecar(name, amounts)
                                           : Init(name, amounts));
    }
    const Pod spec = MakePod("p", containers);
    std::vector<std::string> served;
    devicemanager::DeviceState plugins;  // for all, also for those that DRA serves
    for (const std::string& resource : extended) {
      if (below(2) == 0) served.push_back(resource);
      plugins.resources[resource] = {};
    }
    const Claim claim = ClaimOf(spec, served);
    std::vector<dra::PreparedDevice> devices;
    for (const std::string& request : claim.requests) devices.push_back(For(request));

    const auto exact = ServedByDra(plugins, devices, {"p", spec.containers});
    ASSERT_TRUE(exact.ok()) << round;
    for (const Container& before : spec.containers) {
      const auto mapped = claim.resources.find(before.name);
      const std::set<std::string> its =
          mapped == claim.resources.end() ? std::set<std::string>() : mapped->second;
      for (const auto& [resource, amount] : before.resources.requests) {
        if (amount.IsZero()) continue;
        const bool is_left = std::ranges::find(*exact, resource) == exact->end();
        EXPECT_EQ(is_left, !its.contains(resource)) << round << " " << before.name << resource;
        ++(is_left ? kept : removed);
      }

      // CRI shows the devices of this container alone. All of them, or none: else it is refused.
      std::vector<dra::PreparedDevice> its_devices;
      const auto its_requests = claim.requests_of_container.find(before.name);
      if (its_requests != claim.requests_of_container.end()) {
        for (const std::string& request : its_requests->second) its_devices.push_back(For(request));
      }
      Container one = before;
      const auto own = RemoveServedByDra(plugins, its_devices, spec.containers, one);
      if (!own.ok()) {
        ++refused;
        continue;
      }
      EXPECT_EQ(std::set<std::string>(own->begin(), own->end()), its) << round;
    }
  }
  EXPECT_GT(kept, 1000);
  EXPECT_GT(removed, 1000);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace alignd::cri
