#include "cli/report_json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "report_fixture.h"

namespace alignd::cli {
namespace {

// JSON with ' for ".
std::string Quoted(std::string text) {
  std::ranges::replace(text, '\'', '"');
  return text;
}

TEST(ReportJson, WritesStatus) {
  v1::GetStatusResponse status = Status();
  status.mutable_numa()->RemoveLast();
  status.mutable_devices()->RemoveLast();
  status.mutable_containers()->RemoveLast();
  status.MergeFrom(Parse<v1::GetStatusResponse>(R"pb(
    conditions {
      type: "CpusetRepaired"
      first_unix_ms: 1699999999000
      last_unix_ms: 1700000000000
      times: 3
      container_id: "c1"
      pod_uid: "u1"
      pod: "default/web"
      container: "app"
      message: "changed"
      remedy: "find it"
    })pb"));
  EXPECT_EQ(
      StatusJson(status),
      Quoted("{'version':'1.2.3','node':'worker','health':'degraded',"
             "'problems':['CpusetRepaired','device unhealthy'],'time':'2023-11-14T22:15:00Z',"
             "'started':'2023-11-14T22:13:20Z','state_dir':'','config':'','runtime_endpoint':'',"
             "'generation':7,'decisions_not_saved':'','policies':{'cpu_manager':'static',"
             "'cpu_manager_options':{'full-pcpus-only':'true'},'memory_manager':'Static',"
             "'topology_manager':'restricted','topology_manager_options':{},"
             "'topology_scope':'container','compatibility':'1.36'},'default_set':'0-1,4-5',"
             "'reserved_cpus':'0','offline_cpus':'','numa':[{'id':0,'free_cpus':'1','cpus':4,"
             "'all_cpus':'0-3','exclusive_cpus':'2-3','reserved_cpus':'0',"
             "'memory':{'hugepages-2Mi':{'free':0,'total':0},"
             "'memory':{'free':1073741824,'total':2147483648}},'memory_capacity':{},"
             "'devices':{'example.com/gpu':{'free':0,'total':1}}}],"
             "'devices':[{'name':'example.com/gpu','registered':true,'free':0,'total':2,"
             "'unhealthy':1,'disconnected_since':null}],'pods':0,'containers':[{'pod_uid':'u1','"
             "pod':'default/web',"
             "'container':'app','exclusive_cpus':'2-3','memory_nodes':[0,1],"
             "'devices':{'example.com/"
             "gpu':[{'id':'gpu0','numa':[0]},{'id':'gpu1','numa':[]}]}}],"
             "'whole_pods':[],'pending':[],"
             "'conditions':[{'type':'CpusetRepaired','first':'2023-11-14T22:13:19Z','last':'2023-"
             "11-14T22:13:20Z',"
             "'times':3,'container_id':'c1','pod_uid':'u1','pod':'default/web','container':'app',"
             "'message':'changed','remedy':'find it'}]}"));
}

TEST(ReportJson, WritesDecisions) {
  v1::PodDecision decision = Refused();
  decision.mutable_containers()->RemoveLast();
  decision.mutable_containers(0)->mutable_candidates()->RemoveLast();
  EXPECT_EQ(DecisionsJson(Explained(decision)),
            Quoted("[{'time':'2023-11-14T22:13:20Z','times':3,'pod_uid':'u1','namespace':'default',"
                   "'name':'web','source':'annotation','asked':'app: 9 exclusive CPUs',"
                   "'outcome':'refused','reason':'TopologyAffinityError','message':'no locality',"
                   "'available':'NUMA node 0: 1 of 4 CPUs (3)','containers':[{'container':'app',"
                   "'hints':{'cpu':{'hints':[{'numa':[0],'preferred':true},"
                   "{'numa':[1],'preferred':true},{'numa':[0,1],'preferred':false}],'left_out':0},"
                   "'example.com/gpu':{'hints':null,'left_out':0},"
                   "'example.com/nic':{'hints':[],'left_out':0},"
                   "'memory':{'hints':[{'numa':[0],'preferred':true}],'left_out':3}},"
                   "'merged':{'numa':[0],'preferred':true},"
                   "'candidates':[{'numa':[0],'preferred':true,'verdict':'best'}],"
                   "'candidates_left_out':2,'notes':['a note']}],'assignments':[],'position':0}]"));
  EXPECT_EQ(DecisionsJson(v1::ExplainResponse()), "[]");
}

}  // namespace
}  // namespace alignd::cli
