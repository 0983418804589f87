#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::devicemanager {
namespace {

const Machine kTwoNodes = MakeMachine("numa:2 core:2");
const std::map<std::string, std::vector<int64_t>> kFour = {
    {"a", {0}}, {"b", {0}}, {"c", {1}}, {"d", {1}}};

// The ids that the container is allocated, one after the other; or the refusal.
std::string Give(DeviceState& state, const Pod& pod, const std::string& container,
                 const topologymanager::TopologyHint& affinity,
                 const PreferredAllocationFn& preferred = NoPreference) {
  const auto asking = std::ranges::find(pod.containers, container, &Container::name);
  DeviceState next = state;
  if (const auto refusal = Allocate(kTwoNodes, pod, *asking, affinity, preferred, next)) {
    EXPECT_EQ(refusal->reason, "UnexpectedAdmissionError");
    return refusal->message;
  }
  state = next;
  EXPECT_EQ(BrokenInvariants(state), std::vector<std::string>{});
  std::string ids;
  if (const DeviceAllocation* held = state.Find({pod.uid, container}, kGpu)) {
    for (const std::string& id : held->Ids()) ids += id;
  }
  return ids;
}

std::string Refused(const std::string& error) { return UnexpectedAdmissionError(error).message; }

Pod AskingFor(const std::string& count, const std::string& uid = "p") {
  return MakePod(uid, {App("app", {{kGpu, count}})});
}

TEST(DeviceAllocation, AlignedFirstThenTheRestThenThoseWithoutTopology) {
  struct Case {
    const char* name;
    std::map<std::string, std::vector<int64_t>> devices;
    const char* request;
    topologymanager::TopologyHint affinity;
    const char* given;
  };
  const Case cases[] = {
      {"the lowest id anywhere", kFour, "1", Anywhere(), "a"},
      {"the lowest aligned id", kFour, "1", OnNodes(0b10), "c"},
      {"all aligned ones", kFour, "2", OnNodes(0b10), "cd"},
      {"the rest from other nodes", kFour, "3", OnNodes(0b10), "acd"},
      {"a device on two nodes is aligned with either",
       {{"a", {0}}, {"b", {0, 1}}},
       "1",
       OnNodes(0b10),
       "b"},
      {"no topology comes last", {{"a", {}}, {"b", {0}}, {"c", {1}}}, "2", OnNodes(0b10), "bc"},
      {"without any topology the affinity means nothing",
       {{"a", {}}, {"b", {}}},
       "1",
       OnNodes(0b10),
       "a"},
      {"a node that the machine lacks is not aligned",
       {{"a", {9}}, {"b", {1}}},
       "1",
       OnNodes(0b10),
       "b"},
      {"node -1 is no topology: last",
       {{"a", {-1}}, {"b", {0}}, {"c", {1}}},
       "2",
       OnNodes(0b10),
       "bc"},
      {"nor is -1 twice", {{"a", {-1, -1}}, {"b", {0}}}, "1", OnNodes(0b10), "b"},
      {"equal to a device without any node",
       {{"a", {-1}}, {"b", {}}, {"c", {-1}}, {"d", {1}}},
       "3",
       OnNodes(0b10),
       "abd"},
      {"beside a real node, -1 means nothing",
       {{"a", {-1, 0}}, {"b", {-1, 1}}},
       "1",
       OnNodes(0b10),
       "b"},
      {"a device on another node comes before it",
       {{"a", {-1}}, {"b", {-1, 0}}},
       "1",
       OnNodes(0b10),
       "b"},
      {"another negative node is one that the machine lacks",
       {{"a", {}}, {"b", {-2}}},
       "1",
       OnNodes(0b10),
       "b"},
      {"nothing is asked for", kFour, "0", OnNodes(0b10), ""},
  };
  for (const Case& c : cases) {
    DeviceState state = StateWith(Registered(c.devices));
    EXPECT_EQ(Give(state, AskingFor(c.request), "app", c.affinity), c.given) << c.name;
  }
}

TEST(DeviceAllocation, NotesTheNodesOfEveryDevice) {
  DeviceState state = StateWith(Registered(
      {{"a", {1, 0}}, {"b", {1}}, {"c", {}}, {"d", {1, 1}}, {"e", {-1}}, {"f", {-1, -1}}}));
  ASSERT_EQ(Give(state, AskingFor("6"), "app", Anywhere()), "abcdef");
  // A node that is named twice counts once; the kubelet lists the device twice there.
  const DevicesPerNuma expected = {{-1, {"c", "e", "f"}}, {0, {"a"}}, {1, {"a", "b", "d"}}};
  EXPECT_EQ(state.Find({"p", "app"}, kGpu)->devices, expected);
}

TEST(DeviceAllocation, RefusesInTheKubeletsWords) {
  DeviceState unregistered;
  Hold(unregistered, {"other", "app"}, kGpu, {"x"});
  unregistered.resources.clear();
  EXPECT_EQ(Give(unregistered, AskingFor("1"), "app", Anywhere()),
            Refused("cannot allocate unregistered device vendor.com/gpu"));

  const std::string none_healthy =
      Refused("no healthy devices present; cannot allocate unhealthy devices vendor.com/gpu");
  DeviceState unhealthy = StateWith(Registered({{"a", {0}}}));
  unhealthy.resources[kGpu].devices["a"].healthy = false;
  EXPECT_EQ(Give(unhealthy, AskingFor("1"), "app", Anywhere()), none_healthy);
  EXPECT_EQ(Give(unhealthy, AskingFor("0"), "app", Anywhere()), none_healthy);
  DeviceState plugin_away = StateWith(Registered({{"a", {0}}}));
  plugin_away.resources[kGpu].registered = false;
  EXPECT_EQ(Give(plugin_away, AskingFor("1"), "app", Anywhere()), none_healthy);

  DeviceState scarce = StateWith(Registered(kFour));
  EXPECT_EQ(Give(scarce, AskingFor("3", "other"), "app", Anywhere()), "abc");
  EXPECT_EQ(Give(scarce, AskingFor("2"), "app", Anywhere()),
            Refused("requested number of devices unavailable for vendor.com/gpu. Requested: 2, "
                    "Available: 1"));

  DeviceState held = StateWith(Registered(kFour));
  EXPECT_EQ(Give(held, AskingFor("2"), "app", Anywhere()), "ab");
  EXPECT_EQ(Give(held, AskingFor("1"), "app", Anywhere()),
            Refused("pod \"p\" container \"app\" changed request for resource \"vendor.com/gpu\" "
                    "from 2 to 1"));
}

TEST(DeviceAllocation, IgnoresWhatNoPluginAnnounced) {
  DeviceState state = StateWith(Registered(kFour));
  const DeviceState before = state;
  EXPECT_EQ(
      Give(state, MakePod("p", {App("app", {{"vendor.com/unknown", "1"}})}), "app", Anywhere()),
      "");
  EXPECT_EQ(state, before);
}

// The kubelet refuses running pods here after a restart.
TEST(DeviceAllocation, WhatAContainerHoldsItKeeps) {
  DeviceState state = StateWith(Registered(kFour));
  ASSERT_EQ(Give(state, AskingFor("2"), "app", OnNodes(0b10)), "cd");
  state.resources[kGpu].devices["c"].healthy = false;
  EXPECT_EQ(Give(state, AskingFor("2"), "app", OnNodes(0b01)), "cd");
  state.resources[kGpu].devices.erase("d");
  EXPECT_EQ(Give(state, AskingFor("2"), "app", OnNodes(0b01)), "cd");
  state.resources.erase(kGpu);
  EXPECT_EQ(Give(state, AskingFor("2"), "app", OnNodes(0b01)), "cd");
}

TEST(DeviceAllocation, LaterContainersTakeOverFromInitContainers) {
  const Pod pod = MakePod("p", {Init("one", {{kGpu, "2"}}), Sidecar("side", {{kGpu, "1"}}),
                                Init("two", {{kGpu, "2"}}), App("app", {{kGpu, "2"}})});
  DeviceState state = StateWith(Registered(kFour));
  EXPECT_EQ(Give(state, pod, "one", OnNodes(0b01)), "ab");
  // Reused devices come first, aligned or not; among them the aligned ones.
  EXPECT_EQ(Give(state, pod, "side", OnNodes(0b10)), "a");
  EXPECT_EQ(Give(state, pod, "two", OnNodes(0b10)), "bc");
  EXPECT_EQ(Give(state, pod, "app", OnNodes(0b11)), "bc");
  EXPECT_EQ(state.AllocatedIds(kGpu), (std::set<std::string>{"a", "b", "c"}));
  EXPECT_EQ(Give(state, AskingFor("1", "other"), "app", Anywhere()), "d");
}

TEST(DeviceAllocation, AlignedOnesFirstAmongTheReusable) {
  const Pod pod = MakePod("p", {Init("init", {{kGpu, "4"}}), App("app", {{kGpu, "1"}})});
  DeviceState state = StateWith(Registered(kFour));
  ASSERT_EQ(Give(state, pod, "init", Anywhere()), "abcd");
  EXPECT_EQ(Give(state, pod, "app", OnNodes(0b10)), "c");
}

TEST(DeviceAllocation, ReusesOnlyHealthyDevices) {
  const Pod pod = MakePod("p", {Init("init", {{kGpu, "1"}}), App("app", {{kGpu, "1"}})});
  DeviceState state = StateWith(Registered(kFour));
  ASSERT_EQ(Give(state, pod, "init", OnNodes(0b01)), "a");
  state.resources[kGpu].devices["a"].healthy = false;
  EXPECT_EQ(Give(state, pod, "app", OnNodes(0b01)), "b");
}

TEST(DeviceAllocation, OtherPodsNeverReuse) {
  DeviceState state = StateWith(Registered({{"a", {0}}}));
  ASSERT_EQ(Give(state, MakePod("p", {Init("init", {{kGpu, "1"}})}), "init", Anywhere()), "a");
  EXPECT_EQ(Give(state, AskingFor("1", "q"), "app", Anywhere()),
            Refused("requested number of devices unavailable for vendor.com/gpu. Requested: 1, "
                    "Available: 0"));
}

// Answers with a fixed list and records the query.
struct FakePlugin {
  std::optional<std::vector<std::string>> answer;
  std::vector<PreferenceQuery> asked;

  PreferredAllocationFn Fn() {
    return [this](const PreferenceQuery& query) {
      asked.push_back(query);
      return answer;
    };
  }
};

Resource Preferring(Resource resource) {
  resource.prefers_allocation = true;
  return resource;
}

TEST(DeviceAllocation, ThePluginChoosesAmongAlignedOnes) {
  FakePlugin plugin{.answer = {{"d", "a", "nonsense"}}, .asked = {}};
  DeviceState state = StateWith(Preferring(Registered(kFour)));
  EXPECT_EQ(Give(state, AskingFor("1"), "app", OnNodes(0b10), plugin.Fn()), "d");
  const PreferenceQuery expected{
      .resource = kGpu, .available = {"c", "d"}, .must_include = {}, .size = 1};
  EXPECT_EQ(plugin.asked, std::vector{expected});
}

TEST(DeviceAllocation, ThePluginChoosesTheRestWhereAlignedOnesDoNotSuffice) {
  FakePlugin plugin{.answer = {{"c", "d", "b"}}, .asked = {}};
  DeviceState state = StateWith(Preferring(Registered(kFour)));
  EXPECT_EQ(Give(state, AskingFor("3"), "app", OnNodes(0b10), plugin.Fn()), "bcd");
  const PreferenceQuery expected{
      .resource = kGpu, .available = {"a", "b", "c", "d"}, .must_include = {"c", "d"}, .size = 3};
  EXPECT_EQ(plugin.asked, std::vector{expected});
}

TEST(DeviceAllocation, ThePluginHearsWhatIsReused) {
  const Pod pod = MakePod("p", {Init("init", {{kGpu, "1"}}), App("app", {{kGpu, "2"}})});
  DeviceState state = StateWith(Preferring(Registered(kFour)));
  Hold(state, {"p", "init"}, kGpu, {"c"});
  FakePlugin plugin{.answer = {{"b"}}, .asked = {}};
  EXPECT_EQ(Give(state, pod, "app", OnNodes(0b01), plugin.Fn()), "bc");
  const PreferenceQuery expected{
      .resource = kGpu, .available = {"a", "b", "c"}, .must_include = {"c"}, .size = 2};
  EXPECT_EQ(plugin.asked, std::vector{expected});
}

TEST(DeviceAllocation, WithoutOrWithAShortAnswerTheLowestIdsFollow) {
  for (const std::optional<std::vector<std::string>>& answer :
       {std::optional<std::vector<std::string>>{}, {std::vector<std::string>{}}}) {
    FakePlugin plugin{.answer = answer, .asked = {}};
    DeviceState state = StateWith(Preferring(Registered(kFour)));
    EXPECT_EQ(Give(state, AskingFor("3"), "app", Anywhere(), plugin.Fn()), "abc");
    EXPECT_EQ(plugin.asked.size(), 1u);
  }
  FakePlugin short_answer{.answer = {{"d"}}, .asked = {}};
  DeviceState state = StateWith(Preferring(Registered(kFour)));
  EXPECT_EQ(Give(state, AskingFor("3"), "app", Anywhere(), short_answer.Fn()), "abd");
}

TEST(DeviceAllocation, APluginWithoutPreferenceIsNotAsked) {
  FakePlugin plugin{.answer = {{"d"}}, .asked = {}};
  DeviceState state = StateWith(Registered(kFour));
  EXPECT_EQ(Give(state, AskingFor("1"), "app", Anywhere(), plugin.Fn()), "a");
  EXPECT_TRUE(plugin.asked.empty());
}

TEST(DeviceRelease, ReleasesAPod) {
  const Pod pod = MakePod("p", {Init("init", {{kGpu, "1"}}), App("app", {{kGpu, "2"}})});
  const DeviceState empty = StateWith(Registered(kFour));
  DeviceState state = empty;
  ASSERT_EQ(Give(state, pod, "init", Anywhere()), "a");
  ASSERT_EQ(Give(state, pod, "app", Anywhere()), "ab");

  ASSERT_EQ(Give(state, AskingFor("1", "pp"), "app", Anywhere()), "c");
  ReleasePod("p", state);
  EXPECT_EQ(state.AllocatedIds(kGpu), std::set<std::string>{"c"});
  ReleasePod("unknown", state);
  ReleasePod("pp", state);
  EXPECT_EQ(state, empty);
}

TEST(DeviceInvariants, NameTheContainersOfADeviceThatIsAssignedTwice) {
  DeviceState state = StateWith(Registered(kFour));
  Hold(state, {"p", "init"}, kGpu, {"a"});
  Hold(state, {"p", "app"}, kGpu, {"a"});
  EXPECT_EQ(BrokenInvariants(state), std::vector<std::string>{});
  Hold(state, {"q", "app"}, kGpu, {"a"});
  EXPECT_EQ(BrokenInvariants(state),
            std::vector<std::string>{"device a of vendor.com/gpu is allocated to pods p and q"});
  DeviceState hollow;
  hollow.allocations[{"p", "app"}] = {};
  hollow.allocations[{"q", "app"}][kGpu] = {};
  EXPECT_EQ(BrokenInvariants(hollow),
            (std::vector<std::string>{
                "container app of pod p has an entry without any resource",
                "container app of pod q has an entry without devices of vendor.com/gpu"}));
}

}  // namespace
}  // namespace alignd::devicemanager
