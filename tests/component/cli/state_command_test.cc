// `alignctl state` and `alignctl config`: what they read, and what they say of bad files.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "alignd/checkpoint/binding_checkpoint.h"
#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/checkpoint/originals_checkpoint.h"
#include "cli/commands.h"
#include "cli/example_config.h"
#include "cli/reference.h"
#include "cli/state_files.h"
#include "control/config_report.h"
#include "control/decision_history.h"
#include "edge/fake_tree.h"
#include "edge/run_alignctl.h"
#include "host/config_file.h"
#include "host/file.h"

namespace alignd::cli {
namespace {

using testing::FakeTree;
using testing::Printed;

// What an alignd leaves: `train-7` has CPUs, memory and a device, another pod a device only.
void WriteStateFiles(const FakeTree& tree) {
  cpumanager::CpuState cpu;
  cpu.default_set = *CpuSet::Parse("0,4-7");
  cpu.assignments["uid-7"]["app"] = *CpuSet::Parse("1-3");
  memorymanager::MemoryState memory;
  memory.assignments["uid-7"]["app"] = {{{0}, "memory", uint64_t{1} << 30}};
  devicemanager::DeviceState devices;
  devices.allocations[{"uid-7", "app"}]["a.com/gpu"].devices = {{0, {"gpu0"}}};
  devices.allocations[{"uid-8", "lone"}]["a.com/nic"].devices = {{-1, {"nic0"}}};
  control::v1::PodDecision decision;
  decision.set_pod_uid("uid-7");
  decision.set_pod_namespace("default");
  decision.set_pod_name("train-7");
  const checkpoint::Bindings bindings = {{{"uid-7", "app"}, {{"a.com/gpu", {{"gpu5", "gpu0"}}}}}};
  tree.Write({"cpu_manager_state",
              checkpoint::FormatCpuCheckpoint("static", cpu, checkpoint::StateForm::kData)});
  tree.Write({"memory_manager_state",
              checkpoint::FormatMemoryCheckpoint("Static", memory, checkpoint::StateForm::kPlain)});
  tree.Write(
      {"device-plugins/kubelet_internal_checkpoint", checkpoint::FormatDeviceCheckpoint(devices)});
  tree.Write({"device_bindings", checkpoint::FormatBindingCheckpoint(bindings)});
  checkpoint::Originals originals;
  originals["uid-7"]["app"] = *CpuSet::Parse("1-2");
  originals["gone"]["app"] = *CpuSet::Parse("9");
  tree.Write({"cpu_originals", checkpoint::FormatOriginalsCheckpoint(originals)});
  tree.Write({"decisions", control::FormatDecisions(
                               {std::make_shared<const control::v1::PodDecision>(decision)})});
}

Printed ShownState(const FakeTree& tree, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"state", "--state-dir", tree.root().string(), "--socket",
                                        (tree.root() / "none.sock").string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return testing::RunAlignctl(AllCommands(), arguments);
}

TEST(StateCommand, ShowsWhatEachContainerHasWithoutAlignd) {
  const FakeTree tree;
  WriteStateFiles(tree);
  const Printed text = ShownState(tree);
  EXPECT_EQ(text.status, kSuccess) << text.err;
  for (const char* const part :
       {"default/train-7", "1-3 (created with 1-2)", "2 resized containers, checksum ok",
        "memory 1", "(NUMA 0)", "a.com/gpu gpu0", "uid-8", "a.com/nic nic0", "shared pool: 0,4-7",
        "1 decision for alignctl explain", "absent"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
  EXPECT_EQ(text.out.find("gpu5"), std::string::npos);
  EXPECT_NE(ShownState(tree, {"-o", "wide"}).out.find("gpu0 (kubelet: gpu5)"), std::string::npos);

  const auto json = nlohmann::json::parse(ShownState(tree, {"-o", "json"}).out);
  EXPECT_EQ(json["intact"], true);
  EXPECT_EQ(json["default_set"], "0,4-7");
  ASSERT_EQ(json["containers"].size(), 2u);
  const auto& train = json["containers"][0];
  EXPECT_EQ(train["pod"], "default/train-7");
  EXPECT_EQ(train["exclusive_cpus"], "1-3");
  EXPECT_EQ(train["original_cpus"], "1-2");
  EXPECT_FALSE(json["containers"][1].contains("original_cpus"));
  EXPECT_EQ(train["memory"][0]["bytes"], 1 << 30);
  EXPECT_EQ(train["devices"]["a.com/gpu"][0]["kubelet_id"], "gpu5");
  EXPECT_EQ(json["containers"][1]["devices"]["a.com/nic"][0]["numa"], nullptr);
}

TEST(StateCommand, NamesDamagedFilesWithARemedyAndShowsTheRest) {
  for (const char* const name :
       {"cpu_manager_state", "memory_manager_state", "device-plugins/kubelet_internal_checkpoint",
        "device_bindings", "cpu_originals", "decisions"}) {
    const FakeTree tree;
    WriteStateFiles(tree);
    std::string text = host::ReadFile(tree.root() / name).value();
    text.back() = 'x';
    tree.Write({name, text});
    const Printed state = ShownState(tree);
    EXPECT_EQ(state.status, kFailure) << name;
    EXPECT_NE(state.out.find("damaged: " + (tree.root() / name).string()), std::string::npos);
    EXPECT_NE(state.out.find("what to do: "), std::string::npos) << state.out;
    EXPECT_NE(state.out.find("app"), std::string::npos) << state.out;
    EXPECT_EQ(nlohmann::json::parse(ShownState(tree, {"-o", "json"}).out)["intact"], false);
  }
}

// A restart of alignd rebuilds the files of its own directory only.
TEST(StateCommand, SaysOfItsOwnDirectoryThatARestartRebuildsIt) {
  const FakeTree tree;
  WriteStateFiles(tree);
  tree.Write({"cpu_manager_state", "damaged"});
  const auto remedy_of = [&](bool is_alignds) {
    return ReadState(tree.root(), tree.root() / "device-plugins", is_alignds).files.at(0).remedy;
  };
  EXPECT_TRUE(remedy_of(true).starts_with("restart alignd: ")) << remedy_of(true);
  EXPECT_TRUE(remedy_of(false).starts_with("copy the file ")) << remedy_of(false);
  const Printed copy = ShownState(tree);
  EXPECT_EQ(copy.out.find("restart alignd"), std::string::npos) << copy.out;
  EXPECT_NE(copy.out.find(remedy_of(false)), std::string::npos) << copy.out;
}

// Nothing is known about the content: neither that it is intact, nor that it is damaged.
TEST(StateCommand, NamesFilesThatItCannotReadWithARemedy) {
  const FakeTree tree;
  WriteStateFiles(tree);
  const auto file = tree.root() / "cpu_manager_state";
  std::filesystem::permissions(file, std::filesystem::perms::none);
  if (host::ReadFile(file).ok()) {  // root reads every file
    std::filesystem::remove(file);
    std::filesystem::create_directory(file);
  }
  const Printed state = ShownState(tree);
  EXPECT_EQ(state.status, kFailure);
  EXPECT_NE(state.out.find("unreadable: " + file.string() + "\n  what to do: "), std::string::npos)
      << state.out;
  EXPECT_EQ(state.out.find("damaged"), std::string::npos) << state.out;
  EXPECT_NE(state.out.find("gpu0"), std::string::npos) << state.out;
  const auto json = nlohmann::json::parse(ShownState(tree, {"-o", "json"}).out);
  EXPECT_EQ(json["intact"], nullptr);
  EXPECT_EQ(json["files"][0]["state"], "unreadable");
  EXPECT_NE(json["files"][0]["remedy"], "");

  tree.Write({"decisions", "damaged"});
  EXPECT_EQ(nlohmann::json::parse(ShownState(tree, {"-o", "json"}).out)["intact"], false);
}

TEST(StateCommand, NeedsADirectory) {
  const FakeTree tree;
  const Printed none = testing::RunAlignctl(
      AllCommands(), {"state", "--state-dir", (tree.root() / "nowhere").string()});
  EXPECT_EQ(none.status, kFailure);
  EXPECT_NE(none.err.find("give --state-dir"), std::string::npos) << none.err;
}

constexpr char kPlainCpus[] =
    R"({"policyName":"static","defaultCpuSet":"0,4-27",)"
    R"("entries":{"39b37746-7f5e-4064-b8e1-eebd2bfaa003":{"app":"1-3"}},"checksum":3300516549})";

Printed RunState(const FakeTree& tree, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "state");
  arguments.insert(arguments.end(), {"--state-dir", tree.root().string()});
  return testing::RunAlignctl(AllCommands(), arguments);
}

TEST(StateCommand, VerifyShowsBothChecksumsOfAFileWithTwoParts) {
  const FakeTree tree{
      {"cpu_manager_state",
       R"({"policyName":"static","defaultCpuSet":"0-7","checksum":14413152,)"
       R"("data":"{\"policyName\":\"static\",\"defaultCpuSet\":\"0-7\"}","dataChecksum":3294586087})"}};
  const Printed intact = RunState(tree, {"verify"});
  EXPECT_EQ(intact.status, kSuccess) << intact.out << intact.err;
  EXPECT_NE(intact.out.find("checksum 14413152, dataChecksum 3294586087"), std::string::npos)
      << intact.out;
}

TEST(StateCommand, VerifiesAllFiles) {
  const FakeTree tree{{"cpu_manager_state", kPlainCpus}};
  const Printed intact = RunState(tree, {"verify"});
  EXPECT_EQ(intact.status, kSuccess) << intact.out << intact.err;
  EXPECT_NE(intact.out.find("checksum 3300516549"), std::string::npos) << intact.out;
  EXPECT_EQ(intact.out.find("39b37746"), std::string::npos) << "no containers: " << intact.out;
  tree.Write({"cpu_originals", "damaged"});
  const Printed damaged = RunState(tree, {"verify", "-o", "json"});
  EXPECT_EQ(damaged.status, kFailure);
  EXPECT_EQ(nlohmann::json::parse(damaged.out)["intact"], false);
}

TEST(StateCommand, ConvertsToAnotherDirectory) {
  const FakeTree tree{{"cpu_manager_state", kPlainCpus}};
  const std::string out = (tree.root() / "out").string();
  const std::string back = (tree.root() / "back").string();
  const Printed newer = RunState(tree, {"convert", "--to", "1.37", "--out", out});
  EXPECT_EQ(newer.status, kSuccess) << newer.err;
  const Printed older = testing::RunAlignctl(
      AllCommands(), {"state", "convert", "--to", "1.36", "--state-dir", out, "--out", back});
  EXPECT_EQ(older.status, kSuccess) << older.err;
  EXPECT_EQ(*host::ReadFile(tree.root() / "back/cpu_manager_state"), kPlainCpus);
  EXPECT_NE(*host::ReadFile(tree.root() / "out/cpu_manager_state"), kPlainCpus);
  // Never over a file that is there.
  const Printed again = RunState(tree, {"convert", "--to", "1.36", "--out", out});
  EXPECT_EQ(again.status, kFailure);
  EXPECT_NE(again.err.find("exists, and is not replaced"), std::string::npos) << again.err;
}

TEST(StateCommand, ConvertsAllFilesOrNone) {
  const FakeTree tree{{"cpu_manager_state", kPlainCpus}, {"memory_manager_state", "damaged"}};
  const Printed refused =
      RunState(tree, {"convert", "--to", "1.37", "--out", (tree.root() / "out").string()});
  EXPECT_EQ(refused.status, kFailure);
  EXPECT_NE(refused.err.find("memory_manager_state"), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(tree.root() / "out"));
  const FakeTree empty;
  EXPECT_EQ(RunState(empty, {"convert", "--to", "1.37", "--out", "/nowhere"}).status, kFailure);
}

Printed CheckOf(const FakeTree& tree, const std::string& text,
                const std::vector<std::string>& more = {}) {
  tree.Write({"config.yaml", text});
  tree.Write({"node.json", R"({"cpus":[[0,0,0,0,0],[1,1,0,0,0]],)"
                           R"("numa":[{"id":0,"memory":1073741824,"distances":[10]}]})"});
  std::vector<std::string> arguments = {"config", "check", (tree.root() / "config.yaml").string(),
                                        "--node", (tree.root() / "node.json").string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return testing::RunAlignctl(AllCommands(), arguments);
}

TEST(ConfigCommand, ChecksAFileAsTheStartDoes) {
  const FakeTree tree;
  const Printed good =
      CheckOf(tree, "cpuManagerPolicy: static\nreservedSystemCPUs: \"1\"\n", {"-o", "json"});
  EXPECT_EQ(good.status, kSuccess) << good.err;
  std::map<std::string, std::pair<std::string, std::string>> fields;
  const auto json = nlohmann::json::parse(good.out);
  for (const auto& setting : json["settings"]) {
    fields[setting["name"]] = {setting["value"], setting["source"]};
  }
  EXPECT_EQ(fields["cpuManagerPolicy"], std::pair(std::string("static"), std::string("file")));
  EXPECT_EQ(fields["reservedSystemCPUs"], std::pair(std::string("\"1\""), std::string("file")));
  EXPECT_EQ(fields["memoryManagerPolicy"], std::pair(std::string("None"), std::string("default")));

  const Printed misspelt = CheckOf(tree, "topologyManagerPolcy: none\n");
  EXPECT_EQ(misspelt.status, kFailure);
  EXPECT_NE(misspelt.out.find("did you mean topologyManagerPolicy?"), std::string::npos);
  // Only the machine shows this one.
  const Printed outside = CheckOf(tree, "cpuManagerPolicy: static\nreservedSystemCPUs: \"7\"\n");
  EXPECT_EQ(outside.status, kFailure);
  EXPECT_NE(outside.out.find("config.yaml: reservedSystemCPUs (7): "), std::string::npos)
      << outside.out;
  const auto problems = nlohmann::json::parse(
      CheckOf(tree, "cpuManagerPolicy: static\nreservedSystemCPUs: \"7\"\n", {"-o", "json"})
          .out)["problems"];
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0]["field"], "reservedSystemCPUs");
}

TEST(ConfigCommand, WarnsAboutWhatDoesNothing) {
  const FakeTree tree;
  const Printed warned = CheckOf(tree, "{}");
  EXPECT_EQ(warned.status, 2);
  EXPECT_NE(warned.out.find("warning: "), std::string::npos) << warned.out;
  EXPECT_NE(warned.out.find("alignd would start, with 1 warning\n"), std::string::npos);
}

TEST(ConfigCommand, ChecksWhatIsSaved) {
  const FakeTree tree{{"state/cpu_manager_state", "damaged"}};
  const std::string text = "cpuManagerPolicy: static\nreservedSystemCPUs: \"1\"\n";
  EXPECT_EQ(CheckOf(tree, text).status, kSuccess);  // not of this machine
  const Printed checked = CheckOf(tree, text, {"--state-dir", (tree.root() / "state").string()});
  EXPECT_EQ(checked.status, 2);  // it would be rebuilt
  EXPECT_NE(checked.out.find("cpu_manager_state"), std::string::npos) << checked.out;
}

TEST(ConfigCommand, AcceptsTheGateOfPodLevelResourceManagers) {
  const FakeTree tree;
  for (const char* const gates : {"{PodLevelResourceManagers: true}", "{AllBeta: true}"}) {
    const Printed on = CheckOf(
        tree, std::string("topologyManagerPolicy: restricted\nfeatureGates: ") + gates + "\n");
    EXPECT_EQ(on.status, kSuccess) << on.out << on.err;
  }
}

TEST(ConfigCommand, WarnsOfUnknownGatesAndRefusesMisspeltOnes) {
  const FakeTree tree;
  const std::string policy = "topologyManagerPolicy: restricted\nfeatureGates: ";
  const Printed unknown = CheckOf(tree, policy + "{MemoryQos2: true}\n");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.out.find("MemoryQos2 (did you mean MemoryQoS?)"), std::string::npos)
      << unknown.out;
  const Printed misspelt = CheckOf(tree, policy + "{podLevelResourceManager: true}\n");
  EXPECT_EQ(misspelt.status, kFailure);
  EXPECT_NE(misspelt.out.find("did you mean PodLevelResourceManagers?"), std::string::npos)
      << misspelt.out;
}

TEST(ConfigCommand, PrintsADefaultThatChangesNothing) {
  const Printed standard = testing::RunAlignctl(AllCommands(), {"config", "default"});
  EXPECT_EQ(standard.status, kSuccess);
  const FakeTree tree{{"default.yaml", standard.out}};
  const auto read = host::ReadConfigFields(tree.root() / "default.yaml");
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(read->config, KubeletConfig());
}

// The example, the report and the manual page have the same fields and defaults.
TEST(ConfigCommand, KnowsEveryFieldOfTheExample) {
  std::vector<std::string> reported;
  for (const auto& setting : control::ReportFields(KubeletConfig(), {})) {
    reported.push_back(setting.name());
  }
  std::vector<std::string> written;
  const std::string manual = ConfigManual(ExampleFields());
  for (const ExampleField& field : ExampleFields()) {
    written.push_back(field.name);
    EXPECT_FALSE(field.comment.empty()) << field.name;
    EXPECT_FALSE(field.standard.empty()) << field.name;
    EXPECT_NE(manual.find(".B " + field.name + "\n"), std::string::npos) << manual;
  }
  EXPECT_EQ(reported, written);
}

TEST(ConfigCommand, ShowsWhatEachFieldHas) {
  const FakeTree tree{{"config.yaml",
                       "kubeReserved: {cpu: \"500m\"}\n"
                       "cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}\n"
                       "cpuManagerReconcilePeriod: 1500ms\n"
                       "evictionHard: {nodefs.available: 5%}\n"
                       "reservedMemory: [{numaNode: 1, limits: {memory: 1Gi}}]\n"
                       "featureGates: {AllAlpha: false, Other: true}\n"}};
  const auto read = host::ReadConfigFields(tree.root() / "config.yaml");
  ASSERT_TRUE(read.ok()) << read.error().Text();
  std::map<std::string, std::string> values;
  for (const auto& setting : control::ReportFields(read->config, read->given)) {
    values[setting.name()] = setting.value() + " " + setting.source();
  }
  EXPECT_EQ(values["kubeReserved"], "{cpu: \"500m\"} file");
  EXPECT_EQ(values["cpuManagerPolicyOptions"], "{full-pcpus-only: \"true\"} file");
  EXPECT_EQ(values["cpuManagerReconcilePeriod"], "1500ms file");
  EXPECT_EQ(values["evictionHard"], "{} file");
  EXPECT_EQ(values["reservedMemory"], "[{numaNode: 1, limits: {memory: \"1Gi\"}}] file");
  EXPECT_EQ(values["featureGates"], "{AllAlpha: false, Other: true} file");
  EXPECT_EQ(values["systemReserved"], "{} default");
}

}  // namespace
}  // namespace alignd::cli
