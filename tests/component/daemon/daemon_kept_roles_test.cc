// The roles of containers (init, sidecar, app) after a restart of alignd, for pods of which each
// request shows one container only: with the annotation intel.com/resources, a container that the
// kubelet starts again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "alignd/admission/assignment_mark.h"
#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/mark_annotation.h"
#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

using podsource::kMi;

class DaemonKeptRoles : public DaemonTest {
 protected:
  static constexpr int kUnreservedCpus = 27;
  static constexpr int64_t kGiB = 1024 * kMi;
  static constexpr char kStaticMemory[] =
      "memoryManagerPolicy: Static\nreservedMemory:\n- numaNode: 0\n"
      "  limits: {memory: 100Mi}\n";

  struct One {
    std::string name;
    int cpus = 0;
    int64_t memory = 0;
  };

  // A Guaranteed pod with that sum.
  static v1::PodSandboxConfig IntelPod(const std::string& uid, const std::vector<One>& init,
                                       const std::vector<One>& apps, int cpus, int64_t memory) {
    const auto list = [](const std::vector<One>& containers) {
      std::string text;
      for (const One& one : containers) {
        text += (text.empty() ? "\"" : ",\"") + one.name + R"(":{"limits":{"cpu":")" +
                std::to_string(one.cpus) + R"(","memory":")" + std::to_string(one.memory / kMi) +
                "Mi\"}}";
      }
      return text;
    };
    v1::PodSandboxConfig pod = PodConfig(uid);
    (*pod.mutable_annotations())["intel.com/resources"] =
        R"({"initContainers":{)" + list(init) + R"(},"containers":{)" + list(apps) + "}}";
    *pod.mutable_linux()->mutable_resources() =
        podsource::Kubelet(cpus * 1000, cpus * 1000, memory).linux().resources();
    return pod;
  }
  static v1::ContainerConfig Config(const One& one, uint32_t attempt = 0) {
    v1::ContainerConfig container =
        podsource::Kubelet(one.cpus * 1000, one.cpus * 1000, one.memory, one.name);
    container.mutable_metadata()->set_attempt(attempt);
    return container;
  }
  std::map<std::string, CpuSet> CpusInState(const std::string& uid) const {
    const auto read = checkpoint::ParseCpuCheckpoint(State());
    if (!read.ok()) return {};
    const auto pod = read->state.assignments.find(uid);
    return pod == read->state.assignments.end() ? std::map<std::string, CpuSet>() : pod->second;
  }
  void Restart(const std::string& config) {
    StopDaemon();
    StartDaemon(config);
  }
  // The node is as before the first Start.
  void Forget() {
    StopDaemon();
    runtime_.reset();
    std::filesystem::remove_all(StateDir());
    watch_.Forget();
  }
  // At the runtime's own socket, in place of that container.
  void MakeWithoutRole(const std::string& old, const std::string& sandbox,
                       const v1::PodSandboxConfig& pod, const One& one, const CpuSet& cpus) {
    const std::shared_ptr<grpc::Channel> ours = client_;
    client_ = *simulator::Dial(RuntimeEndpoint());
    ASSERT_TRUE(runtime_->EndContainer(old, 0));
    Remove(old);
    v1::ContainerConfig container = Config(one);
    container.mutable_linux()->mutable_resources()->set_cpuset_cpus(cpus.ToString());
    admission::AssignmentMark mark;
    mark.cpus = cpus;
    (*container.mutable_annotations())[checkpoint::kMarkAnnotation] =
        checkpoint::FormatMark({pod.metadata().uid(), one.name}, "id", mark);
    (*container.mutable_labels())[checkpoint::kMarkLabel] = "id";
    CreateAndStart(sandbox, pod, container);
    client_ = ours;
  }
  void Remove(const std::string& id) const {
    v1::RemoveContainerRequest request;
    request.set_container_id(id);
    EXPECT_TRUE(Call<v1::RemoveContainerResponse>("RemoveContainer", request).status.ok());
  }
};

// By its name, the annotation has the init container first.
TEST_F(DaemonKeptRoles, AnInitContainerStartsBesideASidecarOnOtherCpus) {
  Start();
  const One init{"a-init", 3, kGiB};
  const One side{"sidecar", 1, kGiB};
  const One app{"app", 2, kGiB};
  const v1::PodSandboxConfig pod = IntelPod("p", {init, side}, {app}, 4, 2 * kGiB);
  const std::string sandbox = Run(pod);
  const std::string first = CreateAndStart(sandbox, pod, Config(side));
  const std::string second = CreateAndStart(sandbox, pod, Config(init));
  EXPECT_EQ(CpusOf(first), "1");
  EXPECT_EQ(CpusOf(second), "2-4");
  ASSERT_TRUE(runtime_->EndContainer(second, 0));
  EXPECT_EQ(CpusOf(CreateAndStart(sandbox, pod, Config(app))), "2-3");
  EXPECT_TRUE(Eventually([&] { return !CpusInState("p").contains("a-init"); })) << State();
}

// The init container has CPUs and memory of `app`, which has not started yet.
TEST_F(DaemonKeptRoles, InitContainerThatFailsJustAfterTheRestartCostsTheOthersNothing) {
  for (const bool has_memory : {false, true}) {
    SCOPED_TRACE(has_memory);
    const std::string config = StaticConfig(has_memory ? kStaticMemory : "");
    Start(config);
    const One init{"init", 1, 2 * kGiB};
    const One app{"app", 4, kGiB};
    const v1::PodSandboxConfig pod = IntelPod("p", {init}, {app}, 4, 2 * kGiB);
    const std::string sandbox = Run(pod);
    const std::map<std::string, CpuSet> before = CpusInState("p");
    ASSERT_EQ(before.at("app"), CpuSet({1, 2, 3, 4})) << State();
    const std::string failed = CreateAndStart(sandbox, pod, Config(init));
    Restart(config);
    ASSERT_TRUE(runtime_->EndContainer(failed, 1));
    const std::string again = CreateAndStart(sandbox, pod, Config(init, 1));
    EXPECT_EQ(CpusInState("p"), before) << State();
    const Running next = RunOne(PodConfig("next"), Pinned(2));
    EXPECT_EQ(CpusOf(next.container), "5-6");
    ASSERT_TRUE(runtime_->EndContainer(again, 0));
    EXPECT_EQ(CpusOf(CreateAndStart(sandbox, pod, Config(app))), "1-4");
    EXPECT_TRUE(Eventually([&] { return !CpusInState("p").contains("init"); })) << State();
    Forget();
  }
}

// Without its earlier container, it is not known whether it is a sidecar: it gets CPUs of its own.
TEST_F(DaemonKeptRoles, AppContainerOfTheAnnotationIsNoEndedInitContainer) {
  Start();
  const One init{"init", 2, 20 * kMi};
  const One app{"app", 4, 400 * kMi};
  const v1::PodSandboxConfig pod = IntelPod("p", {init}, {app}, 4, 400 * kMi);
  const std::string sandbox = Run(pod);
  const std::string failed = CreateAndStart(sandbox, pod, Config(init));
  ASSERT_TRUE(runtime_->EndContainer(failed, 1));
  Remove(failed);
  Restart(StaticConfig());
  CreateAndStart(sandbox, pod, Config(init, 1));
  EXPECT_EQ(CpusInState("p").at("app"), CpuSet({1, 2, 3, 4})) << State();
  const Running next = RunOne(PodConfig("next"), Pinned(2));
  EXPECT_EQ(CpusOf(next.container), "5-6");
}

// `late` starts for the first time, with sizes by which `side` would be an init container. The
// containers that run may have been made by an earlier version.
TEST_F(DaemonKeptRoles, SidecarKeepsItsCpusWhenALaterContainerStartsAfterTheRestart) {
  for (const bool have_roles : {true, false}) {
    SCOPED_TRACE(have_roles);
    Start();
    const One side{"side", 2, 100 * kMi};
    const One app{"app", 4, 400 * kMi};
    const One late{"late", 1, 10 * kMi};
    v1::PodSandboxConfig pod = IntelPod("p", {side}, {app, late}, 7, 510 * kMi);
    const std::string sandbox = Run(pod);
    const std::map<std::string, CpuSet> before = CpusInState("p");
    ASSERT_EQ(before.size(), 3U) << State();
    const std::string first_side = CreateAndStart(sandbox, pod, Config(side));
    const std::string first_app = CreateAndStart(sandbox, pod, Config(app));
    StopDaemon();
    if (!have_roles) {
      MakeWithoutRole(first_side, sandbox, pod, side, before.at("side"));
      MakeWithoutRole(first_app, sandbox, pod, app, before.at("app"));
    }
    StartDaemon(StaticConfig());
    pod.mutable_linux()->mutable_resources()->set_memory_limit_in_bytes(460 * kMi);
    CreateAndStart(sandbox, pod, Config(late));
    const Running next = RunOne(PodConfig("next"), Pinned(2));
    EXPECT_EQ(CpusOf(next.container), "8-9");
    EXPECT_EQ(CpusInState("p"), before) << State();
    Forget();
  }
}

// The listing of the runtime that alignd has may be older than the end of the init container.
TEST_F(DaemonKeptRoles, InitContainerThatHasJustEndedLosesItsCpusWhenTheAppStarts) {
  Start();
  const One init{"init", 4, 20 * kMi};
  const One app{"app", 1, 400 * kMi};
  const v1::PodSandboxConfig pod = IntelPod("p", {init}, {app}, 4, 400 * kMi);
  const std::string sandbox = Run(pod);
  const std::string first = CreateAndStart(sandbox, pod, Config(init));
  ASSERT_TRUE(CpusInState("p").contains("init")) << State();
  ASSERT_TRUE(runtime_->EndContainer(first, 0));
  CreateAndStart(sandbox, pod, Config(app));
  EXPECT_TRUE(Eventually([&] { return !CpusInState("p").contains("init"); })) << State();
}

// As after a reboot: alignd lists the sandbox as stopped, and the kubelet removes the init
// containers before it makes another one.
TEST_F(DaemonKeptRoles, InitContainerOfANewSandboxReusesTheCpusOfTheAppOnAFullNode) {
  Start();
  RunOne(PodConfig("rest"), Pinned(kUnreservedCpus - 4));
  const One init{"init", 2, 20 * kMi};
  const One app{"app", 4, 400 * kMi};
  v1::PodSandboxConfig pod = IntelPod("p", {init}, {app}, 4, 400 * kMi);
  const std::string sandbox = Run(pod);
  const std::string first = CreateAndStart(sandbox, pod, Config(init));
  ASSERT_TRUE(runtime_->EndContainer(first, 0));
  CreateAndStart(sandbox, pod, Config(app));
  ASSERT_TRUE(Eventually([&] { return !CpusInState("p").contains("init"); })) << State();
  const CpuSet cpus = CpusInState("p").at("app");
  ASSERT_TRUE(StopSandbox(sandbox).ok());
  Restart(StaticConfig());
  pod.mutable_metadata()->set_attempt(1);
  const std::string again = Run(pod);
  const std::string second = CreateAndStart(again, pod, Config(init, 1));
  Remove(first);  // the first listing has shown its role
  EXPECT_TRUE(cpus.Contains(*CpuSet::Parse(CpusOf(second)))) << CpusOf(second);
  EXPECT_EQ(CpusInState("p").at("app"), cpus) << State();
  ASSERT_TRUE(runtime_->EndContainer(second, 0));
  EXPECT_EQ(CpusOf(CreateAndStart(again, pod, Config(app, 1))), cpus.ToString());
}

// The memory of the node is taken: the init container uses what `app` is assigned.
TEST_F(DaemonKeptRoles, InitContainerOfANewSandboxNeedsNoMemoryBesideTheApp) {
  for (const bool restarts : {false, true}) {
    SCOPED_TRACE(restarts);
    const std::string config = StaticConfig(kStaticMemory);
    Start(config);
    const One rest{"app", 2, 62 * kGiB};
    RunOne(IntelPod("rest", {}, {rest}, 2, 62 * kGiB), Config(rest));
    const One init{"init", 1, 2 * kGiB};
    const One app{"app", 2, 62 * kGiB};
    v1::PodSandboxConfig pod = IntelPod("p", {init}, {app}, 2, 62 * kGiB);
    const std::string sandbox = Run(pod);
    const std::string first = CreateAndStart(sandbox, pod, Config(init));
    ASSERT_TRUE(runtime_->EndContainer(first, 0));
    const std::string cpus = CpusOf(CreateAndStart(sandbox, pod, Config(app)));
    EXPECT_TRUE(Eventually([&] { return !CpusInState("p").contains("init"); })) << State();
    ASSERT_TRUE(StopSandbox(sandbox).ok());
    if (restarts) Restart(config);
    pod.mutable_metadata()->set_attempt(1);
    const std::string again = Run(pod);
    const std::string second = CreateAndStart(again, pod, Config(init, 1));
    ASSERT_TRUE(runtime_->EndContainer(second, 0));
    EXPECT_EQ(CpusOf(CreateAndStart(again, pod, Config(app, 1))), cpus);
    const std::string assigned = R"("p":{"app":[{"numaAffinity":[1],"type":"memory","size":)" +
                                 std::to_string(62 * kGiB) + "}]}";
    EXPECT_TRUE(Eventually([&] {
      return ReadText(StateDir() / "memory_manager_state").find(assigned) != std::string::npos;
    })) << ReadText(StateDir() / "memory_manager_state");
    Forget();
  }
}

// In the kubelet's order, with failures and restarts at random.
TEST_F(DaemonKeptRoles, NoOrderOfFailuresAndRestartsCostsAContainerItsCpus) {
  std::mt19937 random(15);
  const auto below = [&](int end) {
    return std::uniform_int_distribution<int>(0, end - 1)(random);
  };
  Start();
  int restarts = 0;
  int failures = 0;
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    const std::string uid = "p" + std::to_string(round);
    const int side_cpus = below(3);  // 0: none
    const auto one = [](const std::string& name, int cpus) {
      return One{name, cpus, cpus * 10 * kMi};
    };
    const One init = one("init", side_cpus + 1 + below(3));
    const std::vector<One> apps = {one("app", 1 + below(3)), one("late", 1 + below(2))};
    std::vector<One> listed = {init};
    if (side_cpus > 0) listed.push_back(one("side", side_cpus));
    const int sum = std::max(init.cpus, side_cpus + apps[0].cpus + apps[1].cpus);
    const v1::PodSandboxConfig pod = IntelPod(uid, listed, apps, sum, sum * 10 * kMi);
    const std::string sandbox = Run(pod);
    const std::map<std::string, CpuSet> before = CpusInState(uid);
    CpuSet all;
    for (const auto& [name, cpus] : before) all |= cpus;
    ASSERT_EQ(before.size(), listed.size() + apps.size()) << State();

    std::map<std::string, uint32_t> attempts;
    std::map<std::string, std::string> running;
    const auto restart_perhaps = [&] {
      if (below(3) > 0) return;
      ++restarts;
      Restart(StaticConfig());
    };
    const auto start = [&](const One& container) {
      running[container.name] =
          CreateAndStart(sandbox, pod, Config(container, attempts[container.name]++));
      const std::map<std::string, CpuSet> now = CpusInState(uid);
      for (const auto& [name, cpus] : before) {
        if (name == "init") continue;
        EXPECT_TRUE(now.contains(name) && now.at(name) == cpus) << name << ": " << State();
      }
      EXPECT_TRUE(all.Contains(*CpuSet::Parse(CpusOf(running[container.name]))));
      restart_perhaps();
    };
    const auto fail = [&](const One& container) {
      ++failures;
      ASSERT_TRUE(runtime_->EndContainer(running[container.name], 1));
      restart_perhaps();
      start(container);
    };
    start(init);
    for (int i = below(3); i > 0; --i) fail(init);
    ASSERT_TRUE(runtime_->EndContainer(running["init"], 0));
    restart_perhaps();
    std::vector<One> lasting = apps;
    if (side_cpus > 0) lasting.insert(lasting.begin(), listed.back());
    for (const One& container : lasting) {
      start(container);
      if (below(2) == 0)
        fail(lasting[static_cast<size_t>(below(static_cast<int>(attempts.size()) - 1))]);
    }
    ASSERT_TRUE(StopSandbox(sandbox).ok());
    ASSERT_TRUE(RemoveSandbox(sandbox).ok());
  }
  EXPECT_GT(restarts, 10);
  EXPECT_GT(failures, 10);
}

}  // namespace
}  // namespace alignd::daemon
