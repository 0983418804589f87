// A valid state file that is not true: an older copy, or one of another history.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/adoption.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

// Twelve CPUs; CPU 0 is reserved.
class RefutedCpus : public testing::Test {
 protected:
  RefutedCpus() : node_(Make(false)) {}

  static Node Make(bool whole_pods) {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
    if (whole_pods) config.feature_gates["PodLevelResourceManagers"] = true;
    return Node::Make(MakeMachine("socket:1 numa:1 core:12"), config).value();
  }

  // The state with these assignments.
  NodeState With(const std::map<std::string, CpuSet>& pods) const {
    NodeState state = NodeState::Initial(node_);
    for (const auto& [uid, cpus] : pods) {
      state.cpu.assignments[uid]["app"] = cpus;
      state.cpu.default_set -= cpus;
    }
    return state;
  }
  // `record` as the runtime says; the mark is that of the creation.
  static MarkedContainer On(const std::string& uid, const CpuSet& mark, const CpuSet& record) {
    MarkedContainer container;
    container.id = "id-" + uid;
    container.key = {uid, "app"};
    container.pod = "default/" + uid;
    container.mark.cpus = mark;
    container.record = record;
    return container;
  }

  std::map<std::string, std::string> Adopted(NodeState state,
                                             std::vector<MarkedContainer> containers) {
    EXPECT_EQ(FindRefuted(node_, state, containers).empty(), false);
    adoption_ = Adopt(node_, std::move(state), {}, std::move(containers));
    EXPECT_EQ(adoption_.next.BrokenInvariants(node_), std::vector<std::string>());
    std::map<std::string, std::string> cpus;
    for (const auto& [uid, of_pod] : adoption_.next.cpu.assignments) {
      for (const auto& [name, assigned] : of_pod) cpus[uid] = assigned.ToString();
    }
    return cpus;
  }
  // Nothing is refuted, and what the state has stays.
  void ExpectTrue(const NodeState& state, const std::vector<MarkedContainer>& containers) {
    EXPECT_EQ(FindRefuted(node_, state, containers).size(), 0U);
    const Adoption adoption = Adopt(node_, state, {}, containers);
    EXPECT_EQ(adoption.refuted.size(), 0U);
    for (const auto& [uid, of_pod] : state.cpu.assignments) {
      const CpuSet* const now = adoption.next.cpu.Find({uid, "app"});
      ASSERT_NE(now, nullptr) << uid;
      EXPECT_EQ(*now, of_pod.at("app")) << uid;
    }
  }

  using Cpus = std::map<std::string, std::string>;
  const Node node_;
  Adoption adoption_;
};

// It was moved after the copy was made, and another container got its CPUs.
TEST_F(RefutedCpus, AnOlderCopyOfBeforeAMove) {
  const auto containers = {On("a", {1, 2, 3}, {4, 5, 6}), On("b", {1, 2, 3}, {1, 2, 3})};
  EXPECT_EQ(Adopted(With({{"a", {1, 2, 3}}}), containers), (Cpus{{"a", "4-6"}, {"b", "1-3"}}));
  ASSERT_EQ(adoption_.refuted.size(), 1U);
  EXPECT_EQ(
      adoption_.refuted[0].text,
      "the state files have CPUs 1-3 for container app of pod default/a, but container app of "
      "pod default/b runs exclusively on CPUs 1-3");
  EXPECT_EQ(adoption_.adopted.size(), 2U);
  EXPECT_EQ(adoption_.unknown.size(), 0U);
}

TEST_F(RefutedCpus, AFileOfAnotherHistory) {
  const auto containers = {On("a", {1, 2, 3}, {1, 2, 3}), On("b", {4, 5, 6, 7}, {4, 5, 6, 7})};
  EXPECT_EQ(Adopted(With({{"a", {5, 6, 7}}, {"b", {1, 2, 3, 4}}}), containers),
            (Cpus{{"a", "1-3"}, {"b", "4-7"}}));
  EXPECT_EQ(adoption_.unknown.size(), 0U);
}

// Both were moved after the copy: no mark contradicts it.
TEST_F(RefutedCpus, TwoThatTheRuntimeHasElsewhere) {
  const auto containers = {On("a", {1, 2}, {4, 5}), On("b", {4, 5}, {7, 8})};
  EXPECT_EQ(Adopted(With({{"a", {1, 2}}, {"b", {4, 5}}}), containers),
            (Cpus{{"a", "4-5"}, {"b", "7-8"}}));
}

TEST_F(RefutedCpus, AContainerThatDoesNotRunYields) {
  EXPECT_EQ(Adopted(With({{"a", {1, 2, 3}}}), {On("b", {1, 2, 3}, {1, 2, 3})}),
            (Cpus{{"b", "1-3"}}));
  // What one of them has instead can refute a further one.
  EXPECT_EQ(Adopted(With({{"a", {1, 2}}, {"c", {5, 6}}}),
                    {On("a", {1, 2}, {4, 5}), On("b", {1, 2}, {1, 2})}),
            (Cpus{{"a", "4-5"}, {"b", "1-2"}}));
}

TEST_F(RefutedCpus, OneThatWasResizedSince) {
  EXPECT_EQ(
      Adopted(With({{"a", {3, 4}}}), {On("a", {3, 4}, {8, 9}), On("b", {1, 2}, {1, 2, 3, 4})}),
      (Cpus{{"a", "8-9"}, {"b", "1-4"}}));
  EXPECT_EQ(adoption_.next.cpu.OriginalOf({"b", "app"}), (CpuSet{1, 2}));
  // The copy is of before the shrink of `a`.
  EXPECT_EQ(
      Adopted(With({{"a", {1, 2, 3, 4}}}), {On("a", {1, 2}, {1, 2}), On("b", {3, 4}, {3, 4})}),
      (Cpus{{"a", "1-2"}, {"b", "3-4"}}));
}

// What it has now is not known: as many CPUs as it neither was created with nor has in the file.
TEST_F(RefutedCpus, AContainerThatWasMovedAndResizedRunsInTheSharedPool) {
  EXPECT_EQ(Adopted(With({{"a", {1, 2}}}), {On("a", {1, 2}, {4, 5, 6}), On("b", {1, 2}, {1, 2})}),
            (Cpus{{"b", "1-2"}}));
  ASSERT_EQ(adoption_.unknown.size(), 1U);
  EXPECT_EQ(
      adoption_.unknown[0].text,
      "the state files contradict the runtime about this container, and it is not known which "
      "CPUs it has: the runtime says CPUs 4-6; it runs in the shared pool");
}

TEST_F(RefutedCpus, AContainerWithoutAMarkKeepsTheCpusOfTheRuntime) {
  EXPECT_EQ(Adopted(With({{"a", {1, 2}}}), {On("a", {}, {4, 5}), On("b", {1, 2}, {1, 2})}),
            (Cpus{{"a", "4-5"}, {"b", "1-2"}}));
}

TEST_F(RefutedCpus, AResizeThatWasInterruptedIsNoContradiction) {
  // `b` has to leave 3-4, which `a` gets: it is not created yet, or waits.
  const NodeState shrunk = With({{"b", {1, 2}}, {"a", {3, 4}}});
  ExpectTrue(shrunk, {On("b", {1, 2}, {1, 2, 3, 4})});
  ExpectTrue(shrunk, {On("b", {1, 2}, {1, 2, 3, 4}), On("a", {3, 4}, {3, 4})});
  // Twice: first fewer, then others.
  ExpectTrue(With({{"b", {1, 2, 7}}, {"a", {3, 4}}}), {On("b", {1, 2}, {1, 2, 3, 4})});
}

// In the middle of a move, the file has the CPUs of before and of after.
TEST_F(RefutedCpus, AMoveThatWasInterruptedIsNoContradiction) {
  ExpectTrue(With({{"a", {1, 2, 5, 6}}, {"b", {3, 4}}}),
             {On("a", {1, 2}, {5, 6}), On("b", {3, 4}, {3, 4})});
}

// Another program has moved it to CPUs of a container that runs there, does not run, or is not
// known to be elsewhere: the file counts.
TEST_F(RefutedCpus, AContainerThatAnotherProgramMovedProvesNothing) {
  const NodeState state = With({{"a", {1, 2}}, {"b", {3, 4}}});
  ExpectTrue(state, {On("a", {1, 2}, {1, 2}), On("b", {3, 4}, {1, 2})});
  ExpectTrue(state, {On("b", {3, 4}, {1, 2})});
  ExpectTrue(state, {On("a", {1, 2}, {}), On("b", {3, 4}, {1, 2})});
  // The runtime and the cgroup do not agree.
  MarkedContainer written = On("b", {3, 4}, {1, 2});
  written.cgroup = {7, 8};
  ExpectTrue(state, {On("a", {1, 2}, {5, 6}), written});
}

// The mark of `b` is of CPUs on which `a` runs: two containers are on them, and the file counts.
TEST_F(RefutedCpus, CpusOnWhichTheContainerOfTheFileRunsStay) {
  ExpectTrue(With({{"a", {1, 2}}}), {On("a", {1, 2}, {1, 2}), On("b", {1, 2}, {1, 2})});
}

TEST_F(RefutedCpus, APodWithCpusAsAWhole) {
  const Node node = Make(true);
  NodeState state = NodeState::Initial(node);
  state.cpu.pods["a"] = {1, 2, 3, 4};
  state.cpu.assignments["a"]["app"] = {1, 2};
  state.cpu.assignments["a"]["other"] = {3, 4};
  state.cpu.default_set -= {1, 2, 3, 4};
  MarkedContainer part = On("a", {5, 6}, {5, 6});
  part.mark.whole.cpus = {5, 6, 7, 8};
  part.mark.whole.cpu_parts = {{"app", {5, 6}}, {"other", {7, 8}}};
  const Adoption adoption = Adopt(node, state, {}, {part, On("b", {3, 4}, {3, 4})});
  EXPECT_EQ(adoption.next.BrokenInvariants(node), std::vector<std::string>());
  EXPECT_EQ(adoption.next.cpu.pods.at("a"), (CpuSet{5, 6, 7, 8}));
  EXPECT_EQ(*adoption.next.cpu.Find({"a", "other"}), (CpuSet{7, 8}));
  EXPECT_EQ(*adoption.next.cpu.Find({"b", "app"}), (CpuSet{3, 4}));
}

}  // namespace
}  // namespace alignd::admission
