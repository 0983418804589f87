// The reservation of other requests on one NUMA node, beside changes of others.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/pod_level.h"
#include "alignd/admission/resize.h"
#include "alignd/cpumanager/node_shares.h"
#include "allocation/reservation.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"
#include "edge/allocation_node.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;
using admission::NodeState;

struct Request {
  std::string cpu;
  std::string memory;  // empty: none
};

class RenewalTest : public ::testing::Test {
 protected:
  // Two NUMA nodes with four CPUs and 8Gi each, of which CPU 0 and 1Gi are reserved.
  static admission::Node SharingNode() {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.topology_manager_policy = TopologyManagerPolicy::kNone;
    config.pod_policies = {PodPolicy::kSharedNumaNode};
    config.memory_manager_policy = MemoryManagerPolicy::kStatic;
    config.eviction_hard_memory = "";
    config.system_reserved = {{"memory", Amount("1Gi")}};
    config.reserved_memory = {{0, {{"memory", Amount("1Gi")}}}};
    return MakeNode(std::move(config), MakeMachine("socket:2 numa:1 core:4 memory-gib=8"));
  }

  static Container SharedApp(const std::string& name, const Request& request, ContainerKind kind) {
    Container container = MakeContainer(kind, name, {});
    container.resources.requests["cpu"] = Amount(request.cpu);
    if (!request.memory.empty()) container.resources.requests["memory"] = Amount(request.memory);
    return container;
  }

  Pod Sharing(const std::string& uid, const Request& request, const std::string& init = "") const {
    std::vector<Container> containers;
    if (!init.empty()) {
      containers.push_back(SharedApp("init", {"1", init}, ContainerKind::kInit));
    }
    containers.push_back(SharedApp("app", request, ContainerKind::kApp));
    Pod pod = MakePod(uid, std::move(containers));
    pod.policies.shared_on_one_node = true;
    return admission::OnThisNode(node, std::move(pod));
  }

  NodeState Admitted(const Pod& pod, const NodeState& before) const {
    admission::Admission admission =
        admission::Admit(node, before, pod, devicemanager::NoPreference);
    EXPECT_TRUE(admission.admitted()) << admission.refusal->message;
    return std::move(admission.next);
  }

  // What the requests of NUMA node 1 lack there.
  int64_t LackingOn(const NodeState& state) const {
    const int64_t backed =
        cpumanager::BackingOn(node.machine, *node.cpu, state.cpu, 1).Count() * 1000;
    return std::max<int64_t>(0, cpumanager::SharesOn(state.cpu, 1) - backed);
  }

  const admission::Node node = SharingNode();
  const NodeState empty = NodeState::Initial(node);
  const ContainerKey key{"pod", "app"};
};

const std::vector<std::pair<Request, Request>>& Changes() {
  static const std::vector<std::pair<Request, Request>> changes = {
      {{"1", "2Gi"}, {"3", "2Gi"}}, {{"3", "2Gi"}, {"1", "2Gi"}}, {{"1", "2Gi"}, {"1", "5Gi"}},
      {{"1", "5Gi"}, {"1", "2Gi"}}, {{"1", "5Gi"}, {"3", "2Gi"}}, {{"3", "2Gi"}, {"1", "5Gi"}},
      {{"1", "2Gi"}, {"2", ""}},    {{"2", ""}, {"1", "2Gi"}}};
  return changes;
}

TEST_F(RenewalTest, LeadsToTheNewStateOrBackToTheOldOne) {
  for (const char* init : {"", "4Gi", "1Gi"}) {
    for (const auto& [had, asks] : Changes()) {
      const NodeState before = Admitted(Sharing("pod", had, init), empty);
      ASSERT_EQ(before.cpu.shares.at(key).numa_id, 1);
      const Pod pod = Sharing("pod", asks, init);
      const admission::RenewedShare renewed =
          admission::RenewShare(node, before, pod, pod.containers.back(), /*keeps_memory=*/false);
      ASSERT_EQ(renewed.lacks, "");
      const Reservation reservation = RenewalOf(key, before, renewed.next);
      EXPECT_TRUE(reservation.IsInPlace());
      NodeState reserved = before;
      ReserveInPlace(reservation, reserved);
      EXPECT_TRUE(reserved.BrokenInvariants(node).empty());
      for (const std::string uid : {"shared", "exclusive"}) {
        // Others take all that is left of the NUMA node.
        NodeState state = reserved;
        const Pod greedy =
            uid == "shared" ? Sharing("other", {"100m", "256Mi"})
                            : MakePod("other", {App("app", {{"cpu", "1"}, {"memory", "256Mi"}})});
        for (int i = 0; i < 60; ++i) {
          Pod one = greedy;
          one.uid += std::to_string(i);
          admission::Admission admission =
              admission::Admit(node, state, one, devicemanager::NoPreference);
          if (admission.admitted()) state = std::move(admission.next);
        }
        NodeState completed = state;
        Complete(reservation, completed);
        GiveBack(reservation, state);
        for (const NodeState* end : {&completed, &state}) {
          EXPECT_TRUE(end->BrokenInvariants(node).empty());
          EXPECT_EQ(LackingOn(*end), 0);
        }
      }
      NodeState completed = reserved;
      Complete(reservation, completed);
      EXPECT_EQ(completed, renewed.next);
      GiveBack(reservation, reserved);
      EXPECT_EQ(reserved, before);
    }
  }
}

TEST_F(RenewalTest, ReservesTheLargerRequest) {
  const auto reserved = [&](const Request& had, const Request& asks) {
    const NodeState before = Admitted(Sharing("pod", had), empty);
    const Pod pod = Sharing("pod", asks);
    NodeState state = before;
    ReserveInPlace(
        RenewalOf(key, before,
                  admission::RenewShare(node, before, pod, pod.containers.back(), false).next),
        state);
    return std::pair(state.cpu.shares.at(key).millis,
                     state.memory.machine.at(1).tables.at("memory").free >> 30);
  };
  EXPECT_EQ(reserved({"1", "2Gi"}, {"3", "5Gi"}), std::pair(int64_t{3000}, uint64_t{3}));
  EXPECT_EQ(reserved({"3", "5Gi"}, {"1", "2Gi"}), std::pair(int64_t{3000}, uint64_t{3}));
  EXPECT_EQ(reserved({"1", "5Gi"}, {"3", "2Gi"}), std::pair(int64_t{3000}, uint64_t{3}));
}

TEST_F(RenewalTest, DoesNothingOnceThePodIsReleased) {
  const NodeState before = Admitted(Sharing("pod", {"1", "2Gi"}), empty);
  const Pod pod = Sharing("pod", {"2", "3Gi"});
  const Reservation reservation = RenewalOf(
      key, before, admission::RenewShare(node, before, pod, pod.containers.back(), false).next);
  NodeState state = before;
  ReserveInPlace(reservation, state);
  admission::ReleasePod("pod", state);
  for (const bool completes : {true, false}) {
    completes ? Complete(reservation, state) : GiveBack(reservation, state);
    EXPECT_EQ(state, empty);
  }
}

}  // namespace
}  // namespace alignd::allocation
