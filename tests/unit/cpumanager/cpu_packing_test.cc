#include "alignd/cpumanager/cpu_packing.h"

#include <gtest/gtest.h>

#include "core/machine_builder.h"

namespace alignd::cpumanager {
namespace {

constexpr PolicyOptions kPacked{};
constexpr PolicyOptions kUncore{.prefer_align_cpus_by_uncorecache = true};
constexpr PolicyOptions kSpread{.distribute_cpus_across_cores = true};
constexpr PolicyOptions kNuma{.distribute_cpus_across_numa = true};
constexpr PolicyOptions kNumaCores{.full_pcpus_only = true, .distribute_cpus_across_numa = true};

constexpr const char* kTwoSockets = "socket:2 numa:1 core:4 thread:2";  // CPUs 0-7 and 8-15
constexpr const char* kInterleaved = "socket:2 numa:1 core:4 thread:2 smt=interleaved";
constexpr const char* kSubNuma = "socket:2 numa:2 core:2 thread:2";  // four NUMA nodes of 4 CPUs
constexpr const char* kCaches = "socket:1 numa:1 uncore:3 core:4 thread:2";  // 8 CPUs per cache
constexpr const char* kFourNodes = "socket:4 numa:1 core:4";

struct PackingCase {
  const char* name;
  const char* machine;
  const char* offline;
  PolicyOptions options;
  const char* taken_before;
  int count;
  const char* expected;
};

class CpuPacking : public testing::TestWithParam<PackingCase> {};

TEST_P(CpuPacking, Takes) {
  const PackingCase& c = GetParam();
  const Machine machine = WithoutCpus(MakeMachine(c.machine), Cpus(c.offline));
  const CpuSet free = machine.cpus() - Cpus(c.taken_before);
  const Result<CpuSet> cpus = TakeCpus(machine, c.options, free, c.count);
  ASSERT_TRUE(cpus.ok()) << cpus.error().message;
  EXPECT_EQ(cpus->ToString(), c.expected);
}

std::string NameOf(const testing::TestParamInfo<PackingCase>& test) { return test.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Packed, CpuPacking,
    testing::Values(
        PackingCase{"Nothing", kTwoSockets, "", kPacked, "", 0, ""},
        PackingCase{"WholeSocketBeforeSplittingTwo", kTwoSockets, "", kPacked, "", 8, "0-7"},
        PackingCase{"FreeSocketRatherThanUsedOne", kTwoSockets, "", kPacked, "0", 8, "8-15"},
        PackingCase{"WholeCores", kInterleaved, "", kPacked, "", 4, "0-1,8-9"},
        PackingCase{"FullerSocketFirst", kTwoSockets, "", kPacked, "8", 2, "10-11"},
        PackingCase{"FullerCoreForASingleCpu", kTwoSockets, "", kPacked, "5", 1, "4"},
        PackingCase{"OddCountEndsOnAUsedCore", kTwoSockets, "", kPacked, "5", 3, "0-1,4"},
        PackingCase{"FreeNumaNodeInASocket", kSubNuma, "", kPacked, "0", 4, "4-7"},
        PackingCase{"SocketBeforeNumaNodes", kSubNuma, "", kPacked, "4", 8, "8-15"},
        PackingCase{"NumaNodeOverSockets", "numa:2 socket:2 core:2", "", kPacked, "0", 4, "4-7"},
        PackingCase{"AllThereIs", kTwoSockets, "", kPacked, "0,9", 14, "1-8,10-15"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    UncoreCaches, CpuPacking,
    testing::Values(
        PackingCase{"WholeFreeCache", kCaches, "", kUncore, "0", 8, "8-15"},
        PackingCase{"PartOfTheFullestThatFits", kCaches, "", kUncore, "8-9", 4, "10-13"},
        PackingCase{"NotAcrossCaches", kCaches, "", kUncore, "0-3", 6, "8-13"},
        PackingCase{"UsedCoreSpoilsTheCache", kCaches, "", kUncore, "0", 4, "8-11"},
        PackingCase{"OddCountLeavesOneThread", kCaches, "", kUncore, "", 3, "0-2"},
        PackingCase{"WholeCacheAndPartOfAnother", kCaches, "", kUncore, "0-3", 12, "4-15"},
        PackingCase{"PacksWhatFitsNowhere", kCaches, "", kUncore, "0-3,8-11,16-19", 6,
                    "4-7,12-13"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    AcrossCores, CpuPacking,
    testing::Values(PackingCase{"OneThreadPerCore", kInterleaved, "", kSpread, "", 4, "0-3"},
                    PackingCase{"SecondThreadsLast", kInterleaved, "", kSpread, "", 6, "0-3,8-9"},
                    PackingCase{"WholeSocketAllTheSame", kInterleaved, "", kSpread, "", 8,
                                "0-3,8-11"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    AcrossNuma, CpuPacking,
    testing::Values(
        PackingCase{"OneNodeIfItFitsTheEmptier", kFourNodes, "", kNuma, "0", 3, "4-6"},
        PackingCase{"EvenlyOverTwo", kFourNodes, "", kNuma, "", 6, "0-2,4-6"},
        PackingCase{"BalanceDecides", kFourNodes, "", kNuma, "0,4", 6, "8-10,12-14"},
        PackingCase{"RemainderFromTheEmptier", kFourNodes, "", kNuma, "0-2,4-5,12-15", 5, "6-10"},
        PackingCase{"NotInGroupsIsPacked", "socket:2 numa:1 core:2 thread:2", "", kNumaCores, "", 5,
                    "0-4"},
        PackingCase{"WholeCores", "socket:2 numa:1 core:2 thread:2", "", kNumaCores, "", 6, "0-5"}),
    NameOf);

// Faults of the kubelet that alignd does not have.
INSTANTIATE_TEST_SUITE_P(
    Differs, CpuPacking,
    testing::Values(
        // Seven CPUs on four cores: 1 per core on average, so the kubelet takes core 0 with CPU 0.
        PackingCase{"UsedThreadOfAnUnevenCore", "core:4 thread:2 smt=interleaved", "7", kPacked,
                    "0", 2, "3-4"},
        // Three and one free CPUs: the average socket has 3, so socket 0 looks free without CPU 0.
        PackingCase{"UsedCpuOfAnUnevenSocket", "socket:2 numa:1 core:4", "6-7", kPacked, "0", 3,
                    "1,4-5"},
        // The kubelet chooses these nodes, loses the last one, and uses node 5.
        PackingCase{"ChosenNodesAreUsed", "socket:6 numa:1 core:4", "", kNuma, "0", 16, "4-19"},
        // 3 + 3 free CPUs on two nodes are two whole groups, not three: the kubelet hangs.
        PackingCase{"NoWholeGroupLeft", "socket:2 numa:1 core:2 thread:2", "", kNumaCores, "0,4", 6,
                    "1-3,5-7"}),
    NameOf);

TEST(CpuPackingErrors, NameTheNumberOfFreeCpus) {
  const Machine machine = MakeMachine(kTwoSockets);
  for (const PolicyOptions& options : {kPacked, kUncore, kSpread, kNuma, kNumaCores}) {
    const Result<CpuSet> cpus = TakeCpus(machine, options, Cpus("0-2"), 4);
    ASSERT_FALSE(cpus.ok());
    EXPECT_EQ(cpus.error().message,
              "not enough cpus available to satisfy request: requested=4, available=3");
  }
}

}  // namespace
}  // namespace alignd::cpumanager
