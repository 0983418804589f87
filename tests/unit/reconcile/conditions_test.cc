#include "reconcile/conditions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "conditions_fixture.h"

namespace alignd::reconcile {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::system_clock;

TEST(Conditions, DocumentationHasASectionForEachTypeAndNoOther) {
  std::ifstream page(std::string(ALIGND_SOURCE_DIR) + "/docs/conditions.md");
  ASSERT_TRUE(page.is_open());
  std::vector<std::string> sections;
  std::string chapter;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) chapter = line.substr(3);
    if (chapter == "Conditions" && line.starts_with("### ")) sections.push_back(line.substr(4));
  }
  EXPECT_EQ(sections, std::vector<std::string>(kConditionNames.begin(), kConditionNames.end()));
}

TEST(Conditions, NamesSubjects) {
  EXPECT_EQ(NameOf(kApp), "container app of pod default/web");
  EXPECT_EQ(NameOf({"c1", {"uid", "app"}}), "container app of pod uid");
  EXPECT_EQ(NameOf({"", {"uid", ""}, "default/web"}), "pod default/web");
  EXPECT_EQ(NameOf({"", {"uid", ""}}), "pod uid");
  EXPECT_EQ(NameOf({}), "");
}

TEST(Conditions, AreSortedByType) {
  Conditions conditions;
  conditions.Repaired({.time = system_clock::now(), .container = kApp, .was = "a", .should = "b"});
  conditions.QuotaNotLifted("a", {ErrorCode::kIo, "read-only"});
  conditions.SawConflictingManager("it writes", "stop it");
  conditions.UpdateFailed(kApp, "CPUs 1-3", {ErrorCode::kInternal, "out of order"});
  conditions.FoundUnmanaged({kApp});
  conditions.FoundPastMirror({{kApp, "a/gpu", {"g1"}}});
  conditions.RuntimeFailed({ErrorCode::kUnavailable, "gone"});
  conditions.StateNotWritable({ErrorCode::kIo, "full", "free space"});
  conditions.AssignmentUnknown(kApp, "its mark cannot be read");
  conditions.StateRebuilt("a file was missing", "");
  conditions.FoundOffline({{kApp, *CpuSet::Parse("1-2"), *CpuSet::Parse("2")}});
  conditions.MetricsFailed({ErrorCode::kUnavailable, "in use", "stop it"});
  conditions.PublisherCalled(Error{ErrorCode::kUnavailable, "the API server answers 403", "x"});
  conditions.ResizeRefused(kApp, "has 1 exclusive CPU (1)", "undo it");
  conditions.QuotaRewritten({"", {"uid", ""}}, 5, seconds(60), /*refused=*/true);
  conditions.QuotaNotRestored({"", {"uid", ""}}, 50'000, {ErrorCode::kIo, "read-only"});
  conditions.FoundOutside({{7, "busy", kApp, "/", *CpuSet::Parse("2"), "container b of pod c"}});
  conditions.KubeletMissing(1, "c1");
  conditions.BypassIsOn(system_clock::now());
  conditions.CrioNotSeen("unix:///run/alignd/alignd.sock");
  conditions.ConfigurationNotApplied({ErrorCode::kInvalidArgument, "a field is unknown"});
  conditions.FoundUnsupported({{"memory-type.resource-policy.nri.io", "default/web"}});
  conditions.UnknownFeatureGates({ErrorCode::kInvalidArgument, "Other", "correct it"});
  std::vector<std::string_view> types;
  for (const Condition& condition : conditions.Report()) types.push_back(ToString(condition.type));
  EXPECT_EQ(types, std::vector<std::string_view>(kConditionNames.begin(), kConditionNames.end()));
}

TEST(Conditions, OfflineCpusAreReportedWithWhatWouldHelp) {
  Logged logged;
  Conditions conditions;
  conditions.FoundOffline(
      {{{}, {}, *CpuSet::Parse("2")}, {kApp, *CpuSet::Parse("1-2"), *CpuSet::Parse("2")}});
  EXPECT_EQ(logged.Take(),
            "warning CPUOffline: CPUs 2 are offline: no container runs on them or is assigned "
            "them; set them online (write 1 to /sys/devices/system/cpu/cpu2/online), if the node "
            "is to use them\n"
            "warning CPUOffline: container app of pod default/web: CPUs 2 of its CPUs 1-2 are "
            "offline: it runs on CPUs 1; set them online (write 1 to "
            "/sys/devices/system/cpu/cpu2/online), or delete the pod: a new one is assigned other "
            "CPUs\n");
  conditions.FoundOffline({{kApp, *CpuSet::Parse("1-2"), *CpuSet::Parse("1-2")}});
  const std::vector<Condition> all = conditions.Report();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].message, "all of its CPUs, 1-2, are offline: it runs in the shared pool");
  EXPECT_EQ(all[0].remedy,
            "set them online (write 1 to /sys/devices/system/cpu/cpu1/online, and so on), or "
            "delete the pod: a new one is assigned other CPUs");
  conditions.FoundOffline({});
  EXPECT_TRUE(conditions.Report().empty());
}

TEST(Conditions, ProcessesOutsideTheirCgroupAreReportedWhileTheyAreThere) {
  Logged logged;
  Conditions conditions;
  const OutsideProcess process{7, "busy", kApp, "/", *CpuSet::Parse("2-3"), "container b of pod c"};
  for (int i = 0; i < 2; ++i) conditions.FoundOutside({process});
  EXPECT_EQ(logged.Take(),
            "warning ProcessOutsideCgroup: container app of pod default/web: its process 7 (busy) "
            "is in the cgroup /, not in that of the container, and may run on the exclusive CPUs "
            "2-3 of container b of pod c; end the process, or write its id to cgroup.procs of the "
            "container's cgroup; find the program that moved it\n");
  conditions.FoundOutside({});
  EXPECT_TRUE(conditions.Report().empty());
}

TEST(Conditions, DevicesOfAnotherPluginAreLoggedOnceAndReportedUntilTheyAreGone) {
  Logged logged;
  Conditions conditions;
  const PastMirror devices{.container = kApp, .resource = "a/gpu", .ids = {"g1", "g2"}};
  conditions.FoundPastMirror({devices});
  EXPECT_EQ(
      logged.Take(),
      "error ConflictingDevicePlugin: container app of pod default/web: is assigned a/gpu g1 g2 by "
      "a plugin that is registered with the kubelet directly; alignd does not know this allocation "
      "and can allocate the same devices to another container; let the plugin register in alignd's "
      "device plugin directory only, then restart alignd: it takes over the devices of the "
      "container\n");
  const auto first = Only(conditions.Report()).first;
  PastMirror other = devices;
  other.resource = "a/nic";
  conditions.FoundPastMirror({other, devices});
  EXPECT_EQ(logged.Take().find("a/gpu"), std::string::npos);
  ASSERT_EQ(conditions.Report().size(), 2U);
  EXPECT_EQ(conditions.Report()[0].first, first);
  EXPECT_EQ(conditions.Report()[1].subject, kApp);
  conditions.FoundPastMirror({});
  EXPECT_TRUE(conditions.Report().empty());
  const std::string cleared = logged.Take();
  EXPECT_TRUE(
      cleared.starts_with("info ConflictingDevicePlugin resolved. It was: container app of pod "))
      << cleared;
}

TEST(Conditions, UpdateWithoutAnAnswerIsReportedAfterSomeSeconds) {
  Conditions conditions;
  conditions.UpdateBegun(kApp, "CPUs 1-3");
  const auto now = system_clock::now();
  EXPECT_TRUE(conditions.Report(now).empty());
  const Condition failed = Only(conditions.Report(now + seconds(7)));
  EXPECT_EQ(failed.type, ConditionType::kCpusetUpdateFailed);
  EXPECT_EQ(failed.subject, kApp);
  EXPECT_EQ(failed.times, 0U);
  EXPECT_TRUE(
      failed.message.starts_with("not moved to CPUs 1-3: the runtime has not answered for "))
      << failed.message;
  conditions.UpdateAnswered("c1");
  EXPECT_TRUE(conditions.Report(now + seconds(7)).empty());
}

TEST(Conditions, AnUpdateWithoutAnAnswerIsLoggedOnceAndWhenItIsAnswered) {
  Logged logged;
  Conditions conditions;
  conditions.UpdateIsSilent("c1");  // none has begun
  EXPECT_EQ(logged.Take(), "");
  conditions.UpdateBegun(kApp, "CPUs 1-3");
  conditions.UpdateIsSilent("c1");
  const std::string line = logged.Take();
  EXPECT_TRUE(
      line.starts_with("warning CpusetUpdateFailed: container app of pod default/web: not "
                       "moved to CPUs 1-3: the runtime has not answered for 3 s; "))
      << line;
  conditions.UpdateIsSilent("c1");
  EXPECT_EQ(logged.Take(), "");
  EXPECT_EQ(Only(conditions.Report(system_clock::now() + seconds(7))).times, 0U);  // none failed
  conditions.UpdateAnswered("c1");
  EXPECT_EQ(logged.Take(),
            "info CpusetUpdateFailed resolved. It was: container app of pod default/web: not moved "
            "to CPUs 1-3: the runtime has not answered for 3 s\n");
  conditions.UpdateAnswered("c1");
  EXPECT_EQ(logged.Take(), "");
}

TEST(Conditions, AnUpdateThatHangsAndFailsIsNotResolvedUntilOneSucceeds) {
  Logged logged;
  Conditions conditions;
  conditions.UpdateBegun(kApp, "CPUs 1-3");
  conditions.UpdateIsSilent("c1");
  logged.Take();
  conditions.UpdateFailed(kApp, "CPUs 1-3", {ErrorCode::kInternal, "out of order"});
  EXPECT_NE(logged.Take().find("not moved to CPUs 1-3: out of order"), std::string::npos);
  conditions.UpdateAnswered("c1");
  EXPECT_EQ(logged.Take(), "");
  conditions.UpdateBegun(kApp, "CPUs 1-3");
  conditions.UpdateIsSilent("c1");  // the log has the failure
  conditions.UpdateAnswered("c1");
  EXPECT_EQ(logged.Take(), "");
  conditions.UpdateSettled("c1");
  EXPECT_TRUE(logged.Take().starts_with("info CpusetUpdateFailed resolved. "));
}

TEST(Conditions, UpdateThatFailedAndNowHangsIsReportedOnceWithBoth) {
  Conditions conditions;
  conditions.UpdateFailed(kApp, "CPUs 1-3", {ErrorCode::kInternal, "out of order"});
  conditions.UpdateBegun(kApp, "CPUs 1-3");
  const Condition failed = Only(conditions.Report(system_clock::now() + seconds(7)));
  EXPECT_EQ(failed.times, 1U);
  EXPECT_TRUE(failed.message.starts_with(
      "not moved to CPUs 1-3: out of order; now the runtime has not answered for "))
      << failed.message;
  conditions.UpdateAnswered("c1");
  EXPECT_EQ(Only(conditions.Report()).message, "not moved to CPUs 1-3: out of order");
}

TEST(Conditions, FailedUpdateIsLoggedAgainWhenItsErrorChangesAndWhenItIsSettled) {
  Logged logged;
  Conditions conditions;
  const Error error{ErrorCode::kInternal, "out of order"};
  for (int i = 0; i < 3; ++i) conditions.UpdateFailed(kApp, "CPUs 1-3", error);
  const std::string line = logged.Take();
  EXPECT_TRUE(
      line.starts_with("warning CpusetUpdateFailed: container app of pod default/web: not "
                       "moved to CPUs 1-3: out of order; if ConflictingCPUManager names a cgroup "
                       "above the container, widen that cgroup, or set its CPUs online; otherwise "
                       "see in the runtime's log"))
      << line;
  EXPECT_EQ(std::ranges::count(line, '\n'), 1);
  conditions.UpdateFailed(kApp, "CPUs 1-3", {ErrorCode::kInternal, "busy"});
  EXPECT_NE(logged.Take().find("busy"), std::string::npos);
  EXPECT_EQ(Only(conditions.Report()).times, 4U);
  conditions.UpdateSettled("c1");
  EXPECT_EQ(logged.Take(),
            "info CpusetUpdateFailed resolved. It was: container app of pod default/web: not moved "
            "to CPUs "
            "1-3: busy\n");
  conditions.UpdateSettled("c1");
  EXPECT_EQ(logged.Take(), "");
}

TEST(Conditions, RuntimeThatFailsIsUnavailableUntilItAnswers) {
  Logged logged;
  Conditions conditions;
  EXPECT_TRUE(conditions.Report().empty());
  conditions.RuntimeAsked();
  conditions.RuntimeFailed({ErrorCode::kUnavailable, "no such file"});
  conditions.RuntimeAsked();
  const Condition outage = Only(conditions.Report());
  EXPECT_EQ(outage.type, ConditionType::kRuntimeUnavailable);
  EXPECT_TRUE(outage.message.starts_with("no such file. It has not answered since alignd started"))
      << outage.message;
  conditions.RuntimeFailed({ErrorCode::kDeadlineExceeded, "too late"});
  EXPECT_TRUE(Only(conditions.Report()).message.starts_with("too late. "));
  EXPECT_EQ(Only(conditions.Report()).first, outage.first);
  conditions.RuntimeAsked();
  logged.Take();
  conditions.RuntimeAnswered();
  EXPECT_TRUE(conditions.Report().empty());
  const std::string cleared = logged.Take();
  EXPECT_TRUE(cleared.starts_with("info RuntimeUnavailable resolved. It was: too late. "))
      << cleared;
  conditions.RuntimeAnswered();
  EXPECT_EQ(logged.Take(), "");
  conditions.RuntimeFailed({ErrorCode::kUnavailable, "gone"});
  EXPECT_TRUE(
      Only(conditions.Report()).message.starts_with("gone. The assignments are as of its last"));
}

TEST(Conditions, RuntimeThatDoesNotAnswerIsUnavailableAfterSomeSeconds) {
  Conditions conditions;
  conditions.RuntimeAsked();
  const auto now = system_clock::now();
  EXPECT_TRUE(conditions.Report(now).empty());
  const Condition outage = Only(conditions.Report(now + seconds(4)));
  EXPECT_EQ(outage.type, ConditionType::kRuntimeUnavailable);
  EXPECT_TRUE(outage.message.starts_with("the runtime has not answered for 4 s. "))
      << outage.message;
  EXPECT_LE(outage.first, now);
  EXPECT_EQ(outage.last, now + seconds(4));
  conditions.RuntimeAnswered();
  EXPECT_TRUE(conditions.Report(now + seconds(4)).empty());
}

TEST(Conditions, ARuntimeThatDoesNotAnswerIsLoggedOnceAndWhenItAnswers) {
  Logged logged;
  Conditions conditions;
  conditions.RuntimeIsSilent();  // it was not asked
  EXPECT_EQ(logged.Take(), "");
  conditions.RuntimeAsked();
  conditions.RuntimeIsSilent();
  const std::string line = logged.Take();
  EXPECT_TRUE(line.starts_with("warning RuntimeUnavailable: the runtime has not answered for "))
      << line;
  const Condition outage = Only(conditions.Report(system_clock::now() + seconds(7)));
  EXPECT_TRUE(outage.message.starts_with("the runtime has not answered for 7 s. "))
      << outage.message;
  conditions.RuntimeFailed({ErrorCode::kDeadlineExceeded, "runtime: Version: Deadline Exceeded"});
  conditions.RuntimeAsked();
  conditions.RuntimeIsSilent();
  EXPECT_EQ(logged.Take(), "");
  EXPECT_EQ(Only(conditions.Report()).times, 3U);
  conditions.RuntimeAnswered();
  EXPECT_TRUE(logged.Take().starts_with("info RuntimeUnavailable resolved. "));
}

TEST(Conditions, AnOutageIsLoggedOnceWhicheverCallsFailAndSaysOnceWhatToDo) {
  Logged logged;
  Conditions conditions;
  const auto fail = [&conditions](const char* method, const char* cause) {
    conditions.RuntimeAsked();
    conditions.RuntimeFailed({ErrorCode::kUnavailable,
                              std::string("runtime: ") + method + ": /run/x: " + cause,
                              "check that the container runtime runs"});
  };
  fail("ListPodSandbox", "connect: No such file or directory");
  const std::string line = logged.Take();
  EXPECT_EQ(line.find("check that the container runtime runs"), std::string::npos) << line;
  EXPECT_NE(line.find("; start the runtime"), std::string::npos) << line;
  fail("Version", "connect: No such file or directory");
  EXPECT_EQ(logged.Take(), "");
  fail("Version", "connect: Connection refused");
  EXPECT_NE(logged.Take().find("Connection refused"), std::string::npos);
}

TEST(Conditions, AMissingKubeletIsNotLoggedForEachContainer) {
  Logged logged;
  Conditions conditions;
  conditions.KubeletMissing(1, "c1");
  EXPECT_TRUE(logged.Take().starts_with("error KubeletNotAttached: "));
  conditions.KubeletMissing(2, "c0");
  EXPECT_EQ(logged.Take(), "");
  EXPECT_NE(Only(conditions.Report()).message.find("(c0 and 1 more)"), std::string::npos);
}

TEST(Conditions, AFileThatIsNotAppliedSaysOnceToCorrectIt) {
  Conditions conditions;
  const std::string correct =
      "correct the file and reload alignd, or write the former configuration back";
  conditions.ConfigurationNotApplied({ErrorCode::kCorrupt, "x", "correct the file"});
  EXPECT_EQ(Only(conditions.Report()).remedy, correct);
  conditions.ConfigurationNotApplied({ErrorCode::kInvalidArgument, "x", "give --may-move"});
  EXPECT_EQ(Only(conditions.Report()).remedy, "give --may-move; " + correct);
}

TEST(Conditions, SignOfAnotherManagerExpiresIfItIsNotSeenAgain) {
  Logged logged;
  Conditions conditions;
  conditions.SawConflictingManager("it writes", "stop it");
  conditions.SawConflictingManager("it writes", "stop it");
  EXPECT_EQ(logged.Take(), "error ConflictingCPUManager: it writes; stop it\n");
  EXPECT_EQ(Only(conditions.Report()).times, 2U);
  conditions.SawConflictingManager("where", "it is here", "remove it", std::chrono::hours(1));
  conditions.SawConflictingManager("where", "it is there", "remove it", std::chrono::hours(1));
  logged.Take();
  const auto now = system_clock::now();
  conditions.DropExpired(now + Conditions::kSignLasts / 2);
  EXPECT_EQ(conditions.Report().size(), 2U);
  EXPECT_EQ(logged.Take(), "");
  conditions.DropExpired(now + Conditions::kSignLasts);
  EXPECT_EQ(logged.Take(), "info ConflictingCPUManager resolved. It was: it writes\n");
  EXPECT_EQ(Only(conditions.Report()).message, "it is there");
  conditions.ConflictingManagerGone("never seen");
  EXPECT_EQ(logged.Take(), "");
  conditions.ConflictingManagerGone("where");
  EXPECT_EQ(logged.Take(), "info ConflictingCPUManager resolved. It was: it is there\n");
  EXPECT_TRUE(conditions.Report().empty());
}

TEST(Conditions, TheTopologyObjectIsNotPublishedWhileWritesFail) {
  Logged logged;
  Conditions conditions;
  conditions.PublisherCalled(std::nullopt);
  EXPECT_TRUE(conditions.Report().empty());
  const Error refused{ErrorCode::kUnavailable, "the API server answers 403", "allow it"};
  for (int i = 0; i < 2; ++i) conditions.PublisherCalled(refused);
  EXPECT_EQ(logged.Take(),
            "warning TopologyNotPublished: the topology object in the cluster is not the present "
            "one: the API server answers 403; allow it\n");
  EXPECT_EQ(Only(conditions.Report()).type, ConditionType::kTopologyNotPublished);
  conditions.PublisherCalled(std::nullopt);
  EXPECT_TRUE(conditions.Report().empty());
}

TEST(Conditions, AnAligndEventsThatHasEndedIsReported) {
  const auto now = system_clock::now();
  Conditions conditions;
  conditions.LookForPublisher(now + 2 * Conditions::kPublisherSilent);  // there was none
  EXPECT_TRUE(conditions.Report().empty());
  conditions.PublisherCalled(std::nullopt, now);
  conditions.LookForPublisher(now + Conditions::kPublisherSilent - seconds(1));
  EXPECT_TRUE(conditions.Report().empty());
  conditions.LookForPublisher(now + Conditions::kPublisherSilent);
  EXPECT_NE(Only(conditions.Report()).message.find("does not call any more"), std::string::npos);
  conditions.PublisherCalled(std::nullopt, now + Conditions::kPublisherSilent);
  EXPECT_TRUE(conditions.Report().empty());
  conditions.LookForPublisher(now + Conditions::kPublisherSilent + seconds(1));
  EXPECT_TRUE(conditions.Report().empty());
}

TEST(Conditions, UnmanagedContainersAreLoggedOnceAndReportedWhileTheyRun) {
  Logged logged;
  Conditions conditions;
  const Subject web{"c1", {"u1", "app"}, "default/web"};
  const Subject bare{"c2", {"u2", "app"}, ""};
  const auto line = [](const std::string& name) {
    return "warning UnmanagedContainer: container app of pod " + name +
           ": created at the runtime directly or while the bypass was on, without a decision of "
           "alignd: it runs in the shared pool and is assigned no memory nodes or devices; let the "
           "program that creates containers use alignd's socket (kubelet: `alignctl kubelet "
           "attach`), and turn the bypass off; then delete the pod\n";
  };
  conditions.FoundUnmanaged({web});
  conditions.FoundUnmanaged({web, bare});
  EXPECT_EQ(logged.Take(), line("default/web") + line("u2"));
  const std::vector<Condition> both = conditions.Report();
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].subject, web);
  EXPECT_LE(both[0].first, both[1].first);
  conditions.FoundUnmanaged({bare});
  EXPECT_EQ(Only(conditions.Report()).first, both[1].first);
  conditions.FoundUnmanaged({});
  EXPECT_TRUE(conditions.Report().empty());
  const std::string cleared = logged.Take();
  EXPECT_NE(cleared.find("info UnmanagedContainer resolved. It was: container app of pod u2: "),
            std::string::npos)
      << cleared;
}

TEST(Conditions, RepairsOfAContainerAreOneConditionWithACount) {
  Logged logged;
  Conditions conditions;
  const auto now = system_clock::now();
  const Repair repair{.time = now,
                      .container = kApp,
                      .was = "CPUs 0-7",
                      .should = "CPUs 1-2",
                      .noticed = milliseconds(30),
                      .lasted = milliseconds(4000)};
  for (int i = 0; i < 2; ++i) {
    conditions.Repaired(repair);
    const std::string line = logged.Take();
    EXPECT_TRUE(line.starts_with(
        "warning CpusetRepaired: container app of pod default/web: another program changed it to "
        "CPUs 0-7; restored to CPUs 1-2 within 30 ms of noticing the change, at most 4000 ms after "
        "the change; if it repeats"))
        << line;
  }
  EXPECT_EQ(Only(conditions.Report()).times, 2U);
  Repair later = repair;
  later.time = now + seconds(2);
  later.container.container_id = "c2";
  conditions.Repaired(later);
  later.time = now + seconds(1);
  later.container.container_id = "c0";
  conditions.Repaired(later);
  const std::vector<Condition> report = conditions.Report();
  ASSERT_EQ(report.size(), 3U);
  EXPECT_EQ(report[0].subject.container_id, "c2");
  EXPECT_EQ(report[1].subject.container_id, "c0");
  EXPECT_EQ(report[2].subject.container_id, "c1");
}

TEST(Conditions, KeepsTheNewestRepairs) {
  Conditions conditions;
  const auto now = system_clock::now();
  for (size_t i = 0; i < Conditions::kMaxKept + 1; ++i) {
    const Subject container{"c" + std::to_string(i), {"uid", "app"}};
    conditions.Repaired(
        {.time = now + seconds(i), .container = container, .was = "a", .should = "b"});
  }
  const std::vector<Condition> report = conditions.Report();
  EXPECT_EQ(report.size(), Conditions::kMaxKept);
  EXPECT_EQ(report.back().subject.container_id, "c1");
}

}  // namespace
}  // namespace alignd::reconcile
