#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::devicemanager {
namespace {

using topologymanager::HintsByResource;

// "01! 0123" is nodes {0,1} preferred, nodes {0,1,2,3} not preferred; "any", "none" and "no
// opinion" are null, the empty list and no entry.
std::string Text(const HintsByResource& hints, const std::string& resource = kGpu) {
  const auto found = hints.find(resource);
  if (found == hints.end()) return "no opinion";
  if (!found->second) return "any";
  std::string text;
  for (const auto& hint : found->second->All()) {
    if (!text.empty()) text += ' ';
    for (const int node : *hint.affinity) text += std::to_string(node);
    if (hint.preferred) text += '!';
  }
  return text.empty() ? "none" : text;
}

Pod AskingForGpus(const std::string& count) { return MakePod("p", {App("app", {{kGpu, count}})}); }

const Machine kFourNodes = MakeMachine("numa:4 core:2");

struct Case {
  const char* name;
  std::map<std::string, std::vector<int64_t>> devices;
  std::vector<std::string> taken;  // by another pod
  std::vector<std::string> unhealthy;
  const char* request;
  const char* hints;
};

TEST(DeviceHints, OfOneContainer) {
  const Case cases[] = {
      {"one device per node", {{"a", {0}}, {"b", {1}}}, {}, {}, "1", "0! 1! 01"},
      {"both devices", {{"a", {0}}, {"b", {1}}}, {}, {}, "2", "01!"},
      {"nodes without a device are left out", {{"a", {1}}, {"b", {3}}}, {}, {}, "1", "1! 3! 13"},
      {"a request for none fits every set", {{"a", {1}}, {"b", {3}}}, {}, {}, "0", "1! 3! 13"},
      {"a device on two nodes counts for either",
       {{"a", {0, 2}}, {"b", {1}}},
       {},
       {},
       "1",
       "0! 1! 2! 01 02 12 012"},
      {"a device on two nodes counts once", {{"a", {0, 1}}, {"b", {1}}}, {}, {}, "2", "1! 01"},
      {"no device has a topology", {{"a", {}}, {"b", {}}}, {}, {}, "1", "any"},
      {"devices without topology never count", {{"a", {0}}, {"b", {}}}, {}, {}, "2", "none"},
      // The resource has a topology, but there is no set of nodes with such a device.
      {"node -1 is on no node", {{"a", {-1}}, {"b", {-1}}}, {}, {}, "1", "none"},
      {"devices with node -1 never count", {{"a", {0}}, {"b", {-1}}}, {}, {}, "2", "none"},
      {"and never matter to others", {{"a", {0}}, {"b", {-1}}}, {}, {}, "1", "0!"},
      {"too few", {{"a", {0}}, {"b", {1}}}, {}, {}, "3", "none"},
      {"a taken device keeps its node preferred for others",
       {{"a", {0}}, {"b", {0}}, {"c", {1}}},
       {"a"},
       {},
       "2",
       "01"},
      {"an unhealthy one as well", {{"a", {0}}, {"b", {0}}, {"c", {1}}}, {}, {"b"}, "2", "01"},
      {"everything is taken", {{"a", {0}}}, {"a"}, {}, "1", "none"},
      {"only nodes that the machine lacks", {{"a", {17}}}, {}, {}, "1", "none"},
      {"a node that the machine lacks is left out",
       {{"a", {0, 17}}, {"b", {17}}},
       {},
       {},
       "1",
       "0!"},
  };
  for (const Case& c : cases) {
    DeviceState state = StateWith(Registered(c.devices));
    for (const std::string& id : c.unhealthy) state.resources[kGpu].devices[id].healthy = false;
    if (!c.taken.empty()) Hold(state, {"other", "app"}, kGpu, c.taken);
    const Pod pod = AskingForGpus(c.request);
    EXPECT_EQ(Text(ContainerHints(kFourNodes, state, pod, pod.containers[0])), c.hints) << c.name;
    EXPECT_EQ(Text(PodHints(kFourNodes, state, pod)), c.hints) << c.name << ", pod scope";
  }
}

TEST(DeviceHints, NoOpinionOnWhatNoPluginAnnounced) {
  const Pod pod = MakePod("p", {App("app", {{"vendor.com/unknown", "1"}, {"cpu", "1"}})});
  const DeviceState state = StateWith(Registered({{"a", {0}}}));
  EXPECT_TRUE(ContainerHints(kFourNodes, state, pod, pod.containers[0]).empty());
  EXPECT_TRUE(PodHints(kFourNodes, state, pod).empty());
}

TEST(DeviceHints, FollowTheIdsOfNodesWithGaps) {
  const Machine machine = WithNumaIds(kFourNodes, {0, 8, 250, 255});
  const DeviceState state = StateWith(Registered({{"a", {8}}, {"b", {255}}}));
  const Pod pod = AskingForGpus("1");
  EXPECT_EQ(Text(ContainerHints(machine, state, pod, pod.containers[0])), "1! 3! 13");
}

TEST(DeviceHints, OfAContainerThatHoldsDevicesAreExactlyTheirs) {
  DeviceState state = StateWith(Registered({{"a", {0}}, {"b", {1}}, {"c", {2}}}));
  Hold(state, {"p", "app"}, kGpu, {"b", "c"});
  const Pod same = AskingForGpus("2");
  EXPECT_EQ(Text(ContainerHints(kFourNodes, state, same, same.containers[0])), "12! 012");
  const Pod changed = AskingForGpus("1");
  EXPECT_EQ(Text(ContainerHints(kFourNodes, state, changed, changed.containers[0])), "none");
  EXPECT_EQ(Text(PodHints(kFourNodes, state, changed)), "none");
}

// The kubelet reads the missing entry and panics.
TEST(DeviceHints, OutliveAHeldDeviceThatVanished) {
  DeviceState state = StateWith(Registered({{"a", {0}}, {"b", {1}}}));
  Hold(state, {"p", "app"}, kGpu, {"a"});
  state.resources[kGpu].devices.erase("a");
  const Pod pod = AskingForGpus("1");
  EXPECT_EQ(Text(ContainerHints(kFourNodes, state, pod, pod.containers[0])), "none");
  state.resources[kGpu].devices.clear();
  EXPECT_EQ(Text(ContainerHints(kFourNodes, state, pod, pod.containers[0])), "any");
}

TEST(DeviceHints, KeepToTheNodesOfReusableDevices) {
  const Pod pod = MakePod("p", {Init("init", {{kGpu, "1"}}), Sidecar("side", {{kGpu, "1"}}),
                                App("app", {{kGpu, "2"}})});
  DeviceState state = StateWith(Registered({{"a", {0}}, {"b", {1}}, {"c", {2}}}));
  Hold(state, {"p", "init"}, kGpu, {"b"});
  EXPECT_EQ(Text(ContainerHints(kFourNodes, state, pod, pod.containers[2])), "01! 12! 012");

  // In the kubelet, the admission of another pod would lose it.
  Hold(state, {"q", "app"}, kGpu, {"c"});
  EXPECT_EQ(Text(ContainerHints(kFourNodes, state, pod, pod.containers[2])), "01! 012");

  // A sidecar keeps the reused devices.
  Hold(state, {"p", "side"}, kGpu, {"b"});
  EXPECT_EQ(Text(ContainerHints(kFourNodes, state, pod, pod.containers[2])), "none");
}

TEST(DeviceHints, PodRequestIsWhatRunsAtTheSameTime) {
  const DeviceState state = StateWith(
      Registered({{"a", {0}}, {"b", {0}}, {"c", {0}}, {"d", {1}}, {"e", {2}}, {"f", {2}}}));
  struct PodCase {
    const char* name;
    std::vector<Container> containers;
    const char* hints;
  };
  const PodCase cases[] = {
      {"apps add up", {App("x", {{kGpu, "1"}}), App("y", {{kGpu, "2"}})}, "0! 01 02 12 012"},
      {"the largest init container counts",
       {Init("i", {{kGpu, "3"}}), Init("j", {{kGpu, "1"}}), App("x", {{kGpu, "1"}})},
       "0! 01 02 12 012"},
      {"a sidecar before an init container runs beside it",
       {Sidecar("s", {{kGpu, "2"}}), Init("i", {{kGpu, "2"}}), App("x", {{kGpu, "1"}})},
       "01! 02! 012"},
      {"a sidecar after it does not",
       {Init("i", {{kGpu, "2"}}), Sidecar("s", {{kGpu, "2"}}), App("x", {{kGpu, "1"}})},
       "0! 01 02 12 012"},
  };
  for (const PodCase& c : cases) {
    EXPECT_EQ(Text(PodHints(kFourNodes, state, MakePod("p", c.containers))), c.hints) << c.name;
  }
}

}  // namespace
}  // namespace alignd::devicemanager
