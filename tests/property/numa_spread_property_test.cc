// The search keeps only the best continuations; the kubelet tries every set of nodes, and every set
// of nodes for the remainder. Both must find the same distribution.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "core/cpumanager/numa_spread.h"
#include "core/numa_spread_oracle.h"
#include "core/random_machine.h"

namespace alignd::cpumanager {
namespace {

std::string Describe(const std::vector<int>& free_cpus, const SpreadRequest& request) {
  std::string text;
  for (const int cpus : free_cpus) text += std::to_string(cpus) + " ";
  return text + "free, " + std::to_string(request.count) + " in groups of " +
         std::to_string(request.group) + ", " + std::to_string(request.fewest_nodes) + " to " +
         std::to_string(request.most_nodes) + " nodes";
}

std::string Describe(const std::optional<NumaSpread>& spread) {
  if (!spread) return "none";
  std::string text = std::to_string(spread->even_share) + " each of";
  for (const size_t node : spread->nodes) text += " " + std::to_string(node);
  text += ", turns of";
  for (const size_t node : spread->turns) text += " " + std::to_string(node);
  return text;
}

void ExpectAsOracle(const std::vector<int>& free_cpus, const SpreadRequest& request) {
  const auto spread = FindNumaSpread(free_cpus, request);
  const auto expected = FindNumaSpreadByTryingAll(free_cpus, request);
  ASSERT_EQ(Describe(spread), Describe(expected)) << Describe(free_cpus, request);
}

// Free CPUs of equal nodes, of nodes of two kinds, or of any nodes.
std::vector<int> RandomFreeCpus(Random& random) {
  const int most = random.OneOf(std::vector<int>{1, 3, 8, 20, 64});
  const int usual = random.Number(0, most);
  const int other = random.Number(0, most);
  const int kind = random.Number(0, 2);
  std::vector<int> free_cpus;
  for (int node = random.Number(1, 8); node > 0; --node) {
    int cpus = random.Number(0, most);
    if (kind == 0 && !random.OnceIn(4)) cpus = usual;
    if (kind == 1) cpus = random.OnceIn(2) ? usual : other;
    free_cpus.push_back(cpus);
  }
  return free_cpus;
}

TEST(NumaSpreadProperty, AgreesWithTryingAllSets) {
  Random random;
  const int rounds = Iterations(20'000);
  for (int round = 0; round < rounds; ++round) {
    const std::vector<int> free_cpus = RandomFreeCpus(random);
    const int group = random.OneOf(std::vector<int>{1, 2, 4});
    const int all = std::accumulate(free_cpus.begin(), free_cpus.end(), 0) / group;
    if (all == 0) continue;
    const int nodes = static_cast<int>(free_cpus.size());
    const int fewest = random.OnceIn(2) ? 1 : random.Number(1, nodes);
    const SpreadRequest request{.count = random.Number(1, all) * group,
                                .group = group,
                                .fewest_nodes = fewest,
                                .most_nodes = random.Number(fewest, nodes)};
    ASSERT_NO_FATAL_FAILURE(ExpectAsOracle(free_cpus, request));
  }
}

// Every node has 0 to 4 CPUs, in every order: every tie of three and four nodes.
TEST(NumaSpreadProperty, AgreesWithTryingAllSetsOnSmallNodesCompletely) {
  for (const int nodes : {3, 4}) {
    for (int code = 1, codes = nodes == 3 ? 125 : 625; code < codes; ++code) {
      std::vector<int> free_cpus;
      for (int digits = code; static_cast<int>(free_cpus.size()) < nodes; digits /= 5) {
        free_cpus.push_back(digits % 5);
      }
      const int all = std::accumulate(free_cpus.begin(), free_cpus.end(), 0);
      for (const int group : {1, 2}) {
        for (int count = group; count <= all; count += group) {
          for (int fewest = 1; fewest <= nodes; ++fewest) {
            ASSERT_NO_FATAL_FAILURE(ExpectAsOracle(
                free_cpus,
                {.count = count, .group = group, .fewest_nodes = fewest, .most_nodes = nodes}));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace alignd::cpumanager
