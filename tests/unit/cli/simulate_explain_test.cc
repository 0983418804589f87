// What `simulate --explain` prints about the choice of NUMA nodes.
#include <gtest/gtest.h>

#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "cli/pod_plan.h"
#include "cli/program.h"
#include "core/machine_builder.h"
#include "edge/allocation_node.h"

namespace alignd::cli {
namespace {

using testing::AppPod;

TEST(SimulateExplain, PrintsHowTheNumaNodesOfEachPodWereChosen) {
  placement::NodeInput input{{WithNumaIds(MakeMachine("socket:2 numa:1 core:4"), {0, 8}), {}, {}},
                             std::nullopt,
                             {},
                             {},
                             {}};
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.topology_manager_policy = TopologyManagerPolicy::kRestricted;
  Result<placement::PlannedNode> node =
      placement::PlannedNode::Make(std::move(input), config, /*pod_limit=*/110, {});
  ASSERT_TRUE(node.ok()) << node.error().Text();
  std::vector<placement::PlannedPod> pods(3);
  pods[0].pod = AppPod("small", 2);
  pods[1].pod = AppPod("large", 3);
  pods[2].pod = AppPod("late", 2);
  std::ostringstream out;
  EXPECT_EQ(PlanPods(*node, pods, {}, /*explain=*/true, "text", out), kFailure);
  EXPECT_EQ(out.str(),
            "pod default/small (Guaranteed): fits\n"
            "  app: CPUs 1-2 (NUMA node 0)\n"
            "    app:\n"
            "      cpu: {0}! {8}! {0,8}\n"
            "      merged: {0}!\n"
            "        {0}!: best\n"
            "        {8}!: as good, but {0} is lower\n"
            "        {0,8}: not preferred: not all hints with this intersection are preferred\n"
            "pod default/large (Guaranteed): fits\n"
            "  app: CPUs 4-6 (NUMA node 8)\n"
            "    app:\n"
            "      cpu: {8}! {0,8}\n"
            "      merged: {8}!\n"
            "        {8}!: best\n"
            "        {0,8}: not preferred: not all hints with this intersection are preferred\n"
            "pod default/late (Guaranteed): does not fit, refused by kubelet\n"
            "  TopologyAffinityError: Resources cannot be allocated with Topology locality\n"
            "  requested: app: 2 exclusive CPUs\n"
            "  free:\n"
            "    NUMA node 0: 1 of 4 CPUs (3)\n"
            "    NUMA node 8: 1 of 4 CPUs (7)\n"
            "  what would help:\n"
            "    it fits when other pods end and release their resources\n"
            "    topologyManagerPolicy best-effort would admit it now, without this alignment\n"
            "    app:\n"
            "      cpu: {0,8}\n"
            "      merged: {0,8}\n"
            "        {0,8}: best\n"
            "{..}: NUMA nodes; !: preferred\n"
            "requested of allocatable: cpu 5 of 7, memory 2Gi of 130972Mi, pods 2 of 110\n"
            "free:\n"
            "  NUMA node 0: 1 of 4 CPUs (3)\n"
            "  NUMA node 8: 1 of 4 CPUs (7)\n"
            "2 of 3 pods fit\n");
}

}  // namespace
}  // namespace alignd::cli
