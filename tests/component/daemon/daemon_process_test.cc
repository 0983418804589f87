// alignd as a process: its signals, the modes of what it makes, and its log.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <future>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/status_command.h"
#include "edge/run_alignctl.h"
#include "edge/status_conditions.h"
#include "edge/thread_names.h"
#include "edge/unix_socket.h"
#include "host/descriptor.h"
#include "process_fixture.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;

class DaemonProcess : public DaemonProcessTest {
 protected:
  DaemonProcess() { tree_.Write({"config.yaml", StaticConfig()}); }

  Options DaemonOptions() const override {
    Options options = DaemonProcessTest::DaemonOptions();
    options.listen = (tree_.root() / "run/alignd/alignd.sock").string();
    return options;
  }

  // `umask`: as the shell takes it.
  void StartProcess(const std::string& umask = "022") {
    Options options = DaemonOptions();
    options.runtime_timeout = runtime_timeout_;
    options.metrics_address = metrics_address_;
    LaunchAlignd(options, {"sh", "-c", "umask " + umask + " && exec \"$0\" \"$@\""});
    ASSERT_TRUE(alignd_->WaitForLog("ready: ")) << alignd_->Log();
    client_ = *simulator::Dial(DaemonOptions().listen);
  }

  milliseconds runtime_timeout_ = Options().runtime_timeout;
  std::string metrics_address_ = "off";
};

TEST_F(DaemonProcess, EverySignalThatEndsItLetsCallsFinishAndIsLogged) {
  StartRuntime();
  runtime_->SetDelay("Status", milliseconds(500));
  size_t calls = 0;
  for (const auto& [signal, name] :
       std::vector<std::pair<int, std::string>>{{SIGTERM, "SIGTERM"},
                                                {SIGINT, "SIGINT"},
                                                {SIGQUIT, "SIGQUIT"},
                                                {SIGUSR1, "SIGUSR1"},
                                                {SIGUSR2, "SIGUSR2"},
                                                {SIGALRM, "SIGALRM"},
                                                {SIGRTMIN + 1, std::to_string(SIGRTMIN + 1)}}) {
    SCOPED_TRACE(name);
    StartProcess();
    auto call = std::async(std::launch::async, [this] {
      return Call<v1::StatusResponse>("Status", v1::StatusRequest()).status;
    });
    ASSERT_TRUE(Eventually([&] { return runtime_->Requests("Status").size() > calls; }));
    calls = runtime_->Requests("Status").size();
    EXPECT_EQ(alignd_->Kill(signal), 0) << alignd_->Log();  // the exit status of success
    const grpc::Status answer = call.get();
    EXPECT_TRUE(answer.ok()) << answer.error_message() << alignd_->Log();
    EXPECT_NE(alignd_->Log().find("stopping: received " + name + "\n"), std::string::npos)
        << alignd_->Log();
  }
}

// None of gRPC, which would start at least nine. Those of docs/architecture.md.
TEST_F(DaemonProcess, HasFewThreadsWithoutWork) {
  StartRuntime();
  metrics_address_ = "unix:" + (tree_.root() / "metrics.sock").string();
  StartProcess();
  ASSERT_TRUE(Version().ok());
  // A thread has its parent's name until it has set its own.
  const std::map<std::string, int> threads{
      {"alignd", 1},   {"events", 1}, {"calls", 1},         {"services", 1},
      {"decision", 1}, {"disk", 1},   {"background", 1},    {"io", 1},
      {"bypass", 1},   {"log", 1},    {"metrics-accept", 1}};
  EXPECT_TRUE(Eventually([&] {
    std::map<std::string, int> found = testing::ThreadNames(alignd_->pid());
    std::erase_if(found, [](const auto& thread) { return thread.second == 0; });
    return found == threads;
  })) << ::testing::PrintToString(testing::ThreadNames(alignd_->pid()));
}

TEST_F(DaemonProcess, ModesDoNotDependOnTheUmask) {
  StartRuntime();
  for (const std::string umask : {"000", "022", "077", "777"}) {
    SCOPED_TRACE(umask);
    fs::remove_all(StateDir());
    fs::remove_all(tree_.root() / "run");
    StartProcess(umask);
    const auto mode = [](const fs::path& path) -> mode_t {
      struct stat status {};
      return stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
    };
    const fs::path run = tree_.root() / "run";
    for (const fs::path& directory : {StateDir(), StateDir() / "device-plugins",
                                      StateDir() / "plugins_registry", run, run / "alignd"}) {
      EXPECT_EQ(mode(directory), 0755U) << directory;
    }
    for (const fs::path& socket :
         {run / "alignd/alignd.sock", run / "alignd/control.sock",
          run / "alignd/pod-resources.sock", StateDir() / "device-plugins/kubelet.sock"}) {
      EXPECT_EQ(mode(socket), 0660U) << socket;
    }
    for (const fs::path& file : {StateDir() / "cpu_manager_state", StateDir() / "boot_id"}) {
      EXPECT_EQ(mode(file), 0600U) << file;
    }
    EXPECT_EQ(alignd_->Kill(SIGTERM), 0) << alignd_->Log();
  }
}

TEST_F(DaemonProcess, TextOfTheRuntimeCannotForgeALineOfTheLog) {
  StartRuntime();
  runtime_->SetFailure("ListPodSandbox",
                       {grpc::StatusCode::INTERNAL, "bad\x1b[2J\nforged line \u202e"});
  StartProcess();
  ASSERT_TRUE(alignd_->WaitForLog("RuntimeUnavailable")) << alignd_->Log();
  const std::string log = alignd_->Log();
  EXPECT_NE(log.find("bad\\u001b[2J\\nforged line \\u202e"), std::string::npos) << log;
  EXPECT_EQ(log.find("\nforged"), std::string::npos) << log;
  EXPECT_EQ(log.find('\x1b'), std::string::npos) << log;
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0);
}

TEST_F(DaemonProcess, BytesOfAPeerThatBreaksHttpAreNotInTheLog) {
  using namespace std::string_literals;
  StartRuntime();
  StartProcess();
  const host::Descriptor listening =
      testing::ListenUnix(StateDir() / "plugins_registry/plugin.sock", 1);
  const host::Descriptor socket(accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_GE(socket.fd(), 0);
  const std::string settings = "\0\0\0\4\0\0\0\0\0"s;
  ASSERT_EQ(write(socket.fd(), settings.data(), settings.size()),
            static_cast<ssize_t>(settings.size()));
  std::string call;
  // gRPC's prefix of an empty message, in a DATA frame that ends the request.
  while (call.find("\0\0\5\0\1\0\0\0\1\0\0\0\0\0"s) == std::string::npos) {
    std::array<char, 4096> buffer;
    const ssize_t size = read(socket.fd(), buffer.data(), buffer.size());
    ASSERT_GT(size, 0);
    call.append(buffer.data(), static_cast<size_t>(size));
  }
  const std::string answer =
      "\0\0\x0a\1\5\0\0\0\1"s   // HEADERS of 10 bytes
      "\x48\x08\x1b[2Jbad\n"s;  // `:status`, which must be a number
  ASSERT_EQ(write(socket.fd(), answer.data(), answer.size()), static_cast<ssize_t>(answer.size()));
  ASSERT_TRUE(alignd_->WaitForLog("err: the call was reset: PROTOCOL_ERROR")) << alignd_->Log();
  const std::string log = alignd_->Log();
  EXPECT_EQ(log.find("2Jbad"), std::string::npos) << log;
  EXPECT_EQ(log.find('\x1b'), std::string::npos) << log;
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0);
}

// A disk that is full: the lock of the state directory still takes a process id, and no state file
// can be written. The log goes through a process without the limit.
TEST_F(DaemonProcess, AStartOnAFullDiskSaysSoAtOnce) {
  StartRuntime();
  StartProcess();
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0) << alignd_->Log();
  const std::string state = State();
  const std::string pipe = (tree_.root() / "log.pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  LaunchAlignd(DaemonOptions(), {"sh", "-c",
                                 "cat '" + pipe + "' & exec prlimit --fsize=16: \"$0\" \"$@\" >'" +
                                     pipe + "' 2>&1"});
  ASSERT_TRUE(alignd_->WaitForLog("ready: ")) << alignd_->Log();
  const std::string socket = DaemonOptions().ControlSocket();
  const auto conditions = [&] {
    return testing::ConditionsOf(socket, reconcile::ConditionType::kStateNotWritable);
  };
  const auto status = [&] {
    return testing::RunAlignctl({cli::AddStatusCommand}, {"status", "--socket", socket});
  };
  const std::vector<control::v1::Condition> found = conditions();
  ASSERT_EQ(found.size(), 1U) << alignd_->Log();
  EXPECT_NE(found[0].message().find("cpu_manager_state"), std::string::npos) << found[0].message();
  EXPECT_NE(found[0].message().find("File too large"), std::string::npos) << found[0].message();
  EXPECT_EQ(status().status, cli::kFailure);
  EXPECT_TRUE(alignd_->WaitForLog("StateNotWritable")) << alignd_->Log();
  EXPECT_EQ(State(), state);
  // Space is free again: without a pod, a reconcile finds out.
  rlimit limit{};
  ASSERT_EQ(prlimit(alignd_->pid(), RLIMIT_FSIZE, nullptr, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(prlimit(alignd_->pid(), RLIMIT_FSIZE, &limit, nullptr), 0);
  EXPECT_TRUE(Eventually([&] { return conditions().empty(); }));
  EXPECT_EQ(status().status, cli::kSuccess) << status().out;
  EXPECT_TRUE(alignd_->WaitForLog("StateNotWritable resolved")) << alignd_->Log();
  EXPECT_EQ(State(), state);
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0) << alignd_->Log();
}

TEST_F(DaemonProcess, APodThatTheRuntimeLostWhileAligndWasDownIsNamed) {
  StartRuntime();
  StartProcess();
  const Running removed = RunOne(PodConfig("goes"), Pinned(2));
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0) << alignd_->Log();
  client_ = *simulator::Dial(RuntimeEndpoint());
  ASSERT_TRUE(StopSandbox(removed.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(removed.sandbox).ok());
  StartProcess();
  EXPECT_TRUE(alignd_->WaitForLog("pod default/pod-goes (goes) has ended: its CPUs, "))
      << alignd_->Log();
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0) << alignd_->Log();
}

// Both in the status and in the log, also if it succeeds in the end.
TEST_F(DaemonProcess, AnUpdateThatHangsIsLoggedOnceAndWhenItIsDone) {
  runtime_timeout_ = kPatience;  // longer than the delay
  StartRuntime();
  StartProcess();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  runtime_->SetDelay("UpdateContainerResources", seconds(15), shared.container);
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  const auto created = Create(Run(pod), pod, Pinned(3));
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  const std::string hangs =
      "CpusetUpdateFailed: container app of pod default/pod-shared: not moved to CPUs 0,4-27: the "
      "runtime has not answered for ";
  ASSERT_TRUE(alignd_->WaitForLog(hangs)) << alignd_->Log();
  const auto status = [this] {
    return testing::RunAlignctl({cli::AddStatusCommand},
                                {"status", "--socket", DaemonOptions().ControlSocket()});
  };
  const testing::Printed during = status();
  EXPECT_EQ(during.status, cli::kFailure) << during.out;
  EXPECT_NE(during.out.find("CpusetUpdateFailed"), std::string::npos) << during.out;
  EXPECT_EQ(alignd_->Log().find("resolved"), std::string::npos) << alignd_->Log();
  ASSERT_TRUE(
      alignd_->WaitForLog("CpusetUpdateFailed resolved. It was: container app of pod "
                          "default/pod-shared: not moved to CPUs 0,4-27: the runtime"))
      << alignd_->Log();
  EXPECT_TRUE(StartContainer(created.response.container_id()).ok());
  EXPECT_EQ(status().status, cli::kSuccess) << status().out;
  const std::string log = alignd_->Log();
  EXPECT_EQ(log.find("CpusetUpdateFailed:"), log.rfind("CpusetUpdateFailed:")) << log;
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0) << log;
}

// With cgroup v2, a runtime needs an inotify instance for each container; a user has 128 by
// default.
TEST_F(DaemonProcess, StartsAndFindsPluginsWithoutInotify) {
  // Limits of a user namespace of its own.
  const std::vector<std::string> in_namespace = {"unshare", "--user", "--map-root-user", "sh",
                                                 "-c"};
  const std::string limit = "echo 0 >/proc/sys/user/max_inotify_instances";
  std::vector<std::string> probe = in_namespace;
  probe.push_back(limit);
  testing::Process probed(probe, tree_.root() / "probe.log");
  ASSERT_TRUE(testing::WaitUntil([&] { return probed.HasEnded(); }));
  if (probed.Kill(SIGTERM) != 0) GTEST_SKIP() << "no user namespace here: " << probed.Log();
  StartRuntime();
  std::vector<std::string> wrapper = in_namespace;
  wrapper.push_back(limit + " && exec \"$0\" \"$@\"");
  LaunchAlignd(DaemonOptions(), wrapper);
  ASSERT_TRUE(alignd_->WaitForLog("ready: ")) << alignd_->Log();
  EXPECT_TRUE(alignd_->WaitForLog("increase the sysctl fs.inotify.max_user_instances"));
  const host::Descriptor listening =
      testing::ListenUnix(StateDir() / "plugins_registry/plugin.sock", 1);
  const timeval patience{.tv_sec = 20, .tv_usec = 0};  // of accept4
  ASSERT_EQ(setsockopt(listening.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
  const host::Descriptor socket(accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_GE(socket.fd(), 0) << alignd_->Log();
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0);
}

}  // namespace
}  // namespace alignd::daemon
