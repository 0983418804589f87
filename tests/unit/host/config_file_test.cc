#include "host/config_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>

#include "edge/fake_tree.h"
#include "edge/odd_files.h"
#include "host/file.h"
#include "host/yaml.h"

namespace alignd::host {
namespace {

using testing::FakeTree;

std::string ErrorOf(const FakeTree& tree, const std::string& name) {
  const Result<KubeletConfig> config = ReadConfigFile(tree.root() / name);
  if (config.ok()) return "no error";
  const std::string root = tree.root().string() + "/";
  std::string message = config.error().Text();
  const size_t at = message.find(root);
  return at == std::string::npos ? message : message.erase(at, root.size());
}

TEST(ReadConfigFile, ReadsYamlAndJson) {
  const FakeTree tree{{"a.yaml", "cpuManagerPolicy: static\nreservedSystemCPUs: 0-1\n"},
                      {"a.json", R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0-1"})"}};
  const Result<KubeletConfig> yaml = ReadConfigFile(tree.root() / "a.yaml");
  const Result<KubeletConfig> json = ReadConfigFile(tree.root() / "a.json");
  ASSERT_TRUE(yaml.ok()) << yaml.error().Text();
  ASSERT_TRUE(json.ok()) << json.error().Text();
  EXPECT_EQ(yaml->cpu_manager_policy, CpuManagerPolicy::kStatic);
  EXPECT_EQ(yaml->reserved_system_cpus, "0-1");
  EXPECT_EQ(*yaml, *json);
}

TEST(ParseConfigText, AValueGivenBesideTheFileIsNotBlamedOnIt) {
  const std::string fields = R"({"topologyManagerPolicy": "restrictd"})";
  const auto wrong = ParseConfigText("cpuManagerPolicy: none\n", "/config.yaml", fields);
  ASSERT_FALSE(wrong.ok());
  EXPECT_TRUE(wrong.error().message.starts_with(
      "given with the request, not in /config.yaml: topologyManagerPolicy: \"restrictd\""))
      << wrong.error().message;
  EXPECT_EQ(wrong.error().remedy.find("file"), std::string::npos) << wrong.error().remedy;
  const auto of_file = ParseConfigText("cpuManagerPolicy: nnone\n", "/config.yaml",
                                       R"({"topologyManagerPolicy": "restricted"})");
  ASSERT_FALSE(of_file.ok());
  EXPECT_TRUE(of_file.error().message.starts_with("/config.yaml: cpuManagerPolicy: "))
      << of_file.error().message;
}

TEST(ReadConfigFile, ErrorsNameTheFile) {
  const FakeTree tree{{"empty", ""},
                      {"yaml", "a: [1"},
                      {"json", "{\"a\" 1}"},
                      {"field", "cpuManagerPolicy: dynamic"},
                      {"quotes", "cpuManagerPolicyOptions:\n  full-pcpus-only: true\n"},
                      {"misspelt", "topologyManagerPolcy: none"}};
  EXPECT_EQ(ErrorOf(tree, "empty"),
            "empty: is empty; write a KubeletConfiguration to it, or name another file");
  EXPECT_EQ(ErrorOf(tree, "yaml"),
            "yaml: not YAML: end of sequence flow not found; correct the file");
  EXPECT_EQ(ErrorOf(tree, "json"),
            "json: not JSON: line 1, column 6: unexpected text; correct the file, or name another "
            "one");
  EXPECT_EQ(
      ErrorOf(tree, "field"),
      "field: cpuManagerPolicy: \"dynamic\" is not \"none\" or \"static\"; correct the file, or "
      "name another one");
  EXPECT_EQ(ErrorOf(tree, "quotes"),
            "quotes: cpuManagerPolicyOptions.full-pcpus-only: true is not a string; put the value "
            "in quotes");
  EXPECT_EQ(ErrorOf(tree, "misspelt"),
            "misspelt: topologyManagerPolcy: KubeletConfiguration has no such field; did you mean "
            "topologyManagerPolicy?");
  EXPECT_EQ(ErrorOf(tree, "absent").find("read absent: "), 0U);
}

// The kubelet's own file is looked at again and again: a FIFO must not stop that.
TEST(ReadConfigFile, RefusesAtOnceWhatIsNoFile) {
  const FakeTree tree;
  for (const testing::OddFile kind : testing::OddFiles()) {
    testing::MakeOddFile(kind, tree.root() / "odd");
    EXPECT_EQ(ErrorOf(tree, "odd").find("read odd: "), 0U) << NameOf(kind);
  }
}

TEST(ReadConfigFileOrPipe, ReadsAPipe) {
  const FakeTree tree;
  testing::MakeOddFile(testing::OddFile::kFifo, tree.root() / "pipe");
  std::thread writer([&] { std::ofstream(tree.root() / "pipe") << "cpuManagerPolicy: static"; });
  const Result<KubeletConfig> config = ReadConfigFileOrPipe(tree.root() / "pipe");
  writer.join();
  ASSERT_TRUE(config.ok()) << config.error().Text();
  EXPECT_EQ(config->cpu_manager_policy, CpuManagerPolicy::kStatic);
}

TEST(ReadConfigFile, RefusesAnEndlessFile) {
  const FakeTree tree{{"long", std::string(1024 * 1024 + 1, ' ')}};
  EXPECT_EQ(
      ErrorOf(tree, "long"),
      "read long: longer than 1048576 bytes; check the path; no file of this kind is that long");
}

// The example shows every honoured field, and with it the node behaves as without any file.
TEST(ConfigExample, IsCompleteAndStatesTheDefaults) {
  const std::string path = ALIGND_SOURCE_DIR "/config/kubelet-config.yaml";
  const Result<KubeletConfig> config = ReadConfigFile(path);
  ASSERT_TRUE(config.ok()) << config.error().Text();
  EXPECT_EQ(*config, KubeletConfig());
  const std::string json = YamlToJson(ReadFile(path).value()).value();
  for (const char* const field :
       {"apiVersion", "kind", "cpuManagerPolicy", "cpuManagerPolicyOptions",
        "cpuManagerReconcilePeriod", "reservedSystemCPUs", "kubeReserved", "systemReserved",
        "evictionHard", "mergeDefaultEvictionSettings", "topologyManagerPolicy",
        "topologyManagerScope", "topologyManagerPolicyOptions", "memoryManagerPolicy",
        "reservedMemory", "featureGates", "compatibility"}) {
    EXPECT_NE(json.find('"' + std::string(field) + "\":"), std::string::npos) << field;
  }
}

}  // namespace
}  // namespace alignd::host
