// `alignd --check` as a process: its exit status, what it prints, and that it works beside alignd.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "edge/alignd_command.h"
#include "edge/fake_tree.h"
#include "edge/process.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;
using testing::FakeTree;
using testing::Process;

struct CheckRun {
  int status = -1;
  std::string printed;
};

class DaemonCheck : public ::testing::Test {
 protected:
  DaemonCheck() {
    tree_.Write({"node.json", R"({"cpus":[[0,0,0,0,0],[1,1,0,0,0]],)"
                              R"("numa":[{"id":0,"memory":1073741824,"distances":[10]}]})"});
    tree_.Write({"cgroup/cgroup.controllers", "cpuset cpu\n"});
    tree_.Write({"config.yaml",
                 "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"
                 "topologyManagerPolicy: restricted\n"});
  }

  std::string Path(const std::string& name) const { return (tree_.root() / name).string(); }

  // Of a start.
  std::vector<std::string> Command() const {
    Options options;
    options.config = Path("config.yaml");
    options.node = Path("node.json");
    options.state_dir = Path("state");
    options.cgroup_root = Path("cgroup");
    options.listen = Path("run/alignd.sock");
    options.runtime_endpoint = Path("runtime.sock");
    options.pods_api_endpoint.clear();
    options.metrics_address = "off";
    options.kubelet_dir = Path("kubelet");
    return testing::AligndCommand(ALIGND_PROGRAM, options);
  }

  // It prints its exit status at the end.
  static std::vector<std::string> WithStatus(const std::vector<std::string>& command) {
    std::vector<std::string> words = {"sh", "-c", "\"$0\" \"$@\"; echo \"ended with $?\""};
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }

  CheckRun Check(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = Command();
    command.push_back("--check");
    command.insert(command.end(), more.begin(), more.end());
    const Process process(WithStatus(command), tree_.root() / "check.log");
    EXPECT_TRUE(process.WaitForLog("ended with ")) << process.Log();
    std::string printed = process.Log();
    const size_t end = printed.rfind("ended with ");
    const int status = std::stoi(printed.substr(end + std::string("ended with ").size()));
    return {status, printed.substr(0, end)};
  }

  // What is below the test's directory, but for the logs: name, and of a file size and time.
  std::map<std::string, std::pair<uintmax_t, fs::file_time_type>> Files() const {
    std::map<std::string, std::pair<uintmax_t, fs::file_time_type>> files;
    for (const auto& entry : fs::recursive_directory_iterator(tree_.root())) {
      if (entry.path().extension() == ".log" || !entry.is_regular_file()) continue;
      files[entry.path()] = {entry.file_size(), entry.last_write_time()};
    }
    return files;
  }

  const FakeTree tree_;
};

TEST_F(DaemonCheck, EndsWithWhatAStartWouldDo) {
  const CheckRun good = Check();
  EXPECT_EQ(good.status, 0) << good.printed;
  EXPECT_NE(good.printed.find("alignd would start\n"), std::string::npos) << good.printed;
  EXPECT_FALSE(fs::exists(tree_.root() / "state"));
  EXPECT_FALSE(fs::exists(tree_.root() / "run"));

  tree_.Write({"config.yaml", "{}"});
  const CheckRun warned = Check();
  EXPECT_EQ(warned.status, 2) << warned.printed;
  EXPECT_NE(warned.printed.find("all policies are none"), std::string::npos) << warned.printed;

  tree_.Write({"config.yaml",
               "cpuManagerPolicy: static\nreservedSystemCPUs: \"0,64-67\"\n"
               "cpuManagerPolicyOptions: {full-pcpu-only: \"true\"}\n"});
  const CheckRun bad = Check({"-o", "json"});
  EXPECT_EQ(bad.status, 1) << bad.printed;
  const auto report = nlohmann::json::parse(bad.printed);
  ASSERT_EQ(report["problems"].size(), 2u) << bad.printed;
  EXPECT_EQ(report["problems"][0]["file"], Path("config.yaml"));
  EXPECT_EQ(report["problems"][0]["field"], "reservedSystemCPUs");
  EXPECT_EQ(report["problems"][0]["value"], "0,64-67");
  EXPECT_EQ(report["problems"][1]["remedy"], "did you mean full-pcpus-only?");
}

// A wrong command line is nothing with which alignd would start, with or without warnings.
TEST_F(DaemonCheck, AWrongCommandLineIsNoWarning) {
  EXPECT_EQ(Check({"--mirror=sideways"}).status, 1);
  EXPECT_EQ(Check({"--no-such-flag"}).status, 1);
}

TEST_F(DaemonCheck, WorksBesideAligndAndChangesNothing) {
  Process alignd(Command(), tree_.root() / "alignd.log");
  ASSERT_TRUE(alignd.WaitForLog("ready: ")) << alignd.Log();
  const auto before = Files();
  EXPECT_GT(before.size(), 5u);
  const CheckRun beside = Check();
  EXPECT_EQ(beside.status, 0) << beside.printed;
  EXPECT_EQ(Files(), before);
  EXPECT_NE(beside.printed.find("alignd (process " + std::to_string(alignd.pid()) + ") runs"),
            std::string::npos)
      << beside.printed;
  EXPECT_EQ(alignd.Kill(SIGTERM), 0) << alignd.Log();
  EXPECT_EQ(Check().printed.find("(process"), std::string::npos);
}

// The start itself names all of them, so that they are corrected at once.
TEST_F(DaemonCheck, AFailedStartLogsAllProblems) {
  tree_.Write({"config.yaml", "cpuManagerPolicy: sttaic\ntopologyManagerPolcy: none\n"});
  const Process process(WithStatus(Command()), tree_.root() / "alignd.log");
  ASSERT_TRUE(process.WaitForLog("ended with 1")) << process.Log();
  const std::string log = process.Log();
  EXPECT_NE(log.find("did you mean topologyManagerPolicy?"), std::string::npos) << log;
  EXPECT_NE(log.find("cannot start, also: "), std::string::npos) << log;
  EXPECT_NE(log.find("did you mean static?"), std::string::npos) << log;
}

}  // namespace
}  // namespace alignd::daemon
