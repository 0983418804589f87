// CPUs that a resize has taken from a container that is still on them.
#include "reconcile/leaving_cpus.h"

#include <gtest/gtest.h>

#include <optional>
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
  // It was on the CPUs that it was assigned at the start, and has shrunk since.
  ContainerRegistry::Footprint since_start = on("resized", "");
  since_start.last = List("1-4");
  EXPECT_EQ(LeavingCpus(node, state, {since_start}), List("3-4"));
  state.cpu.assignments.erase("resized");
  state.cpu.originals[std::string("resized")]["app"] = {};
  EXPECT_EQ(LeavingCpus(node, state, {since_start}), List("1-4")) << "resized to shared CPUs";
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
  // Back to exclusive CPUs: the pool is still its place, and it is that of all others.
  state.cpu.assignments[std::string("resized")]["app"] = List("4-5");
  EXPECT_TRUE(LeavingCpus(NodeWithReservedCpu(), state, {on("0-3")}).empty());
  EXPECT_EQ(LeavingCpus(NodeWithReservedCpu(), state, {on("4-7")}), List("6-7"))
      << "it has shrunk since";
}

// While a call or an update moves it, it may be anywhere: it was on its exclusive CPUs before.
TEST(LeavingCpus, AreThoseWhereAContainerWasBeforeACallThatMayHaveMovedIt) {
  admission::NodeState state;
  state.cpu.originals[std::string("resized")]["app"] = {};
  const auto on = [](const std::string& cpus, const std::string& last,
                     std::optional<bool> is_exclusive = {}) {
    return ContainerRegistry::Footprint{.id = "c",
                                        .key = {"resized", "app"},
                                        .cpuset = List(cpus),
                                        .last = List(last),
                                        .last_exclusive = is_exclusive};
  };
  for (const bool is_strict : {false, true}) {
    const admission::Node node = NodeWithReservedCpu(is_strict);
    const std::string pool = is_strict ? "1-27" : "0-27";
    for (const std::optional<bool> exclusive : {std::optional<bool>(), std::optional(true)}) {
      EXPECT_EQ(LeavingCpus(node, state, {on("", "1-6", exclusive)}), List("1-6"));
      EXPECT_EQ(LeavingCpus(node, state, {on(pool, "1-6", exclusive)}), List("1-6"));
      EXPECT_TRUE(LeavingCpus(node, state, {on("", "1-6", exclusive)}, /*but_of=*/"c").empty());
    }
    EXPECT_TRUE(LeavingCpus(node, state, {on("", "1-6", false)}).empty());
    EXPECT_TRUE(LeavingCpus(node, state, {on("", "")}).empty());
  }
  EXPECT_TRUE(LeavingCpus(NodeWithReservedCpu(), state, {on("", "0-27")}).empty());
  // Back to exclusive CPUs, before it has left the former ones: the pool is no place of its own.
  state.cpu.assignments[std::string("resized")]["app"] = List("4-8");
  EXPECT_EQ(LeavingCpus(NodeWithReservedCpu(), state, {on("0-27", "1-6", true)}), List("1-3"));
}

// The pool does not have the reserved CPUs: after a start, others of it show where one is.
TEST(LeavingCpus, OfTheStrictPoolAreThoseWithoutAnotherContainerOfThePool) {
  const admission::Node node = NodeWithReservedCpu(/*is_strict=*/true);
  admission::NodeState state;
  state.cpu.originals[std::string("a")]["app"] = {};
  state.cpu.originals[std::string("b")]["app"] = {};
  const auto on = [](const std::string& pod, const std::string& cpus,
                     std::optional<bool> is_exclusive = {}) {
    return ContainerRegistry::Footprint{.id = pod,
                                        .key = {pod, "app"},
                                        .cpuset = List(cpus),
                                        .last = List(cpus),
                                        .last_exclusive = is_exclusive};
  };
  EXPECT_EQ(LeavingCpus(node, state, {on("a", "1-6"), on("shared", "9-27")}), List("1-6"));
  EXPECT_EQ(LeavingCpus(node, state, {on("a", "1-6"), on("b", "7-8"), on("shared", "9-27")}),
            List("1-8"));
  EXPECT_TRUE(LeavingCpus(node, state, {on("a", "1-27"), on("shared", "1-27")}).empty());
  // Of two that are all of the pool, one may be in it: what has been applied since shows which.
  EXPECT_EQ(LeavingCpus(node, state, {on("a", "1-6"), on("b", "7-27")}), List("1-27"));
  EXPECT_EQ(LeavingCpus(node, state, {on("a", "1-6", true), on("b", "7-27", false)}), List("1-6"));
  EXPECT_FALSE(IsStillAlone(node, state, on("a", "1-6"), {on("a", "1-6"), on("shared", "9-27")}))
      << "nothing comes onto its CPUs early on that evidence";
  // Alone in the pool, it shuts no other container out.
  EXPECT_EQ(SharedCpus(List("1-27"), List("1-27"), LeavingCpus(node, state, {on("a", "1-27")})),
            List("1-27"));
}

// Only the reserved CPUs show that such a container is in the pool.
TEST(LeavingCpus, DoNotSqueezeThePoolWhileTheReservedCpusAreOffline) {
  const admission::Node node = NodeWithReservedCpu();
  admission::NodeState state;
  state.cpu.originals[std::string("resized")]["app"] = {};
  state.cpu.offline = List("0");
  ContainerRegistry::Footprint resized{.id = "c", .key = {"resized", "app"}, .cpuset = List("1-6")};
  ContainerRegistry::Footprint other{.id = "o", .key = {"other", "app"}, .cpuset = List("1-6")};
  // The pool has grown, and shrinks and grows again. CPU 0 is back with the last set.
  for (const char* const pool : {"1-8", "1-4", "1-6", "0-6"}) {
    state.cpu.offline = List("0") - List(pool);
    for (int round = 0; round < 2; ++round) {
      const CpuSet leaving = LeavingCpus(node, state, {resized, other});
      for (ContainerRegistry::Footprint* const one : {&other, &resized}) {
        EXPECT_EQ(SharedCpus(List(pool), List(pool), leaving), List(pool)) << pool;
        one->cpuset = SharedCpus(List(pool), List(pool), leaving);
      }
    }
  }
  // Nothing else of the pool is on exclusive CPUs.
  state.cpu.assignments[std::string("x")]["app"] = List("1-2");
  other.key = {"x", "app"};
  other.cpuset = resized.cpuset = List("1-2");
  EXPECT_EQ(LeavingCpus(node, state, {resized, other}), List("1-2"));
}

}  // namespace
}  // namespace alignd::reconcile
