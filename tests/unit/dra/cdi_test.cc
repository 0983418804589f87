// CDI specifications and the directories with them.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "dra/cdi_registry.h"
#include "dra/cdi_spec.h"
#include "edge/fake_tree.h"

namespace alignd::dra {
namespace {

using Nodes = std::vector<CdiNode>;

// In the form of NVIDIA's DRA driver: common edits, and one device for each GPU of a claim.
constexpr char kSpec[] = R"({
  "cdiVersion": "0.5.0", "kind": "k8s.gpu.nvidia.com/claim",
  "containerEdits": {"deviceNodes": [{"path": "/dev/nvidiactl"}], "env": ["A=b"]},
  "devices": [
    {"name": "uid-gpu-0", "containerEdits": {
      "deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/host/dev/nvidia0", "major": 195}],
      "mounts": [{"hostPath": "/usr/lib/x", "containerPath": "/y"}]}},
    {"name": "uid-gpu-1"}]})";

TEST(CdiSpec, HasThePathsOfNodesAndMounts) {
  const Result<CdiSpec> spec = ParseCdiSpec(kSpec);
  ASSERT_TRUE(spec.ok()) << spec.error().Text();
  EXPECT_EQ(spec->kind, "k8s.gpu.nvidia.com/claim");
  EXPECT_EQ(spec->common.device_nodes, (Nodes{{"/dev/nvidiactl", "/dev/nvidiactl"}}));
  ASSERT_EQ(spec->devices.size(), 2U);
  EXPECT_EQ(spec->devices.at("uid-gpu-0").device_nodes,
            (Nodes{{"/dev/nvidia0", "/host/dev/nvidia0"}}));
  EXPECT_EQ(spec->devices.at("uid-gpu-0").mounts, std::vector<std::string>{"/usr/lib/x"});
  EXPECT_EQ(spec->devices.at("uid-gpu-1"), CdiEdits());
}

// Of CDI 1.1. The name in the container says nothing.
TEST(CdiSpec, HasTheNamesOfNetworkInterfaces) {
  const Result<CdiSpec> spec = ParseCdiSpec(
      R"({"kind":"a/nic","containerEdits":{"netDevices":[{"hostInterfaceName":"eth1","name":"net0"}]},)"
      R"("devices":[{"name":"x","containerEdits":{"netDevices":[{"hostInterfaceName":"eth2"},7]}}]})");
  ASSERT_TRUE(spec.ok()) << spec.error().Text();
  EXPECT_EQ(spec->common.net_devices, std::vector<std::string>{"eth1"});
  EXPECT_EQ(spec->devices.at("x").net_devices, (std::vector<std::string>{"eth2", ""}));
}

// Otherwise the runtime takes the number from the node on the host.
TEST(CdiSpec, NumberOfANodeIsStatedByTypeAndMajor) {
  struct Case {
    const char* members;
    std::optional<DeviceNumber> expected;
  };
  const Case cases[] = {
      {R"("type":"c","major":240,"minor":1)", DeviceNumber{false, 240, 1}},
      {R"("type":"u","major":240,"minor":1)", DeviceNumber{false, 240, 1}},
      {R"("type":"b","major":259)", DeviceNumber{true, 259, 0}},
      {R"("major":240,"minor":1)", std::nullopt},
      {R"("type":"c","minor":1)", std::nullopt},
      {R"("type":"c","major":0,"minor":1)", std::nullopt},
      {R"("type":"p","major":240,"minor":1)", std::nullopt},
      {R"("type":"c","major":-1,"minor":1)", std::nullopt},
      {R"("type":"c","major":240,"minor":-1)", std::nullopt},
      {R"("type":"c","major":"240","minor":1)", std::nullopt},
      {R"("type":"c","major":240,"minor":1.5)", std::nullopt},
      {R"("type":7,"major":240,"minor":1)", std::nullopt},
  };
  for (const Case& c : cases) {
    const Result<CdiSpec> spec =
        ParseCdiSpec(R"({"kind":"a/b","containerEdits":{"deviceNodes":[{"path":"/dev/x",)" +
                     std::string(c.members) + "}]}}");
    ASSERT_TRUE(spec.ok()) << spec.error().Text();
    EXPECT_EQ(spec->common.device_nodes, (Nodes{{"/dev/x", "/dev/x", c.expected}})) << c.members;
  }
}

struct WrongSpecText {
  const char* text;
  const char* message;
};
class CdiSpecErrors : public ::testing::TestWithParam<WrongSpecText> {};
INSTANTIATE_TEST_SUITE_P(
    Texts, CdiSpecErrors,
    ::testing::Values(
        WrongSpecText{"{", "not JSON"}, WrongSpecText{"[]", "not a JSON object"},
        WrongSpecText{"{}", "kind: \"\" is not of the form vendor.com/class"},
        WrongSpecText{R"({"kind":"/gpu"})", "kind: \"/gpu\" is not of the form vendor.com/class"},
        WrongSpecText{R"({"kind":"a/b","devices":[{}]})", "devices: a device has no name"},
        WrongSpecText{R"({"kind":"a/b","devices":[{"name":"x"},{"name":"x"}]})",
                      "devices: two have the name x"}));

TEST_P(CdiSpecErrors, NameTheField) {
  const Result<CdiSpec> spec = ParseCdiSpec(GetParam().text);
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(spec.error().message, GetParam().message);
}

class CdiRegistryTest : public ::testing::Test {
 protected:
  static std::string Spec(const std::string& node) {
    return R"({"kind":"v.com/gpu","devices":[{"name":"0","containerEdits":{"deviceNodes":)"
           R"([{"path":")" +
           node + R"("}]}}]})";
  }
  Result<CdiEdits> Find(const std::string& name) const {
    return CdiRegistry::Read({tree_.root() / "low", tree_.root() / "high"}).Find(name);
  }

  const testing::FakeTree tree_;
};

TEST_F(CdiRegistryTest, ReadsJsonAndYamlAndNothingElse) {
  tree_.Write({"low/a.json", Spec("/dev/a")});
  tree_.Write({"low/b.yaml",
               "kind: v.com/nic\ncontainerEdits:\n  deviceNodes: [{path: /dev/all}]\ndevices:\n"
               "- name: eth\n  containerEdits:\n    deviceNodes: [{path: /dev/b}]\n"});
  tree_.Write({"low/c.txt", "no specification"});
  ASSERT_TRUE(Find("v.com/gpu=0").ok());
  EXPECT_EQ(Find("v.com/gpu=0")->device_nodes, (Nodes{{"/dev/a", "/dev/a"}}));
  ASSERT_TRUE(Find("v.com/nic=eth").ok());
  EXPECT_EQ(Find("v.com/nic=eth")->device_nodes,
            (Nodes{{"/dev/all", "/dev/all"}, {"/dev/b", "/dev/b"}}));
}

TEST_F(CdiRegistryTest, LaterDirectoryOverridesEarlierOne) {
  tree_.Write({"low/a.json", Spec("/dev/low")});
  tree_.Write({"high/a.json", Spec("/dev/high")});
  ASSERT_TRUE(Find("v.com/gpu=0").ok());
  EXPECT_EQ(Find("v.com/gpu=0")->device_nodes, (Nodes{{"/dev/high", "/dev/high"}}));
}

TEST_F(CdiRegistryTest, ConflictWithinADirectoryIsAnErrorWithBothFiles) {
  tree_.Write({"high/a.json", Spec("/dev/a")});
  tree_.Write({"high/b.json", Spec("/dev/b")});
  const Result<CdiEdits> found = Find("v.com/gpu=0");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(found.error().message.find("a.json"), std::string::npos) << found.error().message;
  EXPECT_NE(found.error().message.find("b.json"), std::string::npos) << found.error().message;
}

TEST_F(CdiRegistryTest, UnreadableFileIsNamedWhereANameIsNotFound) {
  tree_.Write({"low/a.json", Spec("/dev/a")});
  tree_.Write({"high/broken.json", "{"});
  EXPECT_TRUE(Find("v.com/gpu=0").ok());
  const Result<CdiEdits> found = Find("v.com/gpu=1");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(found.error().message.find("no CDI specification describes v.com/gpu=1"),
            std::string::npos);
  EXPECT_NE(found.error().message.find("broken.json"), std::string::npos) << found.error().message;
}

}  // namespace
}  // namespace alignd::dra
