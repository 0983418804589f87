// Random pods with claimed devices on random machines: they are admitted exactly if the definition
// says so, and run beside their devices.
#include <gtest/gtest.h>

#include <string>

#include "alignd/admission/admission.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"
#include "core/random_machine.h"

namespace alignd::admission {
namespace {

// One exclusive container alone, on a node of which some CPUs are in use. By the definition of
// single-numa-node, it is admitted if one NUMA node has all its devices and enough free CPUs.
TEST(ClaimedProperty, SingleNumaNodeAdmitsWhatFitsOnTheNodeOfTheDevices) {
  Random random;
  int admitted = 0;
  int refused = 0;
  for (int i = 0; i < Iterations(3000); ++i) {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
    const Machine machine = MakeMachine("socket:" + std::to_string(random.Number(1, 3)) +
                                        " numa:" + std::to_string(random.Number(1, 2)) + " core:" +
                                        std::to_string(random.Number(1, 4)) + " thread:2");
    config.reserved_system_cpus = std::to_string(machine.cpus().First());
    Result<Node> node = Node::Make(machine, config);
    ASSERT_TRUE(node.ok()) << node.error().Text();
    NodeState state = NodeState::Initial(*node);
    const CpuSet used = random.SomeOf(state.cpu.default_set - node->cpu->reserved);
    if (!used.empty()) {
      state.cpu.default_set -= used;
      state.cpu.assignments[std::string("other")]["app"] = used;
    }
    const int count = random.Number(1, machine.cpus().Count());
    Container container = App("app", {{"cpu", std::to_string(count)}, {"memory", "64Mi"}});
    NumaMask claimed;
    for (int device = random.Number(0, 2); device >= 0; --device) {
      const int position = random.Number(0, machine.numa_count() - 1);
      if (random.OnceIn(3)) {
        container.claimed_devices.push_back({"v.com/" + std::to_string(device), {}});
        continue;
      }
      claimed.Add(position);
      container.claimed_devices.push_back(
          {"v.com/" + std::to_string(device), {machine.NumaId(position)}});
    }
    bool fits = false;
    for (int position = 0; position < machine.numa_count(); ++position) {
      const CpuSet free =
          (state.cpu.default_set & machine.CpusInNuma(position)) - node->cpu->reserved;
      fits = fits || (NumaMask::Of(position).Contains(claimed) && free.Count() >= count);
    }
    const Admission admission =
        Admit(*node, state, MakePod("p", {container}), devicemanager::NoPreference);
    ASSERT_EQ(admission.admitted(), fits)
        << machine.cpus().ToString() << " count " << count << " claimed " << claimed.ToString();
    (fits ? admitted : refused) += 1;
    if (!fits || claimed.empty()) continue;
    EXPECT_TRUE(machine.CpusInNuma(claimed).Contains(admission.assignments.at("app").exclusive));
  }
  EXPECT_GT(admitted, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace alignd::admission
