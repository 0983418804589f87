#include "alignd/pod/pod.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace alignd {
namespace {

ResourceList List(const std::vector<std::pair<std::string, std::string>>& entries) {
  ResourceList list;
  for (const auto& [name, amount] : entries) list[name] = Quantity::Parse(amount).value();
  return list;
}

Container Make(const std::string& name, ContainerKind kind, const ResourceList& requests,
               const ResourceList& limits) {
  return {name, kind, {requests, limits}};
}

const ResourceList kTwoCpus = List({{"cpu", "2"}, {"memory", "1Gi"}});

Pod PodOf(std::vector<Container> containers) {
  Pod pod;
  pod.uid = "uid";
  pod.name = "pod";
  pod.containers = std::move(containers);
  return pod;
}

struct QosCase {
  std::string name;
  Pod pod;
  QosClass qos;
};

std::vector<QosCase> QosCases() {
  using enum ContainerKind;
  using enum QosClass;
  const Container full = Make("full", kApp, kTwoCpus, kTwoCpus);
  Pod pod_level = PodOf({Make("bare", kApp, {}, {})});
  pod_level.pod_level = Resources{kTwoCpus, kTwoCpus};
  Pod pod_level_requests = pod_level;
  pod_level_requests.pod_level->limits.clear();
  Pod pod_level_empty = PodOf({full});
  pod_level_empty.pod_level = Resources{};
  Pod stated = PodOf({full});
  stated.stated_qos = kBurstable;
  return {
      {"EqualRequestsAndLimits", PodOf({full}), kGuaranteed},
      {"NothingAsked", PodOf({Make("bare", kApp, {}, {})}), kBestEffort},
      {"NoContainers", PodOf({}), kBestEffort},
      {"OnlyDevices", PodOf({Make("gpu", kApp, {}, List({{"nvidia.com/gpu", "1"}}))}), kBestEffort},
      {"ZeroIsNothing",
       PodOf({Make("zero", kApp, List({{"cpu", "0"}}), List({{"cpu", "0"}, {"memory", "0"}}))}),
       kBestEffort},
      {"OneContainerWithoutLimits", PodOf({full, Make("bare", kApp, {}, {})}), kBurstable},
      {"InitContainerWithoutLimits", PodOf({Make("init", kInit, {}, {}), full}), kBurstable},
      {"SidecarWithoutLimits", PodOf({Make("side", kSidecar, {}, {}), full}), kBurstable},
      {"MemoryLimitMissing", PodOf({Make("cpu", kApp, kTwoCpus, List({{"cpu", "2"}}))}),
       kBurstable},
      {"RequestBelowLimit",
       PodOf({Make("low", kApp, List({{"cpu", "1"}, {"memory", "1Gi"}}), kTwoCpus)}), kBurstable},
      // The sums matter, not the single containers.
      {"DifferencesThatCancelOut",
       PodOf({Make("a", kApp, List({{"cpu", "1"}, {"memory", "1Gi"}}), kTwoCpus),
              Make("b", kApp, List({{"cpu", "3"}, {"memory", "1Gi"}}), kTwoCpus)}),
       kGuaranteed},
      {"HugePagesDoNotCount",
       PodOf({Make("huge", kApp, List({{"cpu", "2"}, {"memory", "1Gi"}, {"hugepages-2Mi", "2Mi"}}),
                   List({{"cpu", "2000m"}, {"memory", "1Gi"}, {"hugepages-2Mi", "4Mi"}}))}),
       kGuaranteed},
      {"PodLevelAlone", pod_level, kGuaranteed},
      {"PodLevelRequestsOnly", pod_level_requests, kBurstable},
      {"PodLevelPresentButEmpty", pod_level_empty, kBestEffort},
      {"StatedIsBelieved", stated, kBurstable},
  };
}

TEST(QosOf, FollowsTheContainers) {
  for (const QosCase& test : QosCases()) {
    EXPECT_EQ(ToString(QosOf(test.pod)), ToString(test.qos)) << test.name;
  }
}

TEST(HasPodLevelResources, OnlyForCpuMemoryAndHugePages) {
  Pod pod = PodOf({});
  EXPECT_FALSE(HasPodLevelResources(pod));
  pod.pod_level = Resources{};
  EXPECT_FALSE(HasPodLevelResources(pod));
  pod.pod_level = Resources{List({{"nvidia.com/gpu", "1"}}), {}};
  EXPECT_FALSE(HasPodLevelResources(pod));
  pod.pod_level = Resources{List({{"hugepages-1Gi", "0"}}), {}};
  EXPECT_TRUE(HasPodLevelResources(pod));
  pod.pod_level = Resources{{}, List({{"memory", "1Gi"}})};
  EXPECT_TRUE(HasPodLevelResources(pod));
}

TEST(ExclusiveCpus, NeedsAWholeNumberInAGuaranteedPod) {
  const std::vector<std::pair<std::string, int>> cases = {
      {"2", 2},
      {"2.0", 2},
      {"2000m", 2},
      {"2e0", 2},
      {"1", 1},
      {"1k", 1000},
      {"1500m", 0},
      {"500m", 0},
      {"3G", 0x7FFFFFFF},
      // Too many, but whole, in any spelling. The kubelet's product with 1000 wraps around here.
      {"9223372036854776", 0x7FFFFFFF},
      {"10P", 0x7FFFFFFF},
      {"1E", 0x7FFFFFFF},
      {"1e30", 0x7FFFFFFF},
      {"9223372036854776500m", 0},
      {"4503599627370496001m", 0},
      // Rounded up to thousandths first, as in the kubelet.
      {"1999999u", 2},
  };
  for (const auto& [cpu, expected] : cases) {
    const ResourceList list = List({{"cpu", cpu}, {"memory", "1Gi"}});
    const Container container = Make("app", ContainerKind::kApp, list, list);
    EXPECT_EQ(ExclusiveCpus(PodOf({container}), container), expected) << cpu;
  }
}

TEST(ExclusiveCpus, NoneOutsideGuaranteedPods) {
  const Container container = Make("app", ContainerKind::kApp, kTwoCpus, kTwoCpus);
  Pod pod = PodOf({container});
  EXPECT_EQ(ExclusiveCpus(pod, container), 2);
  pod.containers.push_back(Make("bare", ContainerKind::kApp, {}, {}));
  EXPECT_EQ(ExclusiveCpus(pod, container), 0);
  EXPECT_EQ(ExclusiveCpus(pod, pod.containers[1]), 0);
}

TEST(ExclusiveCpus, NoneWithAHandlerOfTheSharedPool) {
  const Container container = Make("app", ContainerKind::kApp, kTwoCpus, kTwoCpus);
  Pod pod = PodOf({container});
  EXPECT_TRUE(IsPinned(pod));
  pod.shared_pool_handler = "runsc";
  EXPECT_FALSE(IsPinned(pod));
  EXPECT_EQ(QosOf(pod), QosClass::kGuaranteed);
  EXPECT_EQ(ExclusiveCpus(pod, container), 0);
}

TEST(ExclusiveCpus, NoneWithPodLevelResources) {
  const Container container = Make("app", ContainerKind::kApp, kTwoCpus, kTwoCpus);
  Pod pod = PodOf({container});
  pod.pod_level = Resources{kTwoCpus, kTwoCpus};
  EXPECT_EQ(QosOf(pod), QosClass::kGuaranteed);
  EXPECT_EQ(ExclusiveCpus(pod, container), 0);
}

TEST(ExclusiveCpus, OfEligibleContainersWithPodLevelResourceManagers) {
  const Container own = Make("own", ContainerKind::kApp, kTwoCpus, kTwoCpus);
  const Container less =
      Make("less", ContainerKind::kApp, List({{"cpu", "1"}, {"memory", "1Gi"}}), kTwoCpus);
  const Container no_memory =
      Make("cpu", ContainerKind::kApp, List({{"cpu", "2"}}), List({{"cpu", "2"}}));
  const ResourceList fraction = List({{"cpu", "1500m"}, {"memory", "1Gi"}});
  const Container part = Make("part", ContainerKind::kApp, fraction, fraction);
  Pod pod = PodOf({own, less, no_memory, part});
  const ResourceList whole = List({{"cpu", "8"}, {"memory", "8Gi"}});
  pod.pod_level = Resources{whole, whole};
  for (const auto managers : {PodLevelManagers::kContainers, PodLevelManagers::kPod}) {
    pod.pod_level_managers = managers;
    EXPECT_EQ(ExclusiveCpus(pod, own), 2);
    EXPECT_EQ(ExclusiveCpus(pod, less), 0);
    EXPECT_EQ(ExclusiveCpus(pod, no_memory), 0);
    EXPECT_EQ(ExclusiveCpus(pod, part), 0);
  }
  // Without CPUs as a whole, the pod has none for its containers.
  const ResourceList odd = List({{"cpu", "7500m"}, {"memory", "8Gi"}});
  pod.pod_level = Resources{odd, odd};
  EXPECT_EQ(ExclusiveCpus(pod, own), 0);
  pod.pod_level_managers = PodLevelManagers::kContainers;
  EXPECT_EQ(ExclusiveCpus(pod, own), 2);
}

TEST(Find, GivesTheAmountOrNull) {
  ASSERT_NE(Find(kTwoCpus, "cpu"), nullptr);
  EXPECT_EQ(Find(kTwoCpus, "cpu")->Value(), 2);
  EXPECT_EQ(Find(kTwoCpus, "nvidia.com/gpu"), nullptr);
}

}  // namespace
}  // namespace alignd
