#include "reconcile/assigned_containers.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "edge/allocation_node.h"

namespace alignd::reconcile {
namespace {

using testing::kGpu;
using Keys = std::set<ContainerKey>;

CpuSet CpusIn(const char* list) { return CpuSet::Parse(list).value(); }

class AssignedContainersTest : public ::testing::Test {
 protected:
  void Assign(const std::string& container, const char* cpus, const std::set<std::string>& gpus) {
    if (*cpus != '\0') state_.cpu.assignments["p"][container] = CpusIn(cpus);
    if (gpus.empty()) return;
    state_.devices.allocations[{"p", container}][kGpu].devices = {{0, {gpus.begin(), gpus.end()}}};
  }
  void Runs(const std::string& container) {
    registry_.AddContainer("id-" + container, {"p", container}, {});
  }

  admission::NodeState state_;
  ContainerRegistry registry_;
};

TEST_F(AssignedContainersTest, AreAllContainersThatAreAssignedSomething) {
  Assign("cpus", "1-2", {});
  Assign("gpu", "", {"gpu0"});
  state_.memory.assignments["p"]["memory"] = {memorymanager::Block{{0}, "memory", 1}};
  EXPECT_EQ(AssignedContainers(state_), (Keys{{"p", "cpus"}, {"p", "gpu"}, {"p", "memory"}}));
}

TEST_F(AssignedContainersTest, ThatEndedAreReusedIfARunningContainerHasAllOfIt) {
  Assign("init", "1-2", {"gpu0"});
  Assign("app", "1-4", {"gpu0", "gpu1"});
  EXPECT_EQ(ReusedContainers(state_, registry_), Keys());  // none runs: the app may come again
  Runs("app");
  EXPECT_EQ(ReusedContainers(state_, registry_), (Keys{{"p", "init"}}));
  Runs("init");
  EXPECT_EQ(ReusedContainers(state_, registry_), Keys());
}

TEST_F(AssignedContainersTest, KeepWhatNoOtherContainerHas) {
  Assign("init", "", {"gpu0", "gpu7"});
  Assign("other", "5", {});
  Assign("app", "1-4", {"gpu0"});
  state_.memory.assignments["p"]["memory"] = {memorymanager::Block{{0}, "memory", 1}};
  Runs("app");
  EXPECT_EQ(ReusedContainers(state_, registry_), Keys());
}

TEST_F(AssignedContainersTest, OfAnotherPodDoNotCount) {
  Assign("init", "1-2", {});
  state_.cpu.assignments["q"]["app"] = CpusIn("1-2");
  registry_.AddContainer("id", {"q", "app"}, {});
  EXPECT_EQ(ReusedContainers(state_, registry_), Keys());
}

}  // namespace
}  // namespace alignd::reconcile
