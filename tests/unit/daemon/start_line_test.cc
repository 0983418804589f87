#include "daemon/start_line.h"

#include <gtest/gtest.h>

#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "core/machine_builder.h"

namespace alignd::daemon {
namespace {

TEST(StartLine, NamesTheMachine) {
  const auto line_of = [](const char* machine) {
    const Result<admission::Node> node = admission::Node::Make(MakeMachine(machine), {});
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return StartLine({}, *node, admission::NodeState::Initial(*node));
  };
  const std::string one = line_of("socket:1 numa:1 core:1 thread:1");
  EXPECT_NE(one.find("| machine 1 CPU, 1 core, 1 socket, 1 NUMA node, "), std::string::npos) << one;
  EXPECT_NE(one.find("| restored 0 pods with 0 containers and 0 exclusive CPUs"), std::string::npos)
      << one;
  const std::string two = line_of("socket:2 numa:1 core:2 thread:2");
  EXPECT_NE(two.find("| machine 8 CPUs, 4 cores, 2 sockets, 2 NUMA nodes, "), std::string::npos)
      << two;
}

TEST(StartLine, NamesWhatIsRestored) {
  admission::NodeState state;
  EXPECT_EQ(DescribeRestored(state), "0 pods with 0 containers and 0 exclusive CPUs");
  state.cpu.assignments["a"]["app"] = *CpuSet::Parse("1");
  EXPECT_EQ(DescribeRestored(state), "1 pod with 1 container and 1 exclusive CPU");
  state.cpu.assignments["a"]["log"] = *CpuSet::Parse("2");
  state.cpu.assignments["b"]["app"] = *CpuSet::Parse("3-4");
  EXPECT_EQ(DescribeRestored(state), "2 pods with 3 containers and 4 exclusive CPUs");
}

}  // namespace
}  // namespace alignd::daemon
