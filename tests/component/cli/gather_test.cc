// The archive for a support case, and what is left out of it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/redact.h"
#include "control/decision_history.h"
#include "edge/fake_tree.h"
#include "edge/run_alignctl.h"
#include "host/file.h"
#include "host/subprocess.h"

namespace alignd::cli {
namespace {

using testing::FakeTree;

constexpr char kDevices[] =
    R"({"Data":{"PodDeviceEntries":[{"PodUID":"u1","ContainerName":"app","ResourceName":"a.com/gpu",)"
    R"("DeviceIDs":{"0":["gpu0"]},"AllocResp":"CgpTRUNSRVQ9MTIz"}],"RegisteredDevices":{}},)"
    R"("Checksum":1})";

TEST(Redact, LeavesOutTheAnswersOfPlugins) {
  const Result<std::string> text = WithoutPluginAnswers(kDevices);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->find("CgpTRUNSRVQ9MTIz"), std::string::npos) << *text;
  EXPECT_NE(text->find(R"("AllocResp": "removed by alignctl gather")"), std::string::npos) << *text;
  EXPECT_NE(text->find("gpu0"), std::string::npos) << *text;
  EXPECT_FALSE(WithoutPluginAnswers("no JSON: CgpTRUNSRVQ9MTIz").ok());
}

TEST(Redact, LeavesOutSecretsOfTheConfiguration) {
  const Result<std::string> text = WithoutSecrets(
      "cpuManagerPolicy: static\n"
      "staticPodURLHeader:\n  Authorization: [Bearer hidden-1]\n"
      "staticPodURL: https://user:hidden-3@host/pods?token=hidden-4\n"
      "nested:\n- apiKey: hidden-2\n  tokenFile: /etc/shown\n  password: 12345\n"
      "rotateSecrets: true\n");
  ASSERT_TRUE(text.ok()) << text.error().Text();
  for (const char* const hidden : {"hidden-1", "hidden-2", "hidden-3", "hidden-4", "12345"}) {
    EXPECT_EQ(text->find(hidden), std::string::npos) << *text;
  }
  for (const char* const shown : {R"("cpuManagerPolicy": "static")", "/etc/shown", "true"}) {
    EXPECT_NE(text->find(shown), std::string::npos) << *text;
  }
  EXPECT_FALSE(WithoutSecrets("a: b: hidden").ok());
}

TEST(RunProcess, GivesOutputAndExitStatus) {
  const auto run = [](const std::string& script, std::chrono::milliseconds timeout) {
    return host::RunProcess({"sh", "-c", script}, timeout, 5);
  };
  const auto done = run("printf 12; printf 34567 >&2; exit 3", std::chrono::seconds(60));
  ASSERT_TRUE(done.ok()) << done.error().Text();
  EXPECT_EQ(done->exit_status, 3);
  EXPECT_EQ(done->output, "12345");
  EXPECT_TRUE(done->is_cut);
  EXPECT_EQ(run("kill -9 $$", std::chrono::seconds(60))->exit_status, 137);
  for (const std::string endless : {"exec sleep 60", "exec yes", "exec >&- 2>&-; sleep 60"}) {
    EXPECT_EQ(run(endless, std::chrono::milliseconds(50)).error().code,
              ErrorCode::kDeadlineExceeded)
        << endless;
  }
  EXPECT_EQ(host::RunProcess({"/no/such/program"}, std::chrono::seconds(1)).error().code,
            ErrorCode::kNotFound);
}

// alignd does not run: the rest is gathered.
TEST(Gather, WritesAnArchiveWithoutSecrets) {
  const FakeTree tree{
      {"state",
       {{"cpu_manager_state", R"({"policyName":"none","defaultCpuSet":"","checksum":1353318690})"},
        {"device-plugins", {{"kubelet_internal_checkpoint", kDevices}}}}},
      {"config.yaml", "cpuManagerPolicy: static\nstaticPodURLHeader:\n  Token: [hidden-token]\n"}};
  const std::filesystem::path archive = tree.root() / "case.tar.gz";
  const testing::Printed printed =
      testing::RunAlignctl(AllCommands(), {"gather", archive, "--socket",
                                           "unix://" + (tree.root() / "none.sock").string(),
                                           "--state-dir", tree.root() / "state", "--config",
                                           tree.root() / "config.yaml", "--log-lines", "1"});
  ASSERT_EQ(printed.status, kSuccess) << printed.err;
  EXPECT_TRUE(
      printed.out.starts_with(archive.string() + "\nnot gathered:\nstatus, pods, settings: "))
      << printed.out;
  EXPECT_NE(printed.out.find("memory_manager_state: "), std::string::npos) << printed.out;
  struct stat status {};
  ASSERT_EQ(::stat(archive.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  const auto unpacked = host::RunProcess(
      {"tar", "--extract", "--to-stdout", "--file", archive.string()}, std::chrono::seconds(60));
  ASSERT_TRUE(unpacked.ok()) << unpacked.error().Text();
  ASSERT_EQ(unpacked->exit_status, 0) << unpacked->output;
  const std::string& text = unpacked->output;
  for (const char* const part :
       {"defaultCpuSet", "gpu0", R"("cpuManagerPolicy": "static")", "alignctl ", "NUMA node",
        "cpu_manager_state: the checksum is correct", "kubelet_internal_checkpoint: bad: ",
        "Not gathered:\nstatus, pods, settings: ", "\nkubelet.txt\n", "(commit "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(text.find("CgpTRUNSRVQ9MTIz"), std::string::npos);
  EXPECT_EQ(text.find("hidden-token"), std::string::npos);
}

// The usual case: alignd does not start. What it saved says what it had decided.
TEST(Gather, HasSavedDecisionsAndWhyAligndDoesNotStart) {
  auto refused = std::make_shared<control::v1::PodDecision>();
  refused->set_pod_uid("u1");
  refused->set_pod_name("train");
  refused->set_outcome("refused");
  refused->set_message("no locality");
  auto waiting = std::make_shared<control::v1::PodDecision>();
  waiting->set_pod_uid("u2");
  waiting->set_outcome("waiting");
  waiting->set_reason("TopologyAffinityError");
  waiting->set_message("no locality");
  const FakeTree tree{{"state", {{"decisions", control::FormatDecisions({refused, waiting})}}},
                      {"config.yaml", "cpuManagerPolicy: statik\n"}};
  const std::filesystem::path archive = tree.root() / "case.tar.gz";
  const testing::Printed printed = testing::RunAlignctl(
      AllCommands(),
      {"gather", archive, "--socket", "unix://" + (tree.root() / "none.sock").string(),
       "--state-dir", tree.root() / "state", "--config", tree.root() / "config.yaml"});
  ASSERT_EQ(printed.status, kSuccess) << printed.err;
  const auto unpacked = host::RunProcess(
      {"tar", "--extract", "--to-stdout", "--file", archive.string()}, std::chrono::seconds(60));
  ASSERT_TRUE(unpacked.ok()) << unpacked.error().Text();
  for (const char* const part : {"\nexplain.txt\nexplain.json\ncheck.txt\n", "/train (u1) refused",
                                 "no locality", "statik", "alignd would not start"}) {
    EXPECT_NE(unpacked->output.find(part), std::string::npos) << part << unpacked->output;
  }
  // alignd, which knows it, has not answered.
  EXPECT_NE(unpacked->output.find("(u2) waiting\n"), std::string::npos) << unpacked->output;
}

// A journal of more than 64 MiB is cut; the list of contents says so.
TEST(Gather, NamesALogThatIsCut) {
  const FakeTree tree{{"bin/journalctl", "#!/bin/sh\nexec head -c 67200000 /dev/zero\n"}};
  std::filesystem::permissions(tree.root() / "bin/journalctl", std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");
  setenv("PATH", ((tree.root() / "bin").string() + ":" + path).c_str(), 1);
  const std::filesystem::path archive = tree.root() / "case.tar.gz";
  const testing::Printed printed = testing::RunAlignctl(
      AllCommands(),
      {"gather", archive, "--socket", "unix://" + (tree.root() / "none.sock").string(),
       "--state-dir", tree.root(), "--config", tree.root() / "c.yaml"});
  setenv("PATH", path.c_str(), 1);
  ASSERT_EQ(printed.status, kSuccess) << printed.err;
  const auto contents = host::RunProcess({"tar", "--extract", "--to-stdout", "--wildcards",
                                          "--file", archive.string(), "*/contents.txt"},
                                         std::chrono::seconds(60));
  ASSERT_TRUE(contents.ok()) << contents.error().Text();
  EXPECT_NE(contents->output.find("\nlog.txt (cut: "), std::string::npos) << contents->output;
}

TEST(Gather, ReplacesNoFile) {
  const FakeTree tree{{"case.tar.gz", "kept"}};
  std::filesystem::create_symlink("nowhere", tree.root() / "link");
  for (const char* const name : {"case.tar.gz", "link"}) {
    const testing::Printed printed =
        testing::RunAlignctl(AllCommands(), {"gather", tree.root() / name, "--socket",
                                             "unix://" + (tree.root() / "none.sock").string()});
    EXPECT_EQ(printed.status, kFailure);
    EXPECT_NE(printed.err.find(std::string(name) + " exists already: it is not replaced"),
              std::string::npos)
        << printed.err;
  }
  EXPECT_EQ(*host::ReadFile(tree.root() / "case.tar.gz"), "kept");
  EXPECT_TRUE(std::filesystem::is_symlink(tree.root() / "link"));
}

TEST(Gather, FailsIfTheArchiveCannotBeWritten) {
  const FakeTree tree;
  const testing::Printed printed = testing::RunAlignctl(
      AllCommands(), {"gather", tree.root() / "absent/case.tar.gz", "--socket",
                      "unix://" + (tree.root() / "none.sock").string(), "--state-dir", tree.root(),
                      "--config", tree.root() / "c.yaml", "--log-lines", "0"});
  EXPECT_EQ(printed.status, kFailure);
  EXPECT_NE(printed.err.find("absent/case.tar.gz: No such file or directory; check the disk"),
            std::string::npos)
      << printed.err;
}

}  // namespace
}  // namespace alignd::cli
