// What `simulate --explain` prints about the choice of NUMA nodes.
#include <gtest/gtest.h>

#include <sstream>

#include "cli/pod_plan.h"
#include "cli/program.h"
#include "core/machine_builder.h"
#include "edge/allocation_node.h"

namespace alignd::cli {
namespace {

using testing::AppPod;

TEST(SimulateExplain, PrintsHowTheNumaNodesOfEachPodWereChosen) {
  const scenario::NodeDescription node{
      WithNumaIds(MakeMachine("socket:2 numa:1 core:4"), {0, 8}), {}, {}};
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.topology_manager_policy = TopologyManagerPolicy::kRestricted;
  std::ostringstream out;
  const Result<int> status =
      PlanPods(node, config, {AppPod("small", 2), AppPod("large", 4), AppPod("late", 2)},
               /*explain=*/true, "text", out);
  ASSERT_TRUE(status.ok()) << status.error().Text();
  EXPECT_EQ(*status, kFailure);
  EXPECT_EQ(
      out.str(),
      "pod default/small (Guaranteed): fits\n"
      "  app: CPUs 1-2 (NUMA node 0)\n"
      "    app:\n"
      "      cpu: {0}! {8}! {0,8}\n"
      "      merged: {0}!\n"
      "        {0}!: best\n"
      "        {8}!: as good, but {0} is lower\n"
      "        {0,8}: not preferred: not all hints with this intersection are preferred\n"
      "pod default/large (Guaranteed): fits\n"
      "  app: CPUs 4-7 (NUMA node 8)\n"
      "    app:\n"
      "      cpu: {8}! {0,8}\n"
      "      merged: {8}!\n"
      "        {8}!: best\n"
      "        {0,8}: not preferred: not all hints with this intersection are preferred\n"
      "pod default/late (Guaranteed): does not fit\n"
      "  TopologyAffinityError: Resources cannot be allocated with Topology locality. "
      "Cause: 2 exclusive CPUs are requested, and the node has 1 free of 7; the alignment is not "
      "the cause. Requested: app: 2 exclusive CPUs. Free: NUMA node 0: 1 of 4 CPUs (3); NUMA node "
      "8: 0 of "
      "4 CPUs. "
      "What would help: it fits when other pods end and release their resources\n"
      "    app:\n"
      "      cpu: fits nowhere\n"
      "      merged: {0,8}\n"
      "        {0,8}: best\n"
      "{..}: NUMA nodes; !: preferred\n"
      "free:\n"
      "  NUMA node 0: 1 of 4 CPUs (3)\n"
      "  NUMA node 8: 0 of 4 CPUs\n");
}

}  // namespace
}  // namespace alignd::cli
