// Messages of refusals, and how much of them the status shows.
#include "cli/refusal_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "cli/report_text.h"
#include "report_fixture.h"

namespace alignd::cli {
namespace {

constexpr char kRefusal[] =
    "Resources cannot be allocated with Topology locality. Cause: 4 exclusive CPUs are requested, "
    "and the node has 2 free of 8; the alignment is not the cause. Requested: app: 4 exclusive "
    "CPUs. Free: NUMA node 0: 2 of 4 "
    "CPUs (2-3); NUMA node 1: 0 of 4 CPUs. What would help: it fits when pod a ends; "
    "topologyManagerPolicy best-effort would admit it now. Still assigned: a (CPUs 4-7); b (CPUs "
    "0-1). Wait until these pods end, or delete them. Waits: position 1 of 1 in the queue";

class RefusalText : public ::testing::Test {
 protected:
  static std::string Printed(const std::string& reason, const std::string& message) {
    std::ostringstream out;
    PrintRefusal(reason, message, "  ", out);
    return out.str();
  }

  static std::string TextOf(const v1::GetStatusResponse& status, bool wide) {
    std::ostringstream out;
    PrintStatus(status, wide, out);
    return out.str();
  }

  static v1::PendingPod& AddPending(v1::GetStatusResponse& status, const std::string& pod,
                                    const std::string& state) {
    v1::PendingPod& pending = *status.add_pending();
    pending.set_pod(pod);
    pending.set_state(state);
    pending.set_first_unix_ms(status.time_unix_ms() - 5'000);
    return pending;
  }
};

TEST_F(RefusalText, HasALineForEachPart) {
  EXPECT_EQ(
      Printed("TopologyAffinityError", kRefusal),
      "  TopologyAffinityError: Resources cannot be allocated with Topology locality\n"
      "  cause: 4 exclusive CPUs are requested, and the node has 2 free of 8; the alignment is "
      "not the cause\n"
      "  requested: app: 4 exclusive CPUs\n"
      "  free:\n"
      "    NUMA node 0: 2 of 4 CPUs (2-3)\n"
      "    NUMA node 1: 0 of 4 CPUs\n"
      "  what would help:\n"
      "    it fits when pod a ends\n"
      "    topologyManagerPolicy best-effort would admit it now\n"
      "  still assigned:\n"
      "    a (CPUs 4-7)\n"
      "    b (CPUs 0-1)\n"
      "  what to do: Wait until these pods end, or delete them\n"
      "  waits: position 1 of 1 in the queue\n");
}

TEST_F(RefusalText, LeavesOtherMessagesAsTheyAre) {
  EXPECT_EQ(Printed("", "disk full; free space"), "  disk full; free space\n");
  EXPECT_EQ(Printed("failed", ""), "  failed: \n");
  EXPECT_EQ(Printed("", "it waits. What would help: delete a"),
            "  it waits\n  what would help: delete a\n");
  EXPECT_EQ(Printed("",
                    "no. Still assigned: a, which is ending: CPUs 1. A pod that is ending "
                    "releases them when its last process has ended: wait"),
            "  no\n  still assigned: a, which is ending: CPUs 1\n"
            "  what to do: A pod that is ending releases them when its last process has ended: "
            "wait\n");
  EXPECT_EQ(Printed("", "no. Still assigned: a: CPUs 1. Wait until this pod ends, or delete it"),
            "  no\n  still assigned: a: CPUs 1\n"
            "  what to do: Wait until this pod ends, or delete it\n");
  // The kubelet's device manager has a label of the same name.
  EXPECT_EQ(
      PartsOfRefusal("unavailable for a.com/gpu. Requested: 2, Available: 1. Requested: app: "
                     "2 a.com/gpu. Free: NUMA node 0: 1 of 1 a.com/gpu"),
      (std::vector<RefusalPart>{{"", {"unavailable for a.com/gpu. Requested: 2, Available: 1"}},
                                {"requested", {"app: 2 a.com/gpu"}},
                                {"free", {"NUMA node 0: 1 of 1 a.com/gpu"}}}));
}

TEST_F(RefusalText, WhyNotShowsTheRequestUnlessTheMessageHasIt) {
  v1::WhyNotResponse why;
  why.set_pod("default/p");
  why.set_asked("app: 2 exclusive CPUs");
  const auto text_with = [&why](const std::string& message) {
    why.set_message(message);
    std::ostringstream out;
    PrintWhyNot(why, out);
    return out.str();
  };
  for (const char* const message :
       {"no", "no. Still assigned: a: CPUs 1", "no. Cause: none is free"}) {
    EXPECT_NE(text_with(message).find("\n  requested: app: 2 exclusive CPUs\n"), std::string::npos)
        << text_with(message);
  }
  EXPECT_EQ(text_with("no. Requested: app: 3 CPUs. Free: none").find("2 exclusive"),
            std::string::npos);
}

TEST_F(RefusalText, WhyNotShowsThePodsThatAreServedFirst) {
  v1::WhyNotResponse why;
  why.set_pod("default/b");
  why.set_is_complete(true);
  why.set_reason("WaitsForEarlierPods");
  why.set_message("pod default/a waits for cpu");
  const auto add = [&why](const std::string& kind, const std::string& what) {
    v1::Change& change = *why.add_changes();
    change.set_kind(kind);
    change.set_what(what);
  };
  add("wait-for-pods", "wait until pod default/a has started");
  add("reduce-request", "request 1 instead of 2 CPUs");
  std::ostringstream out;
  PrintWhyNot(why, out);
  EXPECT_EQ(out.str(),
            "pod default/b: does not fit now\n"
            "  WaitsForEarlierPods: pod default/a waits for cpu\n"
            "first, because nothing else helps before:\n"
            "  wait-for-pods: wait until pod default/a has started\n"
            "each of these changes lets it fit, the smallest first:\n"
            "  reduce-request: request 1 instead of 2 CPUs\n");
}

// What is free is on the same screen, and the list of the others can be long.
TEST_F(RefusalText, StatusShowsTheCauseAndWhatWouldHelp) {
  v1::GetStatusResponse status = Status();
  v1::PendingPod& pod = AddPending(status, "default/big", "refused");
  pod.set_reason("TopologyAffinityError");
  pod.set_message(kRefusal);
  EXPECT_NE(TextOf(status, false)
                .find("  pod default/big: refused for 5s: TopologyAffinityError: Resources cannot "
                      "be allocated with Topology locality\n"
                      "    cause: 4 exclusive CPUs are requested, and the node has 2 free of 8; "
                      "the alignment is not the cause\n"
                      "    requested: app: 4 exclusive CPUs\n"
                      "    what would help: it fits when pod a ends; topologyManagerPolicy "
                      "best-effort would admit it now\n"
                      "\n"),
            std::string::npos)
      << TextOf(status, false);
  EXPECT_NE(TextOf(status, true).find("    free:\n      NUMA node 0: 2 of 4 CPUs (2-3)\n"),
            std::string::npos)
      << TextOf(status, true);
}

// The status shows the pod as refused then.
TEST_F(RefusalText, ExplainSaysIfAPodThatWaitedHasNoPlaceNow) {
  v1::ExplainResponse explained;
  v1::PodDecision& decision = *explained.add_decisions();
  decision.set_pod_name("p");
  decision.set_outcome("waiting");
  decision.set_message("no");
  const auto first_line = [&explained](bool knows_queue = true) {
    std::ostringstream out;
    PrintDecisions(explained, knows_queue, out);
    return out.str().substr(0, out.str().find('\n'));
  };
  EXPECT_TRUE(first_line().ends_with(" waiting")) << "for a device plugin: " << first_line();
  decision.set_reason("TopologyAffinityError");
  EXPECT_TRUE(first_line().ends_with(" waiting, no place in the queue now")) << first_line();
  EXPECT_TRUE(first_line(false).ends_with(" waiting")) << "saved: " << first_line(false);
  decision.set_position(2);
  EXPECT_TRUE(first_line().ends_with(" waiting, position 2 in the queue")) << first_line();
}

TEST_F(RefusalText, StatusStaysOnOneScreen) {
  v1::GetStatusResponse status = Status();
  for (int i = 0; i < 30; ++i) AddPending(status, "default/w" + std::to_string(i), "waiting");
  AddPending(status, "default/r", "refused");
  AddPending(status, "default/f", "failed");
  for (int i = 0; i < 40; ++i) {
    v1::Condition& condition = *status.add_conditions();
    condition.set_type("UnmanagedContainer");
    condition.set_message("message " + std::to_string(i));
  }
  status.add_conditions()->set_type("StateRebuilt");
  const std::string text = TextOf(status, false);
  EXPECT_NE(text.find("\npending:\n  pod default/r: refused for 5s: \n  pod default/f: failed"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  pod default/w5: waiting for 5s: \n  and 24 more (-o wide)\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("message 4\n  StateRebuilt"), std::string::npos) << text;
  EXPECT_NE(text.find("  UnmanagedContainer: 35 more (-o wide)\n"), std::string::npos) << text;
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 50) << text;
  const std::string wide = TextOf(status, true);
  EXPECT_NE(wide.find("pod default/w29: "), std::string::npos) << wide;
  EXPECT_NE(wide.find("message 39\n"), std::string::npos) << wide;
  EXPECT_EQ(wide.find(" more (-o wide)"), std::string::npos) << wide;
}

}  // namespace
}  // namespace alignd::cli
