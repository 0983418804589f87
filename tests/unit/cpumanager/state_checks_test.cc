#include <gtest/gtest.h>

#include "alignd/cpumanager/static_policy.h"
#include "core/machine_builder.h"

namespace alignd::cpumanager {
namespace {

using Entries = decltype(CpuState::assignments);

struct LoadedCase {
  const char* name;
  bool strict;
  const char* default_set;
  Entries entries;
  const char* message;  // empty: valid
};

class LoadedState : public testing::TestWithParam<LoadedCase> {};

TEST_P(LoadedState, IsCheckedAsTheKubeletDoes) {
  const Machine machine = MakeMachine("core:4 thread:2");
  const StaticPolicy policy{.options = {.strict_cpu_reservation = GetParam().strict},
                            .reserved = Cpus("0-1")};
  const CpuState state{.default_set = Cpus(GetParam().default_set),
                       .assignments = GetParam().entries,
                       .reusable = {}};
  const Result<Done> checked = ValidateLoaded(machine, policy, state);
  EXPECT_EQ(checked.ok() ? "" : checked.error().message, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, LoadedState,
    testing::Values(
        LoadedCase{"Fresh", false, "", {}, ""}, LoadedCase{"Idle", false, "0-7", {}, ""},
        LoadedCase{"SharedWithinThePod",
                   false,
                   "0-3,6-7",
                   {{"p", {{"app", CpuSet{4}}, {"init", CpuSet{4, 5}}}}},
                   ""},
        LoadedCase{"NoDefaultSet",
                   false,
                   "",
                   {{"p", {{"c", CpuSet::Range(0, 7)}}}},
                   "default cpuset cannot be empty"},
        // Differs: the kubelet cannot start on a fully used node.
        LoadedCase{"StrictInFullUse", true, "", {{"p", {{"c", CpuSet::Range(2, 7)}}}}, ""},
        LoadedCase{"StrictInAlmostFullUse",
                   true,
                   "",
                   {{"p", {{"c", CpuSet::Range(2, 6)}}}},
                   "default cpuset cannot be empty"},
        LoadedCase{"StrictReservedShared",
                   true,
                   "1-7",
                   {},
                   "some of strictly reserved cpus: \"1\" are present in defaultCpuSet: \"1-7\""},
        LoadedCase{"ReservedMissing",
                   false,
                   "1-7",
                   {},
                   "not all reserved cpus: \"0-1\" are present in defaultCpuSet: \"1-7\""},
        LoadedCase{"Overlap",
                   false,
                   "0-4",
                   {{"p", {{"c", CpuSet::Range(4, 7)}}}},
                   "pod: p, container: c cpuset: \"4-7\" overlaps with default cpuset \"0-4\""},
        LoadedCase{"CpuVanished",
                   false,
                   "0-8",
                   {},
                   "current set of available CPUs \"0-7\" doesn't match with CPUs in state "
                   "\"0-8\""},
        LoadedCase{"StrictCpuMissing",
                   true,
                   "2-6",
                   {},
                   "current set of available CPUs \"2-7\" doesn't match with CPUs in state "
                   "\"2-6\""},
        // Differs: the kubelet does not check this.
        LoadedCase{"TwoPods",
                   false,
                   "0-5",
                   {{"p", {{"c", CpuSet{6, 7}}}}, {"q", {{"c", CpuSet{7}}}}},
                   "cpus \"7\" are assigned to more than one pod"},
        LoadedCase{"EmptyEntry",
                   false,
                   "0-7",
                   {{"p", {{"c", CpuSet{}}}}},
                   "pod: p, container: c cpuset is empty"}),
    [](const auto& test) { return test.param.name; });

struct BrokenCase {
  const char* name;
  const char* default_set;
  Entries entries;
  std::map<std::string, CpuSet> reusable;
  std::vector<std::string> broken;
};

class BrokenState : public testing::TestWithParam<BrokenCase> {};

TEST_P(BrokenState, IsSeen) {
  const Machine machine = MakeMachine("core:4 thread:2");
  const StaticPolicy policy{.options = {}, .reserved = Cpus("0")};
  const CpuState state{.default_set = Cpus(GetParam().default_set),
                       .assignments = GetParam().entries,
                       .reusable = GetParam().reusable};
  EXPECT_EQ(BrokenInvariants(machine, policy, state), GetParam().broken);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BrokenState,
    testing::Values(BrokenCase{"Sound", "0-6", {{"p", {{"c", CpuSet{7}}}}}, {{"p", CpuSet{7}}}, {}},
                    BrokenCase{"Both",
                               "0-7",
                               {{"p", {{"c", CpuSet{7}}}}},
                               {},
                               {"CPUs 7 are assigned and in the default set"}},
                    BrokenCase{"TwoPods",
                               "0-6",
                               {{"p", {{"c", CpuSet{7}}}}, {"q", {{"c", CpuSet{7}}}}},
                               {},
                               {"CPUs 7 are assigned to more than one pod"}},
                    BrokenCase{"Reserved",
                               "1-7",
                               {{"p", {{"c", CpuSet{0}}}}},
                               {},
                               {"CPUs 0 are assigned although they are reserved"}},
                    BrokenCase{"Lost", "0-6", {}, {}, {"CPUs 7 are lost"}},
                    BrokenCase{"Foreign", "0-8", {}, {}, {"CPUs 8 are not managed"}},
                    BrokenCase{"Empty",
                               "0-7",
                               {{"p", {}}, {"q", {{"c", CpuSet{}}}}},
                               {},
                               {"pod p has no container", "pod q: c has no CPU"}},
                    BrokenCase{"ReusableOfNoContainer",
                               "0-7",
                               {},
                               {{"p", CpuSet{3}}},
                               {"CPUs 3 are reusable by pod p without being its own"}}),
    [](const auto& test) { return test.param.name; });

TEST(BrokenState, OriginalCpusArePartsOfAnAssignment) {
  const Machine machine = MakeMachine("core:4 thread:2");
  const StaticPolicy policy{.options = {}, .reserved = Cpus("0")};
  CpuState state = InitialState(machine, policy);
  state.default_set = Cpus("0-3");
  state.assignments["p"]["c"] = Cpus("4-7");
  state.originals["p"]["c"] = Cpus("4-7");
  EXPECT_EQ(BrokenInvariants(machine, policy, state), std::vector<std::string>{});
  state.originals["p"]["c"] = Cpus("3-4");
  state.originals["p"]["d"] = Cpus("4");
  state.originals["p"]["e"] = Cpus("");  // it was resized to shared CPUs
  state.originals["q"];
  EXPECT_EQ(BrokenInvariants(machine, policy, state),
            (std::vector<std::string>{"pod p: c lost its original CPUs 3",
                                      "pod p: d has original CPUs and no assignment",
                                      "pod q has no original CPUs"}));
}

}  // namespace
}  // namespace alignd::cpumanager
