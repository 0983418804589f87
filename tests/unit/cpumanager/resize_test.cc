#include "alignd/cpumanager/resize.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/machine_builder.h"

namespace alignd::cpumanager {
namespace {

const ContainerKey kResized{"p", "app"};

// Which CPUs are chosen around the kept ones. `error`: the result is this error.
struct ResizeChoiceCase {
  const char* name;
  const char* machine;
  PolicyOptions options;
  const char* kept;
  const char* offered;
  int count;
  const char* expected;
  NumaMask nodes = {};
};

void PrintTo(const ResizeChoiceCase& given, std::ostream* out) { *out << given.name; }

class ResizeChoices : public testing::TestWithParam<ResizeChoiceCase> {};

TEST_P(ResizeChoices, AreNearWhatIsKept) {
  const ResizeChoiceCase& given = GetParam();
  const Machine machine = MakeMachine(given.machine);
  const Result<CpuSet> chosen = ChooseForResize(machine, given.options,
                                                {.kept = Cpus(given.kept),
                                                 .offered = Cpus(given.offered),
                                                 .count = given.count,
                                                 .nodes = given.nodes});
  EXPECT_EQ(chosen.ok() ? chosen->ToString() : chosen.error().message, given.expected);
}

constexpr PolicyOptions kNoOptions{};
constexpr PolicyOptions kWholeCores{.full_pcpus_only = true};
constexpr PolicyOptions kAcrossNodes{.distribute_cpus_across_numa = true};
constexpr PolicyOptions kAcrossCores{.distribute_cpus_across_cores = true};
constexpr PolicyOptions kByCache{.prefer_align_cpus_by_uncorecache = true};

constexpr const char* kResizeThreads = "socket:2 numa:1 core:4 thread:2";  // 0-7, 8-15
constexpr const char* kResizeCaches =
    "socket:1 numa:2 uncore:2 core:4 thread:1";                              // 0-3 4-7, 8-11 12-15
constexpr const char* kResizeFourNodes = "socket:2 numa:2 core:4 thread:1";  // 0-3 4-7, 8-11 12-15

INSTANTIATE_TEST_SUITE_P(
    Nearness, ResizeChoices,
    testing::Values(
        ResizeChoiceCase{"FinishesStartedCores", kResizeThreads, kNoOptions, "2,4", "0-1,3,5-7", 4,
                         "2-5"},
        ResizeChoiceCase{"ThenWholeCores", kResizeThreads, kNoOptions, "2", "1,3,6-15", 4,
                         "2-3,6-7"},
        ResizeChoiceCase{"SiblingsBeforeFullerCores", kResizeThreads, kNoOptions, "2", "1,3,6-15",
                         2, "2-3"},
        ResizeChoiceCase{"StaysOnItsNode", kResizeThreads, kNoOptions, "8-9", "0-7,10-15", 8,
                         "8-15"},
        ResizeChoiceCase{"LeavesItsNodeLast", kResizeThreads, kNoOptions, "8-9", "0-7,10-15", 9,
                         "0,8-15"},
        ResizeChoiceCase{"UncoreCacheFirst", kResizeCaches, kNoOptions, "5", "0-4,6-7", 3, "4-6"},
        ResizeChoiceCase{"ThenTheNode", kResizeCaches, kNoOptions, "5", "0-4,6-15", 6, "0-1,4-7"},
        ResizeChoiceCase{"SecondNodeOfTheSocket", kResizeFourNodes, kNoOptions, "8-11", "0-7,12-15",
                         5, "8-12"},
        ResizeChoiceCase{"GivenNodesBeforeNearOnes", kResizeFourNodes, kNoOptions, "8-11",
                         "0-7,12-15", 5, "4,8-11", NumaMask::Of(1)},
        ResizeChoiceCase{"GivenNodesWithTooFew", kResizeFourNodes, kNoOptions, "8-11", "0-4,12-15",
                         8, "8-15", NumaMask::Of(1)},
        ResizeChoiceCase{"FewestFurtherNodes", kResizeFourNodes, kNoOptions, "8-11", "0-3,4-5,12",
                         8, "0-3,8-11"},
        ResizeChoiceCase{"TwoFurtherNodes", kResizeFourNodes, kNoOptions, "8-11", "0-3,4-5,12", 9,
                         "0-3,8-12"},
        ResizeChoiceCase{"NothingMissing", kResizeThreads, kNoOptions, "2-3", "4-7", 2, "2-3"},
        ResizeChoiceCase{"TooFew", kResizeThreads, kNoOptions, "2-3", "4-7", 7,
                         "not enough cpus available to satisfy request: requested=5, "
                         "available=4"}),
    [](const auto& choice) { return choice.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Options, ResizeChoices,
    testing::Values(
        ResizeChoiceCase{"WholeCores", kResizeThreads, kWholeCores, "2-3", "1,5-9", 6, "2-3,6-9"},
        ResizeChoiceCase{"OwnCpusCountAsFree", kResizeThreads, kWholeCores, "2", "0-1,3", 4, "0-3"},
        ResizeChoiceCase{"HalfACore", kResizeThreads, kWholeCores, "2-3", "4-7", 5,
                         "SMT Alignment Error: requested 5 cpus not multiple cpus per core = 2"},
        ResizeChoiceCase{"OnlyHalvesAreFree", kResizeThreads, kWholeCores, "2-3", "0,4,6-7,8", 6,
                         "SMT Alignment Error: not enough free physical CPUs: available physical "
                         "CPUs = 4, requested CPUs = 6, CPUs per core = 2"},
        ResizeChoiceCase{"HasHalfACore", kResizeThreads, kWholeCores, "2,4-5", "6-9", 6,
                         "it has parts of cores, and cannot have CPUs 3 of these cores"},
        ResizeChoiceCase{"EvenlyOverItsNodes", kResizeThreads, kAcrossNodes, "1,8-10", "2-7,11-15",
                         8, "1-4,8-11"},
        ResizeChoiceCase{"EvenlyInWholeCores",
                         kResizeThreads,
                         {.full_pcpus_only = true, .distribute_cpus_across_numa = true},
                         "0-1,8-9",
                         "2-7,10-15",
                         10,
                         "0-5,8-11"},
        ResizeChoiceCase{"OneNodeIsEnough", kResizeThreads, kAcrossNodes, "1", "2-7,11-15", 4,
                         "1-4"},
        ResizeChoiceCase{"EvenlyWithAFurtherNode", kResizeThreads, kAcrossNodes, "1-2", "3-4,8-15",
                         8, "1-4,8-11"},
        ResizeChoiceCase{"OtherCoresFirst", kResizeThreads, kAcrossCores, "2", "0,3-4,6", 4,
                         "0,2,4,6"},
        ResizeChoiceCase{"SiblingsLast", kResizeThreads, kAcrossCores, "2", "0,3-4,6,8-15", 5,
                         "0,2-4,6"},
        ResizeChoiceCase{"AnyCache", "numa:1 uncore:3 core:4", kNoOptions, "1", "0,2-3,5,8-11", 8,
                         "0-3,5,8-10"},
        ResizeChoiceCase{"ItsNodeBeforeWholeCaches", kResizeCaches, kByCache, "4-7", "1-2,8-11", 8,
                         "1-2,4-9"},
        ResizeChoiceCase{"WholeCache", "numa:1 uncore:3 core:4", kByCache, "1", "0,2-3,5,8-11", 8,
                         "0-3,8-11"}),
    [](const auto& choice) { return choice.param.name; });

// Cores of two and of one CPU: a number of CPUs alone does not say whether whole cores have it.
TEST(ResizeChoices, CoresOfDifferentSizes) {
  const Machine machine = WithoutCpus(MakeMachine("numa:2 core:4 thread:2"), Cpus("7,9,11,13"));
  const auto chosen = [&](const char* kept, const char* offered, int count) {
    const Result<CpuSet> cpus = ChooseForResize(
        machine, kWholeCores,
        {.kept = Cpus(kept), .offered = Cpus(offered), .count = count, .nodes = {}});
    return cpus.ok() ? cpus->ToString() : cpus.error().message;
  };
  // The average core has one CPU.
  EXPECT_EQ(chosen("0-1", "2-6", 4), "0-3");
  EXPECT_EQ(chosen("0-1", "2-6", 5), "0-3,6");
  EXPECT_EQ(chosen("0-1", "2-5", 5),
            "no whole cores have 3 CPUs in all, which it needs besides its own");
  EXPECT_EQ(chosen("0-1", "2-5,8,10", 5), "0-3,8");
  EXPECT_EQ(chosen("0-1", "2-5,8,10", 3), "0-1,8");
}

// A node whose container app of pod p was resized up.
struct ResizedNode {
  Machine machine = MakeMachine(kResizeCaches);
  StaticPolicy policy{.options = {}, .reserved = Cpus("0")};
  CpuState state = InitialState(machine, policy);

  ResizedNode(const char* original, const char* now) {
    state.default_set -= Cpus(original);
    state.assignments[kResized.pod_uid][kResized.container] = Cpus(original);
    ApplyResize(kResized, Cpus(now), state);
    EXPECT_EQ(BrokenInvariants(machine, policy, state), std::vector<std::string>{});
  }

  std::string ShrunkTo(int count) const {
    const Result<CpuSet> cpus = Shrunk(machine, policy, state, kResized, count);
    return cpus.ok() ? cpus->ToString() : cpus.error().message;
  }
};

TEST(ResizeDown, KeepsWhatIsNearestToTheOriginalCpus) {
  const ResizedNode node("5", "1-2,4-7,9-10,12-14");
  EXPECT_EQ(node.ShrunkTo(9), "1-2,4-7,12-14");  // the cache with fewer of its CPUs goes
  EXPECT_EQ(node.ShrunkTo(8), "1-2,4-7,9-10");
  EXPECT_EQ(node.ShrunkTo(6), "1-2,4-7");
  EXPECT_EQ(node.ShrunkTo(4), "4-7");
  EXPECT_EQ(node.ShrunkTo(2), "4-5");
  EXPECT_EQ(node.ShrunkTo(1), "5");
}

TEST(ResizeDown, NeedNotUndoTheLastResizeUp) {
  ResizedNode node("5", "5,12");
  ApplyResize(kResized, Cpus("5-6,12"), node.state);
  EXPECT_EQ(node.ShrunkTo(2), "5-6");
}

TEST(ResizeDown, LeavesWholeCores) {
  const Machine machine = MakeMachine(kResizeThreads);
  const StaticPolicy policy{.options = kWholeCores, .reserved = Cpus("0-1")};
  CpuState state = InitialState(machine, policy);
  state.default_set -= Cpus("2-3");
  state.assignments["p"]["app"] = Cpus("2-3");
  ApplyResize(kResized, Cpus("2-3,6-9"), state);
  EXPECT_EQ(Shrunk(machine, policy, state, kResized, 4)->ToString(), "2-3,6-7");
  EXPECT_EQ(Shrunk(machine, policy, state, kResized, 5).error().message,
            "SMT Alignment Error: requested 5 cpus not multiple cpus per core = 2");
}

TEST(ResizeUp, NeverTakesReservedCpus) {
  const ResizedNode node("1", "1-2");
  const Result<CpuSet> cpus = Grown(node.machine, node.policy, node.state, kResized, 5, {});
  EXPECT_EQ(cpus->ToString(), "1-5");
  EXPECT_EQ(Grown(node.machine, node.policy, node.state, kResized, 16, {}).error().message,
            "not enough cpus available to satisfy request: requested=14, available=13");
}

TEST(ApplyResize, RecordsTheFirstCpusOnly) {
  ResizedNode node("5", "4-7");
  EXPECT_EQ(node.state.OriginalOf(kResized).ToString(), "5");
  EXPECT_EQ(node.state.default_set.ToString(), "0-3,8-15");
  ApplyResize(kResized, Cpus("5-6"), node.state);
  EXPECT_EQ(node.state.OriginalOf(kResized).ToString(), "5");
  EXPECT_EQ(node.state.default_set.ToString(), "0-4,7-15");
  ApplyResize(kResized, Cpus("5"), node.state);
  EXPECT_EQ(node.state.OriginalOf(kResized).ToString(), "5");
  EXPECT_EQ(BrokenInvariants(node.machine, node.policy, node.state), std::vector<std::string>{});
}

TEST(ApplyResize, CpusOfAnInitContainerStayWithIt) {
  ResizedNode node("5", "4-7");
  node.state.assignments["p"]["init"] = Cpus("6-7");
  node.state.reusable["p"] = Cpus("4-7");
  ApplyResize(kResized, Cpus("5"), node.state);
  EXPECT_EQ(node.state.default_set.ToString(), "0-4,8-15");
  EXPECT_EQ(node.state.reusable.at("p").ToString(), "5-7");
  EXPECT_EQ(BrokenInvariants(node.machine, node.policy, node.state), std::vector<std::string>{});
}

TEST(ApplyResize, AReleasedContainerHasNoOriginalCpus) {
  ResizedNode node("5", "4-7");
  node.state.default_set -= Cpus("8-9");
  node.state.assignments["p"]["other"] = Cpus("8");
  ApplyResize({"p", "other"}, Cpus("8-9"), node.state);
  ReleaseContainer({"p", "other"}, node.state);
  EXPECT_EQ(node.state.originals.at("p").size(), 1U);
  EXPECT_EQ(BrokenInvariants(node.machine, node.policy, node.state), std::vector<std::string>{});
  ReleaseContainer(kResized, node.state);
  EXPECT_EQ(node.state, InitialState(node.machine, node.policy));

  ResizedNode again("5", "4-7");
  ReleasePod("p", again.state);
  EXPECT_EQ(again.state, InitialState(again.machine, again.policy));
}

// "{0}! {0,1}": the masks in order, preferred ones marked.
std::string ResizeHintText(const Machine& machine, const PolicyOptions& options, const char* held,
                           const char* addable, int added) {
  const StaticPolicy policy{.options = options, .reserved = {}};
  std::string text;
  for (const auto& hint :
       ResizeHints(machine, policy, Cpus(held), Cpus(addable), added).at("cpu")->All()) {
    text += (text.empty() ? "" : " ") + hint.affinity->ToString() + (hint.preferred ? "!" : "");
  }
  return text;
}

TEST(ResizeHints, HaveAllNodesOfTheContainer) {
  const Machine machine = MakeMachine(kResizeFourNodes);
  EXPECT_EQ(ResizeHintText(machine, {}, "4", "5-7,8-9", 1),
            "{1}! {0,1} {1,2} {1,3} {0,1,2} {0,1,3} {1,2,3} {0,1,2,3}");
  EXPECT_EQ(ResizeHintText(machine, {}, "4-6", "8-9", 1), "{1,2} {0,1,2} {1,2,3} {0,1,2,3}");
  EXPECT_EQ(ResizeHintText(machine, {}, "4-6", "8-9", 2), "{1,2}! {0,1,2} {1,2,3} {0,1,2,3}");
  EXPECT_EQ(ResizeHintText(machine, {}, "4,8", "5-6,9-12", 4), "{1,2}! {0,1,2} {1,2,3} {0,1,2,3}");
  EXPECT_EQ(ResizeHintText(machine, {}, "4", "5", 2), "");
  // Both nodes of a socket are as good as one.
  EXPECT_EQ(ResizeHintText(machine, {.align_by_socket = true}, "4-6", "0-1,8-9", 1),
            "{0,1}! {1,2} {0,1,2} {0,1,3} {1,2,3} {0,1,2,3}");
}

TEST(Addable, IsFreeAndNotReserved) {
  const Machine machine = MakeMachine(kResizeThreads);
  CpuState state;
  state.default_set = Cpus("0-1,3,5-8,12-15");
  EXPECT_EQ(Addable(machine, {.options = {}, .reserved = Cpus("0")}, state, Cpus("2")).ToString(),
            "1,3,5-8,12-15");
  EXPECT_EQ(Addable(machine, {.options = kWholeCores, .reserved = Cpus("0")}, state, Cpus("2"))
                .ToString(),
            "3,6-7,12-15");
}

}  // namespace
}  // namespace alignd::cpumanager
