// Containers that share CPUs because their pod asks for it, against a definition: they are decided
// about as containers that request part of a CPU less, which never get exclusive CPUs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
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

// A label for exclusive CPUs changes nothing but which pods are refused: those with containers that
// do not get any.
TEST(OwnSharingProperty, ALabelForExclusiveCpusRefusesPodsWithSharedOnes) {
  Random random;
  int admitted = 0;
  int refused = 0;
  for (int run = 0; run < Iterations(600); ++run) {
    const Machine machine = WithRandomMemory(RandomMachine(random), random);
    KubeletConfig config = RandomConfig(random);
    config.pod_policies = {PodPolicy::kQosClass};
    const Result<Node> node = Node::Make(machine, config);
    if (!node.ok()) continue;
    Pod plain = RandomPod("p", machine, 3, random);
    for (Container& container : plain.containers) {
      if (!random.OnceIn(4)) continue;
      for (ResourceList* const list :
           {&container.resources.requests, &container.resources.limits}) {
        const auto cpu = list->find("cpu");
        if (cpu == list->end() || cpu->second.IsZero()) continue;
        cpu->second = Quantity::Parse(std::to_string(cpu->second.MilliValue() - 500) + "m").value();
      }
    }
    Pod labelled = plain;
    ReadSharingLabel(kQosClassLabel, random.OnceIn(2) ? "LSE" : "LSR", labelled.policies.sharing);
    const NodeState state = NodeState::Initial(*node);
    const Admission without = Admit(*node, state, plain, devicemanager::NoPreference);
    const Admission with = Admit(*node, state, labelled, devicemanager::NoPreference);
    if (!without.admitted()) {
      EXPECT_FALSE(with.admitted());
      continue;
    }
    const auto cpus_of = [&without](const Container& container) -> int64_t {
      const Assignment& assignment = without.assignments.at(container.name);
      return assignment.shares_pod_cpus ? assignment.cpuset.Count() : assignment.exclusive.Count();
    };
    int64_t running = 0;  // with the containers that do not end
    for (const Container& container : plain.containers) {
      if (container.kind != ContainerKind::kInit) running += cpus_of(container);
    }
    const bool has_shared = std::ranges::any_of(plain.containers, [&](const Container& container) {
      if (cpus_of(container) > 0) return false;
      const Quantity* const cpu = Find(container.resources.requests, "cpu");
      const bool ends_before =
          container.kind == ContainerKind::kInit && (cpu == nullptr || *cpu <= Quantity(running));
      return !ends_before;
    });
    EXPECT_EQ(with.admitted(), !has_shared);
    if (with.admitted()) {
      EXPECT_EQ(with.assignments, without.assignments);
    }
    ++(with.admitted() ? admitted : refused);
  }
  EXPECT_GT(admitted, 20);
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace alignd::admission
