// A resource with more devices than a report lists: the numbers are those of all of them.
#include <gtest/gtest.h>

#include <string>

#include "cli/topology_json.h"
#include "cli/topology_tree.h"
#include "core/machine_builder.h"
#include "picture/picture.h"
#include "picture/svg.h"
#include "picture_checks.h"

namespace alignd::picture {
namespace {

namespace v1 = control::v1;

// 1,000 devices on node 0: 256 are listed, of which one is assigned and one unhealthy. Of the
// others, one is assigned and 20 are unhealthy. Ten are elsewhere, and seven on node 1.
Picture OfThousandDevices() {
  v1::GetStatusResponse status;
  const Machine machine = MakeMachine("socket:1 numa:2 core:2 thread:1");
  for (int position = 0; position < machine.numa_count(); ++position) {
    v1::NumaNode& node = *status.add_numa();
    node.set_id(machine.NumaId(position));
    node.set_all_cpus(machine.CpusInNuma(position).ToString());
  }
  v1::DeviceResource& resource = *status.add_devices();
  resource.set_name("example.com/port");
  for (int i = 0; i < 256; ++i) {
    v1::Device& device = *resource.add_all();
    device.set_id(std::to_string(1000 + i));
    device.add_numa(machine.NumaId(0));
    if (i == 1) device.set_problem("unhealthy");
  }
  const auto add_left_out = [&resource](uint64_t devices, uint64_t free) -> v1::DevicesLeftOut& {
    v1::DevicesLeftOut& left_out = *resource.add_left_out();
    left_out.set_devices(devices);
    left_out.set_free(free);
    return left_out;
  };
  add_left_out(10, 9);
  add_left_out(743, 723).set_numa(machine.NumaId(0));
  add_left_out(7, 6).set_numa(machine.NumaId(1));
  v1::ContainerAssignment& container = *status.add_containers();
  container.set_pod("default/a");
  container.set_container("app");
  v1::AssignedDevices& assigned = *container.add_devices();
  assigned.set_resource("example.com/port");
  for (const char* const id : {"1000", "1999"}) {
    v1::Device& device = *assigned.add_devices();
    device.set_id(id);
    device.add_numa(machine.NumaId(0));
  }
  return MakePicture(machine, {}, status);
}

TEST(LeftOutDevices, ThePictureCountsThem) {
  const std::string words = WordsOf(CheckPicture(RenderSvg(OfThousandDevices())));
  // 254 of the listed ones are free.
  for (const char* const expected :
       {"example.com/port: 977 free of 1000\n", "and 968 more\n", "example.com/port: 6 free of 7\n",
        "and 7 more\n", "example.com/port: 9 free of 10\n", "and 10 more\n"}) {
    EXPECT_NE(words.find(expected), std::string::npos) << expected << "\n" << words;
  }
}

TEST(LeftOutDevices, TheTreeCountsThem) {
  const std::string tree = cli::TopologyTree(OfThousandDevices());
  for (const char* const expected :
       {"    example.com/port 1255: free\n"
        "    example.com/port 1999: assigned to default/a, container app\n"
        "    example.com/port: and 743 more, 723 of them free\n",
        "  devices:\n    example.com/port: and 7 more, 6 of them free\n",
        "or with several:\n    example.com/port: and 10 more, 9 of them free\n"}) {
    EXPECT_NE(tree.find(expected), std::string::npos) << expected << "\n" << tree;
  }
}

TEST(LeftOutDevices, JsonCountsThem) {
  Picture picture = OfThousandDevices();
  const std::string json = cli::TopologyJson(picture);
  EXPECT_NE(json.find(R"("devices_left_out":[)"
                      R"({"resource":"example.com/port","numa":null,"devices":10,"free":9},)"
                      R"({"resource":"example.com/port","numa":0,"devices":743,"free":723},)"
                      R"({"resource":"example.com/port","numa":1,"devices":7,"free":6}])"),
            std::string::npos)
      << json;
  picture.owners->left_out.clear();
  EXPECT_EQ(cli::TopologyJson(picture).find("left_out"), std::string::npos);
}

}  // namespace
}  // namespace alignd::picture
