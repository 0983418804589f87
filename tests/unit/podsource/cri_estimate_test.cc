#include "podsource/cri_estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/pod_builder.h"
#include "edge/cri_pods.h"

namespace alignd::podsource {
namespace {

namespace v1 = runtime::v1;

TEST(CriEstimate, IsExactForGuaranteedPodsOfAnySize) {
  for (int64_t millis = 10; millis <= 70'000; millis += millis < 3000 ? 1 : 997) {
    const Result<PodAsk> ask = PodOfContainer(Sandbox(), Kubelet(millis, millis, 64 * kMi));
    ASSERT_TRUE(ask.ok());
    const Container& container = ask->pod.containers.at(0);
    ASSERT_EQ(Find(container.resources.requests, "cpu")->MilliValue(), millis);
    ASSERT_EQ(Find(container.resources.limits, "cpu")->MilliValue(), millis);
    ASSERT_EQ(ExclusiveCpus(ask->pod, container), millis % 1000 == 0 ? millis / 1000 : 0) << millis;
  }
}

TEST(CriEstimate, RequestOfABurstablePodFollowsFromItsShares) {
  for (int64_t millis = 3; millis <= 70'000; millis += millis < 3000 ? 1 : 997) {
    const Result<PodAsk> ask =
        PodOfContainer(Sandbox("/kubepods/burstable/pod1"), Kubelet(millis, 0, 0));
    ASSERT_TRUE(ask.ok());
    const Container& container = ask->pod.containers.at(0);
    const Quantity* request = Find(container.resources.requests, "cpu");
    ASSERT_NE(request, nullptr);
    // Several requests have the same shares; the result is one of them.
    ASSERT_EQ(request->MilliValue() * 1024 / 1000, millis * 1024 / 1000) << millis;
    ASSERT_EQ(ExclusiveCpus(ask->pod, container), 0);
  }
}

// What CRI does not show is as in the spec.
TEST(CriEstimate, SizesOfCriReplaceThoseOfTheSpec) {
  const std::string pages = "hugepages-2Mi";
  Pod stated = MakePod("uid", {Sidecar("app", {{"cpu", "5"}, {pages, "2Mi"}, {"a.com/x", "1"}}),
                               App("other", {{"cpu", "1"}})});
  stated.containers[0].resources.requests["memory"] = *Quantity::Parse("100Mi");
  stated.priority = 7;
  const auto ask_for = [&](const std::string& parent, const v1::ContainerConfig& container) {
    const Question question{std::make_shared<v1::PodSandboxConfig>(Sandbox(parent)),
                            std::make_shared<v1::ContainerConfig>(container)};
    return SizesOfCri(stated, question, /*claims_add_sizes=*/false);
  };
  const auto burstable = ask_for("/kubepods/burstable/pod1", Kubelet(500, 2000, 64 * kMi));
  ASSERT_TRUE(burstable);
  EXPECT_TRUE(burstable->is_estimate);
  EXPECT_FALSE(burstable->pod.is_complete);
  EXPECT_EQ(burstable->pod.priority, 7);
  EXPECT_EQ(burstable->pod.name, "name");
  ASSERT_EQ(burstable->pod.containers.size(), 1U);
  const Container& app = burstable->pod.containers[0];
  EXPECT_EQ(app.kind, ContainerKind::kSidecar);
  EXPECT_EQ(app.resources.requests.at("cpu").MilliValue(), 500);
  EXPECT_EQ(app.resources.limits.at("cpu").MilliValue(), 2000);
  EXPECT_EQ(app.resources.requests.at("memory").Value(), 64 * kMi) << "up to the limit";
  EXPECT_EQ(app.resources.limits.at("a.com/x").Value(), 1);
  EXPECT_FALSE(app.resources.limits.contains(pages)) << "CRI shows none";
  const auto unlimited = ask_for("/kubepods/burstable/pod1", Kubelet(500, 0, 0));
  ASSERT_TRUE(unlimited);
  const Resources& resources = unlimited->pod.containers[0].resources;
  EXPECT_EQ(resources.requests.at("memory").Value(), 100 * kMi);
  EXPECT_FALSE(resources.limits.contains("cpu"));
  EXPECT_FALSE(resources.limits.contains("memory"));
  EXPECT_FALSE(ask_for("/kubepods/pod1", Kubelet(500, 500, kMi, "missing")));
}

// Its own sizes count only where the container is entitled to some.
TEST(CriEstimate, SizesOfCriInAPodWithResourcesOfItsOwn) {
  Pod stated = MakePod("uid", {App("app", {{"cpu", "2"}, {"memory", "64Mi"}}), App("plain", {})});
  const ResourceList all = Amounts({{"cpu", "6"}, {"memory", "1Gi"}});
  stated.pod_level = Resources{all, all};
  const auto ask_for = [&](const v1::ContainerConfig& container) {
    const Question question{std::make_shared<v1::PodSandboxConfig>(Sandbox("/kubepods/pod1")),
                            std::make_shared<v1::ContainerConfig>(container)};
    return *SizesOfCri(stated, question, /*claims_add_sizes=*/false);
  };
  const PodAsk app = ask_for(Kubelet(1000, 1000, 32 * kMi));
  EXPECT_EQ(app.pod.pod_level, stated.pod_level);
  EXPECT_TRUE(app.states_pod_level);
  EXPECT_EQ(app.pod.containers[0].resources.requests, app.pod.containers[0].resources.limits);
  EXPECT_EQ(app.pod.containers[0].resources.requests.at("memory").Value(), 32 * kMi);
  EXPECT_EQ(ask_for(Kubelet(6000, 6000, 1024 * kMi, "plain")).pod.containers[0],
            stated.containers[1]);
}

TEST(CriEstimate, NamesThePod) {
  const Result<PodAsk> ask = PodOfContainer(Sandbox(), Kubelet(2000, 2000, 64 * kMi));
  ASSERT_TRUE(ask.ok());
  EXPECT_EQ(ask->source, "CRI estimate");
  EXPECT_EQ(ask->pod.uid, "uid");
  EXPECT_EQ(ask->pod.name, "name");
  EXPECT_EQ(ask->pod.name_space, "space");
  ASSERT_EQ(ask->pod.containers.size(), 1U);
  EXPECT_EQ(ask->pod.containers[0].name, "app");
  EXPECT_EQ(Text(ask->pod.containers[0].resources.limits), "cpu=2 memory=64Mi ");
}

TEST(CriEstimate, ContainerOutsideOfTheKubeletsCgroupsGetsNoExclusiveCpus) {
  const Result<PodAsk> ask = PodOfContainer(Sandbox("/user/made"), Kubelet(2000, 2000, 64 * kMi));
  ASSERT_TRUE(ask.ok());
  EXPECT_EQ(ask->pod.stated_qos, QosClass::kBurstable);
  EXPECT_EQ(ExclusiveCpus(ask->pod, ask->pod.containers[0]), 0);
}

TEST(CriEstimate, HugePagesHaveTheirKubernetesNames) {
  v1::ContainerConfig container = Kubelet(2000, 2000, 64 * kMi);
  const std::vector<std::pair<std::string, uint64_t>> pages = {
      {"2MB", 8 * kMi},
      {"1GB", 0},
      {"64KB", 128 * 1024},
      {"16GB", std::numeric_limits<uint64_t>::max()},
      {"MB", 1},
      {"2M", 1},
      {"2TB", 1},
      {"twoMB", 1},
      {"", 1}};
  for (const auto& [size, limit] : pages) {
    v1::HugepageLimit& page =
        *container.mutable_linux()->mutable_resources()->add_hugepage_limits();
    page.set_page_size(size);
    page.set_limit(limit);
  }
  const Result<PodAsk> ask = PodOfContainer(Sandbox(), container);
  ASSERT_TRUE(ask.ok());
  EXPECT_EQ(Text(ask->pod.containers[0].resources.requests),
            "cpu=2 hugepages-2Mi=8Mi hugepages-64Ki=128Ki memory=64Mi ");
}

// A container without limits is shown with its pod's; another may request less than its limit.
TEST(CriEstimate, PodLevelResourcesAreSeenIfRequestAndLimitDiffer) {
  for (const int64_t request : {0, 1, 2, 3, 500, 1999, 2001}) {
    const Result<PodAsk> ask = PodOfContainer(Sandbox(), Kubelet(request, 2000, 64 * kMi));
    ASSERT_TRUE(ask.ok());
    EXPECT_TRUE(HasPodLevelResources(ask->pod)) << request;
    EXPECT_EQ(ExclusiveCpus(ask->pod, ask->pod.containers[0]), 0) << request;
    EXPECT_NE(ask->source.find("its pod has resources of its own"), std::string::npos)
        << ask->source;
  }
  // In a Burstable pod, request and limit may differ.
  const Result<PodAsk> burstable =
      PodOfContainer(Sandbox("/kubepods/burstable/pod1"), Kubelet(500, 2000, 64 * kMi));
  ASSERT_TRUE(burstable.ok());
  EXPECT_FALSE(HasPodLevelResources(burstable->pod));
}

TEST(CriEstimate, SizesOfOrdinaryPodsShowNoPodLevelResources) {
  for (const int64_t millis : {1, 2, 3, 9, 10, 999, 1000, 1001, 255'999, 256'000, 300'000}) {
    v1::ContainerConfig container = Kubelet(millis, millis, 64 * kMi);
    v1::LinuxContainerResources& cri = *container.mutable_linux()->mutable_resources();
    cri.set_cpu_shares(std::min<int64_t>(cri.cpu_shares(), 262'144));  // the kernel's maximum
    const Result<PodAsk> ask = PodOfContainer(Sandbox(), container);
    ASSERT_TRUE(ask.ok());
    EXPECT_FALSE(HasPodLevelResources(ask->pod)) << millis;
    cri.set_cpu_quota(-1);  // lifted by the caller
    EXPECT_FALSE(HasPodLevelResources(PodOfContainer(Sandbox(), container)->pod)) << millis;
    cri.set_cpu_quota(0);  // cpuCFSQuota: false
    EXPECT_FALSE(HasPodLevelResources(PodOfContainer(Sandbox(), container)->pod)) << millis;
  }
}

TEST(CriEstimate, AcceptsExtremeNumbers) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  for (const int64_t shares : {kMax, kLeast, int64_t{-1}, int64_t{0}}) {
    for (const int64_t quota : {kMax, kLeast, int64_t{-1}, int64_t{1}}) {
      for (const int64_t period : {kMax, kLeast, int64_t{0}, int64_t{1}}) {
        v1::ContainerConfig container = Sized(shares, quota, kLeast);
        container.mutable_linux()->mutable_resources()->set_cpu_period(period);
        const Result<PodAsk> ask = PodOfContainer(Sandbox(), container);
        ASSERT_TRUE(ask.ok());
        EXPECT_GE(ExclusiveCpus(ask->pod, ask->pod.containers[0]), 0);
      }
    }
  }
}

// With the kubelet's feature gate DRANodeAllocatableResources, a claim adds to the quota, not to
// the shares.
TEST(CriEstimate, SharesAreTheRequestIfClaimsMayAddToTheQuota) {
  const AnnotationSource::Options gate{.claims_add_sizes = true};
  for (const int64_t millis : {10, 500, 999, 1000, 1001, 2000, 2500, 64'000, 255'000}) {
    for (const int64_t claimed : {0, 1, 100, 999, 1000, 4000}) {
      const Result<PodAsk> ask =
          PodOfContainer(Sandbox(), Kubelet(millis, millis + claimed, 64 * kMi), gate);
      ASSERT_TRUE(ask.ok());
      EXPECT_FALSE(HasPodLevelResources(ask->pod)) << millis << " + " << claimed;
      const Container& container = ask->pod.containers.at(0);
      EXPECT_EQ(Find(container.resources.requests, "cpu")->MilliValue(), millis) << claimed;
      EXPECT_EQ(Find(container.resources.limits, "cpu")->MilliValue(), millis) << claimed;
      EXPECT_EQ(ExclusiveCpus(ask->pod, container), millis % 1000 == 0 ? millis / 1000 : 0);
    }
  }
  // No claim explains a quota below the request, or a container without a request.
  for (const auto& [request, limit] : {std::pair{2000, 1000}, std::pair{0, 4000}}) {
    const Result<PodAsk> ask = PodOfContainer(Sandbox(), Kubelet(request, limit, 64 * kMi), gate);
    ASSERT_TRUE(ask.ok());
    EXPECT_TRUE(HasPodLevelResources(ask->pod)) << request;
  }
}

// As ephemeral containers: each container that such a pod is admitted with has limits.
TEST(CriEstimate, ContainerWithoutLimitsInAGuaranteedPodGetsNothingFromTheManagers) {
  const Result<PodAsk> ask = PodOfContainer(Sandbox(), Kubelet(0, 0, 0, "debugger"));
  ASSERT_TRUE(ask.ok()) << ask.error().Text();
  EXPECT_EQ(ask->source, "CRI estimate");
  EXPECT_FALSE(IsPinned(ask->pod));
  EXPECT_TRUE(IsPinned(PodOfContainer(Sandbox(), Kubelet(500, 500, 64 * kMi))->pod));
}

}  // namespace
}  // namespace alignd::podsource
