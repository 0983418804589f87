// CPUs that a resize has taken from a container that is still on them.
#include "reconcile/leaving_cpus.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace alignd::reconcile {
namespace {

CpuSet List(const std::string& text) { return *CpuSet::Parse(text); }

TEST(LeavingCpus, AreThoseOfResizedContainersOnly) {
  admission::NodeState state;
  state.cpu.assignments[std::string("resized")]["app"] = List("1-2");
  state.cpu.originals[std::string("resized")]["app"] = List("1-2");
  state.cpu.assignments[std::string("other")]["app"] = List("7-8");
  const auto on = [](const std::string& pod, const std::string& cpus) {
    return ContainerRegistry::Footprint{.id = pod, .key = {pod, "app"}, .cpuset = List(cpus)};
  };
  EXPECT_EQ(LeavingCpus(state, {on("resized", "1-6"), on("other", "7-9"), on("shared", "0-27")}),
            List("3-6"));
  EXPECT_TRUE(LeavingCpus(state, {on("resized", "1-2")}).empty());
  // It may be anywhere: the rules for containers of unknown place apply.
  EXPECT_TRUE(LeavingCpus(state, {on("resized", "")}).empty());
}

}  // namespace
}  // namespace alignd::reconcile
