// What the control service reports.
#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel_posix.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "alignd/control/v1/control.grpc.pb.h"
#include "control_fixture.h"
#include "daemon/save_conditions.h"
#include "edge/allocation_outcome.h"
#include "edge/process.h"

namespace alignd::control {
namespace {

using namespace alignd::testing;

TEST_F(ControlTest, ReportsConditions) {
  EXPECT_EQ(Status().conditions_size(), 0);
  conditions_.RuntimeFailed({ErrorCode::kUnavailable, "no such socket"});
  conditions_.SawConflictingManager("the kubelet is static", "set it to none");
  conditions_.SawConflictingManager("the kubelet is static", "set it to none");
  conditions_.FoundUnmanaged({{"c4", {"u4", "direct"}, "default/web"}});
  conditions_.QuotaNotLifted("known-to-runtime", {ErrorCode::kIo, "read-only"});

  const v1::GetStatusResponse status = Status();
  ASSERT_EQ(status.conditions_size(), 4);
  EXPECT_EQ(status.conditions(0).type(), "RuntimeUnavailable");
  EXPECT_EQ(status.conditions(0).pod_uid(), "");
  const v1::Condition& manager = status.conditions(1);
  EXPECT_EQ(manager.type(), "ConflictingCPUManager");
  EXPECT_EQ(manager.message(), "the kubelet is static");
  EXPECT_EQ(manager.remedy(), "set it to none");
  EXPECT_EQ(manager.times(), 2U);
  EXPECT_GT(manager.first_unix_ms(), 1'700'000'000'000);
  EXPECT_GE(manager.last_unix_ms(), manager.first_unix_ms());
  const v1::Condition& unmanaged = status.conditions(2);
  EXPECT_EQ(unmanaged.type(), "UnmanagedContainer");
  EXPECT_EQ(unmanaged.container_id(), "c4");
  EXPECT_EQ(unmanaged.pod_uid(), "u4");
  EXPECT_EQ(unmanaged.pod(), "default/web");
  EXPECT_EQ(unmanaged.container(), "direct");
  EXPECT_EQ(status.conditions(3).type(), "PodQuotaNotLifted");
  EXPECT_EQ(status.conditions(3).pod(), "default/name-of-runtime");

  conditions_.RuntimeAnswered();
  EXPECT_EQ(Status().conditions(0).type(), "ConflictingCPUManager");
}

TEST_F(ControlTest, ReportsWhatIsAssignedAndWhatIsFree) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2, {{kGpu, "1"}}))));
  const v1::GetStatusResponse status = Status();
  EXPECT_EQ(status.version(), "1.2.3");
  EXPECT_EQ(status.policies().cpu_manager(), "static");
  ASSERT_EQ(status.numa_size(), 2);
  EXPECT_EQ(CpuSet::Parse(status.numa(0).free_cpus())->Count(), 5);  // of 8: 1 reserved, 2 assigned
  EXPECT_EQ(status.numa(0).cpus(), 8U);
  EXPECT_EQ(status.numa(0).devices().at(kGpu).free(), 3U);
  EXPECT_EQ(status.numa(0).devices().at(kGpu).total(), 4U);
  EXPECT_EQ(status.default_set(), world.published().cpu.default_set.ToString());
  EXPECT_EQ(status.reserved_cpus(), "0");
  ASSERT_EQ(status.devices_size(), 2);
  EXPECT_TRUE(status.devices(0).registered());
  EXPECT_EQ(status.devices(0).healthy().free(), 7U);
  EXPECT_EQ(status.devices(0).healthy().total(), 8U);
  ASSERT_EQ(status.containers_size(), 1);
  const v1::ContainerAssignment& container = status.containers(0);
  EXPECT_EQ(container.pod(), "default/pod");
  EXPECT_EQ(container.pod_uid(), "pod");
  EXPECT_EQ(container.container(), "app");
  EXPECT_EQ(container.exclusive_cpus(), "2-3");
  ASSERT_EQ(container.memory_nodes_size(), 1);
  EXPECT_EQ(container.memory_nodes(0), 0);
  ASSERT_EQ(container.devices_size(), 1);
  EXPECT_EQ(container.devices(0).resource(), kGpu);
  ASSERT_EQ(container.devices(0).devices_size(), 1);
  EXPECT_EQ(container.devices(0).devices(0).id(), "gpu0");
  EXPECT_EQ(container.devices(0).devices(0).numa_size(), 1);
  ASSERT_TRUE(world.Release("pod").ok());
  EXPECT_EQ(Status().containers_size(), 0);
  EXPECT_GT(Status().generation(), status.generation());
}

TEST_F(ControlTest, SlowReportDelaysNoExplanation) {
  {
    const MutexLock lock(mutex_);
    names_block_ = true;
    names_waiting_ = 0;
  }
  std::future<bool> report = std::async(std::launch::async, [this] {
    return ControlClient(socket(), std::chrono::seconds(60)).GetStatus().ok();
  });
  {
    const MutexLock lock(mutex_);
    while (names_waiting_ == 0) changed_.Wait(mutex_);
  }
  EXPECT_TRUE(ControlClient(socket(), std::chrono::seconds(20)).Explain("", 1).ok());
  {
    const MutexLock lock(mutex_);
    names_block_ = false;
    changed_.NotifyAll();
  }
  EXPECT_TRUE(report.get());
}

TEST_F(ControlTest, ReportsProblemsOfAssignedDevices) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2, {{kGpu, "1"}}))));
  const auto problem = [this] { return Status().containers(0).devices(0).devices(0).problem(); };
  EXPECT_EQ(problem(), "");
  devicemanager::Resource gpus = EightDevices("gpu");
  gpus.devices.at("gpu0").healthy = false;
  world.manager->SetResource(kGpu, gpus);
  world.Settle();
  EXPECT_EQ(problem(), "unhealthy");
  gpus.devices.erase("gpu0");
  world.manager->SetResource(kGpu, gpus);
  world.Settle();
  EXPECT_EQ(problem(), "its plugin does not list it any more");
  world.manager->RemoveResource(kGpu);
  world.Settle();
  EXPECT_EQ(problem(), "its plugin is not registered");
  EXPECT_NE(Alignctl({"status", "-o", "wide", "--socket", socket()})
                .out.find("gpu0 (NUMA 0) [its plugin is not registered]"),
            std::string::npos);
  world.AnnounceDevices();
  EXPECT_EQ(problem(), "");
  server.reset();
  world.Down();  // the restored state knows the device, but no plugin yet
  world.Up();
  Serve();
  EXPECT_EQ(problem(), "its plugin is not registered");
}

TEST_F(ControlTest, CountsTheDevicesThatItDoesNotList) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2, {{kGpu, "1"}}))));
  devicemanager::Resource gpus = EightDevices("gpu");
  gpus.devices = {{"gpu0", gpus.devices.at("gpu0")}};  // the assigned one is the last by id
  for (int i = 0; i < 300; ++i) {
    gpus.devices["a" + std::to_string(100 + i)] = {.numa = {i % 2}};
  }
  gpus.devices["a398"].healthy = false;
  gpus.devices["a399"].numa = {0, 1};
  gpus.devices["a397"].numa = {7};  // the machine has no such node
  world.manager->SetResource(kGpu, gpus);
  world.Settle();
  const auto status = ControlClient(socket()).GetStatus(/*list_devices=*/true);
  ASSERT_TRUE(status.ok()) << status.error().Text();
  const v1::DeviceResource& reported = status->devices(0);
  EXPECT_EQ(reported.healthy().total() + reported.unhealthy(), 301U);
  EXPECT_EQ(reported.all_size(), kMaxListedDevices);
  EXPECT_EQ(status->containers(0).devices(0).devices(0).id(), "gpu0");
  // The 44 from a356 on.
  ASSERT_EQ(reported.left_out_size(), 3);
  EXPECT_FALSE(reported.left_out(0).has_numa());
  EXPECT_EQ(reported.left_out(0).devices(), 2U);
  EXPECT_EQ(reported.left_out(0).free(), 2U);
  EXPECT_EQ(reported.left_out(1).numa(), 0);
  EXPECT_EQ(reported.left_out(1).devices(), 22U);
  EXPECT_EQ(reported.left_out(1).free(), 21U);
  EXPECT_EQ(reported.left_out(2).numa(), 1);
  EXPECT_EQ(reported.left_out(2).devices(), 20U);
  EXPECT_EQ(reported.left_out(2).free(), 20U);
  EXPECT_EQ(Status().devices(0).left_out_size(), 0);
}

TEST_F(ControlTest, NamesPodsAsTheRuntimeDoes) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("known-to-runtime", 1))));
  EXPECT_EQ(Status().containers(0).pod(), "default/name-of-runtime");
}

TEST_F(ControlTest, AnswersWhileADecisionIsPending) {
  world.plugins->Hold();
  std::future<Outcome> later = world.AdmitLater(AppPod("slow", 2, {{kGpu, "1"}}));
  world.plugins->AwaitHeld(1);
  EXPECT_EQ(Status().containers_size(), 0);
  EXPECT_TRUE(Explain("").empty());
  world.plugins->LetGo();
  ASSERT_TRUE(AllocatedOf(later.get()));
  EXPECT_EQ(Status().containers_size(), 1);
  EXPECT_EQ(Explain("").size(), 1u);
}

TEST_F(ControlTest, ReplacesBytesThatAreNotUtf8) {
  world.plugins->Fail(kGpu, Error{ErrorCode::kUnavailable, "bad \xff byte"});
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("pod", 2, {{kGpu, "1"}}))));
  const std::vector<v1::PodDecision> decisions = Explain("pod");
  ASSERT_EQ(decisions.size(), 1u);
  EXPECT_NE(decisions[0].message().find("bad \xEF\xBF\xBD byte"), std::string::npos)
      << decisions[0].message();
}

TEST_F(ControlTest, SocketIsForOwnerAndGroupOnly) {
  struct stat status {};
  ASSERT_EQ(::stat(socket().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0660u);
}

// The stub of a process of that user, which has access to the socket. Needs root.
std::unique_ptr<v1::Control::Stub> StubOf(uid_t user, const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_GE(fd, 0);
  int connected = -1;
  // The system call, without the C library, changes the user of this thread alone.
  std::thread([&] {
    if (syscall(SYS_setresuid, -1, user, -1) != 0) return;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }).join();
  EXPECT_EQ(connected, 0) << path;
  EXPECT_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
  return v1::Control::NewStub(grpc::CreateInsecureChannelFromFd("alignd", fd));
}

template <typename Request, typename Response>
grpc::Status StatusOf(v1::Control::Stub& stub,
                      grpc::Status (v1::Control::Stub::*call)(grpc::ClientContext*, const Request&,
                                                              Response*),
                      const Request& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  Response response;
  return (stub.*call)(&context, request, &response);
}

TEST_F(ControlTest, OnlyRootAndItsOwnUserMayChangeSomething) {
  constexpr uid_t kOther = 4321;
  if (geteuid() != 0) GTEST_SKIP() << "connects as another user, which only root can do";
  ASSERT_EQ(chmod(world.tree.root().c_str(), 0755), 0);
  ASSERT_EQ(chmod(socket().c_str(), 0666), 0);
  v1::BypassRequest bypass;
  for (const uid_t user : {uid_t{0}, kOther}) {
    const auto stub = StubOf(user, socket());
    // Root's calls get further: this alignd has neither.
    const grpc::StatusCode expected =
        user == 0 ? grpc::StatusCode::UNIMPLEMENTED : grpc::StatusCode::PERMISSION_DENIED;
    const grpc::Status applied = StatusOf(*stub, &v1::Control::Stub::ApplyChange, {});
    EXPECT_EQ(applied.error_code(), expected) << applied.error_message();
    for (const auto action : {v1::BypassRequest::ON, v1::BypassRequest::OFF}) {
      bypass.set_action(action);
      EXPECT_EQ(StatusOf(*stub, &v1::Control::Stub::Bypass, bypass).error_code(), expected);
    }
    if (user != 0) {
      EXPECT_EQ(applied.error_message(),
                "user 4321 may not change the configuration: only root may; repeat the command as "
                "root, as with sudo");
    }
    // Reading is as before.
    bypass.set_action(v1::BypassRequest::STATUS);
    EXPECT_EQ(StatusOf(*stub, &v1::Control::Stub::Bypass, bypass).error_code(),
              grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_EQ(StatusOf(*stub, &v1::Control::Stub::PlanChange, {}).error_code(),
              grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_TRUE(StatusOf(*stub, &v1::Control::Stub::GetStatus, {}).ok());
  }
}

TEST_F(ControlTest, PrintsTextAndJson) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  const testing::Printed status = Alignctl({"status", "-o", "wide", "--socket", socket()});
  EXPECT_EQ(status.status, cli::kSuccess) << status.err;
  EXPECT_NE(status.out.find("default/pod (pod)  app        2-3   NUMA 0  -\n"), std::string::npos)
      << status.out;
  const testing::Printed json = Alignctl({"status", "--socket", socket(), "-o", "json"});
  EXPECT_NE(json.out.find(R"("container":"app","exclusive_cpus":"2-3")"), std::string::npos)
      << json.out;
  const testing::Printed explain = Alignctl({"explain", "pod", "--socket", socket()});
  EXPECT_NE(explain.out.find("    merged: {0}!\n      {0}!: best\n"), std::string::npos)
      << explain.out;
  const testing::Printed unknown =
      Alignctl({"explain", "unknown", "--socket", socket(), "-o", "json"});
  EXPECT_EQ(unknown.out, "[]\n");
  EXPECT_EQ(unknown.status, cli::kFailure);
  const testing::Printed text = Alignctl({"explain", "unknown", "--socket", socket()});
  EXPECT_TRUE(text.out.starts_with("no decision about pod unknown is known\n  What to do: "))
      << text.out;
  EXPECT_EQ(text.status, cli::kFailure);
}

TEST_F(ControlTest, TheExitStatusOfStatusIsTheHealthOfTheNode) {
  const auto exit_status = [this] { return Alignctl({"status", "--socket", socket()}).status; };
  EXPECT_EQ(exit_status(), cli::kSuccess);
  conditions_.RuntimeFailed({ErrorCode::kUnavailable, "no such socket"});
  EXPECT_EQ(exit_status(), cli::kFailure);
  conditions_.RuntimeAnswered();
  EXPECT_EQ(exit_status(), cli::kSuccess);
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("large", 99))));
  EXPECT_EQ(exit_status(), cli::kFailure);
  ASSERT_TRUE(world.Release("large").ok());
  EXPECT_EQ(exit_status(), cli::kSuccess);
  server.reset();
  EXPECT_EQ(exit_status(), cli::kNoAnswer);
  EXPECT_EQ(Alignctl({"status", "--no-such-flag"}).status, cli::kNoAnswer);
}

// A full disk must not show in the log alone.
TEST_F(ControlTest, ReportsADiskThatIsFull) {
  daemon::SaveConditions events(conditions_, allocation::NoAllocationEvents());
  server.reset();
  world.Down();
  world.events = &events;
  world.Up();
  Serve();
  world.disk.FailAt(0, ENOSPC);
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  v1::GetStatusResponse status = Status();
  ASSERT_EQ(status.conditions_size(), 1);
  const v1::Condition& condition = status.conditions(0);
  EXPECT_EQ(condition.type(), "StateNotWritable");
  EXPECT_NE(condition.message().find("No space left on device"), std::string::npos)
      << condition.message();
  EXPECT_TRUE(condition.remedy().starts_with("free space on this file system"))
      << condition.remedy();
  ASSERT_EQ(status.pending_size(), 1);
  EXPECT_EQ(status.pending(0).state(), "failed");
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  status = Status();
  EXPECT_EQ(status.conditions_size(), 0);
  EXPECT_EQ(status.pending_size(), 0);
  server.reset();
  world.Down();  // before `events`
  world.events = &allocation::NoAllocationEvents();
}

// The call fails at its deadline; the kubelet repeats it, and the container waits on.
TEST_F(ControlTest, NamesAContainerThatWaitsForItsPluginAsItsDecisionDoes) {
  world.plugins->Await(kGpu, true);
  std::promise<Outcome> answer;
  world.manager->Admit(
      {.pod = AppPod("p", 2, {{kGpu, "1"}}),
       .wanted = "app",
       .wait_until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20)},
      [&answer](Outcome outcome) { answer.set_value(std::move(outcome)); });
  const Outcome outcome = answer.get_future().get();
  ASSERT_TRUE(std::holds_alternative<Error>(outcome)) << TextOf(outcome);
  world.Settle();
  const auto decisions = world.manager->decisions().Newest("p", 1);
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(ReportDecision(world.node, *decisions[0]).outcome(), "waiting");
  const v1::GetStatusResponse status = Status();
  ASSERT_EQ(status.pending_size(), 1);
  EXPECT_EQ(status.pending(0).state(), "waiting");
  EXPECT_GT(status.pending(0).times(), 0U);
}

TEST_F(ControlTest, ReportsRefusedPodsUntilTheyAreAdmittedOrGone) {
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("large", 99))));
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("large", 99))));
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("other", 98))));
  v1::GetStatusResponse status = Status();
  ASSERT_EQ(status.pending_size(), 2);
  const v1::PendingPod& large = status.pending(0);
  EXPECT_EQ(large.pod(), "default/large");
  EXPECT_EQ(large.state(), "refused");
  EXPECT_EQ(large.times(), 2U);
  EXPECT_FALSE(large.reason().empty());
  EXPECT_NE(large.message().find("99"), std::string::npos) << large.message();
  EXPECT_GE(large.last_unix_ms(), large.first_unix_ms());
  // The kubelet asks again, for less: the pod has been replaced under its UID.
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("large", 2))));
  status = Status();
  ASSERT_EQ(status.pending_size(), 1);
  EXPECT_EQ(status.pending(0).pod(), "default/other");
  ASSERT_TRUE(world.Release("other").ok());
  EXPECT_EQ(Status().pending_size(), 0);
}

TEST_F(ControlTest, ListsPodsWithTheirSource) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2, {{kGpu, "1"}}))));
  const testing::Printed pods = Alignctl({"pods", "--socket", socket()});
  EXPECT_EQ(pods.status, cli::kSuccess) << pods.err;
  EXPECT_NE(
      pods.out.find("default/pod  app        2-3   0     0       example.com/gpu gpu0 (NUMA 0)"),
      std::string::npos)
      << pods.out;
  const testing::Printed yaml = Alignctl({"pods", "-o", "yaml", "--socket", socket()});
  EXPECT_NE(yaml.out.find("exclusive_cpus: \"2-3\"\n"), std::string::npos) << yaml.out;
}

TEST_F(ControlTest, SaysWhatWouldLetARefusedPodFit) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("small", 2))));
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("large", 10))));
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("late", 4))));  // 3 CPUs are free
  const testing::Printed why = Alignctl({"why-not", "default/late", "--socket", socket()});
  EXPECT_EQ(why.status, cli::kFailure) << why.err;
  const size_t reduce = why.out.find("  reduce-request: request 3 instead of 4 CPUs for container");
  const size_t end = why.out.find("  end-pods: end pod default/small (CPUs ");
  EXPECT_NE(reduce, std::string::npos) << why.out;
  EXPECT_NE(end, std::string::npos) << why.out;
  EXPECT_LT(reduce, end) << why.out;
  EXPECT_NE(why.out.find("  end-pods: end pod default/large (CPUs "), std::string::npos) << why.out;
  const testing::Printed unknown = Alignctl({"why-not", "absent", "--socket", socket()});
  EXPECT_EQ(unknown.status, cli::kBadInput);
  EXPECT_NE(unknown.err.find("no pod absent was refused"), std::string::npos) << unknown.err;
  ASSERT_TRUE(world.Release("small").ok());
  const testing::Printed now = Alignctl({"why-not", "late", "--socket", socket()});
  EXPECT_EQ(now.status, cli::kSuccess) << now.out;
}

TEST_F(ControlTest, AnUnknownResourceNeverFits) {
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("late", 1, {{"a.com/none", "1"}}))));
  const testing::Printed why = Alignctl({"why-not", "late", "--socket", socket()});
  EXPECT_EQ(why.status, cli::kFailure) << why.out << why.err;
  EXPECT_NE(why.out.find("first, because nothing else helps before:\n  repair-devices: start the "
                         "device plugin of a.com/none"),
            std::string::npos)
      << why.out;
  EXPECT_EQ(why.out.find("lets it fit"), std::string::npos) << why.out;
}

TEST_F(ControlTest, APodThatFailedForAnotherCauseDoesNotFitNow) {
  world.disk.FailAt(0, ENOSPC);
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  const testing::Printed why = Alignctl({"why-not", "pod", "--socket", socket()});
  EXPECT_EQ(why.status, cli::kFailure) << why.out << why.err;
  EXPECT_EQ(why.out.find("fits now"), std::string::npos) << why.out;
  EXPECT_NE(why.out.find("No space left on device"), std::string::npos) << why.out;
}

TEST_F(ControlTest, ANameOfSeveralPodsIsAnError) {
  Pod first = AppPod("first", 99);
  Pod second = AppPod("second", 99);
  first.name = second.name = "web";
  second.name_space = "other";
  ASSERT_FALSE(AllocatedOf(world.Admit(first)));
  ASSERT_FALSE(AllocatedOf(world.Admit(second)));
  const testing::Printed why = Alignctl({"why-not", "web", "--socket", socket()});
  EXPECT_EQ(why.status, cli::kBadInput);
  EXPECT_NE(why.err.find("several pods: default/web, other/web"), std::string::npos) << why.err;
  Pod huge = AppPod("huge", 99);
  while (huge.containers.size() < 100) {
    Container added = huge.containers.front();
    added.name = "c" + std::to_string(huge.containers.size());
    huge.containers.push_back(added);
  }
  ASSERT_FALSE(AllocatedOf(world.Admit(huge)));
  const testing::Printed large = Alignctl({"why-not", "huge", "--socket", socket()});
  EXPECT_NE(large.err.find("its description is too large to be kept"), std::string::npos)
      << large.err;
}

TEST_F(ControlTest, AManifestThatIsTooLongIsNotSent) {
  server.reset();  // it would not answer
  const std::filesystem::path file = world.tree.root() / "long.yaml";
  std::ofstream(file) << "kind: Pod\nmetadata:\n  annotations:\n    a: " << std::string(70'000, 'x')
                      << '\n';
  const testing::Printed why = Alignctl({"why-not", "-f", file.string(), "--socket", socket()});
  EXPECT_NE(why.err.find("bytes as JSON; at most 65472 can be sent to alignd"), std::string::npos)
      << why.err;
}

TEST_F(ControlTest, AManifestThatIsNoPodIsNamed) {
  server.reset();  // it is not asked
  const std::filesystem::path file = world.tree.root() / "bad.yaml";
  std::ofstream(file) << "garbage\n";
  const testing::Printed why = Alignctl({"why-not", "-f", file.string(), "--socket", socket()});
  EXPECT_EQ(why.status, cli::kBadInput);
  EXPECT_TRUE(why.err.starts_with("alignctl: " + file.string() + ": ")) << why.err;
  EXPECT_TRUE(why.err.ends_with("; correct the file, or name another one\n")) << why.err;
}

TEST_F(ControlTest, WatchEndsAsItsLastLook) {
  const std::vector<std::string> once = {"watch", "--count", "1", "--socket", socket()};
  EXPECT_EQ(Alignctl(once).status, cli::kSuccess);
  std::vector<std::string> data = {"watch", "--count", "2", "--interval", "1", "-o", "json"};
  data.insert(data.end(), {"--socket", socket()});
  const testing::Printed looks = Alignctl(data);
  EXPECT_EQ(looks.status, cli::kSuccess);
  std::istringstream lines(looks.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_TRUE(nlohmann::json::parse(line).contains("version")) << line;
  }
  EXPECT_EQ(count, 2) << looks.out;
  server.reset();
  const testing::Printed nothing = Alignctl(data);
  EXPECT_EQ(nothing.status, cli::kNoAnswer);
  EXPECT_EQ(nothing.out, "");
  const testing::Printed silent = Alignctl(once);
  EXPECT_EQ(silent.status, cli::kNoAnswer);
  EXPECT_NE(silent.out.find("check that alignd runs"), std::string::npos) << silent.out;
}

TEST_F(ControlTest, FailsWithARemedyIfAligndDoesNotRun) {
  server.reset();
  const auto unreachable =
      ControlClient(socket(), kDefaultPatience, "--control-socket").GetStatus();
  EXPECT_TRUE(unreachable.error().remedy.ends_with("its socket (--control-socket)"))
      << unreachable.error().remedy;
  const testing::Printed status = Alignctl({"status", "--socket", socket()});
  EXPECT_EQ(status.status, cli::kNoAnswer);
  EXPECT_EQ(status.out, "");
  EXPECT_NE(status.err.find("check that alignd runs"), std::string::npos) << status.err;
  const std::string path = *rpc::SocketPath(socket());
  EXPECT_EQ(status.err.find(path), status.err.rfind(path)) << status.err;
}

}  // namespace
}  // namespace alignd::control
