#include "cli/change_text.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace alignd::cli {
namespace {

control::v1::ChangeResponse SampleChange() {
  control::v1::ChangeResponse change;
  change.set_admitted(false);
  change.set_shared_before("0,5-27");
  change.set_shared_after("0-1,6-27");
  control::v1::ChangedSetting& setting = *change.add_settings();
  setting.set_name("reservedSystemCPUs");
  setting.set_before("\"0\"");
  setting.set_after("\"0-1\"");
  control::v1::ContainerChange& moves = *change.add_containers();
  moves.set_pod("default/train-7");
  moves.set_container("app");
  moves.set_fate("moves");
  moves.set_cpus_before("1-4");
  moves.set_cpus_after("2-5");
  moves.set_why("CPUs 1 become reserved");
  control::v1::ContainerChange& stays = *change.add_containers();
  stays.set_pod_uid("u1");
  stays.set_container("db");
  stays.set_fate("stays");
  stays.set_cpus_before("14-15");
  stays.add_memory_nodes(1);
  return change;
}

std::string ChangeTextOf(const control::v1::ChangeResponse& change) {
  std::ostringstream out;
  PrintChange(change, out);
  return out.str();
}

TEST(ChangeText, IsLikeADiff) {
  control::v1::ChangeResponse change = SampleChange();
  change.set_admitted(true);
  EXPECT_EQ(ChangeTextOf(change),
            "settings:\n"
            "- reservedSystemCPUs: \"0\"\n"
            "+ reservedSystemCPUs: \"0-1\"\n"
            "shared pool:\n"
            "- CPUs 0,5-27\n"
            "+ CPUs 0-1,6-27\n"
            "containers with exclusive CPUs, memory or devices:\n"
            "- default/train-7 app: CPUs 1-4\n"
            "+ default/train-7 app: CPUs 2-5\n"
            "    moves: CPUs 1 become reserved\n"
            "  pod u1 db: stays on CPUs 14-15, memory of NUMA nodes 1\n"
            "result: can be applied; 1 to move, 1 to stay, 0 cannot be satisfied\n");
}

TEST(ChangeText, SaysWhatCanBeApplied) {
  control::v1::ChangeResponse change = SampleChange();
  change.set_admitted(true);
  change.mutable_containers()->DeleteSubrange(0, 1);
  const std::string text = ChangeTextOf(change);
  EXPECT_NE(text.find("result: can be applied; 0 to move, 1 to stay, 0 cannot be satisfied\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("note: "), std::string::npos) << text;
}

TEST(ChangeText, NamesWhatIsRefused) {
  control::v1::ChangeResponse change = SampleChange();
  change.mutable_containers(0)->set_fate("refused");
  change.add_faults("compatibility changes\nfrom 1.37");
  const std::string text = ChangeTextOf(change);
  EXPECT_NE(text.find("! default/train-7 app: cannot be satisfied: CPUs 1 become reserved\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("\nfrom 1.37"), std::string::npos) << text;  // the line end is escaped
  EXPECT_NE(text.find("result: cannot be applied; 0 to move, 1 to stay, 1 cannot be satisfied\n"),
            std::string::npos)
      << text;
}

TEST(ChangeText, JsonHasEveryField) {
  EXPECT_EQ(ChangeJson(SampleChange()),
            R"({"admitted":false,"faults":[],"notes":[],"settings":[{"name":"reservedSystemCPUs",)"
            R"("before":"\"0\"","after":"\"0-1\""}],"shared_before":"0,5-27",)"
            R"("shared_after":"0-1,6-27","containers":[{"pod_uid":"","pod":"default/train-7",)"
            R"("container":"app","fate":"moves","cpus_before":"1-4","cpus_after":"2-5",)"
            R"("memory_nodes":[],"why":"CPUs 1 become reserved"},{"pod_uid":"u1","pod":"",)"
            R"("container":"db","fate":"stays","cpus_before":"14-15","cpus_after":"",)"
            R"("memory_nodes":[1],"why":""}]})");
}

}  // namespace
}  // namespace alignd::cli
