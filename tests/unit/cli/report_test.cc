// The exact output of `status`, `explain` and `simulate --explain`.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "cli/program.h"
#include "cli/report_json.h"
#include "cli/report_text.h"
#include "report_fixture.h"

namespace alignd::cli {
namespace {

std::string TextOf(const v1::GetStatusResponse& status) {
  std::ostringstream out;
  PrintStatus(status, out);
  return out.str();
}

std::string TextOf(const v1::ExplainResponse& explained) {
  std::ostringstream out;
  PrintDecisions(explained, out);
  return out.str();
}

TEST(ReportText, ShowsStatus) {
  EXPECT_EQ(TextOf(Status()),
            "alignd 1.2.3, generation 7\n"
            "CPU manager:      static (full-pcpus-only=true)\n"
            "memory manager:   Static\n"
            "topology manager: restricted, scope container, as kubelet 1.36\n"
            "shared pool:      CPUs 0-1,4-5, reserved 0\n"
            "\n"
            "free:\n"
            "  NUMA node 0: 1 of 3 CPUs (1), 0 of 0 hugepages-2Mi, 1024Mi of 2048Mi memory, "
            "0 of 1 example.com/gpu\n"
            "  NUMA node 8: 0 of 0 CPUs\n"
            "  example.com/gpu: 0 of 2, 1 unhealthy\n"
            "  example.com/nic: 0 of 0, its plugin is not registered\n"
            "\n"
            "assigned:\n"
            "  POD               CONTAINER  CPUS    MEMORY    DEVICES\n"
            "  default/web (u1)  app        2-3     NUMA 0,1  example.com/gpu gpu0 (NUMA 0) gpu1\n"
            "  u2                sidecar    shared  any       example.com/gpu gpu2 (NUMA 0,1)\n");
}

TEST(Report, ShowsProblemsAndKubeletIdsOfAssignedDevices) {
  v1::GetStatusResponse status = Status();
  v1::Device& gpu = *status.mutable_containers(0)->mutable_devices(0)->mutable_devices(0);
  gpu.set_kubelet_id("gpu3");
  gpu.set_problem("unhealthy");
  const std::string text = TextOf(status);
  EXPECT_NE(text.find("example.com/gpu gpu0 (NUMA 0) (kubelet: gpu3) [unhealthy] gpu1\n"),
            std::string::npos)
      << text;
  const std::string json = StatusJson(status);
  EXPECT_NE(json.find(R"([{"id":"gpu0","numa":[0],"kubelet_id":"gpu3","problem":"unhealthy"},)"
                      R"({"id":"gpu1","numa":[]}])"),
            std::string::npos)
      << json;
}

TEST(ReportText, ShowsANodeWithoutAssignments) {
  v1::GetStatusResponse status = Status();
  status.clear_containers();
  const std::string text = TextOf(status);
  EXPECT_TRUE(text.ends_with("\n\nno container is assigned anything\n")) << text;
}

TEST(ReportText, ShowsConditionsBetweenWhatIsFreeAndWhatIsAssigned) {
  v1::GetStatusResponse status = Status();
  status.MergeFrom(Parse<v1::GetStatusResponse>(R"pb(
    conditions {
      type: "RuntimeUnavailable"
      first_unix_ms: 1000
      last_unix_ms: 46000
      times: 1
      message: "no such socket"
      remedy: "start the runtime"
    }
    conditions {
      type: "PodQuotaNotLifted"
      first_unix_ms: 2000
      last_unix_ms: 47000
      times: 3
      pod_uid: "u1"
      message: "read-only"
    }
    conditions {
      type: "CpusetUpdateFailed"
      first_unix_ms: 3000
      last_unix_ms: 48000
      container_id: "c1"
      pod_uid: "u1"
      pod: "default/web"
      container: "app"
      message: "not moved"
      remedy: "wait"
    })pb"));
  const std::string text = TextOf(status);
  EXPECT_NE(
      text.find(
          "its plugin is not registered\n"
          "\n"
          "conditions:\n"
          "  RuntimeUnavailable since 1970-01-01 00:00:01 UTC: no such socket\n"
          "    What to do: start the runtime\n"
          "  PodQuotaNotLifted since 1970-01-01 00:00:02 UTC (3 times, last seen 1970-01-01 "
          "00:00:47 UTC): pod u1: read-only\n"
          "  CpusetUpdateFailed since 1970-01-01 00:00:03 UTC: container app of pod default/web: "
          "not moved\n"
          "    What to do: wait\n"
          "\n"
          "assigned:\n"),
      std::string::npos)
      << text;
}

TEST(ReportText, ShowsTheFirstRepairedContainersAndTheNumberOfOthers) {
  v1::GetStatusResponse status;
  for (int i = 0; i < 7; ++i) {
    v1::Condition& repaired = *status.add_conditions();
    repaired.set_type("CpusetRepaired");
    repaired.set_message("repair " + std::to_string(i));
  }
  const std::string text = TextOf(status);
  EXPECT_NE(text.find("repair 4\n  CpusetRepaired: 2 more containers\n"), std::string::npos)
      << text;
}

TEST(ReportText, ShowsTheReasonsOfARefusal) {
  EXPECT_EQ(TextOf(Explained(Refused())),
            "2023-11-14 22:13:20 UTC  pod default/web (u1) refused, 3 times in a row\n"
            "  TopologyAffinityError: no locality\n"
            "  requested: app: 9 exclusive CPUs\n"
            "  source: annotation\n"
            "  free: NUMA node 0: 1 of 4 CPUs (3)\n"
            "  app:\n"
            "    cpu: {0}! {1}! {0,1}\n"
            "    example.com/gpu: any!\n"
            "    example.com/nic: fits nowhere\n"
            "    memory: {0}! and 3 more\n"
            "    merged: {0}!\n"
            "      {0}!: best\n"
            "      {1}!: as good, but {0} is lower\n"
            "      and 2 more\n"
            "      a note\n"
            "  log: as app\n"
            "\n"
            "{..}: NUMA nodes; !: preferred\n");
}

TEST(ReportText, ShowsAssignmentsWithoutTopology) {
  v1::PodDecision decision = Refused();
  decision.set_times(1);
  decision.set_outcome("admitted");
  decision.clear_reason();
  decision.clear_message();
  decision.clear_available();
  decision.clear_source();
  decision.clear_containers();
  decision.add_containers()->set_container("app");
  *decision.add_assignments() = Status().containers(0);
  EXPECT_EQ(TextOf(Explained(decision)),
            "2023-11-14 22:13:20 UTC  pod default/web (u1) admitted\n"
            "  requested: app: 9 exclusive CPUs\n"
            "  app:\n"
            "    not aligned: topologyManagerPolicy is none\n"
            "  assigned to app: CPUs 2-3, memory of NUMA 0,1, example.com/gpu gpu0 (NUMA 0) gpu1\n"
            "\n"
            "{..}: NUMA nodes; !: preferred\n");
}

TEST(ReportText, SaysThatNoDecisionIsKnown) {
  EXPECT_EQ(TextOf(v1::ExplainResponse()), "no decision is known\n");
}

// A text that would clear the terminal, turn the line around and look like a line of the report.
constexpr char kHostile[] = "x\nforged \x1b[2J\u202e";

TEST(ReportText, PrintsNoTextOfAnotherProgramAsItIs) {
  v1::GetStatusResponse status = Status();
  v1::ContainerAssignment& container = *status.mutable_containers(0);
  container.set_pod(kHostile);
  container.set_container(kHostile);
  v1::AssignedDevices& assigned = *container.add_devices();
  assigned.set_resource(kHostile);
  assigned.add_devices()->set_id(kHostile);
  (*status.mutable_policies()->mutable_cpu_manager_options())[kHostile] = kHostile;
  v1::Condition& condition = *status.add_conditions();
  condition.set_type(kHostile);
  condition.set_message(kHostile);
  condition.set_remedy(kHostile);
  v1::PodDecision decision = Refused();
  decision.set_pod_name(kHostile);
  decision.set_message(kHostile);
  decision.set_source(kHostile);
  decision.mutable_containers(0)->add_notes(kHostile);
  for (const std::string& text : {TextOf(status), TextOf(Explained(decision))}) {
    EXPECT_NE(text.find("x\\nforged \\u001b[2J\\u202e"), std::string::npos) << text;
    EXPECT_EQ(text.find("\nforged"), std::string::npos) << text;
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
    EXPECT_EQ(text.find("\u202e"), std::string::npos) << text;
  }
}

TEST(RunProgram, PrintsNoTextOfAnotherProgramAsItIs) {
  static const Command fails = [](CLI::App& app, Action& action) {
    app.add_subcommand("fails")->callback([&action] {
      action = [](std::ostream& out) -> Result<int> {
        out << "a\x1b[2J\nb\n";
        return Error{ErrorCode::kIo, kHostile, "wait"};
      };
    });
  };
  std::ostringstream out;
  std::ostringstream err;
  const char* const argv[] = {"alignctl", "fails"};
  EXPECT_EQ(RunProgram(2, argv, {fails}, out, err), kFailure);
  EXPECT_EQ(out.str(), "a\\u001b[2J\nb\n");
  EXPECT_EQ(err.str(), "alignctl: x\\nforged \\u001b[2J\\u202e; wait\n");
}

}  // namespace
}  // namespace alignd::cli
