#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "alignd/config/kubelet_config.h"

namespace alignd {
namespace {

constexpr uint64_t kCapacity = 2143440896;

Quantity QuantityOf(std::string_view text) { return Quantity::Parse(text).value(); }

std::string Print(const Result<ResourceList>& list) {
  if (!list.ok()) return list.error().message;
  std::string text;
  for (const auto& [name, amount] : *list) text += name + "=" + amount.ToString() + " ";
  return text;
}

TEST(NodeReservation, AddsUpWhatTheNodeKeeps) {
  KubeletConfig config;
  config.kube_reserved = {{"cpu", QuantityOf("500m")}, {"memory", QuantityOf("64Mi")}};
  config.system_reserved = {{"cpu", QuantityOf("1")}, {"memory", QuantityOf("284445Ki")}};
  EXPECT_EQ(Print(NodeReservation(config, kCapacity, 0)), "cpu=1500m memory=452381Ki ");
  config.eviction_hard_memory.clear();
  EXPECT_EQ(Print(NodeReservation(config, kCapacity, 0)), "cpu=1500m memory=349981Ki ");
}

TEST(NodeReservation, DefaultIsTheEvictionThreshold) {
  EXPECT_EQ(Print(NodeReservation({}, kCapacity, 0)), "memory=100Mi ");
}

TEST(NodeReservation, ListedCpusReplaceAmounts) {
  KubeletConfig config;
  config.eviction_hard_memory.clear();
  config.kube_reserved = {{"cpu", QuantityOf("500m")}};
  config.system_reserved = {{"cpu", QuantityOf("3")}};
  EXPECT_EQ(Print(NodeReservation(config, kCapacity, 2)), "cpu=2 ");
  config.kube_reserved.clear();
  config.system_reserved.clear();
  EXPECT_EQ(Print(NodeReservation(config, kCapacity, 2)), "cpu=2 ");
}

TEST(NodeReservation, SystemReservedDecidesTheForm) {
  KubeletConfig config;
  config.eviction_hard_memory.clear();
  config.kube_reserved = {{"memory", QuantityOf("1048576")}};
  config.system_reserved = {{"memory", QuantityOf("1Mi")}};
  EXPECT_EQ(Print(NodeReservation(config, kCapacity, 0)), "memory=2Mi ");
  std::swap(config.kube_reserved, config.system_reserved);
  EXPECT_EQ(Print(NodeReservation(config, kCapacity, 0)), "memory=2097152 ");
}

TEST(NodeReservation, StorageAndProcessIdsAreNotOurs) {
  KubeletConfig config;
  config.eviction_hard_memory.clear();
  config.kube_reserved = {{"ephemeral-storage", QuantityOf("1Gi")}, {"pid", QuantityOf("100")}};
  EXPECT_EQ(Print(NodeReservation(config, kCapacity, 0)), "");
}

struct ThresholdCase {
  std::string text;
  std::string reservation;
};

TEST(NodeReservation, ReadsThresholdsAsTheKubelet) {
  const std::vector<ThresholdCase> cases = {
      {"", ""},
      {"0%", ""},
      {"100%", ""},
      {"100Mi", "memory=100Mi "},
      // A share is a 32-bit float: a little less than 2143440896 * 0.02 = 42868817.92.
      {"2%", "memory=42868816 "},
      {"5%", "memory=107172046 "},
      {"0.5%", "memory=10717204 "},
      {"+5%", "memory=107172046 "},
      {"5%%", "memory=107172046 "},
      {"101%", "evictionHard.memory.available: \"101%\": must be a percentage from 0% to 100%"},
      {"-1%", "evictionHard.memory.available: \"-1%\": must be a percentage from 0% to 100%"},
      {"nan%", "evictionHard.memory.available: \"nan%\": must be a percentage from 0% to 100%"},
      {"%", "evictionHard.memory.available: \"%\": must be a percentage from 0% to 100%"},
      {"0", "evictionHard.memory.available: \"0\": must be positive"},
      {"-1Mi", "evictionHard.memory.available: \"-1Mi\": must be positive"},
      {"many",
       "evictionHard.memory.available: \"many\": not a quantity: expected a number and a suffix "
       "such as m, k, Mi or e3"},
  };
  for (const ThresholdCase& test : cases) {
    KubeletConfig config;
    config.eviction_hard_memory = test.text;
    EXPECT_EQ(Print(NodeReservation(config, kCapacity, 0)), test.reservation) << test.text;
  }
}

TEST(NodeReservation, AnAbsurdCapacityDoesNotOverflow) {
  KubeletConfig config;
  config.eviction_hard_memory = "99.9%";
  EXPECT_GT(NodeReservation(config, UINT64_MAX, 0).value().at("memory").Sign(), 0);
}

TEST(ParseGoBool, ReadsGosSpellingsOnly) {
  for (const char* const text : {"1", "t", "T", "TRUE", "true", "True"}) {
    EXPECT_EQ(ParseGoBool(text), true) << text;
  }
  for (const char* const text : {"0", "f", "F", "FALSE", "false", "False"}) {
    EXPECT_EQ(ParseGoBool(text), false) << text;
  }
  for (const char* const text : {"", "yes", "on", "tRUE", " true", "2"}) {
    EXPECT_EQ(ParseGoBool(text), std::nullopt) << text;
  }
}

TEST(Spellings, AreTheKubelets) {
  EXPECT_EQ(ToString(CpuManagerPolicy::kStatic), "static");
  EXPECT_EQ(ToString(TopologyManagerPolicy::kSingleNumaNode), "single-numa-node");
  EXPECT_EQ(ToString(TopologyManagerScope::kPod), "pod");
  EXPECT_EQ(ToString(MemoryManagerPolicy::kStatic), "Static");
}

}  // namespace
}  // namespace alignd
