// CPUs that a resize has taken from a container that is still on them.
#include "reconcile/leaving_cpus.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/machine_builder.h"

namespace alignd::reconcile {
namespace {

CpuSet List(const std::string& text) { return *CpuSet::Parse(text); }

admission::Node NodeWithReservedCpu(bool is_strict = false) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  if (is_strict) config.cpu_manager_policy_options["strict-cpu-reservation"] = "true";
  return *admission::Node::Make(MakeMachine("core:28"), config);
}

TEST(LeavingCpus, AreThoseOfResizedContainersOnly) {
  const admission::Node node = NodeWithReservedCpu();
  admission::NodeState state;
  state.cpu.assignments[std::string("resized")]["app"] = List("1-2");
  state.cpu.originals[std::string("resized")]["app"] = List("1-2");
  state.cpu.assignments[std::string("other")]["app"] = List("7-8");
  const auto on = [](const std::string& pod, const std::string& cpus) {
    return ContainerRegistry::Footprint{.id = pod, .key = {pod, "app"}, .cpuset = List(cpus)};
  };
  EXPECT_EQ(
      LeavingCpus(node, state, {on("resized", "1-6"), on("other", "7-9"), on("shared", "0-27")}),
      List("3-6"));
  EXPECT_TRUE(LeavingCpus(node, state, {on("resized", "1-2")}).empty());
  // It may be anywhere: the rules for containers of unknown place apply.
  EXPECT_TRUE(LeavingCpus(node, state, {on("resized", "")}).empty());
}

TEST(LeavingCpus, AreThoseOfContainersThatWereResizedToSharedCpus) {
  admission::NodeState state;
  state.cpu.originals[std::string("resized")]["app"] = {};
  const auto on = [](const std::string& cpus) {
    return ContainerRegistry::Footprint{.id = "c", .key = {"resized", "app"}, .cpuset = List(cpus)};
  };
  EXPECT_EQ(LeavingCpus(NodeWithReservedCpu(), state, {on("1-6")}), List("1-6"));
  EXPECT_TRUE(LeavingCpus(NodeWithReservedCpu(), state, {on("0-27")}).empty()) << "in the pool";
  EXPECT_TRUE(LeavingCpus(NodeWithReservedCpu(), state, {on("")}).empty());
  EXPECT_TRUE(LeavingCpus(NodeWithReservedCpu(true), state, {on("1-6")}).empty())
      << "may be the pool";
  // Back to exclusive CPUs: the pool is still its place, and it is that of all others.
  state.cpu.assignments[std::string("resized")]["app"] = List("4-5");
  EXPECT_TRUE(LeavingCpus(NodeWithReservedCpu(), state, {on("0-3")}).empty());
  EXPECT_EQ(LeavingCpus(NodeWithReservedCpu(), state, {on("4-7")}), List("6-7"))
      << "it has shrunk since";
}

}  // namespace
}  // namespace alignd::reconcile
