#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/cpumanager/cpu_packing.h"
#include "core/machine_builder.h"
#include "core/packing_oracle.h"
#include "core/random_machine.h"

namespace alignd::cpumanager {
namespace {

// Every combination of options that affects packing and that a kubelet starts with.
const std::vector<PolicyOptions>& PackingOptions() {
  static const std::vector<PolicyOptions> options{
      {},
      {.prefer_align_cpus_by_uncorecache = true},
      {.distribute_cpus_across_cores = true},
      {.distribute_cpus_across_numa = true},
      {.full_pcpus_only = true, .distribute_cpus_across_numa = true},
  };
  return options;
}

std::string Describe(const PolicyOptions& options) {
  return std::string(options.full_pcpus_only ? " full-pcpus-only" : "") +
         (options.distribute_cpus_across_numa ? " across-numa" : "") +
         (options.distribute_cpus_across_cores ? " across-cores" : "") +
         (options.prefer_align_cpus_by_uncorecache ? " uncorecache" : "");
}

void ExpectAsOracle(const Machine& machine, const PolicyOptions& options, const CpuSet& free,
                    int count) {
  const Result<CpuSet> taken = TakeCpus(machine, options, free, count);
  const std::vector<int> cpus = free.ToVector();
  const std::optional<std::set<int>> expected =
      PackingOracle(machine, options).Take({cpus.begin(), cpus.end()}, count);
  const auto where = [&] {
    return Describe(machine) + Describe(options) + " free " + free.ToString() + " count " +
           std::to_string(count);
  };
  ASSERT_EQ(taken.ok(), expected.has_value()) << where();
  if (!expected) return;
  CpuSet expected_cpus;
  for (const int cpu : *expected) expected_cpus.Add(cpu);
  ASSERT_EQ(taken->ToString(), expected_cpus.ToString()) << where();
  ASSERT_EQ(taken->Count(), count) << where();
  ASSERT_TRUE(free.Contains(*taken)) << where();
}

TEST(CpuPackingProperty, AgreesWithTheOracleOnRandomMachines) {
  Random random;
  const int rounds = Iterations(500);
  for (int round = 0; round < rounds; ++round) {
    const Machine machine = RandomMachine(random);
    const CpuSet free = random.SomeOf(machine.cpus());
    for (const PolicyOptions& options : PackingOptions()) {
      ASSERT_NO_FATAL_FAILURE(
          ExpectAsOracle(machine, options, free, random.Number(0, free.Count() + 1)));
    }
  }
}

// Tiny machines, exhaustively: every set of free CPUs, every count, every combination of options.
TEST(CpuPackingProperty, AgreesWithTheOracleOnAllStatesOfTinyMachines) {
  const std::vector<Machine> machines{
      MakeMachine("core:3 thread:2"),
      MakeMachine("socket:2 numa:1 core:2 thread:2"),
      MakeMachine("socket:1 numa:2 core:2 thread:2 smt=interleaved"),
      MakeMachine("socket:2 numa:2 core:2"),
      MakeMachine("numa:1 socket:2 core:2 thread:2"),
      MakeMachine("socket:1 numa:1 uncore:2 core:2 thread:2"),
      MakeMachine("socket:1 numa:4 core:1 thread:2"),
      WithoutCpus(MakeMachine("socket:2 numa:1 core:2 thread:2"), Cpus("3")),
      WithoutCpus(MakeMachine("socket:2 numa:1 core:2 thread:2"), Cpus("0,4,5")),
  };
  for (const Machine& machine : machines) {
    const std::vector<int> cpus = machine.cpus().ToVector();
    for (unsigned bits = 0; bits < 1U << cpus.size(); ++bits) {
      CpuSet free;
      for (size_t i = 0; i < cpus.size(); ++i) {
        if ((bits >> i & 1U) != 0) free.Add(cpus[i]);
      }
      for (const PolicyOptions& options : PackingOptions()) {
        for (int count = 0; count <= free.Count() + 1; ++count) {
          ASSERT_NO_FATAL_FAILURE(ExpectAsOracle(machine, options, free, count));
        }
      }
    }
  }
}

}  // namespace
}  // namespace alignd::cpumanager
