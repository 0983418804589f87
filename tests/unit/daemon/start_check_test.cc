#include "daemon/start_check.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "alignd/admission/node_state.h"
#include "allocation/checkpoint_store.h"
#include "daemon/change_undo.h"
#include "daemon/managed_node.h"
#include "edge/fake_tree.h"
#include "host/file.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;
using testing::FakeTree;

constexpr char kNode[] = R"({"cpus":[[0,0,0,0,0],[1,1,0,0,0],[2,2,1,1,1],[3,3,1,1,1]],)"
                         R"("numa":[{"id":0,"memory":1073741824,"distances":[10,21]},)"
                         R"({"id":1,"memory":1073741824,"distances":[21,10]}]})";
constexpr char kGood[] =
    "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"
    "topologyManagerPolicy: restricted\nmemoryManagerPolicy: Static\n"
    "reservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]\n";

class StartCheckTest : public ::testing::Test {
 protected:
  StartCheckTest() {
    tree_.Write({"node.json", kNode});
    tree_.Write({"cgroup/cgroup.controllers", "cpuset cpu\n"});
    tree_.Write({"root/proc/sys/kernel/random/boot_id", "boot\n"});
    tree_.Write({"kubelet", {}});
    options_.node = tree_.root() / "node.json";
    options_.root = tree_.root() / "root";
    options_.cgroup_root = tree_.root() / "cgroup";
    options_.state_dir = tree_.root() / "state";
    options_.kubelet_dir = tree_.root() / "kubelet";
    options_.listen = (tree_.root() / "run/alignd.sock").string();
    Configure(kGood);
  }

  void Configure(const std::string& text) {
    options_.config = tree_.root() / "config.yaml";
    tree_.Write({"config.yaml", text});
  }

  // The saved state of this configuration with one container.
  void SaveState() {
    const Result<admission::Node> node = MakeNode(options_);
    ASSERT_TRUE(node.ok()) << node.error().Text();
    allocation::CheckpointStore store({options_.state_dir, options_.DevicePluginDir()});
    Result<admission::NodeState> state = store.Load(*node);
    ASSERT_TRUE(state.ok()) << state.error().Text();
    state->cpu.assignments["uid"]["app"] = *CpuSet::Parse("2");
    state->cpu.default_set -= *CpuSet::Parse("2");
    ASSERT_TRUE(store.Save(*node, *state).ok());
  }

  // All files below the test's directory, with their texts.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(tree_.root())) {
      files[entry.path()] = entry.is_directory() ? "" : host::ReadFile(entry.path()).value();
    }
    return files;
  }

  // A check that changes nothing.
  StartCheck Check() const {
    const auto before = Files();
    StartCheck check = CheckStart(options_);
    EXPECT_EQ(Files(), before);
    return check;
  }

  std::vector<std::string> WarningsOf(const StartCheck& check) const {
    std::vector<std::string> fields;
    for (const StartProblem& warning : check.warnings) {
      fields.push_back(warning.field);
      EXPECT_FALSE(warning.error.remedy.empty()) << warning.error.message;
    }
    return fields;
  }

  const FakeTree tree_;
  Options options_;
};

std::string TextOf(const StartCheck& check) {
  std::ostringstream out;
  PrintStartCheck(check, /*wide=*/false, out);
  return out.str();
}

TEST_F(StartCheckTest, ShowsWhatWouldApply) {
  const StartCheck check = Check();
  EXPECT_EQ(check.ExitStatus(), 0) << TextOf(check);
  const std::string text = TextOf(check);
  for (const char* const line :
       {"CPU manager:      static\n", "memory manager:   Static\n",
        "topology manager: restricted, scope container, as kubelet 1.37\n",
        "NUMA node 0: CPUs 0-1, reserved 0; memory 1024 MiB, allocatable memory 924 MiB\n",
        "NUMA node 1: CPUs 2-3, reserved none; memory 1024 MiB, allocatable memory 1024 MiB\n",
        "a start carries over 0 pods with 0 containers and 0 exclusive CPUs\n",
        "reservedSystemCPUs = \"0\" (file)\n", "(--listen)\n", "alignd would start\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  const auto json = nlohmann::json::parse(StartCheckJson(check));
  EXPECT_EQ(json["would_start"], true);
  EXPECT_EQ(json["node"]["numa_nodes"][0]["reserved_cpus"], "0");
  EXPECT_EQ(json["node"]["numa_nodes"][0]["allocatable"]["memory"], 924u << 20);
  EXPECT_EQ(json["saved_state"]["usable"], true);
  EXPECT_EQ(json["problems"].size(), 0u);
}

TEST_F(StartCheckTest, LeavesTheFilesOfAnUnfinishedChangeAlone) {
  SaveState();
  ASSERT_TRUE(ChangeUndo::Begin(options_.state_dir, {}, kGood).ok());
  tree_.Write({"state/cpu_manager_state", "half of a ch"});
  const StartCheck check = Check();
  EXPECT_EQ(check.ExitStatus(), 2) << TextOf(check);
  EXPECT_EQ(check.saved, SavedStateCheck::kNotChecked);
  ASSERT_EQ(check.warnings.size(), 1u) << TextOf(check);
  EXPECT_NE(TextOf(check).find("a start first restores the former files"), std::string::npos)
      << TextOf(check);
}

TEST_F(StartCheckTest, SaysWhatIsCarriedOver) {
  SaveState();
  const StartCheck check = Check();
  EXPECT_EQ(check.ExitStatus(), 0) << TextOf(check);
  EXPECT_NE(TextOf(check).find("a start carries over 1 pod with 1 container and 1 exclusive CPU\n"),
            std::string::npos)
      << TextOf(check);
}

TEST_F(StartCheckTest, FindsAllProblemsOfTheConfiguration) {
  Configure("cpuManagerPolicy: sttaic\ntopologyManagerPolcy: none\n");
  const StartCheck unread = Check();
  ASSERT_EQ(unread.problems.size(), 2u) << TextOf(unread);
  EXPECT_EQ(unread.problems[0].file, options_.config);
  EXPECT_EQ(unread.problems[0].field, "topologyManagerPolcy");
  EXPECT_EQ(unread.problems[0].value, "\"none\"");
  EXPECT_EQ(unread.problems[1].error.remedy, "did you mean static?");
  EXPECT_EQ(unread.saved, SavedStateCheck::kNotChecked);

  Configure(
      "cpuManagerPolicy: static\nreservedSystemCPUs: \"0,64-67\"\n"
      "cpuManagerPolicyOptions: {full-pcpu-only: \"true\"}\n");
  const StartCheck unfit = Check();
  EXPECT_EQ(unfit.ExitStatus(), 1);
  ASSERT_EQ(unfit.problems.size(), 2u) << TextOf(unfit);
  const Error first = unfit.problems[0].AsError();
  EXPECT_EQ(first.message, options_.config.string() +
                               ": reservedSystemCPUs (0,64-67): reserved-cpus: 0,64-67 is not a "
                               "subset of online-cpus: 0-3");
  EXPECT_EQ(first.remedy, "remove 64-67, which is not online, from the list");
  EXPECT_EQ(MakeNode(options_).error(), first);  // as the start says it
  EXPECT_NE(TextOf(unfit).find("what to do: did you mean full-pcpus-only?"), std::string::npos);
  EXPECT_NE(TextOf(unfit).find("alignd would not start: 2 problems\n"), std::string::npos);
}

// What could not be read hides nothing that is wrong in any case, and adds nothing that may be its
// consequence.
TEST_F(StartCheckTest, AWrongFieldHidesNoOtherProblem) {
  const auto fields = [this](const std::string& config) {
    Configure(config);
    std::vector<std::string> named;
    for (const StartProblem& problem : Check().problems) named.push_back(problem.field);
    return named;
  };
  EXPECT_EQ(fields("cpuManagerPolicy: static\ntopologyManagerPolicy: restricted\n"
                   "topologyManagerPolcy: none\nreservedSystemCPUs: \"0,64\"\n"
                   "cpuManagerPolicyOptions: {full-pcpu-only: \"true\"}\n"
                   "topologyManagerPolicyOptions: {prefer-closest-numa-node: \"true\"}\n"),
            (std::vector<std::string>{"topologyManagerPolcy", "reservedSystemCPUs",
                                      "topologyManagerPolicyOptions.prefer-closest-numa-node",
                                      "cpuManagerPolicyOptions.full-pcpu-only"}));
  EXPECT_EQ(fields("memoryManagerPolicy: Sttaic\nreservedMemory:\n"
                   "- {numaNode: 7, limits: {memory: 100Mi}}\n"),
            (std::vector<std::string>{"memoryManagerPolicy", "reservedMemory"}));
  EXPECT_EQ(
      fields("cpuManagerPolicy: sttaic\n"
             "cpuManagerPolicyOptions: {full-pcpu-only: \"true\"}\n"),
      (std::vector<std::string>{"cpuManagerPolicy", "cpuManagerPolicyOptions.full-pcpu-only"}));
  // Both would be consequences: of the reservation that is missing, and of the policy.
  EXPECT_EQ(fields("cpuManagerPolicy: static\nkubeReservd: {cpu: \"1\"}\n"),
            std::vector<std::string>{"kubeReservd"});
  EXPECT_EQ(fields("cpuManagerPolcy: static\nreservedSystemCPUs: \"0\"\n"
                   "cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}\n"),
            std::vector<std::string>{"cpuManagerPolcy"});
}

TEST_F(StartCheckTest, FindsAllProblemsOfTheSavedState) {
  SaveState();
  tree_.Write({"state/memory_manager_state", "damaged"});
  tree_.Write({"state/device_bindings", "damaged"});
  tree_.Write({"state/device-plugins/kubelet_internal_checkpoint", "damaged"});
  options_.on_bad_state = allocation::OnBadState::kRefuse;
  const StartCheck check = Check();
  EXPECT_EQ(check.ExitStatus(), 1);
  EXPECT_EQ(check.saved, SavedStateCheck::kUnusable);
  std::vector<std::string> files;
  for (const StartProblem& problem : check.problems) {
    files.push_back(problem.file.filename());
    EXPECT_FALSE(problem.error.remedy.empty()) << problem.error.message;
  }
  EXPECT_EQ(files, (std::vector<std::string>{"memory_manager_state", "kubelet_internal_checkpoint",
                                             "device_bindings"}));
  EXPECT_NE(TextOf(check).find("cannot be carried over"), std::string::npos);
}

TEST_F(StartCheckTest, WarnsOfFilesThatAStartRebuilds) {
  SaveState();
  const std::vector<std::string> names = {
      "cpu_manager_state", "cpu_originals", "memory_manager_state",
      "device-plugins/kubelet_internal_checkpoint", "device_bindings"};
  for (const std::string& name : names) tree_.Write({"state/" + name, "damaged"});
  const StartCheck check = Check();
  EXPECT_EQ(check.ExitStatus(), 2) << TextOf(check);
  EXPECT_EQ(check.saved, SavedStateCheck::kUsable);
  std::vector<std::string> warned;
  for (const StartProblem& warning : check.warnings) {
    warned.push_back(fs::relative(warning.file, options_.state_dir));
    EXPECT_FALSE(warning.error.remedy.empty()) << warning.error.message;
  }
  EXPECT_EQ(warned, names);
  for (const std::string& name : names) {
    EXPECT_EQ(host::ReadFile(options_.state_dir / name).value(), "damaged");
  }
}

// Another policy than the one under which it was saved.
TEST_F(StartCheckTest, ComparesTheSavedStateWithTheConfiguration) {
  SaveState();
  Configure("topologyManagerPolicy: restricted\n");
  const StartCheck check = Check();
  EXPECT_EQ(check.ExitStatus(), 1);
  ASSERT_GE(check.problems.size(), 1u);
  EXPECT_EQ(check.problems[0].file, options_.state_dir / "cpu_manager_state");
  EXPECT_NE(check.problems[0].error.remedy.find("set cpuManagerPolicy to \"static\""),
            std::string::npos);
}

TEST_F(StartCheckTest, NamesPathsThatCannotBeUsed) {
  tree_.Write({"run", "a file in the place of the directory"});
  options_.runtime_endpoint = "containerd.sock";
  const StartCheck check = Check();
  EXPECT_EQ(check.ExitStatus(), 1);
  std::map<std::string, std::string> values;
  for (const StartProblem& problem : check.problems) values[problem.field] = problem.value;
  EXPECT_EQ(values["--listen"], options_.listen);
  EXPECT_EQ(values["--runtime-endpoint"], "containerd.sock");
  // Also without a node to compare the files with.
  Configure("cpuManagerPolicy: sttaic\n");
  options_.state_dir = tree_.root() / "run/state";
  for (const StartProblem& problem : Check().problems) values[problem.field] = problem.value;
  EXPECT_EQ(values["--state-dir"], options_.state_dir);
}

TEST_F(StartCheckTest, WarnsAboutPoliciesThatDoNothing) {
  using Fields = std::vector<std::string>;
  Configure("{}");
  EXPECT_EQ(WarningsOf(Check()), Fields{"cpuManagerPolicy"});
  EXPECT_EQ(Check().ExitStatus(), 2);
  Configure("topologyManagerPolicy: single-numa-node\n");
  EXPECT_EQ(WarningsOf(Check()), Fields{"topologyManagerPolicy"});
  Configure("cpuManagerPolicy: static\nreservedSystemCPUs: 0-3\n");
  EXPECT_EQ(WarningsOf(Check()), Fields{"reservedSystemCPUs"});
  Configure("topologyManagerPolicy: restricted\n");
  EXPECT_EQ(WarningsOf(Check()), Fields{});
}

// They were permitted once: a node with such a flag starts after an update.
TEST_F(StartCheckTest, WarnsAboutNamesThatAreNoDevices) {
  Configure("topologyManagerPolicy: restricted\n");
  options_.not_devices = {"example.com/licence"};
  EXPECT_EQ(Check().ExitStatus(), 0) << TextOf(Check());
  options_.not_devices = {"cpu", "example.com/licence", "hugepages-2Mi"};
  const StartCheck check = Check();
  EXPECT_EQ(WarningsOf(check), (std::vector<std::string>{"--not-devices", "--not-devices"}));
  EXPECT_EQ(check.ExitStatus(), 2);
  ASSERT_TRUE(check.node);
  EXPECT_EQ(check.node->config.not_devices, std::set<std::string>{"example.com/licence"});
  EXPECT_NE(
      TextOf(check).find("\"cpu\" is not the name of an extended resource, and has no effect"),
      std::string::npos)
      << TextOf(check);
}

TEST_F(StartCheckTest, WarnsAboutDirectoriesOfOthers) {
  using Fields = std::vector<std::string>;
  options_.cgroup_root = tree_.root() / "nowhere";
  EXPECT_EQ(WarningsOf(Check()), Fields{"--cgroup-root"});
  options_.cgroup_root = tree_.root() / "state";
  EXPECT_EQ(WarningsOf(Check()), Fields{"--cgroup-root"});
  tree_.Write({"version1/cpuset", {}});
  options_.cgroup_root = tree_.root() / "version1";
  options_.kubelet_dir = tree_.root() / "run/../state/";
  EXPECT_EQ(WarningsOf(Check()), Fields{"--state-dir"});
  options_.kubelet_device_plugin_dir = tree_.root() / "state/device-plugins";
  EXPECT_EQ(WarningsOf(Check()), (Fields{"--state-dir", "--device-plugin-dir"}));
}

// What the start would log while it loads the files.
TEST_F(StartCheckTest, ShowsTheWarningsOfTheFiles) {
  SaveState();
  tree_.Write({"node.json", std::string(kNode).replace(std::string(kNode).find("1073741824"), 10,
                                                       "1073000000")});
  const StartCheck check = Check();
  EXPECT_EQ(check.ExitStatus(), 2) << TextOf(check);
  EXPECT_NE(TextOf(check).find("the memory of the NUMA nodes has changed"), std::string::npos)
      << TextOf(check);
}

}  // namespace
}  // namespace alignd::daemon
