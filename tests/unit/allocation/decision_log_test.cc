#include "allocation/decision_log.h"

#include <gtest/gtest.h>

namespace alignd::allocation {
namespace {

PodDecision RefusedPod(const std::string& uid, const std::string& message) {
  PodDecision decision;
  decision.pod_uid = uid;
  decision.name_space = "default";
  decision.name = "name-of-" + uid;
  decision.asked = "app: 9 exclusive CPUs";
  decision.refusal = Refusal{"TopologyAffinityError", message};
  return decision;
}

std::vector<std::string> Uids(const std::vector<std::shared_ptr<const PodDecision>>& decisions) {
  std::vector<std::string> uids;
  for (const auto& decision : decisions) uids.push_back(decision->pod_uid);
  return uids;
}

using Names = std::vector<std::string>;

TEST(DecisionLog, GivesTheNewestFirst) {
  DecisionLog log;
  for (const char* const uid : {"a", "b", "c"}) log.Add(RefusedPod(uid, "no"));
  EXPECT_EQ(Uids(log.Newest("", 10)), (Names{"c", "b", "a"}));
  EXPECT_EQ(Uids(log.Newest("", 2)), (Names{"c", "b"}));
  EXPECT_TRUE(log.Newest("", 0).empty());
}

TEST(DecisionLog, FindsAPodByUidNameOrBoth) {
  DecisionLog log;
  log.Add(RefusedPod("a", "no"));
  log.Add(RefusedPod("b", "no"));
  EXPECT_EQ(Uids(log.Newest("a", 10)), Names{"a"});
  EXPECT_EQ(Uids(log.Newest("name-of-a", 10)), Names{"a"});
  EXPECT_EQ(Uids(log.Newest("default/name-of-b", 10)), Names{"b"});
  EXPECT_TRUE(log.Newest("other/name-of-b", 10).empty());
}

TEST(DecisionLog, ForgetsTheOldest) {
  DecisionLog log;
  for (size_t i = 0; i <= DecisionLog::kCapacity; ++i) log.Add(RefusedPod(std::to_string(i), "no"));
  EXPECT_EQ(log.Newest("", 1000).size(), DecisionLog::kCapacity);
  EXPECT_TRUE(log.Newest("0", 1).empty());
  EXPECT_EQ(log.Newest("1", 1).size(), 1u);
}

PodDecision Shared(const std::string& uid) {
  PodDecision decision;
  decision.pod_uid = uid;
  decision.assignments["app"].cpuset = CpuSet{0, 1};
  return decision;
}

TEST(DecisionLog, ForgetsPodsWithNothingToDecideFirst) {
  DecisionLog log;
  log.Add(RefusedPod("first", "no"));
  for (size_t i = 0; i < 2 * DecisionLog::kCapacity; ++i) log.Add(Shared(std::to_string(i)));
  EXPECT_EQ(log.Newest("", 1000).size(), DecisionLog::kCapacity);
  EXPECT_EQ(log.Newest("first", 1).size(), 1u);
  EXPECT_TRUE(log.Newest("0", 1).empty());
  EXPECT_EQ(Uids(log.Newest("", 1)), Names{"511"});
  // A single one among others is not lost at once.
  DecisionLog full;
  for (size_t i = 0; i < DecisionLog::kCapacity; ++i) full.Add(RefusedPod(std::to_string(i), "no"));
  full.Add(Shared("shared"));
  EXPECT_EQ(full.Newest("shared", 1).size(), 1u);
  EXPECT_TRUE(full.Newest("0", 1).empty());
}

TEST(DecisionLog, KnowsTheContainersWithAnAssignment) {
  DecisionLog log;
  log.Add(RefusedPod("a", "no"));
  log.Add(Shared("b"));
  EXPECT_FALSE(log.HasAssignment({"a", "app"}));
  EXPECT_TRUE(log.HasAssignment({"b", "app"}));
  EXPECT_FALSE(log.HasAssignment({"b", "other"}));
}

TEST(DecisionLog, CountsAnAnswerThatComesAgain) {
  DecisionLog log;
  log.Add(RefusedPod("a", "no"));
  log.Add(RefusedPod("b", "no"));
  log.Add(RefusedPod("a", "no"));
  ASSERT_EQ(Uids(log.Newest("", 10)), (Names{"a", "b"}));
  EXPECT_EQ(log.Newest("a", 1).front()->times, 2u);
  log.Add(RefusedPod("a", "for another reason"));
  ASSERT_EQ(Uids(log.Newest("", 10)), (Names{"a", "a", "b"}));
  EXPECT_EQ(log.Newest("a", 1).front()->times, 1u);
}

// The kubelet asks for a sandbox, for each container of the pod, and then for containers again.
TEST(DecisionLog, CountsAttemptsOfTheKubelet) {
  DecisionLog log;
  const auto times_after = [&log](const std::string& wanted) {
    PodDecision decision = RefusedPod("a", "no");
    decision.wanted = wanted;
    log.Add(std::move(decision));
    return log.Newest("a", 1).front()->times;
  };
  EXPECT_EQ(times_after(""), 1u);
  EXPECT_EQ(times_after("app"), 1u);
  EXPECT_EQ(times_after("log"), 1u);
  EXPECT_EQ(times_after("app"), 2u);
  EXPECT_EQ(times_after("log"), 2u);
  EXPECT_EQ(times_after(""), 2u);  // a new sandbox
  EXPECT_EQ(times_after("app"), 3u);
}

TEST(DecisionLog, CountsSandboxesOfAPodWithoutContainers) {
  DecisionLog log;
  for (uint64_t i = 1; i <= 3; ++i) {
    log.Add(RefusedPod("a", "no"));
    EXPECT_EQ(log.Newest("a", 1).front()->times, i);
  }
}

TEST(DecisionLog, SaysWhetherAnAnswerIsNew) {
  DecisionLog log;
  PodDecision decision = RefusedPod("a", "no");
  EXPECT_TRUE(log.Add(decision));
  decision.wanted = "app";
  EXPECT_FALSE(log.Add(decision));
  EXPECT_TRUE(log.Add(RefusedPod("a", "for another reason")));
}

// A plugin's error text may have a megabyte, and so may the names of a faulty request.
TEST(DecisionLog, KeepsLittleOfLongTexts) {
  const std::string text(1 << 20, 'x');
  DecisionLog log;
  for (size_t i = 0; i < DecisionLog::kCapacity; ++i) {
    PodDecision decision = RefusedPod(std::to_string(i), text);
    decision.error = Error{ErrorCode::kIo, text, text};
    for (std::string* const field : {&decision.name, &decision.name_space, &decision.source,
                                     &decision.asked, &decision.available}) {
      *field = text;
    }
    log.Add(std::move(decision));
  }
  const auto kept = log.Newest("", DecisionLog::kCapacity);
  size_t bytes = 0;
  for (const auto& decision : kept) {
    bytes += decision->refusal->message.size() + decision->error->Text().size() +
             decision->name.size() + decision->asked.size();
  }
  EXPECT_LT(bytes, size_t{8} << 20);
  EXPECT_GT(kept.size(), 100u);
  EXPECT_TRUE(kept.front()->refusal->message.ends_with("x (and 1044480 more bytes)"));
  EXPECT_EQ(kept.front()->pod_uid, "255");
}

// What is sent to alignctl, and saved, must be UTF-8.
TEST(DecisionLog, CutsNoCharacterInHalf) {
  for (size_t before = 0; before < 3; ++before) {
    std::string text(before, 'x');
    for (int i = 0; i < 3000; ++i) text += "\xE2\x82\xAC";  // three bytes
    DecisionLog log;
    log.Add(RefusedPod("a", text));
    const std::string kept = log.Newest("a", 1).front()->refusal->message;
    EXPECT_NE(kept.find("\xE2\x82\xAC (and "), std::string::npos) << before;
    EXPECT_LT(kept.size(), 4200u);
  }
}

TEST(DecisionLog, KeepsNoAnswersOfPlugins) {
  Allocated allocated;
  allocated.assignments["app"].devices["example.com/gpu"].devices = {{0, {"gpu0"}}};
  allocated.assignments["app"].devices["example.com/gpu"].response = std::string(1 << 20, 'x');
  PodDecision decision;
  decision.pod_uid = "a";
  decision.Set(allocated);
  DecisionLog log;
  log.Add(std::move(decision));
  const auto kept = log.Newest("a", 1);
  const auto& response = kept.at(0)->assignments.at("app").devices.at("example.com/gpu").response;
  EXPECT_LT(response.capacity(), 100u);
}

TEST(DecisionLog, DropsOldOnesBeforeManyIdsTakeMegabytes) {
  DecisionLog log;
  for (int i = 0; i < 20; ++i) {
    PodDecision decision;
    decision.pod_uid = std::to_string(i);
    decision.containers.emplace_back();
    auto& ids = decision.assignments["app"].devices["example.com/gpu"].devices[0];
    for (int id = 0; id < 1000; ++id) ids.push_back(std::string(1000, 'x') + std::to_string(id));
    log.Add(std::move(decision));
  }
  EXPECT_EQ(log.Newest("", 100).size(), 7u);  // of 1.1 MB each
  EXPECT_EQ(log.Newest("", 1).at(0)->pod_uid, "19");
}

TEST(DecisionLog, DescribesADecisionInOneLine) {
  PodDecision refused = RefusedPod("u1", "no locality");
  refused.available = "NUMA node 0: 1 of 4 CPUs (3)";
  refused.source = "annotation";
  EXPECT_EQ(
      Describe(refused),
      "pod default/name-of-u1 (u1) refused, TopologyAffinityError: no locality | requested app: 9 "
      "exclusive CPUs | source annotation | available NUMA node 0: 1 of 4 CPUs (3)");
  refused.refusal->message =
      "no locality. Requested: " + refused.asked + ". Free: " + refused.available;
  EXPECT_EQ(Describe(refused),
            "pod default/name-of-u1 (u1) refused, TopologyAffinityError: no locality. Requested: "
            "app: 9 exclusive CPUs. Free: NUMA node 0: 1 of 4 CPUs (3) | source annotation");
  PodDecision failed = RefusedPod("u2", "");
  failed.refusal.reset();
  failed.error = Error{ErrorCode::kIo, "write x: disk full", "free some space"};
  EXPECT_EQ(
      Describe(failed),
      "pod default/name-of-u2 (u2) failed: write x: disk full; free some space | requested app: 9 "
      "exclusive CPUs");
  PodDecision admitted = failed;
  admitted.error.reset();
  admitted.assignments["app"].exclusive = CpuSet{2, 3};
  admitted.assignments["app"].memory_nodes = {0, 1};
  admitted.assignments["app"].devices["example.com/gpu"].devices = {{0, {"gpu0"}}, {1, {"gpu4"}}};
  admitted.assignments["log"].cpuset = CpuSet{0, 1};
  EXPECT_EQ(Describe(admitted),
            "pod default/name-of-u2 (u2) admitted, assigned app: CPUs 2-3, memory of NUMA 0 1, "
            "example.com/gpu "
            "gpu0 gpu4; log: shared CPUs | requested app: 9 exclusive CPUs");
}

}  // namespace
}  // namespace alignd::allocation
