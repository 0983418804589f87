// What `status`, `explain` and `simulate --explain` print, to the letter.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "cli/report_json.h"
#include "cli/report_text.h"

namespace alignd::cli {
namespace {

using control::ContainerExplanation;
using control::ContainerReport;
using control::DecisionReport;
using control::StatusReport;

constexpr uint64_t kGi = uint64_t{1} << 30;

ContainerReport AppReport() {
  return {.pod_uid = "u1",
          .pod = "default/web",
          .container = "app",
          .exclusive = CpuSet{2, 3},
          .memory_nodes = {0, 1},
          .devices = {{"example.com/gpu", {{"gpu0", {0}}, {"gpu1", {}}}}}};
}

StatusReport Status() {
  StatusReport report;
  report.version = "1.2.3";
  report.generation = 7;
  report.policies = {.cpu_manager = "static",
                     .memory_manager = "Static",
                     .topology_manager = "restricted",
                     .topology_scope = "container",
                     .compatibility = "1.36",
                     .cpu_manager_options = {{"full-pcpus-only", "true"}},
                     .topology_manager_options = {}};
  report.default_set = CpuSet{0, 1, 4, 5};
  report.reserved_cpus = CpuSet{0};
  report.numa = {{.numa_id = 0,
                  .free_cpus = CpuSet{1},
                  .cpus = 3,
                  .memory = {{"memory", {kGi, 2 * kGi}}},
                  .devices = {{"example.com/gpu", {0, 1}}}},
                 {.numa_id = 8, .free_cpus = {}, .cpus = 0, .memory = {}, .devices = {}}};
  report.devices = {{"example.com/gpu", true, {0, 2}, 1}, {"example.com/nic", false, {}, 0}};
  report.containers = {AppReport(),
                       {.pod_uid = "u2",
                        .pod = "",
                        .container = "sidecar",
                        .exclusive = {},
                        .memory_nodes = {},
                        .devices = {{"example.com/gpu", {{"gpu2", {0, 1}}}}}}};
  return report;
}

ContainerExplanation Explanation(const std::string& container) {
  ContainerExplanation explanation;
  explanation.container = container;
  explanation.hints = {
      {.resource = "cpu",
       .no_opinion = false,
       .hints = {{{{0}}, true}, {{{1}}, true}, {{{0, 1}}, false}},
       .left_out = 0},
      {.resource = "example.com/gpu", .no_opinion = true, .hints = {}, .left_out = 0},
      {.resource = "example.com/nic", .no_opinion = false, .hints = {}, .left_out = 0},
      {.resource = "memory", .no_opinion = false, .hints = {{{{0}}, true}}, .left_out = 3}};
  explanation.merged = {{{0}}, true};
  explanation.candidates = {{{{{0}}, true}, "best"}, {{{{1}}, true}, "as good, but {0} is lower"}};
  explanation.candidates_left_out = 2;
  explanation.notes = {"a note"};
  return explanation;
}

DecisionReport Refused() {
  DecisionReport report;
  report.time_unix_ms = 1'700'000'000'123;
  report.times = 3;
  report.pod_uid = "u1";
  report.name_space = "default";
  report.name = "web";
  report.source = "annotation";
  report.asked = "app: 9 exclusive CPUs";
  report.outcome = "refused";
  report.reason = "TopologyAffinityError";
  report.message = "no locality";
  report.left = "NUMA node 0: 1 of 4 CPUs (3)";
  report.containers = {Explanation("app"), Explanation("log")};
  return report;
}

TEST(ReportText, ShowsStatus) {
  std::ostringstream out;
  PrintStatus(Status(), out);
  EXPECT_EQ(out.str(),
            "alignd 1.2.3, generation 7\n"
            "CPU manager:      static (full-pcpus-only=true)\n"
            "memory manager:   Static\n"
            "topology manager: restricted, scope container, as kubelet 1.36\n"
            "shared pool:      CPUs 0-1,4-5, reserved 0\n"
            "\n"
            "free:\n"
            "  NUMA node 0: 1 of 3 CPUs (1), 1024Mi of 2048Mi memory, 0 of 1 example.com/gpu\n"
            "  NUMA node 8: 0 of 0 CPUs\n"
            "  example.com/gpu: 0 of 2, 1 unhealthy\n"
            "  example.com/nic: 0 of 0, its plugin is not there\n"
            "\n"
            "held:\n"
            "  POD               CONTAINER  CPUS    MEMORY    DEVICES\n"
            "  default/web (u1)  app        2-3     NUMA 0,1  example.com/gpu gpu0 (NUMA 0) gpu1\n"
            "  u2                sidecar    shared  any       example.com/gpu gpu2 (NUMA 0,1)\n");
}

TEST(Report, MarksHeldDevicesThatAil) {
  StatusReport report = Status();
  std::vector<control::AssignedDevice>& gpus = report.containers[0].devices.at("example.com/gpu");
  gpus[0].kubelet_id = "gpu3";
  gpus[0].problem = "unhealthy";
  std::ostringstream out;
  PrintStatus(report, out);
  EXPECT_NE(out.str().find("example.com/gpu gpu0 (NUMA 0) (counted as gpu3) [unhealthy] gpu1\n"),
            std::string::npos)
      << out.str();
  const std::string json = StatusJson(report);
  EXPECT_NE(json.find(R"([{"id":"gpu0","numa":[0],"kubelet_id":"gpu3","problem":"unhealthy"},)"
                      R"({"id":"gpu1","numa":[]}])"),
            std::string::npos)
      << json;
}

TEST(ReportText, ShowsANodeOnWhichNothingIsHeld) {
  StatusReport report = Status();
  report.containers.clear();
  std::ostringstream out;
  PrintStatus(report, out);
  EXPECT_TRUE(out.str().ends_with("\n\nno container holds anything\n")) << out.str();
}

TEST(ReportText, ShowsHowItCameToARefusal) {
  std::ostringstream out;
  PrintDecisions({Refused()}, out);
  EXPECT_EQ(out.str(),
            "2023-11-14 22:13:20 UTC  pod default/web (u1) refused, 3 times in a row\n"
            "  TopologyAffinityError: no locality\n"
            "  asked: app: 9 exclusive CPUs\n"
            "  known from: annotation\n"
            "  left: NUMA node 0: 1 of 4 CPUs (3)\n"
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

TEST(ReportText, ShowsWhatWasGrantedWithoutTopology) {
  DecisionReport report = Refused();
  report.times = 1;
  report.outcome = "granted";
  report.reason = report.message = report.left = report.source = "";
  report.containers = {{.container = "app",
                        .hints = {},
                        .merged = std::nullopt,
                        .candidates = {},
                        .candidates_left_out = 0,
                        .notes = {}}};
  report.assignments = {AppReport()};
  std::ostringstream out;
  PrintDecisions({report}, out);
  EXPECT_EQ(out.str(),
            "2023-11-14 22:13:20 UTC  pod default/web (u1) granted\n"
            "  asked: app: 9 exclusive CPUs\n"
            "  app:\n"
            "    not aligned: topologyManagerPolicy is none\n"
            "  granted app: CPUs 2-3, memory of NUMA 0,1, example.com/gpu gpu0 (NUMA 0) gpu1\n"
            "\n"
            "{..}: NUMA nodes; !: preferred\n");
}

TEST(ReportText, SaysThatNoDecisionIsKnown) {
  std::ostringstream out;
  PrintDecisions({}, out);
  EXPECT_EQ(out.str(), "no decision is known\n");
}

// JSON with ' for ".
std::string Quoted(std::string text) {
  std::ranges::replace(text, '\'', '"');
  return text;
}

TEST(ReportJson, WritesStatus) {
  StatusReport report = Status();
  report.numa.pop_back();
  report.devices.pop_back();
  report.containers.pop_back();
  EXPECT_EQ(
      StatusJson(report),
      Quoted("{'version':'1.2.3','generation':7,'policies':{'cpu_manager':'static',"
             "'cpu_manager_options':{'full-pcpus-only':'true'},'memory_manager':'Static',"
             "'topology_manager':'restricted','topology_manager_options':{},"
             "'topology_scope':'container','compatibility':'1.36'},'default_set':'0-1,4-5',"
             "'reserved_cpus':'0','numa':[{'id':0,'free_cpus':'1','cpus':3,"
             "'memory':{'memory':{'free':1073741824,'total':2147483648}},"
             "'devices':{'example.com/gpu':{'free':0,'total':1}}}],"
             "'devices':[{'name':'example.com/gpu','registered':true,'free':0,'total':2,"
             "'unhealthy':1}],'containers':[{'pod_uid':'u1','pod':'default/web',"
             "'container':'app','exclusive_cpus':'2-3','memory_nodes':[0,1],"
             "'devices':{'example.com/gpu':[{'id':'gpu0','numa':[0]},{'id':'gpu1','numa':[]}]}}],"
             "'conditions':{'repairs':0,'last_repairs':[],'failed_updates':[],'throttled_pods':[],"
             "'conflicting_managers':[],'runtime_outage':null,'unmanaged':[],'past_mirror':[]}}"));
}

TEST(ReportJson, WritesDecisions) {
  DecisionReport report = Refused();
  report.containers.pop_back();
  report.containers[0].candidates.pop_back();
  EXPECT_EQ(DecisionsJson({report}),
            Quoted("[{'time_unix_ms':1700000000123,'times':3,'pod_uid':'u1','namespace':'default',"
                   "'name':'web','source':'annotation','asked':'app: 9 exclusive CPUs',"
                   "'outcome':'refused','reason':'TopologyAffinityError','message':'no locality',"
                   "'left':'NUMA node 0: 1 of 4 CPUs (3)','containers':[{'container':'app',"
                   "'hints':{'cpu':{'hints':[{'numa':[0],'preferred':true},"
                   "{'numa':[1],'preferred':true},{'numa':[0,1],'preferred':false}],'left_out':0},"
                   "'example.com/gpu':{'hints':null,'left_out':0},"
                   "'example.com/nic':{'hints':[],'left_out':0},"
                   "'memory':{'hints':[{'numa':[0],'preferred':true}],'left_out':3}},"
                   "'merged':{'numa':[0],'preferred':true},"
                   "'candidates':[{'numa':[0],'preferred':true,'verdict':'best'}],"
                   "'candidates_left_out':2,'notes':['a note']}],'assignments':[]}]"));
  EXPECT_EQ(DecisionsJson({}), "[]");
}

}  // namespace
}  // namespace alignd::cli
