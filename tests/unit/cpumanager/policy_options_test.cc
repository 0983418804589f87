#include "alignd/cpumanager/policy_options.h"

#include <gtest/gtest.h>

#include "core/machine_builder.h"

namespace alignd::cpumanager {
namespace {

using Written = std::map<std::string, std::string>;

struct RefusedCase {
  const char* name;
  Written options;
  TopologyManagerPolicy topology;
  const char* machine;
  const char* message;
};

class RefusedOptions : public testing::TestWithParam<RefusedCase> {};

TEST_P(RefusedOptions, HaveTheErrorOfTheKubelet) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.cpu_manager_policy_options = GetParam().options;
  config.topology_manager_policy = GetParam().topology;
  const Result<PolicyOptions> options = ParsePolicyOptions(config, MakeMachine(GetParam().machine));
  ASSERT_FALSE(options.ok());
  EXPECT_EQ(options.error().message, "new static policy error: " + std::string(GetParam().message));
}

constexpr auto kAnyTopology = TopologyManagerPolicy::kNone;
constexpr const char* kPlain = "socket:2 numa:1 core:2";

INSTANTIATE_TEST_SUITE_P(
    Cases, RefusedOptions,
    testing::Values(
        RefusedCase{"Unknown",
                    {{"pin-it", "true"}},
                    kAnyTopology,
                    kPlain,
                    "unknown CPU Manager Policy option: \"pin-it\""},
        RefusedCase{"NotABoolean",
                    {{"full-pcpus-only", "yes"}},
                    kAnyTopology,
                    kPlain,
                    "bad value for option \"full-pcpus-only\": strconv.ParseBool: parsing \"yes\": "
                    "invalid syntax"},
        RefusedCase{"CoresWholeAndSpread",
                    {{"full-pcpus-only", "true"}, {"distribute-cpus-across-cores", "1"}},
                    kAnyTopology,
                    kPlain,
                    "static policy options full-pcpus-only and distribute-cpus-across-cores can "
                    "not be used at the same time"},
        RefusedCase{"NumaAndCores",
                    {{"distribute-cpus-across-numa", "true"},
                     {"distribute-cpus-across-cores", "true"},
                     {"prefer-align-cpus-by-uncorecache", "true"}},
                    kAnyTopology,
                    kPlain,
                    "static policy options distribute-cpus-across-numa and "
                    "distribute-cpus-across-cores can not be used at the same time"},
        RefusedCase{"UncoreAndCores",
                    {{"distribute-cpus-across-cores", "true"},
                     {"prefer-align-cpus-by-uncorecache", "true"}},
                    kAnyTopology,
                    kPlain,
                    "static policy options prefer-align-cpus-by-uncorecache and "
                    "distribute-cpus-across-cores can not be used at the same time"},
        RefusedCase{
            "UncoreAndNuma",
            {{"distribute-cpus-across-numa", "true"}, {"prefer-align-cpus-by-uncorecache", "true"}},
            kAnyTopology,
            kPlain,
            "static policy options prefer-align-cpus-by-uncorecache and "
            "distribute-cpus-across-numa can not be used at the same time"},
        RefusedCase{"SocketWithSingleNumaNode",
                    {{"align-by-socket", "true"}},
                    TopologyManagerPolicy::kSingleNumaNode,
                    kPlain,
                    "Topolgy manager single-numa-node policy is incompatible with CPUManager "
                    "align-by-socket policy option"},
        RefusedCase{"SocketWithLargerNumaNodes",
                    {{"align-by-socket", "true"}},
                    kAnyTopology,
                    "numa:1 socket:2 core:2",
                    "Align by socket is not compatible with hardware where number of sockets are "
                    "more than number of NUMA"}),
    [](const auto& test) { return test.param.name; });

TEST(PolicyOptions, AreOffUnlessSwitchedOn) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.cpu_manager_policy_options = {{"full-pcpus-only", "T"},
                                       {"strict-cpu-reservation", "1"},
                                       {"distribute-cpus-across-cores", "False"},
                                       {"distribute-cpus-across-numa", "true"},
                                       {"align-by-socket", "TRUE"}};
  const Result<PolicyOptions> options = ParsePolicyOptions(config, MakeMachine(kPlain));
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(*options, (PolicyOptions{.full_pcpus_only = true,
                                     .distribute_cpus_across_numa = true,
                                     .align_by_socket = true,
                                     .strict_cpu_reservation = true}));
}

TEST(PolicyOptions, ThereAreNoneWithPolicyNone) {
  KubeletConfig config;
  EXPECT_TRUE(ParsePolicyOptions(config, MakeMachine(kPlain)).ok());
  config.cpu_manager_policy_options = {{"full-pcpus-only", "true"}, {"align-by-socket", "true"}};
  const Result<PolicyOptions> options = ParsePolicyOptions(config, MakeMachine(kPlain));
  ASSERT_FALSE(options.ok());
  EXPECT_EQ(options.error().message,
            "new none policy error: None policy: received unsupported "
            "options=map[align-by-socket:true full-pcpus-only:true]");
}

}  // namespace
}  // namespace alignd::cpumanager
