// What a node can allocate, and whether one more pod fits.
#include "alignd/placement/scheduler.h"

#include <gtest/gtest.h>

#include "alignd/pod/pod_requests.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::placement {
namespace {

std::map<std::string, std::string> TextsOfAmounts(const ResourceList& amounts) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, amount] : amounts) texts[name] = amount.ToString();
  return texts;
}

TEST(Scheduler, AllocatableIsCapacityLessWhatIsReserved) {
  Machine machine = MakeMachine("socket:2 numa:1 core:4 memory-gib=4");
  std::vector<NumaNode> nodes = machine.numa();
  nodes[0].hugepages = {{2 << 20, 512}};
  nodes[1].hugepages = {{2 << 20, 256}};
  machine = *Machine::Make(machine.cpu_rows(), nodes);
  KubeletConfig config;
  config.kube_reserved = Amounts({{"cpu", "300m"}, {"memory", "100Mi"}});
  config.system_reserved = Amounts({{"cpu", "200m"}, {"memory", "12Mi"}});
  EXPECT_EQ(TextsOfAmounts(AllocatableOf(machine, config, 110)->amounts),
            (std::map<std::string, std::string>{
                {"cpu", "7500m"}, {"memory", "6444Mi"}, {"hugepages-2Mi", "1536Mi"}}));
  config.reserved_system_cpus = "0-2";
  EXPECT_EQ(AllocatableOf(machine, config, 110)->amounts.at("cpu"), Quantity(5));
  config.kube_reserved = Amounts({{"memory", "100Gi"}});
  EXPECT_TRUE(AllocatableOf(machine, config, 110)->amounts.at("memory").IsZero());
}

// Some trees and descriptions do not have it.
TEST(Scheduler, MemoryThatIsNotDescribedIsUnknown) {
  const Machine machine = MakeMachine("socket:2 numa:1 core:4 memory-gib=0");
  const Result<Allocatable> allocatable = AllocatableOf(machine, KubeletConfig(), 110);
  ASSERT_TRUE(allocatable.ok());
  EXPECT_TRUE(allocatable->unknown.contains("memory"));
  EXPECT_TRUE(RequestedResources()
                  .ShortagesOf(*allocatable, "a", Amounts({{"cpu", "1"}, {"memory", "1Gi"}}))
                  .empty());
  const Machine known = MakeMachine("socket:2 numa:1 core:4 memory-gib=4");
  EXPECT_FALSE(AllocatableOf(known, KubeletConfig(), 110)->unknown.contains("memory"));
}

TEST(Scheduler, ReadsTheLimitOfPods) {
  EXPECT_EQ(*PodLimitOf("{}", 4), 110);
  EXPECT_EQ(*PodLimitOf(R"({"maxPods":250})", 4), 250);
  EXPECT_EQ(*PodLimitOf(R"({"maxPods":250,"podsPerCore":10})", 4), 40);
  EXPECT_EQ(*PodLimitOf(R"({"podsPerCore":100})", 4), 110);
  EXPECT_FALSE(PodLimitOf(R"({"maxPods":"250"})", 4).ok());
  EXPECT_FALSE(PodLimitOf(R"({"maxPods":-1})", 4).ok());
}

TEST(Scheduler, CountsCpusInThousandths) {
  RequestedResources requested;
  Allocatable allocatable;
  allocatable.amounts = Amounts({{"cpu", "1"}});
  requested.Add("a", Amounts({{"cpu", "999500u"}}));
  EXPECT_EQ(requested.total().at("cpu"), Quantity(1));
  EXPECT_EQ(requested.ShortagesOf(allocatable, "b", Amounts({{"cpu", "1n"}})).size(), 1U);
  EXPECT_TRUE(requested.ShortagesOf(allocatable, "b", Amounts({{"cpu", "0"}})).empty());
}

TEST(Scheduler, ReplacesThePodOfTheSameUid) {
  RequestedResources requested;
  requested.Add("a", Amounts({{"cpu", "2"}}));
  requested.Add("a", Amounts({{"cpu", "1"}, {"memory", "1"}}));
  EXPECT_EQ(requested.total().at("cpu"), Quantity(1));
  EXPECT_EQ(requested.pods(), 1);
}

TEST(Scheduler, RefusesAmountsBeyondAllNumbers) {
  RequestedResources requested;
  Allocatable allocatable;
  allocatable.amounts = Amounts({{"cpu", "4"}, {"memory", "1Gi"}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(
        requested.ShortagesOf(allocatable, "b", Amounts({{"cpu", "1e28"}, {"memory", "1e28"}}))
            .size(),
        2U);
    requested.Add(std::to_string(i), Amounts({{"cpu", "1e28"}, {"memory", "1e28"}}));
  }
}

// Quantities are capped: the digits of a cap are not those of the pod.
TEST(Scheduler, ShowsAmountsBeyondAllNumbers) {
  Shortage shortage{"cpu", *Quantity::Parse("1e30"), Quantity(), Quantity(4)};
  EXPECT_EQ(Describe(shortage),
            "Insufficient cpu: more than 9223372036854775807 requested, 4 of 4 free");
  shortage.requested = *Quantity::Parse("9e18");
  EXPECT_EQ(Describe(shortage), "Insufficient cpu: 9e18 requested, 4 of 4 free");
}

// 2^64 bytes and more are not 0 bytes.
TEST(Scheduler, AddsUpMemoryBeyondAllNumbers) {
  const Machine machine = MakeMachine("socket:1 numa:2 core:2");
  std::vector<NumaNode> numa = machine.numa();
  for (NumaNode& node : numa) node.memory_bytes = uint64_t{1} << 63;
  KubeletConfig config;
  config.eviction_hard_memory = "";
  const auto allocatable = AllocatableOf(*Machine::Make(machine.cpu_rows(), numa), config, 110);
  ASSERT_TRUE(allocatable.ok());
  EXPECT_EQ(allocatable->amounts.at("memory"), Quantity(INT64_MAX));
}

TEST(Scheduler, AddsUpThePodsRequests) {
  Pod pod = MakePod("p", {Init("i", {{"cpu", "5"}}), Sidecar("s", {{"cpu", "1"}}),
                          Init("j", {{"cpu", "3"}, {"memory", "1Gi"}}), App("a", {{"cpu", "2"}}),
                          App("b", {{"cpu", "1"}, {"nvidia.com/gpu", "1"}})});
  EXPECT_EQ(TextsOfAmounts(RequestsOfPod(pod, {})),
            (std::map<std::string, std::string>{
                {"cpu", "5"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "1"}}));
  pod.pod_level = Resources{Amounts({{"cpu", "8"}}), {}};
  EXPECT_EQ(TextsOfAmounts(RequestsOfPod(pod, Amounts({{"cpu", "250m"}, {"memory", "1Mi"}}))),
            (std::map<std::string, std::string>{
                {"cpu", "8250m"}, {"memory", "1025Mi"}, {"nvidia.com/gpu", "1"}}));
}

}  // namespace
}  // namespace alignd::placement
