#include "cri/injection.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "deviceplugin/v1beta1/deviceplugin.pb.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;

admission::Assignment Exclusive(const char* cpus) {
  admission::Assignment assignment;
  assignment.exclusive = *CpuSet::Parse(cpus);
  assignment.cpuset = assignment.exclusive;
  return assignment;
}
admission::Assignment SharedOn(const char* cpus) {
  admission::Assignment assignment;
  assignment.cpuset = *CpuSet::Parse(cpus);
  return assignment;
}

v1::ContainerConfig Config() {
  v1::ContainerConfig config;
  config.mutable_metadata()->set_name("app");
  config.mutable_linux()->mutable_resources()->set_cpu_quota(300'000);
  config.mutable_linux()->mutable_resources()->set_cpu_shares(3072);
  return config;
}

admission::Assignment WithAnswers(
    const std::map<std::string, v1beta1::ContainerAllocateResponse>& answers) {
  admission::Assignment assignment;
  for (const auto& [resource, answer] : answers) {
    assignment.devices[resource].response = answer.SerializeAsString();
  }
  return assignment;
}

std::vector<std::string> InjectInto(v1::ContainerConfig& config,
                                    const admission::Assignment& assignment) {
  const Result<std::vector<std::string>> conflicts = Inject(assignment, config);
  if (!conflicts.ok()) {
    ADD_FAILURE() << conflicts.error().Text();
    return {};
  }
  return *conflicts;
}

TEST(Inject, ExclusiveCpusHaveNoQuota) {
  v1::ContainerConfig config = Config();
  InjectInto(config, Exclusive("1-3"));
  EXPECT_EQ(config.linux().resources().cpuset_cpus(), "1-3");
  EXPECT_EQ(config.linux().resources().cpu_quota(), -1);
  EXPECT_EQ(config.linux().resources().cpu_shares(), 3072);
  EXPECT_EQ(config.linux().resources().cpuset_mems(), "");
}

TEST(Inject, SharedCpusKeepTheQuota) {
  v1::ContainerConfig config = Config();
  InjectInto(config, SharedOn("0,4-27"));
  EXPECT_EQ(config.linux().resources().cpuset_cpus(), "0,4-27");
  EXPECT_EQ(config.linux().resources().cpu_quota(), 300'000);
}

TEST(Inject, RequestWithoutResourcesGetsNone) {
  v1::ContainerConfig config;
  config.mutable_linux();
  const std::string before = config.SerializeAsString();
  InjectInto(config, SharedOn("0,4-27"));
  EXPECT_EQ(config.SerializeAsString(), before);
  // Memory nodes alone are not applied later, so they are set.
  admission::Assignment memory;
  memory.memory_nodes = {1};
  InjectInto(config, memory);
  EXPECT_EQ(config.linux().resources().cpuset_mems(), "1");
}

TEST(Inject, MemoryNodesAreAListOfRanges) {
  v1::ContainerConfig config = Config();
  admission::Assignment assignment;
  assignment.memory_nodes = {0, 1, 3};
  InjectInto(config, assignment);
  EXPECT_EQ(config.linux().resources().cpuset_mems(), "0-1,3");
  EXPECT_EQ(config.linux().resources().cpuset_cpus(), "");
  EXPECT_EQ(config.linux().resources().cpu_quota(), 300'000);
}

TEST(Inject, EmptyAssignmentChangesNothing) {
  v1::ContainerConfig config;
  config.mutable_metadata()->set_name("app");
  const std::string before = config.SerializeAsString();
  EXPECT_TRUE(InjectInto(config, {}).empty());
  EXPECT_EQ(config.SerializeAsString(), before);
  EXPECT_FALSE(config.has_linux());
}

TEST(Inject, PluginsEntriesStandBeforeThoseOfTheAuthor) {
  v1beta1::ContainerAllocateResponse a;
  (*a.mutable_envs())["A2"] = "a2";
  (*a.mutable_envs())["A1"] = "a1";
  v1beta1::Mount& mount = *a.add_mounts();
  mount.set_container_path("/in");
  mount.set_host_path("/out");
  mount.set_read_only(true);
  for (const char* path : {"/dev/z", "/dev/y"}) {
    v1beta1::DeviceSpec& device = *a.add_devices();
    device.set_container_path(path);
    device.set_host_path(path);
    device.set_permissions("rwm");
  }
  v1beta1::ContainerAllocateResponse b;
  (*b.mutable_envs())["B"] = "b";
  b.add_devices()->set_container_path("/dev/b");

  v1::ContainerConfig config = Config();
  config.add_envs()->set_key("MINE");
  config.add_mounts()->set_container_path("/mine");
  config.add_devices()->set_container_path("/dev/mine");
  EXPECT_TRUE(InjectInto(config, WithAnswers({{"b.com/b", b}, {"a.com/a", a}})).empty());

  std::vector<std::string> envs;
  for (const v1::KeyValue& env : config.envs()) envs.push_back(env.key() + "=" + env.value());
  EXPECT_EQ(envs, (std::vector<std::string>{"A1=a1", "A2=a2", "B=b", "MINE="}));
  std::vector<std::string> devices;
  for (const v1::Device& device : config.devices()) devices.push_back(device.container_path());
  EXPECT_EQ(devices, (std::vector<std::string>{"/dev/z", "/dev/y", "/dev/b", "/dev/mine"}));
  ASSERT_EQ(config.mounts_size(), 2);
  EXPECT_EQ(config.mounts(0).host_path(), "/out");
  EXPECT_TRUE(config.mounts(0).readonly());
  EXPECT_EQ(config.mounts(1).container_path(), "/mine");
}

// The kubelet still has the answer that a plugin gave it before the plugin registered with alignd.
TEST(Inject, AnswerThatTheKubeletInjectsAsWellAppearsOnce) {
  v1beta1::ContainerAllocateResponse a;
  (*a.mutable_envs())["VISIBLE"] = "gpu0";
  v1beta1::Mount& mount = *a.add_mounts();
  mount.set_container_path("/lib/driver");
  mount.set_host_path("/lib/driver");
  mount.set_read_only(true);
  v1beta1::DeviceSpec& device = *a.add_devices();
  device.set_container_path("/dev/gpu0");
  device.set_host_path("/dev/gpu0");
  device.set_permissions("rw");
  const admission::Assignment assignment = WithAnswers({{"a.com/a", a}});

  v1::ContainerConfig config = Config();
  config.add_envs()->set_key("MINE");
  InjectInto(config, assignment);
  const v1::ContainerConfig once = config;
  InjectInto(config, assignment);
  EXPECT_EQ(config.SerializeAsString(), once.SerializeAsString());

  // An entry that differs in any field stays.
  v1::ContainerConfig other = Config();
  v1::Mount& shared = *other.add_mounts();
  shared.set_container_path("/lib/driver");
  shared.set_host_path("/lib/driver");
  shared.set_readonly(true);
  shared.set_propagation(v1::PROPAGATION_BIDIRECTIONAL);
  InjectInto(other, assignment);
  EXPECT_EQ(other.mounts_size(), 2);
}

// A kubelet omits what is false or empty.
TEST(Inject, EntryWithoutAValueEqualsTheKubelets) {
  v1beta1::ContainerAllocateResponse a;
  (*a.mutable_envs())["EMPTY"] = "";
  v1beta1::Mount& mount = *a.add_mounts();
  mount.set_container_path("/c");
  mount.set_host_path("/h");
  a.add_devices()->set_host_path("/dev/gpu0");

  v1::ContainerConfig config = Config();
  ASSERT_TRUE(
      config.mutable_envs()->Add()->ParseFromString("\x0a\x05"
                                                    "EMPTY"));
  ASSERT_TRUE(config.mutable_mounts()->Add()->ParseFromString("\x0a\x02/c\x12\x02/h"));
  ASSERT_TRUE(config.mutable_devices()->Add()->ParseFromString("\x12\x09/dev/gpu0"));
  const v1::ContainerConfig kubelets = config;
  InjectInto(config, WithAnswers({{"a.com/a", a}}));
  EXPECT_EQ(config.SerializeAsString(), kubelets.SerializeAsString());
}

// A caller could fill the log: protobuf has no limit for that.
TEST(Inject, NothingIsLoggedAboutKeysThatAreNotUtf8) {
  v1::ContainerConfig config = Config();
  (*config.mutable_annotations())["\xff"] = "\xff";
  (*config.mutable_linux()->mutable_resources()->mutable_unified())["\xff"] = "\xff";
  ::testing::internal::CaptureStderr();
  v1::ContainerConfig received;
  EXPECT_TRUE(received.ParseFromString(config.SerializeAsString()));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(received.annotations().at("\xff"), "\xff");
}

// A runtime reads the last of several values of one field, also one that alignd does not know.
TEST(Inject, OrderOfUnknownEnumValuesIsKept) {
  v1::ContainerConfig config = Config();
  ASSERT_TRUE(config.add_mounts()->ParseFromString("\x28\x63\x28\x01"));  // propagation 99, then 1
  ASSERT_TRUE(config.mutable_linux()->MergeFromString(
      std::string("\x12\x06\x1a\x04\x08\x63\x08\x02", 8)));  // network 99, then 2
  InjectInto(config, Exclusive("1-3"));
  v1::ContainerConfig received;
  ASSERT_TRUE(received.ParseFromString(config.SerializeAsString()));
  EXPECT_EQ(received.mounts(0).SerializeAsString(), "\x28\x01");
  EXPECT_EQ(received.linux().security_context().SerializeAsString(), "\x1a\x02\x08\x02");
}

TEST(Inject, ConflictsAreReportedAndTheFirstResourceWins) {
  v1beta1::ContainerAllocateResponse a;
  (*a.mutable_envs())["SAME"] = "a";
  v1beta1::ContainerAllocateResponse b;
  (*b.mutable_envs())["SAME"] = "b";
  v1::ContainerConfig config = Config();
  const auto conflicts = InjectInto(config, WithAnswers({{"a.com/a", a}, {"b.com/b", b}}));
  EXPECT_EQ(
      conflicts,
      (std::vector<std::string>{R"(env SAME: "a" of a.com/a is kept, "b" of b.com/b is dropped)"}));
  ASSERT_EQ(config.envs_size(), 1);
  EXPECT_EQ(config.envs(0).value(), "a");
}

TEST(Inject, AnnotationsOfTheKubeletWinAndCdiNamesAreMerged) {
  v1beta1::ContainerAllocateResponse a;
  (*a.mutable_annotations())["taken"] = "plugin";
  (*a.mutable_annotations())["free"] = "plugin";
  a.add_cdi_devices()->set_name("vendor.com/gpu=0");
  a.add_cdi_devices()->set_name("vendor.com/gpu=1");
  v1::ContainerConfig config = Config();
  (*config.mutable_annotations())["taken"] = "kubelet";
  config.add_cdi_devices()->set_name("vendor.com/gpu=1");
  InjectInto(config, WithAnswers({{"a.com/a", a}}));
  EXPECT_EQ(config.annotations().at("taken"), "kubelet");
  EXPECT_EQ(config.annotations().at("free"), "plugin");
  ASSERT_EQ(config.cdi_devices_size(), 2);
  EXPECT_EQ(config.cdi_devices(0).name(), "vendor.com/gpu=1");
  EXPECT_EQ(config.cdi_devices(1).name(), "vendor.com/gpu=0");
}

TEST(Inject, UnreadableAnswerIsAnError) {
  admission::Assignment assignment;
  assignment.devices["a.com/a"].response = "\xff\xff\xff";
  v1::ContainerConfig config = Config();
  const Result<std::vector<std::string>> conflicts = Inject(assignment, config);
  ASSERT_FALSE(conflicts.ok());
  EXPECT_NE(conflicts.error().message.find("a.com/a"), std::string::npos);
}

TEST(Inject, UnknownFieldsSurvive) {
  v1::ContainerConfig config = Config();
  const std::string unknown = "\xfa\x3e\x03new";  // field 1007, a text
  ASSERT_TRUE(config.MergeFromString(unknown));
  ASSERT_TRUE(config.mutable_linux()->mutable_resources()->MergeFromString(unknown));
  InjectInto(config, Exclusive("1-3"));
  const std::string bytes = config.SerializeAsString();
  const size_t first = bytes.find(unknown);
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(bytes.find(unknown, first + 1), std::string::npos);
}

TEST(KeepAssignment, KeepsAssignedSetsAndTheLiftedQuota) {
  v1::LinuxContainerResources resources;
  resources.set_cpuset_cpus("0-27");
  resources.set_cpu_quota(100'000);
  resources.set_memory_limit_in_bytes(1);
  admission::Assignment assignment = Exclusive("1-3");
  assignment.memory_nodes = {1};
  KeepAssignment(assignment, resources);
  EXPECT_EQ(resources.cpuset_cpus(), "1-3");
  EXPECT_EQ(resources.cpuset_mems(), "1");
  EXPECT_EQ(resources.cpu_quota(), -1);
  EXPECT_EQ(resources.memory_limit_in_bytes(), 1);
}

// A runtime writes the files of `unified` last, over the values of the other fields.
TEST(KeepAssignment, RemovesTheFilesOfAssignedSetsFromUnified) {
  const auto unified = [](const admission::Assignment& assignment) {
    v1::LinuxContainerResources resources;
    for (const char* const file : {"cpuset.cpus", "cpuset.cpus.partition", "cpuset.mems", "cpu.max",
                                   "cpu.max.burst", "cpu.weight", "memory.high"}) {
      (*resources.mutable_unified())[file] = "1";
    }
    KeepAssignment(assignment, resources);
    return std::map<std::string, std::string>(resources.unified().begin(),
                                              resources.unified().end());
  };
  const std::map<std::string, std::string> other_files = {{"cpu.weight", "1"},
                                                          {"memory.high", "1"}};
  admission::Assignment assignment = Exclusive("1-3");
  assignment.memory_nodes = {0};
  EXPECT_EQ(unified(assignment), other_files);
  std::map<std::string, std::string> others = other_files;
  for (const char* const file : {"cpuset.mems", "cpu.max", "cpu.max.burst"}) others[file] = "1";
  EXPECT_EQ(unified(SharedOn("0")), others);
  for (const char* const file : {"cpuset.cpus", "cpuset.cpus.partition"}) others[file] = "1";
  EXPECT_EQ(unified({}), others);
}

TEST(KeepAssignment, QuotaThatIsNotSetStaysUnset) {
  v1::LinuxContainerResources resources;
  KeepAssignment(Exclusive("1-3"), resources);
  EXPECT_EQ(resources.cpu_quota(), 0);
  resources.set_cpu_quota(100'000);
  KeepAssignment(SharedOn("0"), resources);
  EXPECT_EQ(resources.cpu_quota(), 100'000);
}

}  // namespace
}  // namespace alignd::cri
