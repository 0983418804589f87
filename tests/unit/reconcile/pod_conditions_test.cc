// Conditions of whole pods: their quota, and resizes that are refused.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "conditions_fixture.h"
#include "reconcile/conditions.h"

namespace alignd::reconcile {
namespace {

using std::chrono::seconds;
using std::chrono::system_clock;

TEST(PodConditions, QuotaThatIsNotLiftedIsLoggedOnceForEachPodAndReason) {
  Logged logged;
  Conditions conditions;
  const Error read_only{ErrorCode::kIo, "write cpu.max: read-only", "make it writable"};
  const std::string line =
      "warning PodQuotaNotLifted: pod a: throttled, although it has exclusive CPUs: its CFS quota "
      "cannot be lifted: write cpu.max: read-only; make it writable\n";
  for (int i = 0; i < 3; ++i) conditions.QuotaNotLifted("a", read_only);
  EXPECT_EQ(logged.Take(), line);
  EXPECT_EQ(Only(conditions.Report()).times, 3U);
  const auto first = Only(conditions.Report()).first;
  conditions.QuotaNotLifted("b", read_only);
  EXPECT_NE(logged.Take(), "");
  conditions.QuotaNotLifted("a", {ErrorCode::kIo, "write cpu.max: denied"});
  EXPECT_NE(logged.Take().find("denied"), std::string::npos);
  EXPECT_EQ(conditions.Report().at(0).first, first);
  conditions.QuotaNotLifted("a", read_only);
  EXPECT_EQ(logged.Take(), line);

  conditions.QuotaSettled("a");
  EXPECT_EQ(
      logged.Take(),
      "info PodQuotaNotLifted resolved. It was: pod a: throttled, although it has exclusive CPUs: "
      "its CFS quota cannot be lifted: write cpu.max: read-only\n");
  EXPECT_EQ(conditions.PodsWithConditions(), std::set<std::string>{"b"});
  conditions.QuotaNotLifted("a", read_only);
  EXPECT_EQ(logged.Take(), line);
}

TEST(PodConditions, QuotaThatIsNotRestoredIsLoggedOnce) {
  Logged logged;
  Conditions conditions;
  const Subject web{"", {"uid", ""}, "default/web"};
  const Error error{ErrorCode::kIo, "write cpu.max: denied"};
  const std::string line =
      "warning PodQuotaNotRestored: pod default/web: a resize has moved it to shared CPUs, and the "
      "CFS quota of its cgroup cannot be set to 50000 us again: write cpu.max: denied; alignd "
      "tries "
      "again after 1, 2, 4, ... 30 s\n";
  for (int i = 0; i < 3; ++i) conditions.QuotaNotRestored(web, 50'000, error);
  EXPECT_EQ(logged.Take(), line);
  EXPECT_EQ(conditions.PodsWithConditions(), std::set<std::string>{"uid"});
  conditions.QuotaRestored("uid");
  EXPECT_TRUE(conditions.Report().empty());
  EXPECT_NE(logged.Take(), "");
  conditions.QuotaNotRestored(web, 50'000, error);
  conditions.PodGone("uid");
  EXPECT_TRUE(conditions.Report().empty());
}

TEST(PodConditions, RewrittenQuotaNamesTheWriterAndIsLoggedOnce) {
  Logged logged;
  Conditions conditions;
  const Subject web{"", {"uid", ""}, "default/web"};
  for (int i = 0; i < 3; ++i) conditions.QuotaRewritten(web, 5, seconds(60), /*refused=*/false);
  EXPECT_EQ(logged.Take(),
            "warning PodQuotaRewritten: pod default/web: another program keeps writing the CFS "
            "quota or the CPU shares of its cgroup, which takes CPU time from exclusive CPUs: more "
            "than 5 times within 60 s; alignd lifts the quota again, after a pause; find the "
            "program that writes them, and stop it; if pods are to keep their quota, start alignd "
            "with --keep-pod-cpu-quota\n");
  conditions.QuotaRewritten(web, 5, seconds(60), /*refused=*/true);
  const std::string line = logged.Take();
  EXPECT_NE(line.find("the kubelet keeps writing"), std::string::npos) << line;
  EXPECT_NE(line.find("undo the resize"), std::string::npos) << line;
  conditions.QuotaLeftAlone("uid");
  EXPECT_TRUE(conditions.Report().empty());
}

TEST(PodConditions, RefusedResizeLastsUntilItIsSettledOrNotRepeated) {
  Logged logged;
  Conditions conditions;
  for (int i = 0; i < 2; ++i) {
    conditions.ResizeRefused(kApp, "has 1 exclusive CPU (1): asked for 0.5 CPUs", "undo it");
  }
  EXPECT_EQ(logged.Take(),
            "warning PodResizeRefused: container app of pod default/web: a resize is refused: it "
            "has 1 exclusive CPU (1): asked for 0.5 CPUs; undo it\n");
  EXPECT_EQ(Only(conditions.Report()).times, 2U);
  conditions.ResizeSettled({"uid", "other"});
  EXPECT_EQ(conditions.Report().size(), 1U);
  conditions.ResizeSettled(kApp.key);
  EXPECT_TRUE(conditions.Report().empty());
  conditions.ResizeRefused(kApp, "has 1 exclusive CPU (1)", "undo it");
  const auto now = system_clock::now();
  conditions.DropExpired(now + Conditions::kRefusedResizeLasts / 2);
  EXPECT_EQ(conditions.Report().size(), 1U);
  conditions.DropExpired(now + Conditions::kRefusedResizeLasts);
  EXPECT_TRUE(conditions.Report().empty());
}

TEST(PodConditions, GonePodTakesItsConditionsWithIt) {
  Conditions conditions;
  conditions.ResizeRefused(kApp, "has 1 exclusive CPU (1)", "undo it");
  conditions.QuotaRewritten({"", {"uid", ""}}, 5, seconds(60), /*refused=*/true);
  conditions.QuotaNotLifted("uid", {ErrorCode::kIo, "read-only"});
  conditions.QuotaNotLifted("other", {ErrorCode::kIo, "read-only"});
  conditions.UpdateFailed(kApp, "CPUs 1-3", {ErrorCode::kInternal, "out of order"});
  EXPECT_EQ(conditions.PodsWithConditions(), (std::set<std::string>{"other", "uid"}));
  conditions.PodGone("uid");
  const std::vector<Condition> rest = conditions.Report();
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[0].subject.key.pod_uid, "other");
  EXPECT_EQ(rest[1].type, ConditionType::kCpusetUpdateFailed);
}

TEST(NodeConditions, UnknownFeatureGatesAreAWarning) {
  Logged logged;
  Conditions conditions;
  conditions.UnknownFeatureGates({ErrorCode::kInvalidArgument, "a gate", "correct it"});
  EXPECT_EQ(logged.Take(), "warning UnknownFeatureGate: a gate; correct it\n");
  EXPECT_EQ(Only(conditions.Report()).type, ConditionType::kUnknownFeatureGate);
}

TEST(PodConditions, UnsupportedAnnotationsAreOneConditionUntilTheLastPodHasGone) {
  Logged logged;
  Conditions conditions;
  conditions.FoundUnsupported({});
  EXPECT_EQ(logged.Take(), "");
  const std::string name = "memory-type.resource-policy.nri.io";
  for (int i = 0; i < 3; ++i) conditions.FoundUnsupported({{name, "default/web"}});
  EXPECT_EQ(logged.Take(),
            "warning UnsupportedAnnotation: pods have annotations that alignd does not follow: "
            "memory-type.resource-policy.nri.io (pod default/web); correct names that are "
            "misspelt; remove annotations of another resource manager, or run the pods on its "
            "nodes; `alignctl explain POD` names those of a pod\n");
  EXPECT_EQ(Only(conditions.Report()).type, ConditionType::kUnsupportedAnnotation);
  // Each new pod of a workload would be a line.
  conditions.FoundUnsupported({{name, "default/other"}});
  EXPECT_EQ(logged.Take(), "");
  EXPECT_NE(Only(conditions.Report()).message.find("(pod default/other)"), std::string::npos);
  std::map<std::string, std::string> many;
  for (int i = 0; i < 30; ++i) many["k" + std::to_string(100 + i)] = "a/b";
  conditions.FoundUnsupported(many);
  const std::string message = Only(conditions.Report()).message;
  EXPECT_TRUE(message.ends_with("k111 (pod a/b) and 18 more")) << message;
  logged.Take();
  conditions.FoundUnsupported({});
  EXPECT_TRUE(conditions.Report().empty());
  EXPECT_TRUE(logged.Take().ends_with("UnsupportedAnnotation resolved\n"));
}

}  // namespace
}  // namespace alignd::reconcile
