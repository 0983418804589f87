// The exact output of `status`, `explain` and `simulate --explain`.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "cli/program.h"
#include "cli/report_json.h"
#include "cli/report_text.h"
#include "control/health.h"
#include "host/printable.h"
#include "host/yaml.h"
#include "report_fixture.h"

namespace alignd::cli {
namespace {

using control::ProblemsOf;

std::string TextOf(const v1::GetStatusResponse& status, bool wide = false) {
  std::ostringstream out;
  PrintStatus(status, wide, out);
  return out.str();
}

std::string TextOf(const v1::ExplainResponse& explained) {
  std::ostringstream out;
  PrintDecisions(explained, /*knows_queue=*/true, out);
  return out.str();
}

TEST(ReportText, ShowsStatus) {
  EXPECT_EQ(TextOf(Status(), /*wide=*/true),
            "alignd 1.2.3 on worker: degraded, up 1m40s, generation 7\n"
            "  device unhealthy\n"
            "CPU manager:      static (full-pcpus-only=true)\n"
            "memory manager:   Static\n"
            "topology manager: restricted, scope container, as kubelet 1.36\n"
            "shared pool:      CPUs 0-1,4-5, reserved 0\n"
            "\n"
            "free (#: exclusive, .: free and used by the shared pool, r: reserved):\n"
            "  NUMA node 0: [r##.] 1 of 4 CPUs free (1), exclusive 2 (2-3), reserved 1 (0)\n"
            "    hugepages-2Mi 0 B free of 0 B, memory 1 GiB free of 2 GiB\n"
            "    example.com/gpu 0 free of 1\n"
            "  NUMA node 8: 0 CPUs\n"
            "\n"
            "device plugins:\n"
            "  example.com/gpu: 0 free of 3, 1 unhealthy\n"
            "  example.com/nic: 0 free of 0\n"
            "\n"
            "assigned:\n"
            "  POD               CONTAINER  CPUS    MEMORY    DEVICES\n"
            "  default/web (u1)  app        2-3     NUMA 0,1  example.com/gpu gpu0 (NUMA 0) gpu1\n"
            "  u2                sidecar    shared  any       example.com/gpu gpu2 (NUMA 0,1)\n");
  EXPECT_TRUE(TextOf(Status()).ends_with("\nassigned: 2 containers (alignctl pods, or -o wide)\n"));
}

// Nodes of one size have bars of one length, whatever rounding leaves.
TEST(ReportText, LongBarsHaveOneLength) {
  const auto bar_of = [](int exclusive, int free, int reserved) {
    v1::GetStatusResponse status = Status();
    v1::NumaNode& node = *status.mutable_numa(0);
    auto cpus = [next = 0](int count) mutable {
      next += count;
      return count == 0 ? std::string()
                        : std::to_string(next - count) + "-" + std::to_string(next - 1);
    };
    node.set_exclusive_cpus(cpus(exclusive));
    node.set_free_cpus(cpus(free));
    node.set_reserved_cpus(cpus(reserved));
    const int all = exclusive + free + reserved;
    node.set_cpus(static_cast<uint32_t>(all));
    node.set_all_cpus("0-" + std::to_string(all - 1));
    const std::string text = TextOf(status);
    const size_t begin = text.find('[') + 1;
    return text.substr(begin, text.find(']', begin) - begin);
  };
  EXPECT_EQ(bar_of(0, 62, 2), "r" + std::string(39, '.'));
  EXPECT_EQ(bar_of(1, 62, 1), "r#" + std::string(38, '.'));
  EXPECT_EQ(bar_of(62, 1, 1), "r" + std::string(38, '#') + ".");
  for (const int all : {2, 39, 40, 41, 64, 97, 128}) {
    for (int exclusive = 0; exclusive <= all; ++exclusive) {
      for (const int reserved : {0, 1, (all - exclusive) / 2, all - exclusive}) {
        const int free = all - exclusive - reserved;
        if (free < 0) continue;
        const std::string bar = bar_of(exclusive, free, reserved);
        ASSERT_EQ(static_cast<int>(bar.size()), std::min(all, 40)) << bar;
        for (const auto& [letter, count] :
             {std::pair('#', exclusive), {'.', free}, {'r', reserved}}) {
          ASSERT_EQ(bar.find(letter) != std::string::npos, count > 0) << bar;
        }
      }
    }
  }
}

// Each CPU has its character.
TEST(ReportText, ShowsCpusThatAreKeptSharedOrOffline) {
  v1::GetStatusResponse status = Status();
  v1::NumaNode& node = *status.mutable_numa(0);
  node.set_cpus(8);
  node.set_all_cpus("0-7");
  node.mutable_shared_millis()->set_free(500);
  node.mutable_shared_millis()->set_total(5000);
  EXPECT_NE(
      TextOf(status).find(", s: kept for what containers request that stay there):\n"
                          "  NUMA node 0: [r##ssss.] 1 of 8 CPUs free (1), exclusive 2 (2-3), "
                          "reserved 1 (0), shared 4 (4-7)\n"),
      std::string::npos)
      << TextOf(status);
  status.set_offline_cpus("7,9");
  EXPECT_NE(TextOf(status).find(", -: offline):\n  NUMA node 0: [r##sss-.] 1 of 8"),
            std::string::npos)
      << TextOf(status);
  EXPECT_NE(TextOf(status).find("shared 3 (4-6), offline 1 (7)\n"), std::string::npos);
}

TEST(ReportText, ShowsADisconnectedPluginAndItsDevicesOfEachNumaNode) {
  v1::GetStatusResponse status = Status();
  v1::DeviceResource& gpu = *status.mutable_devices(0);
  gpu.set_registered(false);
  gpu.set_disconnected_unix_ms(1'700'000'090'000);
  gpu.clear_healthy();
  gpu.set_unhealthy(3);
  v1::Availability& of_node = (*status.mutable_numa(0)->mutable_devices())["example.com/gpu"];
  of_node.set_total(0);
  of_node.set_unhealthy(3);
  const std::string text = TextOf(status);
  EXPECT_NE(text.find("    example.com/gpu 0 free of 3\n"), std::string::npos) << text;
  EXPECT_NE(
      text.find("  example.com/gpu: 0 free of 3, 3 unhealthy, its plugin is disconnected since "
                "2023-11-14T22:14:50Z\n"),
      std::string::npos)
      << text;
  EXPECT_EQ(ProblemsOf(status), std::vector<std::string>{"device plugin not registered"});
  const std::string json = StatusJson(status);
  EXPECT_NE(json.find("\"disconnected_since\":\"2023-11-14T22:14:50Z\""), std::string::npos)
      << json;
  EXPECT_NE(json.find("\"disconnected_since\":null"), std::string::npos) << json;  // of the other
}

TEST(ReportText, ShowsThatDecisionsAreNotSaved) {
  v1::GetStatusResponse status = Status();
  status.set_decisions_not_saved("write f: too little free space; free space");
  const std::string text = TextOf(status);
  EXPECT_NE(text.find("  decisions not saved\n"), std::string::npos) << text;
  EXPECT_NE(text.find("decisions:        not saved for alignctl explain: write f: too little free "
                      "space; free space\n"),
            std::string::npos)
      << text;
}

TEST(ReportText, ShowsContainersThatAreNotPlacedWithTheirAge) {
  v1::GetStatusResponse status = Status();
  status.MergeFrom(Parse<v1::GetStatusResponse>(R"pb(
    pending {
      pod_uid: "u8"
      pod: "default/train"
      container: "app"
      state: "refused"
      reason: "TopologyAffinityError"
      first_unix_ms: 1700000000000
      last_unix_ms: 1700000090000
      times: 3
    }
    pending {
      pod: "default/late"
      state: "waiting"
      message: "its plugin has not registered"
      first_unix_ms: 1700000070000
      until_unix_ms: 1700000190000
    }
    pending {
      pod: "default/large"
      state: "waiting"
      reason: "TopologyAffinityError"
      message: "no locality"
      first_unix_ms: 1700000070000
      position: 2
      priority: -5
    })pb"));
  status.mutable_pending(0)->set_message(std::string(300, 'x'));
  const std::string text = TextOf(status);
  EXPECT_NE(text.find("alignd 1.2.3 on worker: degraded, up 1m40s, generation 7\n"
                      "  container refused\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\npending:\n"
                      "  pod default/train, container app: refused for 1m40s (3 times): "
                      "TopologyAffinityError: " +
                      std::string(160, 'x') +
                      " ... (-o wide)\n"
                      "  pod default/late: waiting for 30s, at most 1m30s more: its plugin has not "
                      "registered\n"
                      "  pod default/large: waiting for 30s, position 2 in the queue: "
                      "TopologyAffinityError: no locality\n"),
            std::string::npos)
      << text;
  EXPECT_NE(TextOf(status, true).find(": TopologyAffinityError: " + std::string(300, 'x') + "\n"),
            std::string::npos);
  const std::string json = StatusJson(status);
  EXPECT_NE(json.find(R"("container":"app","state":"refused","reason":"TopologyAffinityError")"),
            std::string::npos)
      << json;
  EXPECT_NE(json.find(R"("first":"2023-11-14T22:13:20Z","last":"2023-11-14T22:14:50Z",)"
                      R"("until":null,"age":"1m40s","times":3)"),
            std::string::npos)
      << json;
  EXPECT_NE(json.find(R"("position":2,"priority":-5)"), std::string::npos) << json;
}

TEST(Health, EachProblemDegradesTheNode) {
  EXPECT_EQ(ProblemsOf(Status()), std::vector<std::string>{"device unhealthy"});
  const auto problems = [](const std::string& more) {
    v1::GetStatusResponse status = Status();
    status.mutable_devices(0)->set_unhealthy(0);
    status.MergeFrom(Parse<v1::GetStatusResponse>(more));
    return ProblemsOf(status);
  };
  using Problems = std::vector<std::string>;
  EXPECT_EQ(problems(R"pb(conditions { type: "RuntimeUnavailable" })pb"),
            Problems{"RuntimeUnavailable"});
  EXPECT_EQ(problems(R"pb(pending { state: "failed" }
                          pending { state: "failed" })pb"),
            Problems{"container failed (2)"});
  EXPECT_EQ(problems(R"pb(pending { state: "waiting" })pb"), Problems{});
  EXPECT_EQ(problems(R"pb(pending { state: "waiting" times: 1 })pb"),
            Problems{"container waits again"});
  EXPECT_EQ(problems(R"pb(pending { state: "waiting" position: 1 }
                          pending { state: "waiting" position: 2 times: 3 })pb"),
            Problems{"pod waits for resources (2)"});
  EXPECT_EQ(problems(R"pb(devices { name: "example.com/fpga" })pb"),
            Problems{"device plugin not registered"});
  EXPECT_EQ(problems(R"pb(containers { devices { devices { problem: "unhealthy" } } })pb"),
            Problems{"assigned device not usable"});
  EXPECT_EQ(problems(R"pb(conditions { type: "UnknownFeatureGate" })pb"), Problems{});
  EXPECT_EQ(problems(R"pb(conditions { type: "UnsupportedAnnotation" })pb"), Problems{})
      << "pods have it";
  // An event lasts for ten minutes.
  EXPECT_EQ(problems(R"pb(conditions { type: "CpusetRepaired" last_unix_ms: 1699999999000 })pb"),
            Problems{"CpusetRepaired"});
  EXPECT_EQ(problems(R"pb(conditions { type: "CpusetRepaired" last_unix_ms: 1699999499000 })pb"),
            Problems{});
}

TEST(ReportText, ColoursOnlyWhereTheyAreAskedForAndNeverThoseOfOthers) {
  v1::GetStatusResponse status = Status();
  status.set_node("\x1b[31mred");
  status.mutable_devices(0)->set_unhealthy(0);
  std::ostringstream out;
  {
    const host::PrintableStream printable(out);
    PrintStatus(status, false, out);
  }
  EXPECT_EQ(out.str().find('\x1b'), std::string::npos) << out.str();
  out.str("");
  SetColours(out, true);
  {
    const host::PrintableStream printable(out);
    PrintStatus(status, false, out);
  }
  EXPECT_NE(out.str().find("on \\u001b[31mred: \x1b[32mhealthy\x1b[0m, up"), std::string::npos)
      << out.str();
}

TEST(Output, DurationsAndTimes) {
  const auto text = [](int64_t seconds) { return ReadableDuration(std::chrono::seconds(seconds)); };
  EXPECT_EQ(text(-5), "0s");
  EXPECT_EQ(text(30), "30s");
  EXPECT_EQ(text(150), "2m30s");
  EXPECT_EQ(text(3'600), "1h");
  EXPECT_EQ(text(3'601), "1h");
  EXPECT_EQ(text(3'960), "1h6m");
  EXPECT_EQ(text(90'061), "1d1h");
  EXPECT_EQ(IsoTime(1'700'000'000'123), "2023-11-14T22:13:20Z");
}

TEST(Output, YamlIsTheSameAsJson) {
  const std::string json = StatusJson(Status());
  const Result<std::string> back = host::YamlToJson(AsData(json, "yaml"));
  ASSERT_TRUE(back.ok()) << back.error().Text();
  EXPECT_EQ(*back, *host::YamlToJson(AsData(*back, "yaml")));
  EXPECT_NE(back->find(R"("free_cpus":"1")"), std::string::npos) << *back;  // a text, no number
  EXPECT_EQ(AsData(R"({"a":[],"b":{"c":[1,{"d":"x: y","e":[["f"]]}]},"g":null})", "yaml"),
            "a: []\n"
            "b:\n"
            "  c:\n"
            "    - 1\n"
            "    - d: \"x: y\"\n"
            "      e:\n"
            "        - - \"f\"\n"
            "g: null\n");
  // Without quotes, a reader of YAML 1.1 or 1.2 takes these for no texts, or for no keys.
  EXPECT_EQ(AsData(R"({"On":1,"y":1,"NULL":1,"12":1,"1e3":1,".inf":1,"":1,"a b":1,"a:":1,)"
                   R"("a.com/gpu":1,"hugepages-2Mi":1,"free_cpus":1})",
                   "yaml"),
            "\"On\": 1\n\"y\": 1\n\"NULL\": 1\n\"12\": 1\n\"1e3\": 1\n\".inf\": 1\n\"\": 1\n"
            "\"a b\": 1\n\"a:\": 1\na.com/gpu: 1\nhugepages-2Mi: 1\nfree_cpus: 1\n");
}

TEST(Report, ShowsProblemsAndKubeletIdsOfAssignedDevices) {
  v1::GetStatusResponse status = Status();
  v1::Device& gpu = *status.mutable_containers(0)->mutable_devices(0)->mutable_devices(0);
  gpu.set_kubelet_id("gpu3");
  gpu.set_problem("unhealthy");
  const std::string text = TextOf(status, /*wide=*/true);
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
          "  example.com/nic: 0 free of 0\n"
          "\n"
          "conditions:\n"
          "  RuntimeUnavailable since 1970-01-01T00:00:01Z: no such socket\n"
          "    What to do: start the runtime\n"
          "  PodQuotaNotLifted since 1970-01-01T00:00:02Z (3 times, last seen "
          "1970-01-01T00:00:47Z): pod u1: read-only\n"
          "  CpusetUpdateFailed since 1970-01-01T00:00:03Z: container app of pod default/web: "
          "not moved\n"
          "    What to do: wait\n"
          "\n"
          "assigned: 2 containers"),
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
  EXPECT_NE(text.find("repair 4\n  CpusetRepaired: 2 more (-o wide)\n"), std::string::npos) << text;
}

TEST(ReportText, ShowsTheReasonsOfARefusal) {
  EXPECT_EQ(TextOf(Explained(Refused())),
            "2023-11-14T22:13:20Z  pod default/web (u1) refused, 3 times in a row\n"
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
            "2023-11-14T22:13:20Z  pod default/web (u1) admitted\n"
            "  requested: app: 9 exclusive CPUs\n"
            "  app:\n"
            "    not aligned: topologyManagerPolicy is none\n"
            "  assigned to app: CPUs 2-3, memory of NUMA 0,1, example.com/gpu gpu0 (NUMA 0) gpu1\n"
            "\n"
            "{..}: NUMA nodes; !: preferred\n");
}

TEST(ReportText, DoesNotCallAResizeNothingToDecide) {
  const auto shown = [](const std::string& source) {
    v1::ExplainResponse explained;
    v1::PodDecision& decision = *explained.add_decisions();
    decision.set_outcome("admitted");
    decision.set_source(source);
    return TextOf(explained);
  };
  EXPECT_EQ(shown("in-place resize").find("nothing to decide"), std::string::npos);
  EXPECT_EQ(shown("in-place resize").find("NUMA nodes; !"), std::string::npos) << "it has no hints";
  EXPECT_NE(shown("annotation").find("nothing to decide"), std::string::npos);
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
  for (const std::string& text : {TextOf(status, true), TextOf(Explained(decision))}) {
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
