// Containers that share CPUs because their pod asks for it, against a definition: they are decided
// about as containers that request part of a CPU less, which never get exclusive CPUs.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "alignd/admission/admission.h"
#include "alignd/admission/own_policy.h"
#include "core/crowded_node.h"
#include "core/machine_builder.h"
#include "core/random_planned.h"

namespace alignd::admission {
namespace {

TEST(OwnSharingProperty, IsAsWithPartOfACpuLess) {
  Random random;
  int shared = 0;
  for (int run = 0; run < Iterations(600); ++run) {
    const Machine machine = WithRandomMemory(RandomMachine(random), random);
    KubeletConfig config = RandomConfig(random);
    config.pod_policies = {PodPolicy::kPreferSharedCpus, PodPolicy::kQosClass};
    const Result<Node> node = Node::Make(machine, config);
    if (!node.ok()) continue;
    Pod pod = RandomPod("p", machine, 3, random);
    Pod less = pod;
    const bool by_label = random.OnceIn(4);
    if (by_label) ReadSharingLabel(kQosClassLabel, "LS", pod.policies.sharing);
    for (size_t i = 0; i < pod.containers.size(); ++i) {
      const bool asks = random.OnceIn(2);
      if (!asks && !by_label) continue;
      const std::string annotation =
          "prefer-shared-cpus.resource-policy.nri.io/container." + pod.containers[i].name;
      if (asks) ReadSharingAnnotation(annotation, "true", pod.policies.sharing);
      Resources& resources = less.containers[i].resources;
      for (ResourceList* const list : {&resources.requests, &resources.limits}) {
        const auto cpu = list->find("cpu");
        if (cpu == list->end() || cpu->second.IsZero()) continue;
        cpu->second = Quantity::Parse(std::to_string(cpu->second.MilliValue() - 1) + "m").value();
        ++shared;
      }
    }
    const NodeState state = NodeState::Initial(*node);
    const Admission asked = Admit(*node, state, pod, devicemanager::NoPreference);
    const Admission defined = Admit(*node, state, less, devicemanager::NoPreference);
    EXPECT_EQ(asked.admitted(), defined.admitted());
    EXPECT_EQ(asked.assignments, defined.assignments);
    EXPECT_EQ(asked.decisions, defined.decisions);
    if (asked.admitted()) {
      EXPECT_TRUE(asked.next.BrokenInvariants(*node).empty());
    }
  }
  EXPECT_GT(shared, 100);
}

}  // namespace
}  // namespace alignd::admission
