#include <gtest/gtest.h>

#include "alignd/cpumanager/static_policy.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::cpumanager {
namespace {

using topologymanager::HintsByResource;

std::map<std::string, std::string> AmountsOf(int cpus) {
  return {{"cpu", std::to_string(cpus)}, {"memory", "1Gi"}};
}

Pod PodOf(int cpus) { return MakePod("p", {App("app", AmountsOf(cpus))}); }

// "{0}! {0,1}": the masks in order, preferred ones marked. "none" for no answer.
std::string Text(const HintsByResource& hints) {
  const auto cpu = hints.find("cpu");
  if (cpu == hints.end() || !cpu->second) return "none";
  std::string text;
  for (const auto& hint : cpu->second->All()) {
    if (!text.empty()) text += ' ';
    text += hint.affinity->ToString() + (hint.preferred ? "!" : "");
  }
  return text;
}

struct HintCase {
  const char* name;
  const char* machine;
  bool align_by_socket;
  const char* taken_before;
  int count;
  const char* expected;
};

class CpuHints : public testing::TestWithParam<HintCase> {};

TEST_P(CpuHints, OfOneContainer) {
  const Machine machine = MakeMachine(GetParam().machine);
  const StaticPolicy policy{.options = {.align_by_socket = GetParam().align_by_socket},
                            .reserved = Cpus("0")};
  CpuState state = InitialState(machine, policy);
  state.default_set -= Cpus(GetParam().taken_before);
  const Pod pod = PodOf(GetParam().count);
  EXPECT_EQ(Text(ContainerHints(machine, policy, state, pod, pod.containers[0])),
            GetParam().expected);
  EXPECT_EQ(Text(PodHints(machine, policy, state, pod)), GetParam().expected);
}

constexpr const char* kTwo = "socket:2 numa:1 core:4";
constexpr const char* kFour = "socket:2 numa:2 core:4";

INSTANTIATE_TEST_SUITE_P(
    Cases, CpuHints,
    testing::Values(
        HintCase{"AnyNode", kTwo, false, "", 3, "{0}! {1}! {0,1}"},
        HintCase{"ReservedDoNotCount", kTwo, false, "", 4, "{1}! {0,1}"},
        HintCase{"PreferredEvenIfTakenNow", kTwo, false, "4", 4, "{0,1}"},
        HintCase{"NeedsTwoNodes", kTwo, false, "", 5, "{0,1}!"},
        HintCase{"MoreThanIsFree", kTwo, false, "4-7", 4, ""},
        HintCase{"MoreThanTheMachine", kTwo, false, "", 9, ""},
        HintCase{"ByNumaNode", kFour, false, "0-9,12-13", 3, "{2,3} {0,2,3} {1,2,3} {0,1,2,3}"},
        HintCase{"BySocket", kFour, true, "0-9,12-13", 3, "{2,3}! {0,2,3} {1,2,3} {0,1,2,3}"}),
    [](const auto& test) { return test.param.name; });

TEST(CpuHintsAnswer, NoneForTheSharedPool) {
  const Machine machine = MakeMachine(kTwo);
  const StaticPolicy policy{.options = {}, .reserved = Cpus("0")};
  const Pod pod = MakePod("p", {App("app", {{"cpu", "1500m"}, {"memory", "1Gi"}})});
  const CpuState state = InitialState(machine, policy);
  EXPECT_EQ(Text(ContainerHints(machine, policy, state, pod, pod.containers[0])), "none");
  EXPECT_EQ(Text(PodHints(machine, policy, state, pod)), "none");
}

TEST(CpuHintsAnswer, OverTheCpusThatTheContainerHas) {
  const Machine machine = MakeMachine(kTwo);
  const StaticPolicy policy{.options = {}, .reserved = Cpus("0")};
  const CpuState state{
      .default_set = Cpus("0-5"), .assignments = {{"p", {{"app", Cpus("6-7")}}}}, .reusable = {}};
  const auto hints_for = [&](int cpus) {
    const Pod pod = PodOf(cpus);
    return Text(ContainerHints(machine, policy, state, pod, pod.containers[0]));
  };
  EXPECT_EQ(hints_for(2), "{1}! {0,1}");
  EXPECT_EQ(hints_for(3), "");
  EXPECT_EQ(Text(PodHints(machine, policy, state, PodOf(3))), "");
}

TEST(CpuHintsAnswer, HoldsAllReusableCpus) {
  const Machine machine = MakeMachine(kTwo);
  const StaticPolicy policy{.options = {}, .reserved = Cpus("0")};
  const CpuState state{.default_set = Cpus("0-6"),
                       .assignments = {{"p", {{"init", Cpus("7")}}}},
                       .reusable = {{"p", Cpus("7")}}};
  const Pod pod = PodOf(2);
  EXPECT_EQ(Text(ContainerHints(machine, policy, state, pod, pod.containers[0])), "{1}! {0,1}");
}

TEST(CpuHintsAnswer, CountsAPodAtItsBusiestMoment) {
  const Machine machine = MakeMachine("socket:4 numa:1 core:4");
  const StaticPolicy policy{.options = {}, .reserved = Cpus("0")};
  const CpuState state = InitialState(machine, policy);
  // The first init container runs before the sidecar (7), the second beside it (6 + 2).
  const Pod pod = MakePod("p", {Init("first", AmountsOf(7)), Sidecar("proxy", AmountsOf(2)),
                                Init("second", AmountsOf(6)), App("app", AmountsOf(1))});
  EXPECT_EQ(Text(PodHints(machine, policy, state, pod)),
            "{1,2}! {1,3}! {2,3}! {0,1,2} {0,1,3} {0,2,3} {1,2,3} {0,1,2,3}");
}

TEST(CpuHintsAnswer, OnlyNodesWithCpusCost) {
  const Machine machine = MakeMachine("socket:2 numa:1 core:4 cpuless=62");
  const StaticPolicy policy{.options = {}, .reserved = Cpus("0")};
  const Pod pod = PodOf(3);
  EXPECT_EQ(Text(PodHints(machine, policy, InitialState(machine, policy), pod)), "{0}! {1}! {0,1}");
}

}  // namespace
}  // namespace alignd::cpumanager
